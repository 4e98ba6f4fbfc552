//! A timer that kills the process, even a stopped one, unless it is put off in time.

use std::io;
use std::mem;
use std::ptr;

use crate::error::{Context, Result, check};

const SECOND_NS: u64 = 1_000_000_000;

/// The kernel kills the process (`SIGKILL`) when it has not put this off in time. A stopped process cannot put it off. Not
/// inherited by children.
#[derive(Debug)]
pub struct Deadline {
    timer: libc::timer_t,
}

impl Deadline {
    /// A deadline of the calling process, not set yet.
    ///
    /// # Errors
    /// The kernel has no timer left.
    pub fn new() -> Result<Self> {
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: all zeros is a valid sigevent; both values are valid for the call, which keeps no pointer.
        let answer = unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        };
        check(answer).during("make", "a timer")?;
        Ok(Self { timer })
    }

    /// Puts it off to `nanoseconds` from now.
    ///
    /// # Errors
    /// None on Linux.
    pub fn put_off(&self, nanoseconds: u64) -> io::Result<()> {
        let whole = libc::timespec {
            tv_sec: i64::try_from(nanoseconds / SECOND_NS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanoseconds % SECOND_NS).unwrap_or_default(),
        };
        let once = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: whole,
        };
        // SAFETY: the timer exists until `self` is dropped; the value is valid for the call, which keeps no pointer.
        let answer =
            unsafe { libc::timer_settime(self.timer, 0, &raw const once, ptr::null_mut()) };
        check(answer).map(drop)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // SAFETY: the timer is this process's own and is not used afterwards.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process;

    const MS: u64 = 1_000_000;

    /// What is left of a timer, nanoseconds; `None` if there is no such timer.
    fn left_ns(timer: libc::timer_t) -> Option<u64> {
        // SAFETY: all zeros is a valid itimerspec; the kernel knows the number of a timer that is gone as no timer.
        let left = unsafe {
            let mut left: libc::itimerspec = mem::zeroed();
            (libc::timer_gettime(timer, &raw mut left) == 0).then_some(left.it_value)
        };
        left.map(|left| left.tv_sec.cast_unsigned() * SECOND_NS + left.tv_nsec.cast_unsigned())
    }

    #[test]
    fn a_deadline_is_put_off_and_ends_with_its_value() {
        let deadline = Deadline::new().unwrap();
        let timer = deadline.timer;
        assert_eq!(left_ns(timer), Some(0), "not set yet");
        // Long: at its deadline the kernel would kill all tests of this program.
        for seconds in [1000, 2000, 500] {
            deadline.put_off(seconds * SECOND_NS).unwrap();
            let left_ns = left_ns(timer).unwrap();
            let least_ns = (seconds - 400) * SECOND_NS;
            assert!(
                (least_ns..=seconds * SECOND_NS).contains(&left_ns),
                "{left_ns}"
            );
        }
        drop(deadline);
        assert_eq!(left_ns(timer), None);
    }

    #[test]
    fn a_stopped_process_is_killed_at_its_deadline() {
        // The harness has threads; a program of its own has one.
        if std::env::var_os("WAVEBED_DEADLINE").is_none() {
            let own = std::env::current_exe().unwrap();
            let name = "deadline::tests::a_stopped_process_is_killed_at_its_deadline";
            let done = std::process::Command::new(own)
                .args(["--exact", name, "--test-threads=1", "--nocapture"])
                .env("WAVEBED_DEADLINE", "1")
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&done.stdout);
            assert!(
                !done.status.success() && told.contains("stops itself"),
                "{told}"
            );
            return;
        }
        let deadline = Deadline::new().unwrap();
        println!("stops itself");
        deadline.put_off(100 * MS).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        process::kill(own, libc::SIGSTOP).unwrap();
        std::thread::sleep(Duration::from_secs(10));
    }
}
