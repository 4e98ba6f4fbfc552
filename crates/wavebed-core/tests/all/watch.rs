//! Samples of a running laboratory over its control socket.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{self, answer, ask, lab, on_own_machine, start, text_of, wait_until};
use serde_json::{Value, json};

fn watch(name: &str) -> (UnixStream, Value) {
    let stream = support::connect(0, name);
    let head = ask(&stream, r#"{"do":"watch","every_ms":10}"#)["watching"].clone();
    assert!(head.is_object(), "{head}");
    (stream, head)
}

/// The value of a column of the first link.
fn value<'a>(head: &Value, sample: &'a Value, column: &str) -> &'a Value {
    let columns = head["link_columns"].as_array().expect("columns");
    let place = columns.iter().position(|name| name == column);
    &sample["links"][0][place.expect("a column")]
}

fn stop(name: &str, running: support::Running) {
    ask(&support::connect(0, name), r#"{"do":"stop"}"#);
    text_of(&running.end(), 0);
}

#[test]
fn counters_and_conditions_come_each_ten_milliseconds() {
    on_own_machine("counters_and_conditions_come_each_ten_milliseconds", || {
        let mut file = lab("watched", 2, &[]);
        file["network"]["legs"][0]["hops"][0]["down"] =
            json!([{"stage": "delay", "delay": {"kind": "constant", "delay_ns": 5_000_000}}]);
        let running = start(&file);
        let control = support::connect(0, "watched");
        let ping = r#"{"do":"run","host":"client","argv":["ping","-i0.02","-c9","-q","server"],"cwd":null}"#;
        assert!(ask(&control, ping)["pid"].is_i64());
        assert_eq!(answer(&control)["exit"], 0);

        let began = Instant::now();
        let (stream, head) = watch("watched");
        assert_eq!(head["links"], json!(["s1.down", "s1.up"]));
        assert_eq!(
            head["directions"],
            json!(["server-client.down", "server-client.up"])
        );
        assert_eq!(head["every_ms"], 10);
        assert!(head["zero_ns"].as_u64().is_some_and(|zero_ns| zero_ns > 0));
        let samples: Vec<Value> = (0..20).map(|_| answer(&stream)).collect();
        let times: Vec<u64> = samples
            .iter()
            .map(|sample| value(&head, sample, "at_ns").as_u64().expect("a time"))
            .collect();
        assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
        assert!(
            began.elapsed() >= Duration::from_millis(190),
            "none comes early"
        );
        let last = &samples[19];
        let delivered = value(&head, last, "delivered_segments").as_u64();
        let delivered = delivered.expect("a count");
        assert!(delivered >= 9, "the answers to the pings: {delivered}");
        assert_eq!(value(&head, last, "delay_ns"), 5_000_000);
        assert_eq!(value(&head, last, "rate_bps"), &Value::Null);
        // The engine's own delay, without the machine's delay.
        let transit = json!([delivered * 5_000_000, delivered]);
        assert_eq!(last["directions"][0], transit);

        let change = r#"{"do":"set","link":"s1.down","key":"delay_ns","value":7000000}"#;
        assert_eq!(ask(&control, change)["ok"], true);
        // Samples from before the change may wait in the socket.
        wait_until("the change is in the samples", || {
            value(&head, &answer(&stream), "delay_ns") == 7_000_000
        });
        stop("watched", running);
    });
}

#[test]
fn a_reader_that_does_not_read_loses_whole_samples_and_delays_nobody() {
    on_own_machine(
        "a_reader_that_does_not_read_loses_whole_samples_and_delays_nobody",
        || {
            let mut file = lab("slow", 2, &[]);
            let hops = (1..=60).map(
                |hop| json!({"name": format!("s{hop}"), "kind": "wired", "down": [], "up": []}),
            );
            file["network"]["legs"][0]["hops"] = hops.collect();
            let running = start(&file);
            let (stream, _) = watch("slow");
            let (other, _) = watch("slow");
            // 120 links are 8 kB each 10 ms: the buffer of a socket takes less than a second of them.
            for line in BufReader::new(&other).lines().take(250) {
                line.expect("a line");
            }
            assert_eq!(
                ask(&support::connect(0, "slow"), r#"{"do":"show"}"#)["links"][0]["name"],
                "s1.down"
            );
            stream
                .set_read_timeout(Some(support::PATIENCE))
                .expect("timeout");
            let mut lines = BufReader::new(stream).lines();
            let mut read = 0;
            let mut lost = 0;
            // A late machine loses some too: what came and what was lost are all that were due.
            while read + lost < 250 {
                let line = lines.next().expect("a line").expect("a line");
                let sample: Value = serde_json::from_str(&line).expect("a whole sample");
                read += 1;
                lost = sample["lost"].as_u64().expect("a count");
            }
            assert!(lost > 100, "{read} came and {lost} were lost");
            stop("slow", running);
        },
    );
}

#[test]
fn a_watch_ends_with_its_connection_and_a_second_one_takes_its_place() {
    on_own_machine(
        "a_watch_ends_with_its_connection_and_a_second_one_takes_its_place",
        || {
            let running = start(&lab("again", 2, &[]));
            let (stream, _) = watch("again");
            answer(&stream);
            drop(stream);
            let (stream, _) = watch("again");
            let slower = r#"{"do":"watch","every_ms":10000}"#;
            let mut line = ask(&stream, slower);
            while line["watching"].is_null() {
                line = answer(&stream);
            }
            assert_eq!(line["watching"]["every_ms"], 10_000);
            answer(&stream);
            // Nothing comes between the first sample of the new watch and the answer.
            assert_eq!(ask(&stream, r#"{"do":"show"}"#)["name"], "again");
            stop("again", running);
        },
    );
}

#[test]
fn a_period_out_of_bounds_and_a_laboratory_without_time_are_refused() {
    on_own_machine(
        "a_period_out_of_bounds_and_a_laboratory_without_time_are_refused",
        || {
            let mut file = lab("refusing", 2, &[]);
            file["wait"] = true.into();
            let running = start(&file);
            let stream = support::connect(0, "refusing");
            for (period, refusal) in [
                (
                    "9",
                    "every_ms: 9 is out of range: write a whole number from 10 to 10000",
                ),
                ("10001", "every_ms: 10001 is out of range"),
                ("-1", "invalid request"),
                ("10", "time has not begun"),
            ] {
                let line = format!(r#"{{"do":"watch","every_ms":{period}}}"#);
                let error = ask(&stream, &line)["error"].to_string();
                assert!(error.contains(refusal), "{period}: {error}");
            }
            stop("refusing", running);
        },
    );
}

#[test]
fn maps_are_kept_for_displays_and_a_new_rate_of_their_downlink_is_noted() {
    on_own_machine(
        "maps_are_kept_for_displays_and_a_new_rate_of_their_downlink_is_noted",
        || {
            let mut file = lab("mapped", 2, &[]);
            let link = json!([
                {"stage": "bottleneck", "rate": {"kind": "constant", "rate_bps": 1_000_000}, "queue": {"kind": "infinite"}},
                {"stage": "delay", "delay": {"kind": "constant", "delay_ns": 0}}
            ]);
            file["network"]["legs"][0]["hops"][0]["down"] = link.clone();
            file["network"]["legs"][0]["hops"][0]["up"] = link;
            file["maps"] = json!([{"hop": "s1", "title": "A street", "ue": {"x_m": [0.5]}}]);
            let running = start(&file);
            let stream = support::connect(0, "mapped");
            let maps = || ask(&stream, r#"{"do":"maps"}"#)["maps"].clone();
            let whole = json!([{"hop": "s1", "title": "A street", "ue": {"x_m": [0.5]}, "replaced": false}]);
            assert_eq!(maps(), whole);
            for change in [
                r#"{"do":"set","link":"s1.up","key":"rate_bps","value":5}"#,
                r#"{"do":"set","link":null,"key":"delay_ns","value":5}"#,
            ] {
                assert_eq!(ask(&stream, change)["ok"], true);
                assert_eq!(maps(), whole, "{change}");
            }
            let refused = r#"{"do":"set","link":"s2.down","key":"rate_bps","value":5}"#;
            assert!(ask(&stream, refused)["error"].is_string());
            assert_eq!(maps(), whole);
            let change = r#"{"do":"set","link":null,"key":"rate_bps","value":5}"#;
            assert_eq!(ask(&stream, change)["ok"], true);
            assert_eq!(maps()[0]["replaced"], true);
            stop("mapped", running);
        },
    );
}
