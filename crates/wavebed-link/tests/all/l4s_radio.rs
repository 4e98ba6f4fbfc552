//! One scalable and one CUBIC flow over a radio whose rate varies, by queue.

use std::sync::{Arc, Mutex};

use crate::l4s_support::{Flow, Waits, Watched, run};
use crate::radio_support::{harq, pattern, plain, played};
use wavebed_link::queue::{
    Codel, CodelSettings, DelayEstimate, DropTail, DualPi2, DualPi2Settings, FqCodel,
    FqCodelSettings, Limit, Queue,
};
use wavebed_link::radio::{Acknowledged, Carriers, Radio, RadioConfig, Rlc};
use wavebed_link::{Ecn, Link, MillisecondRow, RandomStream, Unit};

const MS: u64 = 1_000_000;
const UNTIL_NS: u64 = 30_000 * MS;
/// Slow start is over by then.
const START_MS: u64 = 3000;
const RTT_NS: u64 = 20 * MS;
const LIMIT: Limit = Limit::Bytes(1_000_000);

/// An NR carrier of 30 kHz: slots of 500 µs in `DDDSU`, HARQ, RLC AM and in-order delivery.
fn config() -> RadioConfig {
    let mut config = plain();
    let slots = &mut config.carriers.primary;
    slots.slot_ns = 500_000;
    slots.own_symbols = vec![14, 14, 14, 10, 0];
    slots.other_symbols = vec![0, 0, 0, 2, 14];
    slots.prepare_ns = 1_000_000;
    slots.decode_ns = 100_000;
    let mut harq = harq();
    (harq.processes, harq.limit) = (16, 4);
    (harq.combining_gain_db, harq.slope_per_db) = (3.0, 3.8);
    slots.harq = Some(harq);
    let rlc = Rlc::Acknowledged(Acknowledged {
        reassembly_ns: 35 * MS,
        poll_ns: 45 * MS,
        status_ns: 5 * MS,
        retransmissions: 8,
        reestablish_ns: 100 * MS,
        status_loss: 0.0,
        window: None,
    });
    RadioConfig {
        carriers: Carriers {
            fallback: None,
            ..config.carriers
        },
        overhead_bytes: 10,
        rlc,
        reordering: Some(Some(100 * MS)),
        ..config
    }
}

/// Steps of 100 ms between 20 and 80 Mbit/s, one block in ten in error.
fn rates() -> Vec<String> {
    let random = RandomStream::new(7, 7);
    let mut bps = 50e6;
    (0..600u64)
        .map(|step| {
            bps = (bps * (1.0 + 0.5 * (random.unit(step) - 0.5))).clamp(20e6, 80e6);
            format!("{}.{},{},0.1", step / 10, step % 10, bps as u64)
        })
        .collect()
}

/// What a queue made of both flows, the scalable one first.
#[derive(Debug)]
pub struct Outcome {
    pub mbit_per_s: [f64; 2],
    /// p50 and p99 of the time in the queue, milliseconds.
    pub waits_ms: [[f64; 2]; 2],
    pub marks: [u64; 2],
    /// In the first seconds, and later.
    pub drops: [u64; 2],
    /// The millisecond of the first mark of CUBIC, and of the first drop.
    pub first_ms: [Option<u64>; 2],
}

impl Outcome {
    fn share(&self) -> f64 {
        self.mbit_per_s[0] / (self.mbit_per_s[0] + self.mbit_per_s[1])
    }
}

