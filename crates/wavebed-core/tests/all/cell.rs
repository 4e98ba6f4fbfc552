//! Laboratories with a cell of several devices.

use std::fs;

use serde_json::{Value, json};
use support::{ask, connect, lab, on_own_machine, run, run_quietly, start, text_of, wait_until};

use crate::support;

/// A radio of 200 Mbit/s in slots of 0.5 ms.
fn radio(direction: &str) -> Value {
    json!({
        "stage": "radio", "direction": direction, "rate": {"kind": "constant", "rate_bps": 200_000_000}, "bler": 0.1,
        "slots": {"slot_ns": 500_000, "frame": "", "special_symbols": [0, 0, 0], "prepare_ns": 100_000,
                  "decode_ns": 300_000,
                  "harq": {"processes": 8, "feedback_slots": 2, "schedule_slots": 2, "limit": 4,
                           "combining_gain_db": 3.0, "slope_per_db": 2.0}},
        "fallback": null, "queue": {"kind": "droptail", "limit": {"packets": 1000}}, "discard_ns": null,
        "rlc": {"mode": "am", "reassembly_ns": 20_000_000, "poll_ns": 40_000_000, "status_ns": 5_000_000,
                "retransmissions": 32},
        "reordering": {"timer_ns": 100_000_000}, "grants": null, "connection": null, "load": null,
        "aggregation": null, "split": null
    })
}

/// A laboratory of a server, perhaps an edge, and `devices` devices `phone-1`, ...; the command runs on the first.
fn with_cell(gateways: usize, devices: usize, command: &[&str]) -> Value {
    let mut file = lab("cell", gateways + 1, command);
    let hosts = file["network"]["hosts"].as_array_mut().expect("hosts");
    hosts.truncate(gateways);
    let names: Vec<String> = (1..=devices)
        .map(|place| format!("phone-{place}"))
        .collect();
    let host = |name: &String| json!({"name": name, "congestion_control": null, "sysctls": {}});
    hosts.extend(names.iter().map(host));
    let legs = file["network"]["legs"].as_array_mut().expect("legs");
    legs[gateways - 1]["to"] = "phone-1".into();
    let scheduler = json!({"policy": "proportional_fair", "units": 17});
    let devices: Vec<Value> = names
        .iter()
        .map(|name| json!({"host": name, "down": [radio("down")], "up": [radio("up")]}))
        .collect();
    file["network"]["cell"] =
        json!({"name": "radio", "down": scheduler, "up": scheduler, "devices": devices});
    if !command.is_empty() {
        file["command"]["host"] = "phone-1".into();
    }
    file
}

fn background(host: &str, script: &str) -> Value {
    json!({"host": host, "argv": ["sh", "-c", script]})
}

