//! Termination by an owner or by signals, with hanging processes inside.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::support::{
    self, ask, assert_clean, has_ended, lab, on_own_machine, pids, process_with, signal, traces,
    wait_until,
};
use wavebed_os::process::{ChildState, News, kill, news_at_end};
use wavebed_os::unix;

const INT: i32 = 2;
const KILL: i32 = 9;
const TERM: i32 = 15;
const CONT: i32 = 18;
const STOP: i32 = 19;

/// Until everything has ended after a second signal, on a machine that does nothing else.
const LIMIT: Duration = Duration::from_secs(3);
/// The same on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The command's time after a first SIGTERM.
const COMMAND: Duration = Duration::from_secs(2);
/// An orderly end begins 0.5 s after the second signal, gives programs 0.2 s, and is cut off after 1 s. A busy machine may
/// not get it done each time.
const TRIES: u32 = 10;

#[test]
fn a_child_that_has_ended_is_still_in_proc_when_its_end_is_told() {
    on_own_machine(
        "a_child_that_has_ended_is_still_in_proc_when_its_end_is_told",
        || {
            assert_eq!(news_at_end(|_| ()), News::NoChildren);
            let scripts = ["exit 3", "kill -9 $$", "kill -STOP $$; exit 4"];
            let ends = [
                vec![ChildState::Exited(3)],
                vec![ChildState::Killed(KILL)],
                vec![ChildState::Stopped(STOP), ChildState::Exited(4)],
            ];
            for (script, wanted) in scripts.into_iter().zip(ends) {
                let child = Command::new("sh").args(["-c", script]).spawn();
                let pid = i32::try_from(child.expect("starts").id()).expect("a number");
                let (mut states, mut told) = (Vec::new(), Vec::new());
                wait_until("the child ends", || {
                    let news = news_at_end(|ended| {
                        told.push((ended, std::fs::exists(format!("/proc/{ended}/stat")).ok()));
                    });
                    if let News::Of(of, state) = news {
                        assert_eq!(of, pid);
                        if state != ChildState::Continued {
                            states.push(state); // an early end hides that it went on
                        }
                        if matches!(state, ChildState::Stopped(_)) {
                            signal(pid, CONT);
                        }
                    }
                    news == News::NoChildren
                });
                assert_eq!(states, wanted);
                assert_eq!(told, [(pid, Some(true))]);
                assert!(!std::fs::exists(format!("/proc/{pid}")).expect("proc"));
            }
        },
    );
}

/// Starts a laboratory without a command; the holder of the returned socket owns it.
fn owned(name: &str) -> (Child, OwnedFd) {
    let (ours, theirs) = unix::message_pair().expect("pair");
    let file = support::write(&lab(name, 2, &[]));
    let script = format!(
        "exec {} lab {} --control 3 3<&0 </dev/null",
        support::CORE,
        file.display()
    );
    let child = Command::new("sh")
        .args(["-c", &script])
        .stdin(theirs)
        .spawn()
        .expect("starts");
    (child, ours)
}

fn connect(owner: &OwnedFd) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    unix::send(owner.as_fd(), b"C", &[theirs.as_fd()]).expect("send");
    ours
}

/// The front, init and the engine of the only laboratory.
fn family() -> [i32; 3] {
    let mut found = Vec::new();
    wait_until("front, init and engine run", || {
        found = pids()
            .into_iter()
            .filter(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim() == "wavebed-core")
            })
            .collect();
        found.len() == 3
    });
    found.try_into().expect("three")
}

