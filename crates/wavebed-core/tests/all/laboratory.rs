//! The environment of programs in a laboratory.

use crate::support::{
    self, assert_clean, lab, on_own_machine, process_with, run, start, text_of, traces, wait_until,
};
use serde_json::json;
use wavebed_os::process::kill;

const KILL: i32 = 9;

#[test]
fn the_command_status_is_the_laboratory_status() {
    on_own_machine("the_command_status_is_the_laboratory_status", || {
        text_of(&run(&lab("a", 2, &["true"])), 0);
        text_of(&run(&lab("a", 2, &["sh", "-c", "exit 7"])), 7);
        text_of(&run(&lab("a", 2, &["sh", "-c", "kill -KILL $$"])), 137);
        let output = run(&lab("a", 2, &["no-such-program"]));
        text_of(&output, 2);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            line.contains("cannot run no-such-program") && line.lines().count() == 1,
            "{line}"
        );
    });
}

#[test]
fn hosts_reach_each_other_by_name() {
    on_own_machine("hosts_reach_each_other_by_name", || {
        let ping = "ping -4 -c1 -W30 server && ping -6 -c1 -W30 server && ping -c1 -W30 {server} && \
                    ping -c1 -W30 $WAVEBED_SERVER6";
        text_of(&run(&lab("a", 2, &["sh", "-ec", ping])), 0);
        let ping =
            "for v in 4 6; do for h in server edge client; do ping -$v -c1 -W30 $h; done; done";
        let text = text_of(&run(&lab("a", 3, &["sh", "-ec", ping])), 0);
        assert_eq!(
            text.matches("ttl=63").count(),
            2,
            "the server is behind the edge: {text}"
        );
    });
}

#[test]
fn a_host_sees_itself_and_nothing_else() {
    on_own_machine("a_host_sees_itself_and_nothing_else", || {
        let script = "hostname; echo $WAVEBED_HOST $WAVEBED_LAB ${http_proxy:-none} ${ALL_PROXY:-none}; \
                      ls /sys/class/net | tr '\\n' ' '; ls -d /proc/[0-9]* | wc -l; ip route show default";
        let file = lab("b", 2, &["sh", "-c", script]);
        let mut program = std::process::Command::new(support::CORE);
        program
            .env("http_proxy", "http://x")
            .env("ALL_PROXY", "http://x");
        let text = text_of(&support::start_with(&file, &mut program).end(), 0);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["client", "client b none none"]);
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words[..2], ["lo", "wb0"]);
        // init, engine, shell, ls (wc may be there already).
        let count: usize = words[2].parse().expect("a number");
        assert!((4..=5).contains(&count), "{text}");
        let routes: Vec<_> = lines[3..].iter().map(|line| line.trim_end()).collect();
        assert_eq!(
            routes,
            ["default dev wb0 proto static scope link src 198.18.0.2"]
        );
    });
}

#[test]
fn only_packets_of_programs_cross_the_path() {
    on_own_machine("only_packets_of_programs_cross_the_path", || {
        let mut file = lab("quiet", 3, &["sleep", "1.5"]);
        let summary = support::write(&file).with_file_name("summary.json");
        file["summary_file"] = summary.to_str().expect("text").into();
        text_of(&run(&file), 0);
        let text = std::fs::read_to_string(summary).expect("summary");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let links = value["links"].as_array().expect("links");
        assert_eq!(links.len(), 4);
        assert!(
            links.iter().all(|link| link["offered_segments"] == 0),
            "{text}"
        );
    });
}

#[test]
fn a_second_leg_carries_what_is_bound_to_it() {
    on_own_machine("a_second_leg_carries_what_is_bound_to_it", || {
        for hosts in [2, 3] {
            let pings = "ping -c1 -W30 server && ping -6 -c1 -W30 -I wb1 server && \
                         ping -c1 -W30 -I wb1 {server} && ping -c1 -W30 -I wb1 {server}";
            let mut file = lab("two", hosts, &["sh", "-ec", pings]);
            let end = if hosts == 2 { "server" } else { "edge" };
            let second = json!({"from": end, "to": "client",
                "hops": [{"name": "second", "kind": "radio", "down": [], "up": []}]});
            let legs = file["network"]["legs"].as_array_mut();
            legs.expect("legs").push(second);
            let summary = support::write(&file).with_file_name("summary.json");
            file["summary_file"] = summary.to_str().expect("text").into();
            text_of(&run(&file), 0);
            let text = std::fs::read_to_string(summary).expect("summary");
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let links = value["links"].as_array().expect("links");
            let offered = |name: &str| {
                let link = links.iter().find(|link| link["name"] == name);
                link.expect("a link")["offered_segments"].clone()
            };
            let first = format!("s{}", hosts - 1);
            let counts =
                [format!("{first}.up"), format!("{first}.down")].map(|name| offered(&name));
            assert_eq!(counts, [1, 1].map(serde_json::Value::from), "{text}");
            let counts = ["second.up", "second.down"].map(offered);
            assert_eq!(counts, [3, 3].map(serde_json::Value::from), "{text}");
        }
    });
}

