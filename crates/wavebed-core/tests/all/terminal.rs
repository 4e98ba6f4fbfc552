//! The laboratory's command on a terminal, provided by `script` of util-linux.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{self, assert_clean, lab, on_own_machine, process_with, traces, wait_until};

/// Runs the laboratory on a terminal of its own; `keys` are typed one after another, each when its program runs.
fn on_terminal(file: &serde_json::Value, keys: &[(&str, &[u8])]) -> (String, Option<i32>) {
    let path = support::write(file);
    let command = format!("{} lab {}", support::CORE, path.display());
    let mut child = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script starts");
    let mut input = child.stdin.take().expect("piped");
    for (program, key) in keys {
        wait_until(program, || process_with(program).is_some());
        std::thread::sleep(Duration::from_millis(50));
        input.write_all(key).expect("type");
        input.flush().expect("type");
    }
    let output = child.wait_with_output().expect("ends");
    drop(input);
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        output.status.code(),
    )
}

#[test]
fn control_c_interrupts_the_command() {
    on_own_machine("control_c_interrupts_the_command", || {
        let before = traces();
        let (_, status) = on_terminal(
            &lab("tty", 2, &["sleep", "1000"]),
            &[("sleep 1000", b"\x03")],
        );
        assert_eq!(status, Some(130));
        assert_clean(&before, "an interrupted laboratory");
    });
}

#[test]
fn a_shell_inside_has_job_control() {
    on_own_machine("a_shell_inside_has_job_control", || {
        let before = traces();
        let file = lab("tty", 2, &["bash", "--norc", "--noprofile", "-i"]);
        let keys: [(&str, &[u8]); 4] = [
            ("bash --norc --noprofile -i", b"sleep 1001\n"),
            ("sleep 1001", b"\x1a"),
            ("sleep 1001", b"kill %1; sleep 1002\n"),
            ("sleep 1002", b"\x03exit 6\n"),
        ];
        let (text, status) = on_terminal(&file, &keys);
        assert!(text.contains("Stopped"), "{text}");
        assert!(
            !text.contains("no job control") && !text.contains("cannot set terminal"),
            "{text}"
        );
        assert_eq!(status, Some(6), "{text}");
        assert_clean(&before, "an interactive shell");
    });
}

#[test]
fn control_z_stops_the_laboratory_and_fg_brings_it_back() {
    on_own_machine(
        "control_z_stops_the_laboratory_and_fg_brings_it_back",
        || {
            let before = traces();
            let path = support::write(&lab("tty", 2, &["sleep", "1003"]));
            let mut child = Command::new("script")
                .args(["-qefc", "bash --norc --noprofile -i", "/dev/null"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("script starts");
            let mut input = child.stdin.take().expect("piped");
            let mut type_in = |text: &str| {
                input.write_all(text.as_bytes()).expect("type");
                input.flush().expect("type");
            };
            let state = |program: &str| {
                let pid = process_with(program)?;
                let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                text.rsplit(") ").next()?.chars().next()
            };
            let front = format!("{} lab {}", support::CORE, path.display());
            type_in(&format!("{front}\n"));
            wait_until("it runs", || process_with("sleep 1003").is_some());
            std::thread::sleep(Duration::from_millis(100));
            type_in("\x1a");
            wait_until("the command is stopped", || {
                state("sleep 1003") == Some('T')
            });
            // Init and the engine have the same command line; the first process of the three is the front.
            wait_until("the front is stopped", || state(&front) == Some('T'));
            type_in("fg\n");
            wait_until("the command goes on", || state("sleep 1003") == Some('S'));
            std::thread::sleep(Duration::from_millis(100));
            type_in("\x03");
            wait_until("the command ended", || process_with("sleep 1003").is_none());
            type_in("echo status $?\nexit 0\n");
            let output = child.wait_with_output().expect("ends");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("status 130"), "{text}");
            assert_clean(&before, "a stopped laboratory");
        },
    );
}
