//! `wavebed-edge check` on this machine.

use std::fs;
use std::process::Command;

use wavebed_os::cgroup::Group;

fn check(arguments: &[&str]) -> (String, Option<i32>) {
    let done = Command::new(env!("CARGO_BIN_EXE_wavebed-edge"))
        .arg("check")
        .args(arguments)
        .output()
        .expect("the program");
    assert!(done.stderr.is_empty(), "{done:?}");
    let text = String::from_utf8(done.stdout).expect("text");
    (text, done.status.code())
}

/// What a trial may leave behind: interfaces, rules, settings, control groups.
fn state() -> Vec<String> {
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).output();
        done.map_or_else(
            |error| error.to_string(),
            |done| String::from_utf8_lossy(&done.stdout).into_owned(),
        )
    };
    let groups = Group::root().and_then(|root| root.own());
    let groups = groups.map_or_else(
        |error| error.to_string(),
        |own| {
            let mut names = own.children().unwrap_or_default();
            names.retain(|name| name.starts_with("wavebed-edge"));
            // Other tests run commands beside `wavebed-edge syn` meanwhile; `check` runs none.
            names.retain(|name| !name.starts_with("wavebed-edge-syn-"));
            format!("{names:?}")
        },
    );
    let settings = ["ipv4/tcp_syn_linear_timeouts", "ipv4/ip_forward"];
    let settings = settings
        .map(|name| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default());
    let mut found = vec![
        run("nft", &["list", "tables"]),
        run("ip", &["rule"]),
        run("ip", &["-o", "link"])
            .lines()
            .filter(|line| line.contains("wavebed"))
            .collect(),
        groups,
    ];
    found.extend(settings);
    found
}

#[test]
fn each_feature_has_a_line_and_nothing_is_left_behind() {
    let before = state();
    let (text, _) = check(&[]);
    assert_eq!(state(), before);
    for name in [
        "kernel",
        "TUN",
        "TPROXY",
        "bbr",
        "BPF for sockets",
        "IP forwarding",
        "seccomp",
        "Landlock",
    ] {
        let line = text.lines().find(|line| line[4..].starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(
            line.starts_with("yes ") || line.starts_with("no  "),
            "{line}"
        );
    }
    for remedy in ["splitter: ", "tunnel: ", "syn: "] {
        assert!(text.lines().any(|line| line.starts_with(remedy)), "{text}");
    }
}

#[test]
fn programs_read_the_same_as_json() {
    let (text, status) = check(&["--json"]);
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let checks = found["checks"].as_array().expect("checks");
    let kernel = checks.iter().find(|one| one["name"] == "kernel");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("proc");
    assert_eq!(kernel.expect("it is there")["found"], release.trim());
    let remedies = found["remedies"].as_array().expect("remedies");
    let all_work = remedies.iter().all(|one| one["works"] == true);
    assert_eq!(status, Some(if all_work { 0 } else { 3 }));
    let names: Vec<_> = remedies.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["splitter", "tunnel", "syn"]);
}
