//! Laboratories whose far end is the machine itself. The test's machine has a neighbour behind a veth pair.

use crate::support::{
    self, assert_clean, lab, on_own_machine, run, run_quietly, start, text_of, traces, wait_until,
};
use serde_json::Value;

/// Gives the machine a network 10.9.0.0/24 with a neighbour 10.9.0.2, which has no route to 198.18.0.0.
fn neighbour() -> std::process::Child {
    let child = std::process::Command::new("unshare")
        .args(["-n", "sleep", "1000"])
        .spawn()
        .expect("starts");
    let pid = child.id().to_string();
    wait_until("its own namespace", || {
        std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
            != std::fs::read_link("/proc/self/ns/net").ok()
    });
    run_quietly(
        "ip",
        &[
            "link", "add", "out0", "type", "veth", "peer", "name", "in0", "netns", &pid,
        ],
    );
    run_quietly("ip", &["addr", "add", "10.9.0.1/24", "dev", "out0"]);
    run_quietly("ip", &["link", "set", "out0", "up"]);
    let inside = |arguments: &[&str]| {
        let mut all = vec!["-t", &pid, "-n", "ip"];
        all.extend(arguments);
        run_quietly("nsenter", &all)
    };
    inside(&["addr", "add", "10.9.0.2/24", "dev", "in0"]);
    inside(&["link", "set", "in0", "up"]);
    child
}

fn nat_lab(name: &str, hosts: usize, command: &[&str]) -> Value {
    let mut file = lab(name, hosts, command);
    file["nat"] = true.into();
    file
}

/// The program's output besides the counters of the links.
fn remarks(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let own = text
        .lines()
        .filter(|line| line.starts_with("wavebed-core:"));
    own.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_client_reaches_the_machine_and_networks_behind_it() {
    on_own_machine(
        "the_client_reaches_the_machine_and_networks_behind_it",
        || {
            let mut other = neighbour();
            let before = traces();
            let rules_before = run_quietly("nft", &["list", "ruleset"]);
            let machine =
                "ping -4 -c1 -W30 server && ping -6 -c1 -W30 server && ping -c1 -W30 10.9.0.1";
            let output = run(&nat_lab("nat", 2, &["sh", "-ec", machine]));
            text_of(&output, 0);
            let remark = remarks(&output.stderr);
            assert!(
                remark.contains("sysctl net.ipv4.ip_forward=1") && remark.lines().count() == 1,
                "{remark}"
            );
            run_quietly(
                "sysctl",
                &[
                    "-qw",
                    "net.ipv4.ip_forward=1",
                    "net.ipv6.conf.all.forwarding=1",
                ],
            );
            for hosts in [2, 3] {
                let output = run(&nat_lab("nat", hosts, &["ping", "-c1", "-W30", "10.9.0.2"]));
                text_of(&output, 0);
                assert_eq!(remarks(&output.stderr), "");
            }
            assert_clean(&before, "laboratories with NAT");
            assert_eq!(run_quietly("nft", &["list", "ruleset"]), rules_before);
            other.kill().expect("kill");
            other.wait().expect("wait");
        },
    );
}

#[test]
fn two_laboratories_with_nat_have_their_own_addresses() {
    on_own_machine("two_laboratories_with_nat_have_their_own_addresses", || {
        let before = traces();
        let first = start(&nat_lab(
            "one",
            2,
            &[
                "sh",
                "-c",
                "echo {client}; sleep 1000; ping -c1 -W30 {server} >/dev/null",
            ],
        ));
        wait_until("the first one runs", || {
            support::process_with("sleep 1000").is_some()
        });
        assert!(run_quietly("nft", &["list", "tables"]).contains("wavebed0"));
        let second = text_of(
            &run(&nat_lab(
                "two",
                2,
                &[
                    "sh",
                    "-c",
                    "echo {client}; ping -c1 -W30 {server} >/dev/null",
                ],
            )),
            0,
        );
        let sleep = support::process_with("sleep 1000").expect("the first one runs still");
        wavebed_os::process::kill(sleep, 9).expect("kill");
        let first = text_of(&first.end(), 0);
        assert_eq!((first.trim(), second.trim()), ("198.18.0.2", "198.18.4.2"));
        assert_clean(&before, "two laboratories with NAT");
    });
}

#[test]
fn laboratories_with_nat_do_not_reach_each_other_where_the_machine_forwards() {
    on_own_machine(
        "laboratories_with_nat_do_not_reach_each_other_where_the_machine_forwards",
        || {
            run_quietly(
                "sysctl",
                &[
                    "-qw",
                    "net.ipv4.ip_forward=1",
                    "net.ipv6.conf.all.forwarding=1",
                ],
            );
            let first = start(&nat_lab("one", 2, &["sleep", "1000"]));
            wait_until("the first one runs", || {
                support::process_with("sleep 1000").is_some()
            });
            // The machine itself and the own addresses answer; the client of the other laboratory does not.
            let script = "ping -c1 -W30 198.18.0.1 && ping -c1 -W30 fd77:6176:6562:0::1 && \
                          ! ping -c1 -W0.3 198.18.0.2 && ! ping -c1 -W0.3 fd77:6176:6562:0::2";
            text_of(&run(&nat_lab("two", 2, &["sh", "-c", script])), 0);
            let sleep = support::process_with("sleep 1000").expect("it runs");
            wavebed_os::process::kill(sleep, 9).expect("kill");
            first.end();
        },
    );
}

#[test]
fn killing_a_laboratory_with_nat_removes_its_table_and_device() {
    on_own_machine(
        "killing_a_laboratory_with_nat_removes_its_table_and_device",
        || {
            let before = traces();
            let running = start(&nat_lab("nat", 2, &["sleep", "1000"]));
            wait_until("it runs", || support::process_with("sleep 1000").is_some());
            assert_ne!(run_quietly("nft", &["list", "tables"]), "");
            wavebed_os::process::kill(i32::try_from(running.child.id()).expect("a pid"), 9)
                .expect("kill");
            running.end();
            assert_clean(&before, "a killed laboratory with NAT");
            wait_until("the table is gone", || {
                run_quietly("nft", &["list", "tables"]).is_empty()
            });
        },
    );
}
