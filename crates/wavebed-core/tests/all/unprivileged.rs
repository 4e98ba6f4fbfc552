//! Laboratories of the user nobody.

use std::process::Command;

use crate::support::{self, assert_clean, lab, on_own_machine, run_quietly, text_of, traces};

/// The program under test, where every user can run it, as `nobody`.
fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/mnt/wavebed-core",
    ]);
    command
}

/// Makes /dev/net/tun accessible to everybody on this test's machine only.
fn open_tun() {
    run_quietly(
        "mount",
        &["-t", "tmpfs", "-o", "mode=755,dev", "none", "/mnt"],
    );
    run_quietly("mknod", &["/mnt/tun", "c", "10", "200"]);
    run_quietly("chmod", &["666", "/mnt/tun"]);
    run_quietly("mount", &["--bind", "/mnt/tun", "/dev/net/tun"]);
    run_quietly("cp", &[support::CORE, "/mnt/wavebed-core"]);
    // Laboratory files of this test are in /tmp, which its user must be able to search.
    run_quietly("mount", &["-t", "tmpfs", "-o", "mode=1777", "none", "/tmp"]);
    let own_files = std::env::var("TMPDIR").expect("set for this machine");
    run_quietly("mkdir", &["-p", "-m", "755", &own_files]);
}

fn run_as_nobody(file: &serde_json::Value) -> std::process::Output {
    let path = support::write(file);
    run_quietly(
        "chmod",
        &[
            "755",
            path.parent().expect("a directory").to_str().expect("text"),
        ],
    );
    as_nobody().arg("lab").arg(&path).output().expect("starts")
}

#[test]
fn nobody_runs_a_laboratory() {
    on_own_machine("nobody_runs_a_laboratory", || {
        open_tun();
        let script = "id -u; hostname; for v in 4 6; do ping -$v -c1 -W30 server; done; exit 5";
        let mut file = lab("mine", 3, &["sh", "-c", script]);
        file["network"]["hosts"][2]["congestion_control"] = "reno".into();
        file["network"]["hosts"][0]["sysctls"] =
            serde_json::json!({"net.ipv4.tcp_rmem": "4096 5000 6000"});
        let before = traces();
        let text = text_of(&run_as_nobody(&file), 5);
        assert_eq!(text.lines().take(2).collect::<Vec<_>>(), ["0", "client"]);
        assert_eq!(text.matches("ttl=63").count(), 2, "{text}");
        assert_clean(&before, "a laboratory of nobody");
    });
}

#[test]
fn missing_access_to_tun_is_reported() {
    on_own_machine("missing_access_to_tun_is_reported", || {
        open_tun();
        run_quietly("chmod", &["600", "/mnt/tun"]);
        let output = run_as_nobody(&lab("mine", 2, &["true"]));
        text_of(&output, 3);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            line.contains("cannot open /dev/net/tun")
                && line
                    .contains("--virtual-time needs none of this (once: `wavebed kernel build`)")
                && line.lines().count() == 1,
            "{line}"
        );
    });
}

#[test]
fn nobodys_flows_get_other_ports() {
    on_own_machine("nobodys_flows_get_other_ports", || {
        open_tun();
        let before = traces();
        let mut file = lab("mine", 2, &["true"]);
        file["network"]["rebind_at_ns"] = serde_json::json!([0]);
        let summary = std::env::temp_dir().join("summary.json");
        std::fs::write(&summary, "").expect("write");
        run_quietly(
            "chmod",
            &["777", std::env::temp_dir().to_str().expect("text")],
        );
        run_quietly("chmod", &["666", summary.to_str().expect("text")]);
        file["summary_file"] = summary.to_str().expect("text").into();
        text_of(&run_as_nobody(&file), 0);
        let text = std::fs::read_to_string(summary).expect("a summary");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(value["rebound_at_ns"][0].is_u64(), "{text}");
        assert_clean(&before, "a laboratory of nobody");
    });
}

#[test]
fn nobody_gets_no_nat() {
    on_own_machine("nobody_gets_no_nat", || {
        open_tun();
        let mut file = lab("mine", 2, &["true"]);
        file["network"]["nat"] = true.into();
        let output = run_as_nobody(&file);
        text_of(&output, 3);
        assert!(String::from_utf8_lossy(&output.stderr).contains("nat: requires root"));
    });
}

#[test]
fn root_may_control_the_laboratory_of_nobody() {
    on_own_machine("root_may_control_the_laboratory_of_nobody", || {
        open_tun();
        let path = support::write(&lab("theirs", 2, &[]));
        run_quietly(
            "chmod",
            &[
                "755",
                path.parent().expect("a directory").to_str().expect("text"),
            ],
        );
        let mut child = as_nobody().arg("lab").arg(&path).spawn().expect("starts");
        let stream = support::connect(65534, "theirs");
        let answer = support::ask(&stream, r#"{"do":"stop"}"#);
        assert_eq!(answer["ok"], true, "{answer}");
        assert_eq!(child.wait().expect("ends").code(), Some(0));
    });
}

#[test]
fn nobody_confines_programs() {
    on_own_machine("nobody_confines_programs", || {
        open_tun();
        let script = "id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; \
                      for f in /etc /usr /proc/sys/net/ipv4/ip_forward; do touch $f/x || echo 1 > $f; done 2>&-; \
                      touch /tmp/x && echo temporary; unshare --user --net true && echo sandbox";
        let mut file = lab("mine", 2, &["sh", "-c", script]);
        file["command"]["confined"] = true.into();
        file["confine"] = serde_json::json!({"user": 63719, "hidden": ["/root"], "read": []});
        let before = traces();
        let output = run_as_nobody(&file);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = "63719\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\ntemporary\nsandbox\n";
        assert_eq!(
            text,
            expected,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_clean(&before, "a confined program of nobody");
    });
}

/// Sends a request to the laboratory around it, and prints whether it was answered.
const VISITOR: &str = r#"
use Socket;
open(my $list, "<", "/proc/net/unix");
my ($name) = map { /@(wavebed\/\S+)/ ? $1 : () } <$list>;
socket(my $stream, AF_UNIX, SOCK_STREAM, 0) or die;
connect($stream, pack_sockaddr_un("\0$name")) or die "connect: $!";
$SIG{PIPE} = "IGNORE";
syswrite($stream, "{\"do\":\"show\"}\n");
my $count = sysread($stream, my $answer, 100);
print(($count // 0) > 0 ? "answered\n" : "refused\n");
"#;

#[test]
fn nobody_controls_a_laboratory_from_inside_unless_confined() {
    on_own_machine(
        "nobody_controls_a_laboratory_from_inside_unless_confined",
        || {
            open_tun();
            let mut file = lab("mine", 2, &["perl", "-e", VISITOR]);
            assert_eq!(text_of(&run_as_nobody(&file), 0), "answered\n");
            file["command"]["confined"] = true.into();
            file["confine"] = serde_json::json!({"user": 63719, "hidden": ["/root"], "read": []});
            assert_eq!(text_of(&run_as_nobody(&file), 0), "refused\n");
            file["command"]["argv"] = serde_json::json!([
                "unshare",
                "--user",
                "--map-root-user",
                "perl",
                "-e",
                VISITOR
            ]);
            assert_eq!(text_of(&run_as_nobody(&file), 0), "refused\n");
        },
    );
}
