//! The process that ssh started: makes the namespaces, and waits for the agent in them.

use std::path::Path;

use wavebed_os::namespace::{self, Child, Forked, Isolation, Notice};
use wavebed_os::{process, unix};

use crate::init;
use crate::problem::Problem;

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
    match namespace::fork(isolation, Notice::DescriptorOnly) {
        Ok(Forked::Child) => {
            drop(ours);
            init::run(theirs.into(), outer_user)
        }
        Ok(Forked::Parent(Child { pid, .. })) => {
            drop(theirs);
            let state = process::wait_for(pid)?;
            drop(ours);
            Ok(state.exit_code())
        }
        Err(error) => Err(Problem(format!(
            "{error}: log in as root, or allow user namespaces on this host (wavebed doctor explains)"
        ))),
    }
}
