//! Filters of system calls (seccomp(2)): a program that has opened all it needs gives up the calls that it no longer makes.

use std::io;

/// A system call that stays allowed.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Its number, `SYS_…` of libc.
    pub number: libc::c_long,
    /// What its arguments must be; each of these holds.
    pub only: &'static [Only],
}

/// A condition on an argument of 32 bits.
#[derive(Clone, Copy, Debug)]
pub enum Only {
    /// The argument at this place, from 0, is one of these values.
    OneOf(u8, &'static [u32]),
    /// The argument at this place, from 0, has none of these bits.
    Without(u8, u32),
}

/// From now on all threads of the process make the calls of `allowed` only; to every other call the kernel answers
/// `EPERM`: a call that is missing here, of another C library perhaps, then fails alone, and does not end the program with
/// all that it carries. Sets `no_new_privs`. Calls of another architecture kill the process.
///
/// Returns false where the kernel has no such filter, or the architecture is unknown here: nothing is refused then.
///
/// # Errors
/// A thread has a filter of its own, or the list is wrong.
pub fn allow_only(allowed: &[Allowed]) -> io::Result<bool> {
    system::allow_only(allowed)
}

/// Whether the kernel takes a filter of this kind, found by trying on a thread of its own.
#[must_use]
pub fn works() -> bool {
    std::thread::spawn(|| system::try_on_this_thread().unwrap_or(false))
        .join()
        .unwrap_or(false)
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod system {
    use std::collections::BTreeMap;
    use std::io;

    use seccompiler::{
        BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
        SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
        apply_filter_all_threads,
    };

    use super::{Allowed, Only};

    pub fn allow_only(allowed: &[Allowed]) -> io::Result<bool> {
        let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        answer(apply_filter_all_threads(&program(allowed, refuse)?))
    }

    /// A filter that allows everything.
    pub fn try_on_this_thread() -> io::Result<bool> {
        let one = Allowed {
            number: libc::SYS_getpid,
            only: &[Only::Without(0, 0)],
        };
        answer(apply_filter(&program(&[one], SeccompAction::Log)?))
    }

    fn answer(applied: seccompiler::Result<()>) -> io::Result<bool> {
        match applied {
            Ok(()) => Ok(true),
            // Before Linux 3.17, or without CONFIG_SECCOMP_FILTER.
            Err(Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
            {
                Ok(false)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn program(allowed: &[Allowed], refuse: SeccompAction) -> io::Result<BpfProgram> {
        let rules: BTreeMap<i64, Vec<SeccompRule>> = allowed
            .iter()
            .map(|one| Ok((one.number, rules(one.only)?)))
            .collect::<Result<_, BackendError>>()
            .map_err(io::Error::other)?;
        TargetArch::try_from(std::env::consts::ARCH)
            .and_then(|arch| SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch))
            .and_then(BpfProgram::try_from)
            .map_err(io::Error::other)
    }

    /// The rules of a call, of which one must match: one for each choice of values. None: the call is allowed as it is.
    fn rules(only: &[Only]) -> Result<Vec<SeccompRule>, BackendError> {
        if only.is_empty() {
            return Ok(Vec::new());
        }
        let mut choices = vec![Vec::new()];
        for one in only {
            let conditions = conditions(*one)?;
            let with_each = |choice: Vec<_>| {
                let longer = |condition: &SeccompCondition| {
                    [choice.as_slice(), std::slice::from_ref(condition)].concat()
                };
                conditions.iter().map(longer).collect::<Vec<_>>()
            };
            choices = choices.into_iter().flat_map(with_each).collect();
        }
        choices.into_iter().map(SeccompRule::new).collect()
    }

    /// The conditions on an argument, of which one must hold.
    fn conditions(only: Only) -> Result<Vec<SeccompCondition>, BackendError> {
        let condition = |place, operator, value: u32| {
            SeccompCondition::new(place, SeccompCmpArgLen::Dword, operator, u64::from(value))
        };
        match only {
            Only::OneOf(place, values) => values
                .iter()
                .map(|value| condition(place, SeccompCmpOp::Eq, *value))
                .collect(),
            Only::Without(place, bits) => Ok(vec![condition(
                place,
                SeccompCmpOp::MaskedEq(bits.into()),
                0,
            )?]),
        }
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod system {
    use std::io;

    use super::Allowed;

    #[expect(clippy::unnecessary_wraps, reason = "as where there is a filter")]
    pub fn allow_only(_: &[Allowed]) -> io::Result<bool> {
        Ok(false)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as where there is a filter")]
    pub fn try_on_this_thread() -> io::Result<bool> {
        Ok(false)
    }
}
