//! A process outside the agent's namespaces that undoes its changes of the host when it ends, however it ends.
//!
//! Only root has one, from its first change on. It makes each change itself, and knows how to undo it before it answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use serde::{Deserialize, Serialize};
use wavebed_os::namespace::{Child, Forked, Isolation, Notice};
use wavebed_os::{namespace, poll, process, unix};

use crate::programs::SYSTEM_FOLDERS;
use crate::protocol::Problem;

const ANSWER: Duration = Duration::from_secs(10);
const END_NS: u64 = 5_000_000_000;
const STAY_AT: [i32; 3] = [1, 2, 15];

/// A change of the host's network.
#[derive(Debug, Serialize, Deserialize)]
struct Change {
    address: Ipv4Addr,
    algorithm: String,
}

/// The agent's end of the guardian. When its last copy is closed the guardian undoes everything, and ends.
#[derive(Debug)]
pub struct Guardian {
    stream: UnixStream,
}

/// The other end, before there is a guardian: the front makes one when the agent asks for it.
#[derive(Debug)]
pub struct Post {
    stream: UnixStream,
}

/// Both ends.
///
/// # Errors
/// The socket cannot be made.
pub fn pair() -> Result<(Guardian, Post), Problem> {
    let (ours, theirs) = unix::stream_pair()?;
    ours.set_read_timeout(Some(ANSWER))?;
    Ok((Guardian { stream: ours }, Post { stream: theirs }))
}

impl Post {
    /// Starts the guardian, in the namespaces of the caller.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn start(self) -> Result<Child, Problem> {
        match namespace::fork(Isolation::None, Notice::DescriptorOnly)? {
            Forked::Parent(child) => Ok(child),
            Forked::Child => {
                let done = stand_apart().map(|()| {
                    let set = |change: &Change| set(change.address, &change.algorithm);
                    serve(&self.stream, set, |change| drop(undo(&change)));
                });
                std::process::exit(i32::from(done.is_err()));
            }
        }
    }
}

impl Guardian {
    /// Gives the host's connections to another host a congestion control.
    ///
    /// # Errors
    /// As [`set`], or the guardian is gone.
    pub fn set_congestion_control(
        &self,
        address: Ipv4Addr,
        algorithm: String,
    ) -> Result<(), Problem> {
        let lost = |error: std::io::Error| {
            // A late answer would be taken for that to the next request. The guardian undoes everything, and ends.
            let _ = self.stream.shutdown(Shutdown::Both);
            Problem::of("the process that restores routes", error)
        };
        let text = serde_json::to_string(&Change { address, algorithm })
            .map_err(|error| Problem::of("a request", error))?;
        (&self.stream)
            .write_all(format!("{text}\n").as_bytes())
            .map_err(lost)?;
        let mut answer = String::new();
        BufReader::new(&self.stream)
            .read_line(&mut answer)
            .map_err(lost)?;
        match answer.trim_end() {
            "done" => Ok(()),
            "" => Err(Problem::of("the process that restores routes", "has ended")),
            told => Err(Problem(told.to_owned())),
        }
    }
}

/// Waits until the guardian has ended, a few seconds at most.
pub fn wait_for(guardian: &Child) {
    use std::os::fd::AsFd;

    let _ = poll::wait(&[guardian.pidfd.as_fd()], &mut [false], Some(END_NS));
}

/// Leaves the connection of ssh, which would wait for the end of this process, and its session.
fn stand_apart() -> Result<(), Problem> {
    let nothing = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let _ = setsid();
    process::ignore(&STAY_AT);
    dup2_stdin(&nothing).map_err(std::io::Error::from)?;
    dup2_stdout(&nothing).map_err(std::io::Error::from)?;
    dup2_stderr(&nothing).map_err(std::io::Error::from)?;
    Ok(())
}

/// Makes the changes that are asked for until the other end is closed. Then it undoes them, the last one first: a later
/// change of the same route has kept what the earlier one made.
fn serve<T>(stream: &UnixStream, set: impl Fn(&Change) -> Result<T, Problem>, undo: impl FnMut(T)) {
    let mut changes = Vec::new();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let change: Result<Change, _> = serde_json::from_str(&line);
        let answer = change
            .map_err(|error| Problem::of("a request", error))
            .and_then(|change| set(&change));
        let told = match answer {
            Ok(undo) => {
                changes.push(undo);
                "done".to_owned()
            }
            Err(problem) => problem.to_string().replace('\n', " "),
        };
        // Nobody to hear it: then the next line is the end.
        let _ = (&*stream).write_all(format!("{told}\n").as_bytes());
    }
    changes.into_iter().rev().for_each(undo);
}

// The congestion control of a host's connections to another host, by a route; and the words that undo it.
//
// Programs whose sockets nobody sets (a web server) take the congestion control of the route to the other host. That
// host gets a route of its own, like the one that leads to it, with a congestion control.

/// Words of `ip route show` that are a state and no setting, alone and with a value.
const STATES: [&str; 6] = [
    "dead",
    "linkdown",
    "offload",
    "rt_offload",
    "trap",
    "rt_trap",
];
const STATES_WITH_VALUE: [&str; 3] = ["proto", "metric", "expires"];