#[test]
fn devices_of_a_cell_reach_the_server_beside_a_download() {
    on_own_machine(
        "devices_of_a_cell_reach_the_server_beside_a_download",
        || {
            for gateways in [1, 2] {
                let script = "ping -4 -c3 -i0.1 -W30 server && ping -6 -c1 -W30 server && \
                          until iperf3 -c server -R -t 1; do sleep 0.1; done";
                let mut file = with_cell(gateways, 3, &["sh", "-ec", script]);
                let ping = "exec ping -i0.05 server";
                file["background"] = json!([
                    background("server", "exec iperf3 -s"),
                    background("phone-2", ping),
                    background("phone-3", ping),
                ]);
                let folder = run_quietly("mktemp", &["-d"]).trim().to_owned();
                let summary_file = format!("{folder}/summary.json");
                file["summary_file"] = summary_file.clone().into();
                file["log_dir"] = format!("{folder}/log").into();
                file["pcap_dir"] = format!("{folder}/pcap").into();
                file["network"]["packet_log"] = true.into();
                text_of(&run(&file), 0);
                let text = fs::read_to_string(summary_file).expect("a summary");
                let summary: Value = serde_json::from_str(&text).expect("JSON");
                let links = summary["links"].as_array().expect("links");
                assert_eq!(links.len(), 2 * (3 + gateways), "{links:#?}");
                for link in links {
                    assert_eq!(link["unaccounted_segments"], 0, "{link}");
                }
                for device in 1..=3 {
                    for direction in ["down", "up"] {
                        let name = format!("radio.phone-{device}.{direction}");
                        let link = links.iter().find(|link| link["name"] == name.as_str());
                        let delivered = &link.expect("its link")["delivered_segments"];
                        assert!(
                            delivered.as_u64().expect("a count") > 3,
                            "{name}: {delivered}"
                        );
                    }
                }
                let bytes = |name: &str| {
                    let link = links.iter().find(|link| link["name"] == name);
                    link.expect("its link")["delivered_bytes"]
                        .as_u64()
                        .expect("a count")
                };
                assert!(bytes("radio.phone-1.down") > 1_000_000);
                assert!(bytes("radio.phone-2.down") < 100_000);
                let gateway = if gateways == 1 { "server" } else { "edge" };
                let departures = summary["departures"].as_array().expect("departures");
                let last: Vec<&str> = departures
                    .iter()
                    .rev()
                    .take(6)
                    .rev()
                    .map(|each| each["name"].as_str().expect("a name"))
                    .collect();
                let names = [
                    "phone-1.down",
                    "phone-2.down",
                    "phone-3.down",
                    "phone-1.up",
                    "phone-2.up",
                    "phone-3.up",
                ];
                assert_eq!(last, names.map(|name| format!("{gateway}-{name}")));
                for name in ["radio.phone-2.down.csv", "packets/radio.phone-2.down.csv"] {
                    let text = fs::read_to_string(format!("{folder}/log/{name}")).expect("a log");
                    assert!(text.lines().count() > 3, "{name}");
                }
                fs::remove_dir_all(folder).expect("it was there");
            }
        },
    );
}

#[test]
fn a_link_of_a_device_is_shown_and_changed_while_it_runs() {
    on_own_machine(
        "a_link_of_a_device_is_shown_and_changed_while_it_runs",
        || {
            let running = start(&with_cell(1, 2, &[]));
            let stream = connect(0, "cell");
            let set = |link: &str, rest: &str| {
                let line = format!(r#"{{"do": "set", "link": "{link}", {rest}}}"#);
                ask(&stream, &line)
            };
            let mut shown = Value::Null;
            wait_until("the links are shown", || {
                shown = ask(&stream, r#"{"do": "show"}"#);
                shown["links"]
                    .as_array()
                    .is_some_and(|links| !links.is_empty())
            });
            let names = |key: &str| -> Vec<String> {
                let all = shown[key].as_array().expect("a list").iter();
                all.map(|each| each["name"].as_str().expect("a name").to_owned())
                    .collect()
            };
            let links = ["s1.down", "radio.phone-1.down", "radio.phone-2.down"];
            assert_eq!(names("links")[..3], links);
            assert_eq!(names("links")[5], "s1.up");
            let directions = ["phone-1.down", "phone-2.down", "phone-1.up", "phone-2.up"];
            let directions = directions.map(|name| format!("server-{name}"));
            assert_eq!(names("directions"), directions);
            assert_eq!(names("hops"), ["s1", "radio.phone-1", "radio.phone-2"]);
            let rate = r#""key": "rate_bps", "value": 1000000"#;
            let answer = set("radio.phone-2.down", rate);
            assert_eq!(answer["ok"], true, "{answer}");
            let answer = set("radio.phone-9.down", rate);
            assert!(
                answer["error"]
                    .as_str()
                    .is_some_and(|line| line.contains("no link")),
                "{answer}"
            );
            let outage = r#""key": "outage_ns", "value": 1000000"#;
            assert_eq!(set("radio.phone-1.up", outage)["ok"], true);
            assert_eq!(ask(&stream, r#"{"do": "stop"}"#)["ok"], true);
            text_of(&running.end(), 0);
        },
    );
}

#[test]
fn a_device_is_told_that_it_reaches_no_other_device() {
    on_own_machine("a_device_is_told_that_it_reaches_no_other_device", || {
        let script = "ip -4 route get {phone-2}; for address in {phone-2} 192.0.2.1; do \
                      ping -c1 -W30 $address | grep -i unreachable; done";
        let text = text_of(&run(&with_cell(1, 2, &["sh", "-c", script])), 0);
        assert!(text.contains("dev wb0 src 198.18.0.2"), "{text}");
        assert_eq!(text.matches("Unreachable").count(), 2, "{text}");
    });
}
