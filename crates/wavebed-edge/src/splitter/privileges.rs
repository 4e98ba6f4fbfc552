//! Gives up what the program needs no more: the limit of open files is raised first, then all capabilities but one go.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wavebed_os::confinement;
use wavebed_os::confinement::Set;
use wavebed_os::namespace::effective_user;

use super::passwd;
use super::settings::Settings;

/// Descriptors besides the descriptors of connections.
const OTHER_DESCRIPTORS: u64 = 64;
/// Two sockets, and a pipe for each direction of connections that carry data.
const DESCRIPTORS_EACH: u64 = 6;
/// Two sockets.
const LEAST_DESCRIPTORS_EACH: u64 = 2;

/// Raises the limit of open files for all connections, and returns how many it has room for.
pub fn room_for_connections(settings: &Settings) -> usize {
    let wanted = u64::from(settings.max_connections) * DESCRIPTORS_EACH + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(wanted),
        maximum: Some(wanted.max(hard)),
    };
    if limit.current.is_some_and(|current| current < wanted)
        && setrlimit(Resource::Nofile, raised).is_err()
    {
        let all = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // The limit that there is stays.
        let _ = setrlimit(Resource::Nofile, all);
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = current.saturating_sub(OTHER_DESCRIPTORS) / LEAST_DESCRIPTORS_EACH;
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// The capability that transparent sockets, marks, congestion controls and large receive buffers need.
fn needed(settings: &Settings) -> Set {
    let has_choice = settings.client_congestion_control.is_some()
        || settings.server_congestion_control.is_some();
    if settings.is_transparent() || has_choice || settings.window_queue.is_some() {
        Set::NET_ADMIN
    } else {
        Set::empty()
    }
}

/// Whether the program may intercept connections.
pub fn may_intercept() -> bool {
    confinement::permitted().is_ok_and(|set| set.contains(Set::NET_ADMIN))
}

/// Becomes the configured user and drops all capabilities that the program, and the programs that remove its packet
/// rules, do not need.
///
/// # Errors
/// One line: the user does not exist, or the system refuses.
pub fn give_up(settings: &Settings) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot drop privileges: {error}");
    let kept = needed(settings) & confinement::permitted().map_err(failed)?;
    let id = settings.user.as_deref().map(passwd::user_id).transpose()?;
    if effective_user().0 == 0 {
        confinement::become_user(id, kept).map_err(failed)
    } else {
        confinement::keep_with_programs(kept).map_err(failed)
    }
}
