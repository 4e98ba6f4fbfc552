//! No process, mount or interface remains after any kill.

use std::time::Duration;

use crate::support::{
    ask, assert_clean, connect, lab, on_own_machine, pids, process_with, start, traces, wait_until,
};
use serde_json::{Value, json};
use wavebed_os::process::kill;

const KILL: i32 = 9;

fn busy_lab(name: &str) -> Value {
    let mut file = lab(name, 3, &["sleep", "1003"]);
    file["background"] = json!([
        {"host": "server", "argv": ["sleep", "1001"]},
        {"host": "edge", "argv": ["sh", "-c", "(sleep 1004 &); sleep 1002; true"]}
    ]);
    file
}

fn is_up() -> bool {
    (1001..=1004).all(|number| process_with(&format!("sleep {number}")).is_some())
}

#[test]
fn killing_front_init_or_engine_ends_everything() {
    on_own_machine("killing_front_init_or_engine_ends_everything", || {
        let before = traces();
        for victim in ["front", "init", "engine"] {
            let running = start(&busy_lab("kill"));
            wait_until("the laboratory is up", is_up);
            let front = i32::try_from(running.child.id()).expect("a pid");
            let family: Vec<i32> = pids()
                .into_iter()
                .filter(|pid| name_of(*pid) == "wavebed-core")
                .collect();
            assert_eq!((family.len(), family[0]), (3, front), "front, init, engine");
            let place = ["front", "init", "engine"]
                .iter()
                .position(|name| *name == victim)
                .expect("named");
            kill(family[place], KILL).expect("kill");
            let output = running.end();
            assert!(!output.status.success());
            assert_clean(&before, victim);
        }
    });
}

#[test]
fn killing_a_program_leaves_the_laboratory_alone_or_ends_it() {
    on_own_machine(
        "killing_a_program_leaves_the_laboratory_alone_or_ends_it",
        || {
            let before = traces();
            let running = start(&busy_lab("kill"));
            wait_until("the laboratory is up", is_up);
            kill(process_with("sleep 1001").expect("up"), KILL).expect("kill");
            wait_until("it is reaped", || process_with("sleep 1001").is_none());
            assert!(process_with("sleep 1003").is_some(), "the command goes on");
            kill(process_with("sleep 1003").expect("up"), KILL).expect("kill");
            assert_eq!(running.end().status.code(), Some(137));
            assert_clean(&before, "the command");
        },
    );
}

#[test]
fn signals_to_the_front_process_reach_the_command() {
    on_own_machine("signals_to_the_front_process_reach_the_command", || {
        let before = traces();
        for (signal, status) in [(2, 130), (15, 143), (1, 129)] {
            let running = start(&busy_lab("signal"));
            wait_until("the laboratory is up", is_up);
            kill(i32::try_from(running.child.id()).expect("a pid"), signal).expect("kill");
            assert_eq!(running.end().status.code(), Some(status));
            assert_clean(&before, "a signal");
        }
        let running = start(&lab("idle", 2, &[]));
        // It answers once init attends to signals; it listens before the front receives any.
        ask(&connect(0, "idle"), r#"{"do":"show"}"#);
        kill(i32::try_from(running.child.id()).expect("a pid"), 2).expect("kill");
        assert_eq!(running.end().status.code(), Some(130));
        assert_clean(&before, "a signal without a command");
    });
}

/// A hundred kills, in two halves that run beside each other: each round mostly waits.
#[test]
fn fifty_random_kills_leave_nothing() {
    on_own_machine("fifty_random_kills_leave_nothing", || kill_at_random(0..50));
}

#[test]
fn fifty_more_random_kills_leave_nothing() {
    on_own_machine("fifty_more_random_kills_leave_nothing", || {
        kill_at_random(50..100);
    });
}

fn kill_at_random(rounds: std::ops::Range<u64>) {
    let before = traces();
    let own: Vec<i32> = pids().into_iter().collect();
    let random = wavebed_link::RandomStream::new(20_261_121, 0);
    for round in rounds {
        let mut running = start(&busy_lab("random"));
        let draw = random.word(round);
        std::thread::sleep(Duration::from_micros(draw % 120_000));
        let victims: Vec<i32> = pids()
            .into_iter()
            .filter(|pid| !own.contains(pid))
            .collect();
        let place = usize::try_from(draw >> 40).expect("24 bits") % victims.len();
        let victim = victims[place];
        let what = format!("round {round}: {} ({victim})", name_of(victim));
        // It may have ended by itself since.
        let _ = kill(victim, KILL);
        std::thread::sleep(Duration::from_millis(10));
        if running.child.try_wait().expect("wait").is_none() {
            let _ = kill(i32::try_from(running.child.id()).expect("a pid"), KILL);
        }
        running.end();
        assert_clean(&before, &what);
    }
}

fn name_of(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .unwrap_or_default()
        .trim()
        .to_owned()
}
