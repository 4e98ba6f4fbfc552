//! The directory of running laboratories: each listens on an abstract socket `wavebed/UID/NAME/RANDOM`.
//!
//! Every process may bind any abstract name. The random part prevents other users from binding the name first. The
//! kernel reports the user of a listener: only a listener of the user in its name is accepted.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

use wavebed_os::error::Context;
use wavebed_os::namespace::effective_user;
use wavebed_os::unix;

use crate::front::message;
use crate::problem::Problem;

/// Most names that are examined.
const MOST_NAMES: usize = 4096;

/// Hexadecimal digits of the random part.
const RANDOM_DIGITS: usize = 32;

/// A running laboratory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Running {
    /// Its user.
    pub uid: u32,
    /// Its name.
    pub name: String,
    /// The abstract name of its control socket.
    pub socket: String,
}

/// The caller's running laboratories. For root, `all_users` adds the laboratories of other users.
#[must_use]
pub fn running(all_users: bool) -> Vec<Running> {
    let (user, _) = effective_user();
    let mut found = candidates();
    found.retain(|lab| lab.uid == user || (all_users && user == 0));
    found
        .into_iter()
        .take(MOST_NAMES)
        .filter(is_authentic)
        .collect()
}

/// Listens for `user`'s laboratory called `name`.
///
/// # Errors
/// A laboratory of this user and name is running.
pub fn listen(name: &str, user: u32) -> Result<UnixListener, Problem> {
    let socket = format!("wavebed/{user}/{name}/{}", random()?);
    let listener = unix::listen(&socket)?;
    // After binding: of two that start at once, at least one finds the other.
    let mut others = candidates();
    others.retain(|lab| lab.uid == user && lab.name == name && lab.socket != socket);
    if others
        .into_iter()
        .take(MOST_NAMES)
        .any(|lab| is_authentic(&lab))
    {
        return Err(Problem::wrong(format!(
            "name: a laboratory {name:?} runs already: stop it, or choose another name"
        )));
    }
    Ok(listener)
}

/// Listens in the calling thread's network namespace too, where the programs of a host find the laboratory, and sends
/// the listener to the front process.
///
/// # Errors
/// The socket cannot be made or sent.
pub fn listen_inside(name: &str, front: BorrowedFd<'_>) -> Result<(), Problem> {
    let (user, _) = effective_user();
    let listener = listen(name, user)?;
    let problem = |error: std::io::Error| Problem::failed(format!("the listener inside: {error}"));
    let users = fs::read_link("/proc/self/ns/user").map_err(problem)?;
    let line = [&[message::LISTENER], users.as_os_str().as_bytes()].concat();
    unix::send(front, &line, &[listener.as_fd()])
        .map(drop)
        .map_err(problem)
}

fn random() -> Result<String, Problem> {
    let mut bytes = [0; RANDOM_DIGITS / 2];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .during("read", "/dev/urandom")?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Whether the kernel reports the user in the name as the listener. Does not wait: a listener that accepts no
/// connection does not count.
fn is_authentic(lab: &Running) -> bool {
    unix::connect(&lab.socket)
        .is_ok_and(|stream| unix::peer_user(&stream).is_ok_and(|user| user == lab.uid))
}

/// Listeners on names of laboratories, by user and name.
fn candidates() -> BTreeSet<Running> {
    // Other programs choose names in this list, which need not be UTF-8.
    let bytes = fs::read("/proc/net/unix").unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes))
}

/// Listening sockets (flag 00010000 in the fourth column) with names of laboratories.
fn parse(text: &str) -> BTreeSet<Running> {
    text.lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            (columns.len() == 8 && columns[3] == "00010000").then_some(())?;
            let socket = columns[7].strip_prefix('@')?;
            let [head, uid, name, random] = *socket.split('/').collect::<Vec<_>>() else {
                return None;
            };
            let is_random = random.len() == RANDOM_DIGITS
                && random
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let uid: u32 = uid.parse().ok()?;
            (head == "wavebed" && is_random && wavebed_path::is_name(name)).then(|| Running {
                uid,
                name: name.to_owned(),
                socket: socket.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const RANDOM: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_listening_sockets_with_whole_names_of_laboratories_count() {
        let line = |flags: &str, name: &str| {
            format!("0000000000000000: 00000002 00000000 {flags} 0001 01 77 {name}\n")
        };
        let listens = "00010000";
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n".to_owned()
            + &line(listens, &format!("@wavebed/1000/b/{RANDOM}"))
            + &line("00000000", &format!("@wavebed/1000/c/{RANDOM}"))
            + &line(listens, "/run/other")
            + &line(listens, "@wavebed/0/a")
            + &line(listens, &format!("@wavebed/0/a\u{1b}[2J/{RANDOM}"))
            + &line(listens, &format!("@wavebed/0/a/b/{RANDOM}"))
            + &line(listens, &format!("@wavebed/root/a/{RANDOM}"))
            + &line(listens, "@wavebed/0/a/0123")
            + &line(listens, &format!("@wavebed/0/a/{RANDOM}"))
            + &line(listens, &format!("@wavebed/0/{}/{RANDOM}", "a".repeat(33)));
        let names: Vec<_> = parse(&text)
            .into_iter()
            .map(|lab| (lab.uid, lab.name))
            .collect();
        assert_eq!(names, [(0, "a".to_owned()), (1000, "b".to_owned())]);
    }

    #[test]
    fn a_listener_of_another_user_than_in_its_name_is_ignored() {
        let (user, _) = effective_user();
        let socket = |uid: u32| format!("wavebed/{uid}/theft-{}/{RANDOM}", std::process::id());
        let lab = |uid: u32| Running {
            uid,
            name: "theft".to_owned(),
            socket: socket(uid),
        };
        let _ours = unix::listen(&socket(user)).expect("listen");
        let _claimed = unix::listen(&socket(user + 1)).expect("listen");
        assert!(is_authentic(&lab(user)));
        assert!(!is_authentic(&lab(user + 1)));
        assert!(!is_authentic(&lab(user + 2)), "no listener");
    }

    #[test]
    fn a_name_is_used_once_at_a_time() {
        let (user, _) = effective_user();
        let name = format!("once-{}", std::process::id());
        let first = listen(&name, user).expect("listen");
        let refusal = listen(&name, user).expect_err("taken").to_string();
        assert!(refusal.contains("runs already"), "{refusal}");
        assert!(running(false).iter().any(|lab| lab.name == name));
        drop(first);
        // A process that another test starts at this moment holds the listener too until its exec.
        let deadline = Instant::now() + Duration::from_secs(60);
        while listen(&name, user).is_err() {
            let late = Instant::now() > deadline;
            assert!(!late, "a name whose laboratory has ended is free");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