#[test]
fn congestion_control_and_settings_belong_to_the_host() {
    on_own_machine("congestion_control_and_settings_belong_to_the_host", || {
        let script = "ip route get {server}; ip route show; ip -6 route show; cat /proc/sys/net/ipv4/tcp_rmem";
        let mut file = lab("a", 2, &["sh", "-c", script]);
        file["network"]["hosts"][1]["congestion_control"] = "reno".into();
        file["network"]["hosts"][1]["sysctls"] = json!({"net.ipv4.tcp_rmem": "4096 5000 6000"});
        let text = text_of(&run(&file), 0);
        assert_eq!(text.matches("congctl reno").count(), 6, "{text}");
        assert!(text.contains("4096\t5000\t6000"), "{text}");
    });
}

#[test]
fn invalid_settings_of_a_host_are_refused_in_one_line() {
    on_own_machine("invalid_settings_of_a_host_are_refused_in_one_line", || {
        let refusal = |change: &dyn Fn(&mut serde_json::Value), status: i32| {
            let mut file = lab("a", 2, &["true"]);
            change(&mut file);
            let output = run(&file);
            text_of(&output, status);
            let line = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(line.lines().count(), 1, "{line}");
            line
        };
        let line = refusal(
            &|f| f["network"]["hosts"][1]["sysctls"] = json!({"net.ipv4.nosuch": "1"}),
            2,
        );
        assert!(
            line.contains("net.ipv4.nosuch: a network namespace has no such setting"),
            "{line}"
        );
        let line = refusal(
            &|f| f["network"]["hosts"][1]["sysctls"] = json!({"net.ipv4.ip_forward": "maybe"}),
            2,
        );
        assert!(line.contains("refuses the value \"maybe\""), "{line}");
        let line = refusal(
            &|f| f["network"]["hosts"][0]["congestion_control"] = "quux".into(),
            3,
        );
        assert!(
            line.contains("\"quux\" is not available on this machine"),
            "{line}"
        );
        let line = refusal(&|f| f["extra"] = 1.into(), 2);
        assert!(line.contains("unknown field `extra`"), "{line}");
    });
}

#[test]
fn orphans_are_reaped_and_background_ends_with_the_command() {
    on_own_machine(
        "orphans_are_reaped_and_background_ends_with_the_command",
        || {
            let before = traces();
            // An orphan ends while the command still runs: no zombie may stay.
            let script = "orphan=$(sleep 0.05 >/dev/null & echo $!); for n in $(seq 300); do \
                          [ -e /proc/$orphan ] || break; sleep 0.1; done; \
                          grep -l '^State:.Z' /proc/[0-9]*/status; true";
            let mut file = lab("a", 2, &["sh", "-c", script]);
            file["background"] = json!([{"host": "server", "argv": ["sleep", "1000"]}]);
            // It does not wait for the background, which would take longer than the test waits.
            let text = text_of(&run(&file), 0);
            assert_eq!(text, "", "zombies");
            assert_clean(&before, "a laboratory with background");
            // One that does not want to end is ended.
            file["background"] = json!([{"host": "server", "argv": ["sh", "-c", "trap '' TERM; sleep 1000; sleep 1000"]}]);
            text_of(&run(&file), 0);
            assert_clean(&before, "a laboratory with a stubborn program");
        },
    );
}

#[test]
fn laboratories_are_isolated() {
    on_own_machine("laboratories_are_isolated", || {
        let before = traces();
        let serve = json!([{"host": "server", "argv": ["iperf3", "-s"]}]);
        let labs: Vec<_> = (0..4)
            .map(|number| {
                let script = "for i in 1 2 3 4 5 6 7 8 9; do iperf3 -c server -n 1M >/dev/null && break; sleep 0.1; done; \
                              ping -c1 -W30 server >/dev/null && ls -d /proc/[0-9]* | wc -l";
                let mut file = lab(&format!("lab{number}"), 2, &["sh", "-c", script]);
                file["background"] = serve.clone();
                start(&file)
            })
            .collect();
        for running in labs {
            let count: usize = text_of(&running.end(), 0).trim().parse().expect("a number");
            assert!(count <= 7, "only its own processes: {count}");
        }
        assert_clean(&before, "four laboratories");
        let twin = start(&lab("twin", 2, &["sh", "-c", "sleep 1000; true"]));
        wait_until("the first runs", || process_with("sleep 1000").is_some());
        let output = run(&lab("twin", 2, &["true"]));
        text_of(&output, 2);
        assert!(String::from_utf8_lossy(&output.stderr).contains("runs already"));
        kill(process_with("sleep 1000").expect("it runs still"), KILL).expect("kill");
        text_of(&twin.end(), 0);
    });
}

