//! Power control in the uplink of a cell, beside powers of blocks that are computed here, TS 38.213, clause 7.1.1, and
//! beside rates from the tables of TS 38.214, which `tests/validation/uplink_power.py` computes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cell_run::{Case, DeviceOutcome, run};

const PRESETS: &str = include_str!("../../src/sim/presets.json");
const TABLES: &str = include_str!("cell_power.json");
const UNITS: u32 = 16;
const SECONDS: f64 = 1.0;
/// 20 MHz of symbols.
const SYMBOLS_PER_S: f64 = 20e6;
/// The distance of an MCS from capacity: 1.5 dB.
const GAP: f64 = 1.412_537_544_622_754_4;

fn ratio(decibels: f64) -> f64 {
    10f64.powf(decibels / 10.0)
}

/// Bits of a symbol with an MCS that needs this SINR.
fn bits(need_db: f64) -> f64 {
    (1.0 + ratio(need_db) / GAP).log2()
}

/// What a device has: the part of the band that its pattern uses, its SINR there, and power control.
#[derive(Clone, Copy, Debug)]
struct Edge {
    width: f64,
    sinr_db: f64,
    margin_db: f64,
    evm: f64,
    limit_db: f64,
    alpha: f64,
    most_need_db: f64,
}

const PLAIN: Edge = Edge {
    width: 1.0,
    sinr_db: 0.0,
    margin_db: 4.0,
    evm: 0.0,
    limit_db: 60.0,
    alpha: 0.0,
    most_need_db: 30.0,
};

impl Edge {
    fn rate_bps(&self) -> f64 {
        SYMBOLS_PER_S * self.width * bits(self.sinr_db - self.margin_db)
    }

    /// The rate on `parts` of the band, from the power of each block.
    fn expected_bps(&self, parts: f64) -> f64 {
        let used = parts.min(self.width);
        // Received power of the device over the noise of the whole band, without transmitter errors.
        let band = self.width / (ratio(-self.sinr_db) - self.evm.powi(2));
        // Over the noise of a block, if each block of the band had the same power: `band`. On fewer blocks:
        let most = ratio(self.limit_db) * band.powf(1.0 - self.alpha);
        let block = (band / used).min(most.max(band / self.width));
        let sinr_db = -10.0 * (1.0 / block + self.evm.powi(2)).log10();
        let need_db = (sinr_db - self.margin_db).min(self.most_need_db);
        SYMBOLS_PER_S * used * bits(need_db)
    }

    fn device(&self, power: bool) -> Value {
        let presets: Value = serde_json::from_str(PRESETS).unwrap();
        let mut radio = presets["nr-30khz"]["up"].clone();
        radio["rate"] = json!({"kind": "pattern", "file": "edge", "end": "repeat", "start_ns": 0});
        radio["queue"] = json!({"kind": "infinite"});
        radio["overhead_bytes"] = json!(0);
        radio["grants"] = Value::Null;
        radio["slots"]["frame"] = json!("");
        if power {
            radio["power"] = json!({
                "symbols_per_s": SYMBOLS_PER_S, "most_need_db": self.most_need_db, "evm": self.evm, "loss_db": 0,
                "limit_db": self.limit_db, "alpha": self.alpha,
            });
        }
        json!({"stages": [radio], "traffic": {"kind": "full", "bytes": 500, "keep_bytes": 400_000}})
    }

    fn run(&self, devices: u32, power: bool, alone: bool) -> Vec<DeviceOutcome> {
        let row = [self.rate_bps(), self.sinr_db, self.sinr_db - self.margin_db];
        play(self.device(power), row, devices, alone)
    }
}

/// Devices with this rate in bit/s, SINR and need.
fn play(mut device: Value, row: [f64; 3], devices: u32, alone: bool) -> Vec<DeviceOutcome> {
    let [rate_bps, sinr_db, need_db] = row;
    device["count"] = json!(devices);
    let pattern = format!(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps,sinr_db,need_db\n\
         0,{rate_bps:.0},{sinr_db:.3},{need_db:.3}\n",
    );
    let case: Case = serde_json::from_value(json!({
        "seed": 1, "duration_ns": (SECONDS * 1e9) as u64, "alone": alone,
        "scheduler": {"policy": "round_robin", "units": UNITS},
        "devices": [device], "patterns": {"edge": pattern},
    }))
    .unwrap();
    run(&case, false).unwrap().devices
}

fn rate_bps(device: &DeviceOutcome) -> f64 {
    device.bytes as f64 * 8.0 / SECONDS
}

