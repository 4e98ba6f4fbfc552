//! Capabilities of the calling thread (capabilities(7)), and `no_new_privs`.

use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread;

/// A set of capabilities.
pub use rustix::thread::CapabilitySet as Set;

/// The capabilities that the calling thread may make effective.
///
/// # Errors
/// None on Linux.
pub fn permitted() -> io::Result<Set> {
    Ok(thread::capabilities(None)?.permitted)
}

/// Keeps the capabilities of `set` that the calling thread has, makes them effective, and drops all others. A program
/// that root starts still gets those of the bounding set.
///
/// # Errors
/// None on Linux.
pub fn keep(set: Set) -> io::Result<()> {
    assign(permitted()? & set, Set::empty())
}

fn assign(permitted: Set, inheritable: Set) -> io::Result<()> {
    let sets = thread::CapabilitySets {
        effective: permitted,
        permitted,
        inheritable,
    };
    Ok(thread::set_capabilities(None, sets)?)
}

/// Empties the bounding set: no program started from now on gains a capability from root or from its file.
///
/// # Errors
/// The thread lacks [`Set::SETPCAP`].
pub fn empty_bounding_set() -> io::Result<()> {
    for number in 0..Set::all().bits().count_ones() {
        match thread::remove_capability_from_bounding_set(Set::from_bits_retain(1 << number)) {
            // The first capability that the kernel does not have.
            Err(Errno::INVAL) => break,
            answer => answer?,
        }
    }
    Ok(())
}

/// Prevents programs started from now on from gaining privileges (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// None on Linux.
pub fn never_gain() -> io::Result<()> {
    Ok(thread::set_no_new_privs(true)?)
}

/// Whether `no_new_privs` is set, here or by an ancestor.
#[must_use]
pub fn never_gains() -> bool {
    thread::no_new_privs().unwrap_or(false)
}

/// Drops every capability for good: the calling process can neither have nor pass on any.
///
/// # Errors
/// None on Linux.
pub fn renounce(kept: Set) -> io::Result<()> {
    // Refused to a process without capabilities, which has none to drop.
    let _ = empty_bounding_set();
    keep(kept)?;
    never_gain()
}

/// Keeps the capabilities `kept`, for the calling process and for programs that it starts (ambient), and drops all others.
///
/// # Errors
/// The process lacks one of `kept`.
pub fn keep_with_programs(kept: Set) -> io::Result<()> {
    // Refused to a process without capabilities, which has none to drop.
    let _ = empty_bounding_set();
    assign(kept, kept)?;
    for capability in kept {
        thread::configure_capability_in_ambient_set(capability, true)?;
    }
    never_gain()
}

/// Makes the calling process, of one thread, user and group `id`, without other groups, and with the capabilities
/// `kept` only, which its programs keep too (ambient). With `id` `None` the process keeps its user.
///
/// # Errors
/// The process is not root in its user namespace, or `id` is not in it.
pub fn become_user(id: Option<u32>, kept: Set) -> io::Result<()> {
    // The bounding set limits the inheritable set, so it is changed second.
    assign(permitted()?, kept)?;
    empty_bounding_set()?;
    if let Some(id) = id {
        thread::set_keep_capabilities(true)?;
        // Not allowed, and not needed, in the user namespace of a laboratory without root: it has one group.
        let _ = thread::set_thread_groups(&[]);
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        thread::set_thread_res_gid(gid, gid, gid)?;
        thread::set_thread_res_uid(uid, uid, uid)?;
    }
    assign(kept, kept)?;
    for capability in kept {
        thread::configure_capability_in_ambient_set(capability, true)?;
    }
    never_gain()
}
