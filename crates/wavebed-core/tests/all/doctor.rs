//! The checks of the doctor on a machine.

use std::process::Command;

use crate::support::{self, assert_clean, on_own_machine, run_quietly, traces};
use serde_json::Value;

fn examine(command: &mut Command) -> (Value, Option<i32>) {
    let output = command.args(["doctor", "--json"]).output().expect("starts");
    (
        serde_json::from_slice(&output.stdout).expect("JSON"),
        output.status.code(),
    )
}

fn status<'a>(report: &'a Value, name: &str) -> &'a str {
    let checks = report["checks"].as_array().expect("checks");
    let check = checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!(
        check["remedy"].is_null(),
        check["status"] == "ok",
        "{check}"
    );
    check["status"].as_str().expect("a word")
}

/// Puts a TUN device of this mode in place of the machine's, and the program where every user reaches it.
fn for_nobody(mode: &str) {
    run_quietly(
        "mount",
        &["-t", "tmpfs", "-o", "mode=755,dev", "none", "/mnt"],
    );
    run_quietly("cp", &[support::CORE, "/mnt/wavebed-core"]);
    run_quietly("mknod", &["/mnt/tun", "c", "10", "200"]);
    run_quietly("chmod", &[mode, "/mnt/tun"]);
    run_quietly("mount", &["--bind", "/mnt/tun", "/dev/net/tun"]);
}

fn as_nobody() -> Command {
    let mut nobody = Command::new("setpriv");
    nobody.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/mnt/wavebed-core",
    ]);
    nobody
}

#[test]
fn a_machine_on_which_laboratories_run_passes() {
    on_own_machine("a_machine_on_which_laboratories_run_passes", || {
        let before = traces();
        let (report, code) = examine(&mut Command::new(support::CORE));
        assert_eq!(
            (report["can_run"].as_bool(), code),
            (Some(true), Some(0)),
            "{report}"
        );
        for name in [
            "kernel",
            "tun device",
            "namespaces",
            "ipv6",
            "nat",
            "own /proc",
            "timer",
            "scheduler",
        ] {
            assert_ne!(status(&report, name), "fail");
        }
        assert_clean(&before, "the doctor");
        let text = run_quietly(support::CORE, &["doctor"]);
        assert!(
            text.starts_with("ok    kernel: Linux ") || text.starts_with("warn  kernel"),
            "{text}"
        );
    });
}

#[test]
fn settings_that_a_container_makes_read_only_are_found_with_their_remedy() {
    on_own_machine(
        "settings_that_a_container_makes_read_only_are_found_with_their_remedy",
        || {
            for_nobody("666");
            // As container engines do; then nobody may mount a whole /proc either.
            run_quietly("mount", &["--bind", "/proc/sys", "/proc/sys"]);
            run_quietly("mount", &["-o", "remount,bind,ro", "/proc/sys"]);
            let (report, code) = examine(&mut as_nobody());
            assert_eq!(
                (status(&report, "settings of hosts"), code),
                ("fail", Some(3))
            );
            let said = report.to_string();
            assert!(said.contains("unmask=ALL"), "{said}");
        },
    );
}

#[test]
fn a_closed_tun_device_is_found_with_its_remedy() {
    on_own_machine("a_closed_tun_device_is_found_with_its_remedy", || {
        for_nobody("600");
        let (report, code) = examine(&mut as_nobody());
        assert_eq!(
            (status(&report, "tun device"), code),
            ("fail", Some(3)),
            "{report}"
        );
        assert!(report.to_string().contains("chmod 666 /dev/net/tun"));
        run_quietly("chmod", &["666", "/mnt/tun"]);
        let (report, code) = examine(&mut as_nobody());
        assert_eq!(
            (status(&report, "tun device"), code),
            ("ok", Some(0)),
            "{report}"
        );
    });
}