#[test]
fn an_owner_needs_no_name_and_its_end_ends_the_laboratory() {
    on_own_machine(
        "an_owner_needs_no_name_and_its_end_ends_the_laboratory",
        || {
            let before = traces();
            let (mut child, owner) = owned("owned");
            let stream = connect(&owner);
            assert_eq!(ask(&stream, r#"{"do":"show"}"#)["name"], "owned");
            assert!(ask(&connect(&owner), r#"{"do":"fly"}"#)["error"].is_string());
            drop(owner);
            assert_eq!(child.wait().expect("wait").code(), Some(1));
            assert_clean(&before, "a laboratory whose owner is gone");
        },
    );
}

#[test]
fn a_stopped_init_ends_with_the_owner() {
    on_own_machine("a_stopped_init_ends_with_the_owner", || {
        let before = traces();
        let (mut child, owner) = owned("owned");
        ask(&connect(&owner), r#"{"do":"show"}"#);
        kill(family()[1], STOP).expect("stop");
        // More connections than the socket to init can hold: the front must not block.
        for _ in 0..2000 {
            let (_ours, theirs) = UnixStream::pair().expect("pair");
            while unix::send(owner.as_fd(), b"C", &[theirs.as_fd()]).is_err() {
                std::thread::yield_now();
            }
        }
        drop(owner);
        child.wait().expect("wait");
        assert_clean(&before, "a laboratory whose init was stopped");
    });
}

#[test]
fn everything_ends_at_the_second_signal() {
    on_own_machine("everything_ends_at_the_second_signal", || {
        everything_ends(PATIENCE);
    });
}

#[test]
#[ignore = "judges times of this machine"]
fn everything_ends_within_three_seconds_of_the_second_signal() {
    let name = "everything_ends_within_three_seconds_of_the_second_signal";
    on_own_machine(name, || everything_ends(LIMIT));
}

fn everything_ends(limit: Duration) {
    let before = traces();
    let stubborn = ["sh", "-c", "trap '' INT TERM; sleep 1000; sleep 1000"];
    for (number, stopped, status) in [
        (INT, None, 130),
        (TERM, None, 143),
        (INT, Some(1), 130),
        (TERM, Some(2), 143),
    ] {
        let what = format!("signal {number}, process {stopped:?} stopped");
        let running = support::start(&lab("stubborn", 2, &stubborn));
        wait_until("the command runs", || process_with("sleep 1000").is_some());
        let family = family();
        if let Some(index) = stopped {
            kill(family[index], STOP).expect("stop");
        }
        let first = Instant::now();
        signal(family[0], number);
        std::thread::sleep(Duration::from_millis(100));
        assert!(
            !has_ended(family[0]) || (number == TERM && first.elapsed() >= COMMAND),
            "{what}: the first signal is for the command"
        );
        let began = Instant::now();
        signal(family[0], number);
        let output = running.end();
        assert_eq!(output.status.code(), Some(status), "{what}");
        assert_clean(&before, &what);
        let took = began.elapsed();
        assert!(took < limit, "{what}: {took:?}");
    }
}

#[test]
fn an_orderly_end_after_the_second_signal_gives_its_summary() {
    on_own_machine(
        "an_orderly_end_after_the_second_signal_gives_its_summary",
        || {
            let script = "trap '' INT; sleep 1000; sleep 1000";
            let has_summary = (0..TRIES).any(|_| {
                let running = support::start(&lab("orderly", 2, &["sh", "-c", script]));
                wait_until("the command runs", || process_with("sleep 1000").is_some());
                let front = family()[0];
                signal(front, INT);
                signal(front, INT);
                let output = running.end();
                assert_eq!(output.status.code(), Some(130));
                String::from_utf8_lossy(&output.stderr).contains("s1.down")
            });
            assert!(has_summary);
        },
    );
}

#[test]
fn a_program_that_was_stopped_is_in_the_summary() {
    on_own_machine("a_program_that_was_stopped_is_in_the_summary", || {
        let (mut child, owner) = owned("stops");
        let stream = connect(&owner);
        let sleep = r#"{"do":"run","host":"server","argv":["sleep","1000"],"cwd":null}"#;
        ask(&stream, sleep);
        let sleep = process_with("sleep 1000").expect("it runs");
        let most = Instant::now();
        kill(sleep, STOP).expect("stop");
        wait_until("it is stopped", || {
            std::fs::read_to_string(format!("/proc/{sleep}/stat"))
                .is_ok_and(|text| text.contains(") T "))
        });
        // Init looks at its children before it answers.
        ask(&stream, r#"{"do":"show"}"#);
        let least = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
        let least = least.elapsed().as_secs_f64();
        let answer = ask(&connect(&owner), r#"{"do":"stop"}"#);
        let most = most.elapsed().as_secs_f64();
        let stops = &answer["summary"]["stopped_programs"];
        assert_eq!(stops[0]["program"], "sleep", "{answer}");
        let stopped_s = stops[0]["stopped_s"].as_f64().expect("a time");
        assert!((least..=most).contains(&stopped_s), "{stops}");
        child.wait().expect("wait");
    });
}

#[test]
fn a_sandbox_ends_at_the_second_signal() {
    on_own_machine("a_sandbox_ends_at_the_second_signal", || {
        a_sandbox_ends(PATIENCE);
    });
}

#[test]
#[ignore = "judges times of this machine"]
fn a_sandbox_ends_within_three_seconds_of_the_second_signal() {
    let name = "a_sandbox_ends_within_three_seconds_of_the_second_signal";
    on_own_machine(name, || a_sandbox_ends(LIMIT));
}

fn a_sandbox_ends(limit: Duration) {
    let before = traces();
    let mut child = Command::new(support::CORE)
        .args(["sandbox", "--", "sh", "-c"])
        .arg("trap '' INT TERM; sleep 1000; sleep 1000")
        .spawn()
        .expect("starts");
    wait_until("the command runs", || process_with("sleep 1000").is_some());
    let front = i32::try_from(child.id()).expect("a pid");
    signal(front, TERM);
    std::thread::sleep(Duration::from_millis(20));
    assert!(child.try_wait().expect("wait").is_none());
    let began = Instant::now();
    signal(front, TERM);
    assert_eq!(child.wait().expect("wait").code(), Some(143));
    assert_clean(&before, "a sandbox");
    let took = began.elapsed();
    assert!(took < limit, "{took:?}");
    assert!(kill(front, KILL).is_err(), "it is gone");
}

#[test]
fn too_few_open_files_are_reported_with_the_remedy() {
    on_own_machine("too_few_open_files_are_reported_with_the_remedy", || {
        let file = support::write(&lab("files", 2, &["true"]));
        let tried: Vec<(Option<i32>, String)> = (8..=40)
            .map(|limit| {
                let script = format!(
                    "for open in /proc/$$/fd/*; do open=${{open##*/}}; ((open < 3)) || exec {{open}}>&-; done; \
                     ulimit -n {limit}; exec {} lab {}",
                    support::CORE,
                    file.display()
                );
                let output = Command::new("bash")
                    .args(["-c", &script])
                    .output()
                    .expect("starts");
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                (output.status.code(), format!("with {limit}: {text}"))
            })
            .collect();
        assert_eq!(tried[0].0, Some(3), "{}", tried[0].1);
        assert_eq!(tried[32].0, Some(0), "{}", tried[32].1);
        for (status, text) in tried {
            if status != Some(0) {
                assert_eq!(status, Some(3), "{text}");
                assert!(text.contains("ulimit -n"), "{text}");
            }
        }
    });
}