fn outcome(queue: impl Queue + 'static) -> Outcome {
    let rows = rates();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let air = played(pattern("60", "rate_bps,bler", &rows), None);
    let waits: Waits = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let watched = Watched {
        queue,
        waits: Arc::clone(&waits),
    };
    let radio = Radio::new(
        config(),
        air,
        Box::new(watched),
        None,
        RandomStream::new(1, 0),
    );
    let mut link = Link::new(vec![Box::new(radio)], true);
    let mut flows = [Flow::scalable(), Flow::cubic(Ecn::Ect0)];
    run(&mut link, &mut flows, RTT_NS, UNTIL_NS);
    let rows = link.counters_mut().finished_rows(UNTIL_NS);
    let dropped = |row: &MillisecondRow| row.counts.dropped_total().segments;
    let (start, rest) = rows.split_at(START_MS as usize);
    let drops = [start, rest].map(|rows| rows.iter().map(dropped).sum());
    let first = |event: &dyn Fn(&MillisecondRow) -> u64| {
        rows.iter().find(|row| event(row) > 0).map(|row| row.at_ms)
    };
    let classic_marks =
        |row: &MillisecondRow| row.counts.marked.segments - row.counts.l4s_marked.segments;
    let first_ms = [first(&classic_marks), first(&dropped)];
    let total = link.counters().total();
    assert_eq!(
        i128::from(link.backlog().segments),
        total.unaccounted_segments()
    );
    let percentiles = |waits: &mut Vec<u64>| {
        waits.sort_unstable();
        [0.5, 0.99].map(|part| waits[(waits.len() as f64 * part) as usize] as f64 / 1e6)
    };
    let waits_ms = waits.lock().unwrap().each_mut().map(percentiles);
    Outcome {
        mbit_per_s: flows
            .each_ref()
            .map(|flow| flow.delivered_bytes as f64 * 8e3 / UNTIL_NS as f64),
        waits_ms,
        marks: flows.each_ref().map(|flow| flow.marks),
        drops,
        first_ms,
    }
}

fn dual(delay: DelayEstimate) -> DualPi2 {
    let settings = DualPi2Settings {
        delay,
        ..DualPi2Settings::default()
    };
    DualPi2::new(settings, LIMIT, Unit::Packet)
}

fn codel(ce_threshold_ns: Option<u64>) -> CodelSettings {
    CodelSettings {
        ecn: true,
        ce_threshold_ns,
        ..CodelSettings::default()
    }
}

fn fq_codel(ce_threshold_ns: Option<u64>) -> FqCodel {
    let settings = FqCodelSettings {
        codel: codel(ce_threshold_ns),
        ..FqCodelSettings::default()
    };
    FqCodel::new(settings, LIMIT, Unit::Packet, RandomStream::new(1, 1))
}

#[test]
fn a_scalable_and_a_cubic_flow_share_a_radio_with_marks_before_drops() {
    let found = outcome(dual(DelayEstimate::Predicted(12_500_000)));
    println!("dualpi2, predicted {found:?}");
    let [first_mark, first_drop] = found.first_ms;
    assert!(first_drop.is_none_or(|at_ms| first_mark.is_some_and(|mark_ms| mark_ms < at_ms)));
    assert_eq!(found.drops[1], 0, "{found:?}");
    assert!(found.marks.iter().all(|&marks| marks > 50), "{found:?}");
    assert!((0.35..=0.65).contains(&found.share()), "{found:?}");
    assert!(found.waits_ms[0][1] <= 10.0, "{found:?}");
}

#[test]
fn other_queues_lack_the_short_wait_or_the_fair_share_of_a_scalable_flow() {
    let fq_codel = [None, Some(MS)].map(|threshold_ns| outcome(fq_codel(threshold_ns)));
    let codel = outcome(Codel::new(codel(Some(MS)), LIMIT, Unit::Packet));
    let droptail = outcome(DropTail::new(LIMIT, Unit::Packet));
    println!("fq_codel {fq_codel:?}\ncodel, 1 ms {codel:?}\ndroptail {droptail:?}");
    println!(
        "dualpi2, measured {:?}",
        outcome(dual(DelayEstimate::Measured))
    );
    assert!(fq_codel[0].waits_ms[0][1] > 10.0, "{fq_codel:?}");
    assert!(fq_codel[1].waits_ms[0][1] <= 10.0, "{fq_codel:?}");
    assert!(codel.share() < 0.35, "{codel:?}");
    assert!(droptail.waits_ms[0][0] > 100.0, "{droptail:?}");
    assert_eq!(droptail.marks, [0, 0]);
}
