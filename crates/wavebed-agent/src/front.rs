//! The process that ssh started: makes the namespaces, and waits for the agent in them.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use wavebed_os::clock::Deadline;
use wavebed_os::namespace::{Child, Forked, Isolation, Notice};
use wavebed_os::{namespace, poll, process, unix};

use crate::guardian::Post;
use crate::init::{GUARD, SILENCE_NS};
use crate::protocol::Problem;
use crate::{guardian, init};

/// What the agent may take to end by itself.
const GRACE_NS: u64 = 5_000_000_000;

/// Removes the program's own file and its folder, so that nothing of it is left on the disk.
///
/// # Errors
/// They cannot be removed.
pub fn remove_own_file() -> Result<(), Problem> {
    let file = std::env::current_exe()?;
    std::fs::remove_file(&file).map_err(|error| Problem::of(file.display(), error))?;
    if let Some(folder) = file.parent().filter(|folder| *folder != Path::new("/")) {
        // Others may have put something there.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

/// Runs the agent. Returns its exit status.
///
/// # Errors
/// The machine allows no namespaces, or they cannot be prepared.
pub fn run() -> Result<i32, Problem> {
    let (ours, theirs) = unix::stream_pair()?;
    let (user, group) = namespace::effective_user();
    let (isolation, outer_user) = if user == 0 {
        (Isolation::Programs, None)
    } else {
        (Isolation::UserPrograms, Some((user, group)))
    };
    let (guardian, post) = guardian::pair()?;
    match namespace::fork(isolation, Notice::DescriptorOnly) {
        Ok(Forked::Child) => {
            drop(ours);
            drop(post);
            init::run(theirs, outer_user, guardian)
        }
        Ok(Forked::Parent(child)) => {
            drop(theirs);
            drop(guardian);
            let guardian = watch(&child, &ours, post)?;
            let state = process::wait_for(child.pid)?;
            if let Some(guardian) = guardian {
                guardian::wait_for(&guardian);
            }
            Ok(state.exit_code())
        }
        Err(error) => Err(Problem(format!(
            "{error}: log in as root, or allow user namespaces on this host (wavebed doctor explains)"
        ))),
    }
}

/// Waits for the end of the agent, which says at each request that it lives. If it, or this process, is stopped, the
/// kernel kills this process, and the agent with it. Returns the guardian, if the agent has asked for one.
fn watch(agent: &Child, alive: &UnixStream, post: Post) -> Result<Option<Child>, Problem> {
    let deadline = Deadline::new()?;
    let mut post = Some(post);
    let mut guardian = None;
    let mut readable = [false; 2];
    let mut news = [0; 4096];
    loop {
        deadline.put_off(SILENCE_NS + GRACE_NS)?;
        poll::wait(&[agent.pidfd.as_fd(), alive.as_fd()], &mut readable, None)?;
        let count = if readable[0] {
            0
        } else {
            (&*alive).read(&mut news).unwrap_or(0)
        };
        if count == 0 {
            return Ok(guardian);
        }
        if news[..count].contains(&GUARD)
            && let Some(post) = post.take()
        {
            guardian = Some(post.start()?);
        }
    }
}
