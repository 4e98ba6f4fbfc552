//! Processes in namespaces of their own.

use wavebed_os::namespace::{self, Forked, Isolation, Notice};

use crate::problem::Problem;

/// Makes a process in namespaces of its own. Root that may not make them (in a container) tries as other users do, with a user
/// namespace. Returns which it was.
///
/// # Errors
/// The process cannot be made.
pub fn fork(user: u32) -> Result<(Forked, Isolation), Problem> {
    let mut isolation = if user == 0 {
        Isolation::Laboratory
    } else {
        Isolation::UserLaboratory
    };
    let mut forked = namespace::fork(isolation, Notice::DescriptorOnly);
    if isolation == Isolation::Laboratory
        && forked.as_ref().is_err_and(|error| error.errno() == Some(1))
    {
        isolation = Isolation::UserLaboratory;
        forked = namespace::fork(isolation, Notice::DescriptorOnly);
    }
    Ok((forked.map_err(Problem::no_namespaces)?, isolation))
}
