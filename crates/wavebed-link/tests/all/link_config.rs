//! Stages from JSON: the documented forms are built, invalid ones are refused by key.

use crate::link_support::random::load;
use wavebed_link::config::{Shared, StageConfig, build, build_shared};
use wavebed_link::{RandomStream, Stage};

fn make(text: &str) -> Result<Box<dyn Stage>, String> {
    let config: StageConfig = serde_json::from_str(text).map_err(|error| error.to_string())?;
    build(&config, RandomStream::new(1, 1), &mut load).map_err(|error| error.to_string())
}

fn bottleneck(rate: &str, queue: &str, rest: &str) -> String {
    format!(r#"{{"stage":"bottleneck","rate":{rate},"queue":{queue}{rest}}}"#)
}

const CONSTANT: &str = r#"{"kind":"constant","rate_bps":1000000}"#;
const PACKETS: &str = r#"{"kind":"packets","packets_per_s":150000}"#;
const WIFI: &str = r#"{"stage":"wifi","rate":{"kind":"constant","rate_bps":2500000000},"bler":null,"queue":{"kind":"infinite"},"aggregate_bytes":262143,"aggregate_frames":64,"overhead_ns":30000,"retries":7,"overhead_bytes":40}"#;
const INFINITE: &str = r#"{"kind":"infinite"}"#;

#[test]
fn every_form_of_the_laboratory_file_is_built() {
    let rates = [
        CONSTANT,
        r#"{"kind":"pattern","file":"steps","end":"repeat","start_ns":0}"#,
        r#"{"kind":"pattern","file":"steps","end":"hold","start_ns":9999}"#,
        r#"{"kind":"opportunities","file":"opportunities","end":"stop","start_ns":1}"#,
        r#"{"kind":"token_bucket","rate_bps":1,"burst_bytes":1500}"#,
        r#"{"kind":"packets","packets_per_s":150000}"#,
        r#"{"kind":"sampled","rate_bps":1}"#,
        r#"{"kind":"sampled","file":"steps","end":"stop","start_ns":5}"#,
    ];
    for rate in rates {
        make(&bottleneck(rate, INFINITE, "")).unwrap_or_else(|error| panic!("{rate}: {error}"));
    }
    let queues = [
        r#"{"kind":"droptail","limit":{"bytes":1}}"#,
        r#"{"kind":"drophead","limit":{"packets":1}}"#,
        r#"{"kind":"codel","limit":{"time_ns":1}}"#,
        r#"{"kind":"codel","limit":{"bytes":9},"target_ns":5000000,"interval_ns":100000000,"ecn":false}"#,
        r#"{"kind":"fq_codel","limit":{"bytes":9}}"#,
        r#"{"kind":"fq_codel","limit":{"bytes":9},"target_ns":1,"interval_ns":1,"ecn":true,"flows":1024,"quantum_bytes":1514}"#,
        r#"{"kind":"codel","limit":{"bytes":9},"ecn":true,"ce_threshold_ns":1000000}"#,
        r#"{"kind":"fq_codel","limit":{"bytes":9},"ce_threshold_ns":0}"#,
        r#"{"kind":"dualpi2","limit":{"bytes":9}}"#,
        r#"{"kind":"dualpi2","limit":{"bytes":9},"target_ns":1,"rtt_max_ns":1,"coupling":0.5,"threshold_ns":0,"range_ns":0,"predict_ns":1}"#,
    ];
    for queue in queues {
        let rest = r#","overhead_bytes":38,"unit":"superpacket","outage":"drop""#;
        make(&bottleneck(CONSTANT, queue, rest)).unwrap_or_else(|error| panic!("{queue}: {error}"));
    }
    let others = [
        r#"{"stage":"delay","delay":{"kind":"constant","delay_ns":11000000}}"#,
        r#"{"stage":"delay","delay":{"kind":"pattern","file":"packets"},"reorder":true}"#,
        r#"{"stage":"delay","delay":{"kind":"distribution","shape":"paretonormal","mean_ns":1,"spread_ns":1}}"#,
        r#"{"stage":"loss","model":{"kind":"independent","probability":1},"unit":"superpacket"}"#,
        r#"{"stage":"loss","model":{"kind":"gilbert_elliott","p":0.1,"r":0.2}}"#,
        r#"{"stage":"loss","model":{"kind":"four_state","p13":0.1,"p31":0.2,"p23":0.3,"p32":0.4,"p14":0.5}}"#,
        r#"{"stage":"loss","model":{"kind":"pattern","file":"packets","end":"hold"}}"#,
        r#"{"stage":"duplicate","probability":0.01}"#,
        r#"{"stage":"reorder","probability":0.01,"delay_ns":1000000}"#,
        r#"{"stage":"corrupt","probability":0.001}"#,
        WIFI,
    ];
    for text in others {
        make(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_broken_rule_is_named_by_key_with_its_remedy() {
    let rate = |rate: &str| bottleneck(rate, INFINITE, "");
    let queue = |queue: &str| bottleneck(CONSTANT, queue, "");
    let stage = |kind: &str, rest: &str| format!(r#"{{"stage":"{kind}",{rest}}}"#);
    let cases = [
        (
            rate(r#"{"kind":"constant","rate_bps":0}"#),
            "rate.rate_bps: use at least 1",
        ),
        (
            rate(r#"{"kind":"constant","rate_bps":1000000000001}"#),
            "rate.rate_bps: use at most 1000000000000",
        ),
        (
            rate(r#"{"kind":"token_bucket","rate_bps":9,"burst_bytes":1499}"#),
            "rate.burst_bytes: is 1499: use at least the MTU",
        ),
        (
            rate(r#"{"kind":"pattern","file":"gone"}"#),
            "rate.file: gone: no such pattern",
        ),
        (
            rate(r#"{"kind":"pattern","file":"packets"}"#),
            "rate.file: packets: this pattern of kind packets cannot",
        ),
        (
            rate(r#"{"kind":"pattern","file":"steps","start_ns":10000}"#),
            "rate.start_ns: is 10000: use less",
        ),
        (
            rate(r#"{"kind":"opportunities","file":"steps"}"#),
            "rate.file: steps: this pattern of kind steps cannot",
        ),
        (
            rate(r#"{"kind":"opportunities","file":"opportunities","end":"hold"}"#),
            "rate.end: is hold",
        ),
        (
            bottleneck(
                r#"{"kind":"opportunities","file":"opportunities"}"#,
                INFINITE,
                r#","outage":"drop""#,
            ),
            "outage: is drop",
        ),
        (
            rate(r#"{"kind":"packets","packets_per_s":0}"#),
            "rate.packets_per_s: use at least 1",
        ),
        (
            bottleneck(PACKETS, INFINITE, r#","outage":"drop""#),
            "outage: is drop, but a rate in packets",
        ),
        (
            bottleneck(PACKETS, r#"{"kind":"fq_codel","limit":{"time_ns":9}}"#, ""),
            "queue.limit.time_ns: does not fit a rate in packets",
        ),
        (rate(r#"{"kind":"sampled"}"#), "rate: has neither"),
        (
            rate(r#"{"kind":"sampled","rate_bps":1,"file":"steps"}"#),
            "rate: has both",
        ),
        (
            rate(r#"{"kind":"sampled","rate_bps":1,"end":"hold"}"#),
            "rate.rate_bps: is constant",
        ),
        (
            bottleneck(
                r#"{"kind":"sampled","rate_bps":1}"#,
                r#"{"kind":"drophead","limit":{"packets":1}}"#,
                "",
            ),
            "queue.kind: does not fit a sampled rate",
        ),
        (
            bottleneck(CONSTANT, INFINITE, r#","overhead_bytes":1001"#),
            "overhead_bytes: use at most 1000",
        ),
        (
            queue(r#"{"kind":"droptail","limit":{"bytes":0}}"#),
            "queue.limit: use at least 1",
        ),
        (
            queue(r#"{"kind":"drophead","limit":{"packets":0}}"#),
            "queue.limit: use at least 1",
        ),
        (
            queue(r#"{"kind":"droptail","limit":{"time_ns":0}}"#),
            "queue.limit: use at least 1",
        ),
        (
            queue(r#"{"kind":"codel","limit":{"bytes":1},"target_ns":0}"#),
            "queue.target_ns: use at least 1",
        ),
        (
            queue(r#"{"kind":"codel","limit":{"bytes":1},"target_ns":9,"interval_ns":8}"#),
            "queue.interval_ns: is 8",
        ),
        (
            queue(r#"{"kind":"fq_codel","limit":{"bytes":1},"flows":0}"#),
            "queue.flows: use at least 1",
        ),
        (
            queue(r#"{"kind":"fq_codel","limit":{"bytes":1},"flows":65537}"#),
            "queue.flows: use at most 65536",
        ),
        (
            queue(r#"{"kind":"fq_codel","limit":{"bytes":1},"quantum_bytes":0}"#),
            "queue.quantum_bytes: use at least 1",
        ),
        (
            queue(r#"{"kind":"codel","limit":{"bytes":1},"ce_threshold_ns":1}"#),
            "queue.ce_threshold_ns: requires ecn",
        ),
        (
            queue(r#"{"kind":"dualpi2","limit":{"bytes":0}}"#),
            "queue.limit: use at least 1",
        ),
        (
            queue(r#"{"kind":"dualpi2","limit":{"bytes":1},"target_ns":0}"#),
            "queue.target_ns: use at least 1",
        ),
        (
            queue(r#"{"kind":"dualpi2","limit":{"bytes":1},"rtt_max_ns":0}"#),
            "queue.rtt_max_ns: use at least 1",
        ),
        (
            queue(r#"{"kind":"dualpi2","limit":{"bytes":1},"coupling":17}"#),
            "queue.coupling: use at most 16",
        ),
        (
            queue(r#"{"kind":"dualpi2","limit":{"bytes":1},"predict_ns":0}"#),
            "queue.predict_ns: use at least 1",
        ),
        (
            stage("duplicate", r#""probability":1.5"#),
            "probability: use at most 1",
        ),
        (
            stage("corrupt", r#""probability":-0.1"#),
            "probability: use at least 0",
        ),
        (
            stage(
                "reorder",
                r#""probability":0,"delay_ns":1000000000000000001"#,
            ),
            "delay_ns: use at most 1000000000000000000",
        ),
        (
            stage(
                "delay",
                r#""delay":{"kind":"pattern","file":"opportunities"}"#,
            ),
            "delay.file: opportunities: this pattern",
        ),
        (
            stage(
                "delay",
                r#""delay":{"kind":"pattern","file":"packets","start_ns":1}"#,
            ),
            "delay.start_ns: does not fit",
        ),
        (
            stage(
                "delay",
                r#""delay":{"kind":"distribution","shape":"normal","mean_ns":1,"spread_ns":1,"correlation":2}"#,
            ),
            "delay.correlation: use at most 1",
        ),
        (
            stage("loss", r#""model":{"kind":"independent","probability":2}"#),
            "model.probability: use at most 1",
        ),
        (
            stage("loss", r#""model":{"kind":"gilbert_elliott","p":2,"r":0}"#),
            "model.p: use at most 1",
        ),
        (
            stage(
                "loss",
                r#""model":{"kind":"gilbert_elliott","p":0,"r":0,"bad_loss":-1}"#,
            ),
            "model.bad_loss: use at least 0",
        ),
        (
            stage(
                "loss",
                r#""model":{"kind":"four_state","p13":0.6,"p31":0,"p23":0,"p32":0,"p14":0.6}"#,
            ),
            "model: breaks a rule: p13 + p14",
        ),
        (
            stage(
                "loss",
                r#""model":{"kind":"pattern","file":"opportunities"}"#,
            ),
            "model.file: opportunities",
        ),
    ];
    for (text, wanted) in cases {
        let message = make(&text)
            .err()
            .unwrap_or_else(|| panic!("{text} was built"));
        assert!(message.starts_with(wanted), "{text}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn a_wifi_stage_that_breaks_a_rule_is_refused_by_key() {
    let cases = [
        (
            r#""aggregate_bytes":262143"#,
            r#""aggregate_bytes":1539"#,
            "aggregate_bytes: is 1539: use at least the MTU with overhead_bytes, 1540",
        ),
        (
            r#""aggregate_frames":64"#,
            r#""aggregate_frames":0"#,
            "aggregate_frames: use at least 1",
        ),
        (
            r#""overhead_ns":30000"#,
            r#""overhead_ns":1000000001"#,
            "overhead_ns: use at most 1000000000",
        ),
        (
            r#""retries":7"#,
            r#""retries":256"#,
            "retries: use at most 255",
        ),
        (
            r#""overhead_bytes":40"#,
            r#""overhead_bytes":1001"#,
            "overhead_bytes: use at most 1000",
        ),
        (r#""bler":null"#, r#""bler":1.5"#, "bler: use at most 1"),
        // 64 · 1540 bytes in 30 µs are 26.28 Gbit/s.
        (
            "2500000000",
            "26282666666",
            "rate.rate_bps: has the rate 26282666666, but full aggregates of 98560 bytes with overhead_ns 30000 carry \
             less than 26282666666 bits per second",
        ),
        ("2500000000", "0", "rate.rate_bps: use at least 1"),
        (
            r#"{"kind":"constant","rate_bps":2500000000}"#,
            r#"{"kind":"packets","packets_per_s":9}"#,
            "rate.kind: does not fit wifi: use constant or pattern",
        ),
        (
            r#"{"kind":"constant","rate_bps":2500000000}"#,
            r#"{"kind":"pattern","file":"packets"}"#,
            "rate.file: packets: this pattern of kind packets cannot",
        ),
        (
            r#""overhead_ns":30000,"retries":7"#,
            r#""retries":7"#,
            "missing field `overhead_ns`",
        ),
        (
            r#""retries":7"#,
            r#""retries":7,"colour":1"#,
            "unknown field `colour`",
        ),
    ];
    for (from, to, wanted) in cases {
        assert!(WIFI.contains(from), "{from}");
        let message = make(&WIFI.replace(from, to))
            .err()
            .unwrap_or_else(|| panic!("{to} was built"));
        assert!(message.starts_with(wanted), "{to}: {message}");
    }
    let slow = WIFI.replace("2500000000", "26282666665");
    make(&slow).expect("a bit below the most is carried");
    let pattern = WIFI
        .replace(
            r#"{"kind":"constant","rate_bps":2500000000}"#,
            r#"{"kind":"pattern","file":"steps"}"#,
        )
        .replace(r#""overhead_ns":30000"#, r#""overhead_ns":78848"#);
    let message = make(&pattern).err().expect("10 Gbit/s are too fast");
    assert!(
        message.starts_with("rate.file: has the rate 10000000000, but"),
        "{message}"
    );
}

#[test]
fn unknown_and_missing_keys_and_kinds_are_refused() {
    let cases = [
        (bottleneck(CONSTANT, INFINITE, r#","colour":1"#), "colour"),
        (
            bottleneck(
                r#"{"kind":"constant","rate_bps":1,"burst_bytes":9}"#,
                INFINITE,
                "",
            ),
            "burst_bytes",
        ),
        (
            bottleneck(r#"{"kind":"constant"}"#, INFINITE, ""),
            "rate_bps",
        ),
        (
            bottleneck(r#"{"kind":"constant","rate_bps":1.5}"#, INFINITE, ""),
            "1.5",
        ),
        (bottleneck(r#"{"kind":"fast"}"#, INFINITE, ""), "fast"),
        (
            bottleneck(CONSTANT, r#"{"kind":"infinite","limit":{"bytes":1}}"#, ""),
            "limit",
        ),
        (
            bottleneck(
                CONSTANT,
                r#"{"kind":"droptail","limit":{"bytes":1,"packets":1}}"#,
                "",
            ),
            "expected map with a single key",
        ),
        (
            bottleneck(CONSTANT, r#"{"kind":"droptail","limit":{"seconds":1}}"#, ""),
            "seconds",
        ),
        (
            bottleneck(CONSTANT, INFINITE, r#","unit":"frame""#),
            "frame",
        ),
        (
            bottleneck(CONSTANT, INFINITE, r#","outage":"wait""#),
            "wait",
        ),
        (String::from(r#"{"stage":"teleport"}"#), "teleport"),
        (String::from(r#"{"probability":1}"#), "stage"),
        (
            String::from(r#"{"stage":"duplicate","probability":0.1,"delay_ns":1}"#),
            "delay_ns",
        ),
        (
            String::from(
                r#"{"stage":"delay","delay":{"kind":"pattern","file":"steps","end":"never"}}"#,
            ),
            "never",
        ),
    ];
    for (text, wanted) in cases {
        let message = make(&text)
            .err()
            .unwrap_or_else(|| panic!("{text} was built"));
        assert!(message.contains(wanted), "{text}: {message}");
    }
}

#[test]
fn the_bucket_must_hold_a_packet_of_the_laboratorys_mtu() {
    let text = bottleneck(
        r#"{"kind":"token_bucket","rate_bps":9,"burst_bytes":8999}"#,
        INFINITE,
        "",
    );
    let config: StageConfig = serde_json::from_str(&text).expect("it is well formed");
    let message = build_shared(
        &config,
        9000,
        RandomStream::new(1, 1),
        &mut load,
        &mut Shared::default(),
    )
    .err()
    .map(|error| error.to_string());
    assert!(message.is_some_and(|message| message.contains("at least the MTU, 9000")));
}
