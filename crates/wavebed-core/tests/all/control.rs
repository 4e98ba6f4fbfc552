//! The control socket of a running laboratory.

use std::io::Read;
use std::os::fd::AsFd;

use crate::support::{
    self, ask, assert_clean, lab, on_own_machine, start, text_of, traces, wait_until,
};
use serde_json::json;
use wavebed_os::unix;

fn connect(name: &str) -> std::os::unix::net::UnixStream {
    support::connect(0, name)
}

#[test]
fn a_laboratory_without_a_command_is_driven_through_its_socket() {
    on_own_machine(
        "a_laboratory_without_a_command_is_driven_through_its_socket",
        || {
            let before = traces();
            let mut file = lab("driven", 2, &[]);
            file["network"]["legs"][0]["hops"][0]["down"] =
                json!([{"stage": "delay", "delay": {"kind": "constant", "delay_ns": 5_000_000}}]);
            let running = start(&file);
            let stream = connect("driven");
            let state = ask(&stream, r#"{"do":"show"}"#);
            assert_eq!(state["links"].as_array().expect("links").len(), 2);
            assert_eq!(state["hosts"][1]["ipv4"], "198.18.0.2");
            assert!(state["now_ns"].as_u64().is_some_and(|now| now > 0));
            let line = r#"{"do":"set","link":"s1.down","key":"delay_ns","value":40000000}"#;
            assert_eq!(ask(&stream, line)["ok"], true);

            let (mut reader, writer) = std::io::pipe().expect("pipe");
            let line = "{\"do\":\"run\",\"host\":\"client\",\"argv\":[\"sh\",\"-c\",\"read x; echo $x $FOO $PWD; \
                    ping -c1 -W30 server; exit 9\"],\"env\":{\"FOO\":\"bar\"},\"cwd\":\"/usr\"}\n";
            let (input, mut input_end) = std::io::pipe().expect("pipe");
            let fds = [input.as_fd(), writer.as_fd(), writer.as_fd()];
            unix::send(stream.as_fd(), line.as_bytes(), &fds).expect("send");
            drop((writer, input));
            std::io::Write::write_all(&mut input_end, b"hello\n").expect("write");
            let started = support::answer(&stream);
            let ended = support::answer(&stream);
            assert_eq!(
                (&started["pid"], ended["exit"].as_i64()),
                (&ended["pid"], Some(9)),
                "{started} {ended}"
            );
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("read");
            assert!(text.starts_with("hello bar /usr\n"), "{text}");
            let time = text
                .split("time=")
                .nth(1)
                .and_then(|rest| rest.split(' ').next())
                .expect("a time");
            let time: f64 = time.parse().expect("a number");
            assert!(time >= 40.0, "the new delay holds: {time}");
            // The engine's own delay of the answer, without the machine's delay.
            let watching = connect("driven");
            ask(&watching, r#"{"do":"watch","every_ms":10}"#);
            let mut transit = json!(null);
            wait_until("the answer is counted", || {
                transit = support::answer(&watching)["directions"][0].clone();
                transit[1].as_u64() > Some(0)
            });
            assert_eq!(transit, json!([40_000_000, 1]));

            let answer = ask(&stream, r#"{"do":"stop"}"#);
            assert!(
                answer["summary"]["links"][0]["offered_segments"]
                    .as_u64()
                    .is_some_and(|count| count > 0)
            );
            text_of(&running.end(), 0);
            assert_clean(&before, "a driven laboratory");
        },
    );
}

#[test]
fn programs_of_a_connection_can_be_killed_and_end_with_it() {
    on_own_machine(
        "programs_of_a_connection_can_be_killed_and_end_with_it",
        || {
            let running = start(&lab("driven", 2, &[]));
            let stream = connect("driven");
            let sleep = r#"{"do":"run","host":"server","argv":["sleep","1000"],"cwd":null}"#;
            let pid = ask(&stream, sleep)["pid"].as_i64().expect("a pid");
            let line = format!(r#"{{"do":"kill","pid":{pid},"signal":9}}"#);
            assert_eq!(ask(&stream, &line)["ok"], true);
            assert_eq!(support::answer(&stream)["exit"], -9);
            assert!(
                ask(&stream, &line)["error"]
                    .as_str()
                    .is_some_and(|line| line.contains("was not started"))
            );
            ask(&stream, sleep);
            assert!(support::process_with("sleep 1000").is_some());
            drop(stream);
            wait_until("it ended", || support::process_with("sleep 1000").is_none());
            ask(&connect("driven"), r#"{"do":"stop"}"#);
            text_of(&running.end(), 0);
        },
    );
}

#[test]
fn invalid_requests_are_refused_in_one_line() {
    on_own_machine("invalid_requests_are_refused_in_one_line", || {
        let running = start(&lab("driven", 2, &[]));
        let stream = connect("driven");
        for line in [
            "nonsense",
            "{}",
            r#"{"do":"fly"}"#,
            r#"{"do":"run","host":"moon","argv":["true"]}"#,
            r#"{"do":"run","host":"client","argv":[]}"#,
            r#"{"do":"run","host":"client","argv":["no-such-program"]}"#,
            r#"{"do":"set","link":null,"key":"speed","value":1}"#,
            r#"{"do":"set","link":"nope","key":"loss","value":0.5}"#,
            r#"{"do":"set","link":null,"key":"loss","value":2}"#,
            r#"{"do":"set","link":null,"key":"pattern","value":"x"}"#,
        ] {
            let answer = ask(&stream, line);
            assert!(
                answer["error"]
                    .as_str()
                    .is_some_and(|text| !text.contains('\n')),
                "{line}: {answer}"
            );
        }
        ask(&stream, r#"{"do":"stop"}"#);
        text_of(&running.end(), 0);
    });
}

#[test]
fn the_list_names_running_laboratories() {
    on_own_machine("the_list_names_running_laboratories", || {
        let running = start(&lab("listed", 2, &[]));
        let stream = connect("listed");
        let text = support::run_quietly(support::CORE, &["list", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let listed = &value["laboratories"];
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!(
            (&listed[0]["name"], &listed[0]["uid"]),
            (&json!("listed"), &json!(0))
        );
        let socket = listed[0]["socket"].as_str().expect("its socket");
        assert!(socket.starts_with("wavebed/0/listed/"), "{socket}");
        ask(&stream, r#"{"do":"stop"}"#);
        text_of(&running.end(), 0);
    });
}

#[test]
fn time_begins_on_request() {
    on_own_machine("time_begins_on_request", || {
        let mut file = lab("waiting", 2, &[]);
        file["wait"] = true.into();
        let running = start(&file);
        let stream = connect("waiting");
        let state = ask(&stream, r#"{"do":"show"}"#);
        assert_eq!(
            (&state["now_ns"], &state["links"]),
            (&json!(null), &json!([]))
        );
        assert_eq!(state["hosts"][0]["ipv4"], "198.18.0.1");
        let set = r#"{"do":"set","link":null,"key":"loss","value":0.5}"#;
        let refusal = ask(&stream, set)["error"].to_string();
        assert!(refusal.contains("time has not begun"), "{refusal}");

        // The ping's first packet waits in the device: its round trip is the time until the beginning.
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let ping = "{\"do\":\"run\",\"host\":\"client\",\"argv\":[\"ping\",\"-4\",\"-c1\",\"-W60\",\"server\"],\"cwd\":null}\n";
        let fds = [writer.as_fd(), writer.as_fd(), writer.as_fd()];
        unix::send(stream.as_fd(), ping.as_bytes(), &fds).expect("send");
        drop(writer);
        assert!(support::answer(&stream)["pid"].is_i64());
        let pid = support::process_with("ping -4 -c1 -W60 server").expect("it runs");
        wait_until("the packet is sent", || {
            // The kernel lists the types that occurred, here echo requests.
            std::fs::read_to_string(format!("/proc/{pid}/net/snmp"))
                .is_ok_and(|text| text.contains("OutType8"))
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        let before_ns = wavebed_os::clock::monotonic_ns();
        let zero_ns = ask(&stream, r#"{"do":"begin"}"#)["zero_ns"]
            .as_u64()
            .expect("a time");
        let after_ns = wavebed_os::clock::monotonic_ns();
        assert!((before_ns..=after_ns).contains(&zero_ns));
        assert_eq!(support::answer(&stream)["exit"], 0);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        let time = text
            .split("time=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let time: f64 = time.expect("a time").parse().expect("a number");
        assert!(time > 100.0, "it waited: {text}");

        let refusal = ask(&stream, r#"{"do":"begin"}"#)["error"].to_string();
        assert!(refusal.contains("begun already"), "{refusal}");
        let state = ask(&stream, r#"{"do":"show"}"#);
        assert_eq!(state["zero_ns"], zero_ns);
        assert!(state["links"][0]["delivered_segments"].as_u64() > Some(0));
        let answer = ask(&stream, r#"{"do":"stop"}"#);
        assert!(answer["summary"]["duration_s"].as_f64() > Some(0.0));
        text_of(&running.end(), 0);
    });
}

#[test]
fn a_laboratory_that_never_began_stops_with_counters_of_zero() {
    on_own_machine(
        "a_laboratory_that_never_began_stops_with_counters_of_zero",
        || {
            let before = traces();
            let mut file = lab("waiting", 2, &[]);
            file["wait"] = true.into();
            let running = start(&file);
            let answer = ask(&connect("waiting"), r#"{"do":"stop"}"#);
            assert_eq!(answer["summary"]["links"], json!([]));
            text_of(&running.end(), 0);
            assert_clean(&before, "a laboratory that never began");
        },
    );
}