/// Gives the connections to `address` a congestion control. Returns the words for `ip` that undo it.
///
/// # Errors
/// There is no `ip`, no such congestion control, or no route over a network.
pub fn set(address: Ipv4Addr, algorithm: &str) -> Result<Vec<String>, Problem> {
    if algorithm.is_empty()
        || !algorithm
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
    {
        return Err(Problem::of(
            "a congestion control",
            format_args!("{algorithm:?} is no name"),
        ));
    }
    let own = format!("{address}/32");
    let before = words(&ip(&["route", "show", "exact", &own])?);
    if before.is_empty() {
        let like = words(&ip(&["route", "get", "fibmatch", &address.to_string()])?);
        if like.first().is_none_or(|word| word == "local") {
            return Err(Problem::of(address, "is no other host"));
        }
        run("add", &with_control(&own, &like, Some(algorithm)))?;
        return Ok(vec!["route".into(), "del".into(), own]);
    }
    run("change", &with_control(&own, &before, Some(algorithm)))?;
    Ok(["route".to_owned(), "change".to_owned()]
        .into_iter()
        .chain(with_control(&own, &before, None))
        .collect())
}

/// Undoes a change.
///
/// # Errors
/// The route is not there any more.
pub fn undo(change: &[String]) -> Result<(), Problem> {
    let words: Vec<&str> = change.iter().map(String::as_str).collect();
    ip(&words).map(drop)
}

fn run(what: &str, route: &[String]) -> Result<(), Problem> {
    let mut words = vec!["route", what];
    words.extend(route.iter().map(String::as_str));
    ip(&words).map(drop)
}

/// The words of a route to `own`, made from another route's words; `None`: with the congestion control that it has.
fn with_control(own: &str, like: &[String], algorithm: Option<&str>) -> Vec<String> {
    let mut made = vec![own.to_owned()];
    let mut rest = like.iter().skip(1);
    while let Some(word) = rest.next() {
        if STATES.contains(&word.as_str()) {
            continue;
        }
        if word == "metric" && algorithm.is_none() || !STATES_WITH_VALUE.contains(&word.as_str()) {
            if word == "congctl" && algorithm.is_some() {
                // Its value, which may be two words: `lock bbr`.
                if rest.next().is_some_and(|value| value == "lock") {
                    rest.next();
                }
                continue;
            }
            made.push(word.clone());
        } else {
            rest.next();
        }
    }
    if let Some(algorithm) = algorithm {
        made.extend(["congctl".to_owned(), algorithm.to_owned()]);
    }
    made
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn ip(words: &[&str]) -> Result<String, Problem> {
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new("ip")
        .args(words)
        .env("PATH", format!("{path}:{SYSTEM_FOLDERS}"))
        .output()
        .map_err(|error| Problem::of("ip", error))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        let told = told.trim().lines().last().unwrap_or("failed");
        return Err(Problem::of(format_args!("ip {}", words.join(" ")), told));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_undone_in_the_reverse_order_once_the_other_end_is_closed() {
        let (guardian, post) = pair().expect("a pair");
        let served = std::thread::spawn(move || {
            let mut undone = Vec::new();
            let name = |change: &Change| Ok(change.algorithm.clone());
            serve(&post.stream, name, |name| undone.push(name));
            undone
        });
        for name in ["reno", "bbr", "cubic"] {
            let set = guardian.set_congestion_control(Ipv4Addr::LOCALHOST, name.to_owned());
            set.expect("it is set");
        }
        drop(guardian);
        assert_eq!(
            served.join().expect("it has ended"),
            ["cubic", "bbr", "reno"]
        );
    }

    #[test]
    fn an_answer_that_comes_too_late_is_not_that_to_the_next_request() {
        let (guardian, post) = pair().expect("a pair");
        let limit = Some(Duration::from_millis(50));
        guardian.stream.set_read_timeout(limit).expect("set");
        let ask = || guardian.set_congestion_control(Ipv4Addr::LOCALHOST, "reno".to_owned());
        assert!(ask().is_err(), "no answer in time");
        let _ = (&post.stream).write_all(b"done\n");
        assert!(ask().is_err(), "this one was not answered");
        let mut lines = BufReader::new(&post.stream).lines();
        assert!(lines.next().is_some_and(|line| line.is_ok()));
        assert!(lines.next().is_none(), "the guardian ends");
    }

    fn made(like: &str, algorithm: Option<&str>) -> String {
        with_control("192.0.2.1/32", &words(like), algorithm).join(" ")
    }

    #[test]
    fn a_route_of_its_own_is_like_the_one_that_leads_to_the_host() {
        let like =
            "default via 10.0.0.1 dev eth0 proto dhcp src 10.0.0.2 metric 100 mtu 1400 linkdown";
        assert_eq!(
            made(like, Some("bbr")),
            "192.0.2.1/32 via 10.0.0.1 dev eth0 src 10.0.0.2 mtu 1400 congctl bbr"
        );
    }

    #[test]
    fn a_host_that_has_a_route_gets_its_own_congestion_control_back() {
        let before = "192.0.2.1 via 10.0.0.1 dev eth0 congctl lock reno mtu 1300";
        assert_eq!(
            made(before, Some("bbr")),
            "192.0.2.1/32 via 10.0.0.1 dev eth0 mtu 1300 congctl bbr"
        );
        assert_eq!(
            made(before, None),
            "192.0.2.1/32 via 10.0.0.1 dev eth0 congctl lock reno mtu 1300"
        );
    }

    #[test]
    fn a_name_that_is_none_reaches_no_program() {
        for name in ["", "bbr dev lo", "-x;y", "b\0r"] {
            let refused = set(Ipv4Addr::LOCALHOST, name).unwrap_err();
            assert!(refused.0.contains("is no name"), "{refused}");
        }
    }
}