#[test]
fn a_share_has_the_rate_of_the_power_on_its_blocks() {
    let cases = [
        PLAIN,
        Edge {
            sinr_db: 12.0,
            ..PLAIN
        },
        // A device that has power for a tenth, or for a third of the band.
        Edge {
            width: 0.1,
            ..PLAIN
        },
        Edge {
            width: 0.3,
            sinr_db: 3.0,
            ..PLAIN
        },
        // What bounds the gain: the transmitter, the fastest MCS, the target of power control.
        Edge {
            sinr_db: 18.0,
            evm: 0.08,
            ..PLAIN
        },
        Edge {
            sinr_db: 18.0,
            most_need_db: 19.0,
            ..PLAIN
        },
        Edge {
            limit_db: 3.0,
            ..PLAIN
        },
        Edge {
            limit_db: 12.0,
            sinr_db: 10.0,
            alpha: 0.8,
            ..PLAIN
        },
        Edge {
            limit_db: 2.0,
            width: 0.25,
            ..PLAIN
        },
    ];
    for edge in cases {
        for devices in [2, 4, 8, 16] {
            let expected_bps = edge.expected_bps(1.0 / f64::from(devices));
            for device in edge.run(devices, true, false) {
                let found_bps = rate_bps(&device);
                let difference = (found_bps / expected_bps - 1.0).abs();
                assert!(
                    difference < 0.02,
                    "{edge:?}, {devices} devices: {found_bps} and {expected_bps}"
                );
                assert_eq!(device.unaccounted(), 0);
            }
        }
    }
}

#[derive(Deserialize)]
struct Tables {
    cases: Vec<Tabled>,
}

#[derive(Deserialize)]
struct Tabled {
    name: String,
    rate_bps: f64,
    sinr_db: f64,
    need_db: f64,
    power: Value,
    /// By the number of devices.
    expected_bps: BTreeMap<u32, f64>,
}

/// MCS are steps of up to 25 % of the rate, and the least transport blocks are a part of it.
#[test]
fn a_share_has_about_the_rate_of_the_best_mcs_on_its_blocks() {
    let tables: Tables = serde_json::from_str(TABLES).unwrap();
    let mut ratios = Vec::new();
    for case in tables.cases {
        for (&devices, &expected_bps) in &case.expected_bps {
            let mut device = PLAIN.device(true);
            device["stages"][0]["power"] = case.power.clone();
            let row = [case.rate_bps, case.sinr_db, case.need_db];
            let found = play(device, row, devices, false);
            let sent = |device: &DeviceOutcome| {
                let failed = device.blocks_failed as f64 / device.blocks as f64;
                rate_bps(device) / (1.0 - failed)
            };
            let mean_bps = found.iter().map(sent).sum::<f64>() / f64::from(devices);
            ratios.push((mean_bps / expected_bps, case.name.clone(), devices));
        }
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |part: usize| &ratios[part * (ratios.len() - 1) / 20];
    assert!(at(0).0 > 0.9, "{:?}", at(0));
    assert!((0.97..1.06).contains(&at(10).0), "{:?}", at(10));
    assert!(at(20).0 < 1.25, "{:?}", at(20));
}

#[test]
fn without_power_control_a_share_has_its_part_of_the_rate() {
    for device in PLAIN.run(8, false, false) {
        let difference = (rate_bps(&device) / (PLAIN.rate_bps() / 8.0) - 1.0).abs();
        assert!(difference < 0.02);
    }
}

#[test]
fn a_device_with_all_blocks_is_the_same_with_power_control() {
    for margin_db in [0.0, -1.0] {
        let edge = Edge { margin_db, ..PLAIN };
        let shown = |power, alone| format!("{:?}", edge.run(1, power, alone));
        let without = shown(false, true);
        for (power, alone) in [(true, true), (false, false), (true, false)] {
            assert_eq!(shown(power, alone), without);
        }
    }
}

#[test]
fn the_mcs_keeps_its_margin_until_it_is_the_fastest() {
    let failed = |edge: Edge| {
        let devices = edge.run(4, true, false);
        let sum = |of: fn(&DeviceOutcome) -> u64| devices.iter().map(of).sum::<u64>() as f64;
        sum(|device| device.blocks_failed) / sum(|device| device.blocks)
    };
    let edge = Edge {
        margin_db: 0.0,
        sinr_db: 18.0,
        ..PLAIN
    };
    // First transmissions: one in ten, and the repetitions of those.
    let share = failed(edge);
    assert!((0.07..0.13).contains(&share), "{share}");
    // 6 dB more than the fastest MCS needs.
    let fastest = Edge {
        most_need_db: 18.0,
        ..edge
    };
    assert!(failed(fastest) < 0.001);
}

#[test]
fn a_downlink_has_no_power_control() {
    let mut device = PLAIN.device(true);
    device["stages"][0]["direction"] = json!("down");
    device["stages"][0]["rate"] = json!({"kind": "constant", "rate_bps": 1_000_000});
    let case: Case = serde_json::from_value(json!({
        "seed": 1, "duration_ns": 1, "scheduler": {"policy": "round_robin", "units": UNITS}, "devices": [device],
    }))
    .unwrap();
    let error = run(&case, false).unwrap_err();
    assert!(error.contains("power"), "{error}");
    assert!(error.contains("is for an uplink"), "{error}");
}
