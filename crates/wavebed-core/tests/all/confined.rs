//! Confined programs, and the capabilities of the laboratory's own processes.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::support::{
    self, assert_clean, lab, on_own_machine, run, run_quietly, start_with, text_of, traces,
};
use serde_json::{Value, json};

const USER: u32 = 63_719;

/// A laboratory whose command is this confined line for the shell.
fn confined(line: &str) -> Value {
    let mut file = lab("tight", 2, &["sh", "-c", line]);
    file["command"]["confined"] = true.into();
    file["confine"] = json!({"user": USER, "hidden": ["/root", "/home", "/nowhere"], "read": []});
    file
}

/// The fields of a `/proc/PID/status`.
fn status(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key, value.trim())).collect()
}

#[test]
fn a_confined_program_has_its_own_user_and_gains_no_privileges() {
    on_own_machine(
        "a_confined_program_has_its_own_user_and_gains_no_privileges",
        || {
            let before = traces();
            let output = run(&confined("cat /proc/self/status; echo; env; pwd"));
            let text = text_of(&output, 0);
            let (own, variables) = text.split_once("\n\n").expect("both");
            let own = status(own);
            for key in ["Uid", "Gid"] {
                assert!(
                    own[key].split('\t').all(|id| id == USER.to_string()),
                    "{own:?}"
                );
            }
            assert_eq!(own["Groups"].trim(), "");
            for key in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(u64::from_str_radix(own[key], 16), Ok(0), "{key}");
            }
            assert_eq!(own["NoNewPrivs"], "1");
            assert!(variables.contains("HOME=/tmp\n") && variables.contains("WAVEBED_HOST=client"));
            assert!(!variables.contains("WAVEBED_TEST_INSIDE"), "{variables}");
            assert!(variables.ends_with("/tmp\n"), "{variables}");
            assert_clean(&before, "a confined program");
        },
    );
}

#[test]
fn a_confined_program_sees_no_home_and_writes_nothing_but_its_own_temporary_files() {
    let name = "a_confined_program_sees_no_home_and_writes_nothing_but_its_own_temporary_files";
    on_own_machine(name, || {
        run_quietly("mount", &["-t", "tmpfs", "none", "/root"]);
        fs::write("/root/secret", "secret").expect("a file at home");
        let line = "cat /root/secret; ls -A /root /tmp /var/tmp; touch /tmp/mine && ls -A /dev/shm; \
                    for f in /etc /usr /run /root /dev /proc/sys/net; do touch $f/x && echo wrote $f; done; \
                    echo 1 > /proc/sys/net/ipv4/ip_forward && echo set";
        let output = run(&confined(line));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "/root:\n\n/tmp:\n\n/var/tmp:\nmine\n");
        assert!(!fs::exists("/tmp/mine").expect("a folder"));
    });
}

#[test]
fn a_program_reads_its_needed_paths_in_a_closed_folder_only() {
    on_own_machine(
        "a_program_reads_its_needed_paths_in_a_closed_folder_only",
        || {
            run_quietly("mount", &["-t", "tmpfs", "-o", "mode=700", "none", "/root"]);
            for file in ["needed/in/file", "beside"] {
                let file = format!("/root/{file}");
                run_quietly("install", &["-D", "-m", "644", "/etc/hosts", &file]);
            }
            let line = "wc -l < /root/needed/in/file; find /root -type f; touch /root/needed/x";
            let mut file = confined(line);
            file["confine"]["read"] = json!(["/root/needed", "/root/missing"]);
            let output = run(&file);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                text.ends_with("\n/root/needed/in/file\n") && text.lines().count() == 2,
                "{text}"
            );
        },
    );
}

#[test]
fn a_confined_program_has_no_terminal() {
    on_own_machine("a_confined_program_has_no_terminal", || {
        let text = text_of(&run(&confined("ps -o sid= -p $$; echo $$")), 0);
        let mut numbers = text.split_whitespace();
        assert_eq!(numbers.next(), numbers.next(), "it leads its session");
    });
}

#[test]
fn a_process_without_rules_is_refused() {
    let mut file = confined("true");
    file["confine"] = Value::Null;
    let output = run(&file);
    text_of(&output, 2);
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("command: confined: requires the key confine")
    );
}

#[test]
fn the_laboratorys_processes_drop_capabilities_and_its_root_keeps_all() {
    on_own_machine(
        "the_laboratorys_processes_drop_capabilities_and_its_root_keeps_all",
        || {
            let mut running = start_with(
                &lab("own", 2, &["sleep", "60"]),
                &mut Command::new(support::CORE),
            );
            support::wait_until("it runs", || support::process_with("sleep 60").is_some());
            let effective = |pid: i32| {
                let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
                let own = status(&text);
                (
                    u64::from_str_radix(own["CapEff"], 16).expect("a set"),
                    own["NoNewPrivs"] == "1",
                )
            };
            let all = effective(1).0;
            let front = i32::try_from(running.child.id()).expect("small");
            let children = |pid: i32| -> Vec<i32> {
                let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
                    .expect("children");
                text.split_whitespace()
                    .map(|pid| pid.parse().expect("a number"))
                    .collect()
            };
            let init = children(front)[0];
            let command = support::process_with("sleep 60").expect("it runs");
            let engine = children(init)
                .into_iter()
                .find(|pid| *pid != command)
                .expect("the engine");
            assert_eq!(effective(front), (0, true));
            // CAP_DAC_OVERRIDE and CAP_SYS_NICE.
            assert_eq!(effective(engine), (1 << 1 | 1 << 23, true));
            assert_eq!(effective(init).0 & !0x24_11e6, 0);
            assert_eq!(effective(command).0, all);
            running.child.kill().expect("ends");
            let _ = running.child.wait();
        },
    );
}