#[test]
fn an_invalid_file_is_refused_in_one_line() {
    let refusal = |path: &str| {
        let output = std::process::Command::new(support::CORE)
            .args(["lab", path])
            .output()
            .expect("starts");
        assert_eq!(output.status.code(), Some(2));
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(line.contains(path) && line.lines().count() == 1, "{line}");
    };
    refusal("/no/such/file.json");
    refusal("/dev/null");
    refusal("/");
    refusal(support::CORE);
}

#[test]
fn addresses_that_are_added_to_the_server_can_be_reached() {
    on_own_machine(
        "addresses_that_are_added_to_the_server_can_be_reached",
        || {
            for hosts in [2, 3] {
                let script = "until ping -c1 -W1 198.19.1.1; do sleep 0.05; done";
                let command = ["sh", "-c", script];
                let mut file = lab("added", hosts, &command);
                file["background"] = serde_json::json!([
                    {"host": "server", "argv": ["ip", "addr", "add", "198.19.1.1/32", "dev", "lo"]}
                ]);
                let text = text_of(&run(&file), 0);
                assert!(text.contains("64 bytes from 198.19.1.1"), "{text}");
            }
        },
    );
}

/// How many times the engine's sampler has waited for its next turn, in which it samples all hosts or the processors.
fn turns_of_sampler() -> u64 {
    let tasks = support::pids().into_iter().filter_map(|pid| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        Some(
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok()),
        )
    });
    let text = tasks
        .flatten()
        .find(|text| text.starts_with("Name:\tsampler\n"));
    text.as_deref()
        .and_then(|text| text.split_once("\nvoluntary_ctxt_switches:\t"))
        .and_then(|(_, rest)| rest.lines().next()?.parse().ok())
        .unwrap_or(0)
}

#[test]
fn the_connections_of_every_host_are_sampled() {
    on_own_machine("the_connections_of_every_host_are_sampled", || {
        let before = traces();
        let dir = support::run_quietly("mktemp", &["-d"]).trim().to_owned();
        // A listener alone has no row; its connection and the client's have one each.
        let command = "cat /proc/sys/net/ipv4/tcp_max_syn_backlog; \
                       until { exec 3<>/dev/tcp/$WAVEBED_SERVER/7; } 2>/dev/null; do sleep 0.02; done; sleep 1000; true";
        for nat in [false, true] {
            let mut file = lab("sampled", 3, &["bash", "-c", command]);
            file["network"]["nat"] = nat.into();
            let listen =
                "import socket,time; s=socket.create_server(('',7)); c=s.accept(); time.sleep(999)";
            file["background"] = json!([{"host": "server", "argv": ["python3", "-c", listen]}]);
            file["log_dir"] = dir.clone().into();
            file["sample"] = json!({"flows_ns": 20_000_000, "cpu_ns": 100_000_000});
            let running = start(&file);
            wait_until("it is connected", || process_with("sleep 1000").is_some());
            let before = turns_of_sampler();
            wait_until("every host is sampled", || turns_of_sampler() > before + 5);
            kill(process_with("sleep 1000").expect("it runs"), KILL).expect("kill");
            let backlog = text_of(&running.end(), 0);
            let machines =
                std::fs::read_to_string("/proc/sys/net/ipv4/tcp_max_syn_backlog").expect("there");
            assert_eq!(backlog, machines, "limits stay as they are");
            let flows = std::fs::read_to_string(format!("{dir}/flows.csv")).expect("written");
            let hosts: std::collections::BTreeSet<&str> = flows
                .lines()
                .skip(1)
                .filter_map(|line| line.split(',').nth(1))
                .collect();
            let expected: &[&str] = if nat {
                &["client"]
            } else {
                &["client", "server"]
            };
            assert_eq!(hosts.into_iter().collect::<Vec<_>>(), expected, "{flows}");
            assert!(flows.contains(":7,established,"), "{flows}");
        }
        assert_clean(&before, "sampled laboratories");
    });
}
