//! Cells of 32 devices that lose packets in each way: none is unaccounted. `benches/cell.py accounting` counts 10⁸.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};
use wavebed_link::RandomStream;

use crate::cell_run::{Case, run};

const DEVICES: u64 = 32;
const PRESETS: &str = include_str!("../../src/sim/presets.json");

/// 40 blocks of 10 ms with random rates: some are handovers.
fn pattern(device: u64) -> String {
    let random = RandomStream::new(7, device);
    let mut text =
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.4\ntime_s,rate_bps,bler,state\n"
            .to_owned();
    for row in 0..40 {
        let rate_bps = 20_000_000 + random.word(row) % 200_000_000;
        let time_s = row as f64 / 100.0;
        let handover = row > 2 && random.unit(100 + row) < 0.05;
        let rest = if handover {
            "0,0,handover".to_owned()
        } else {
            format!("{rate_bps},0.1,los")
        };
        writeln!(text, "{time_s:.2},{rest}").unwrap();
    }
    text
}

fn device(number: u64, direction: &str, queue: &Value) -> Value {
    let presets: Value = serde_json::from_str(PRESETS).unwrap();
    let mut radio = presets["nr-30khz"][direction].clone();
    radio["rate"] =
        json!({"kind": "pattern", "file": number.to_string(), "end": "repeat", "start_ns": 0});
    radio["queue"] = queue.clone();
    radio["handover"] = json!(if number.is_multiple_of(3) {
        "lose"
    } else {
        "forward"
    });
    radio["slots"]["harq"]["limit"] = json!(2);
    radio["slots"]["harq"]["slope_per_db"] = json!(0.3);
    radio["slots"]["harq"]["nack_loss"] = json!(0.05);
    if number % 2 == 1 {
        radio["rlc"] = json!({"mode": "um"});
    }
    if number % 4 == 1 && queue["kind"] != "fq_codel" {
        radio["discard_ns"] = json!(60_000_000);
    }
    let gap_ns = if number % 2 == 1 {
        1_500_000
    } else {
        4_000_000
    };
    json!({
        "stages": [radio],
        "service": {"level": 10 + number, "guaranteed_bps": if number.is_multiple_of(5) { json!(1_000_000) } else { Value::Null }},
        "traffic": {"kind": "random", "bytes": 1200, "gap_ns": gap_ns, "flows": 3},
    })
}

#[test]
fn each_packet_of_each_device_is_delivered_or_dropped_with_a_reason() {
    let queues = [
        json!({"kind": "droptail", "limit": {"packets": 30}}),
        json!({"kind": "drophead", "limit": {"bytes": 40_000}}),
        json!({"kind": "codel", "limit": {"packets": 1000}}),
        json!({"kind": "fq_codel", "limit": {"packets": 1000}}),
        json!({"kind": "dualpi2", "limit": {"packets": 1000}}),
    ];
    let policies = [
        "proportional_fair",
        "round_robin",
        "maximum_rate",
        "priority",
    ];
    let patterns: Value = (0..DEVICES)
        .map(|number| (number.to_string(), json!(pattern(number))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut reasons = BTreeSet::new();
    let mut offered = 0;
    for (place, queue) in queues.iter().enumerate() {
        for (up, direction) in ["down", "up"].into_iter().enumerate() {
            let devices: Vec<Value> = (0..DEVICES)
                .map(|number| device(number, direction, queue))
                .collect();
            let case: Case = serde_json::from_value(json!({
                "seed": place,
                "duration_ns": 600_000_000,
                "scheduler": {"policy": policies[(place + up) % 4], "units": 17, "devices_per_slot": 8, "control_units": 1},
                "devices": devices,
                "patterns": patterns,
            }))
            .unwrap();
            let outcome = run(&case, true).unwrap();
            for device in &outcome.devices {
                assert_eq!(device.unaccounted(), 0, "{direction}, {queue}: {device:?}");
                assert_eq!(device.left, 0, "{direction}, {queue}: {device:?}");
                reasons.extend(device.dropped.keys().copied());
                offered += device.offered;
            }
        }
    }
    assert!(offered > 80_000, "{offered}");
    for reason in ["overflow", "aqm", "block", "discard", "handover"] {
        assert!(reasons.contains(reason), "{reason} of {reasons:?}");
    }
}
