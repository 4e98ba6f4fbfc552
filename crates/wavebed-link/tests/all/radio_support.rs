//! Common code of the radio tests: a plain link, and its driver. Each test changes one setting.

use std::sync::Arc;

use wavebed_link::pattern::{End, Pattern};
use wavebed_link::queue::Infinite;
use wavebed_link::radio::{
    Air, BlockRecord, Carriers, Code, Direction, Handover, Harq, Radio, RadioConfig, Rlc, Slots,
};
use wavebed_link::{Ecn, LinkCounters, Outlet, RandomStream, Reason, Run, RunFlags, Stage, Unit};

pub const SLOT_NS: u64 = 125_000;
pub const DECODE_NS: u64 = 25_000;
/// 12 000 bytes a slot: eight segments of 1500.
pub const RATE_BPS: u64 = 768_000_000;
pub const SLOT_BYTES: u64 = 12_000;

/// FDD slots of 125 µs with nothing else on.
pub fn slots() -> Slots {
    Slots {
        slot_ns: SLOT_NS,
        own_symbols: vec![14],
        other_symbols: vec![14],
        prepare_ns: 0,
        decode_ns: DECODE_NS,
        code: Code::Ldpc,
        harq: None,
    }
}

/// A retransmission four slots after a failure, three transmissions in all, no combining.
pub fn harq() -> Harq {
    Harq {
        processes: 8,
        feedback_slots: 2,
        schedule_slots: 2,
        limit: 3,
        combining_gain_db: 0.0,
        slope_per_db: 0.0,
        ack_loss: 0.0,
        nack_loss: 0.0,
    }
}

/// A downlink with every part off.
pub fn plain() -> RadioConfig {
    RadioConfig {
        direction: Direction::Down,
        carriers: Carriers {
            primary: slots(),
            fallback: None,
        },
        overhead_bytes: 0,
        discard_ns: None,
        rlc: Rlc::Unacknowledged,
        reordering: None,
        grants: None,
        handover: Handover::Forward,
        load: None,
        aggregation: None,
        power: None,
    }
}

/// `rows` are lines of `time_s,rate_bps,bler,state`.
pub fn air(duration_s: &str, rows: &[&str]) -> Air {
    played(pattern(duration_s, "rate_bps,bler,state", rows), None)
}

/// `rows` are lines of `time_s,rate_bps,sinr_db,need_db`.
pub fn sinr_air(duration_s: &str, rows: &[&str]) -> Air {
    played(pattern(duration_s, "rate_bps,sinr_db,need_db", rows), None)
}

/// `rows` are lines of `time_s` and these columns.
pub fn pattern(duration_s: &str, columns: &str, rows: &[&str]) -> Arc<Pattern> {
    let text = format!(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = {duration_s}\ntime_s,{columns}\n{}\n",
        rows.join("\n")
    );
    Arc::new(Pattern::parse(&text).unwrap_or_else(|error| panic!("{error}")))
}

pub fn played(pattern: Arc<Pattern>, bler: Option<f64>) -> Air {
    Air::pattern(pattern, End::Repeat, 0, 0, bler).expect("it has rates")
}

pub fn radio(config: RadioConfig, air: Air) -> Radio {
    radio_with_seed(config, air, 1)
}

pub fn radio_with_seed(config: RadioConfig, air: Air, seed: u64) -> Radio {
    let queue = Box::new(Infinite::new(Unit::Packet));
    let mut radio = Radio::new(config, air, queue, None, RandomStream::new(seed, 0));
    radio.log_blocks();
    radio
}

/// A segment of 1500 bytes.
pub fn segment(at_ns: u64, packet: u32) -> Run {
    sized(at_ns, packet, 1500)
}

pub fn sized(at_ns: u64, packet: u32, bytes: u16) -> Run {
    Run {
        at_ns,
        packet,
        first: 0,
        count: 1,
        segment_bytes: bytes,
        last_bytes: bytes,
        flow: 0,
        flip: 0,
        ecn: Ecn::NotEct,
        flags: RunFlags::default(),
    }
}

/// `count` segments that arrive at once.
pub fn burst(at_ns: u64, count: u32) -> Vec<Run> {
    (0..count).map(|packet| segment(at_ns, packet)).collect()
}

/// The outcome for the segments.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packet and time, in order.
    pub delivered: Vec<(u32, u64)>,
    /// Packet and time.
    pub lost: Vec<(u32, u64)>,
    pub counters: LinkCounters,
    pub blocks: Vec<BlockRecord>,
}

impl Outcome {
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.counters.total().dropped[reason as usize].segments
    }

    /// When `packet` was delivered.
    pub fn of(&self, packet: u32) -> u64 {
        let found = self.delivered.iter().find(|&&(other, _)| other == packet);
        found
            .unwrap_or_else(|| panic!("{packet} was not delivered: {self:?}"))
            .1
    }
}

/// Drives `radio` through `arrivals` and on to `until_ns`.
pub fn drive(radio: &mut Radio, arrivals: &[Run], until_ns: u64) -> Outcome {
    let outcome = run(radio, arrivals, until_ns);
    Outcome {
        blocks: radio.take_blocks(),
        ..outcome
    }
}

/// Drives a stage through `arrivals` and on to `until_ns`; records no blocks.
pub fn run(radio: &mut impl Stage, arrivals: &[Run], until_ns: u64) -> Outcome {
    let (mut delivered, mut lost, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    let mut counters = LinkCounters::new(false);
    let mut out = Outlet::new(&mut delivered, &mut lost, &mut copied, &mut counters);
    for &run in arrivals {
        radio.poll(run.at_ns, &mut out);
        radio.accept(run, &mut out);
    }
    radio.poll(until_ns, &mut out);
    let times = |runs: &[Run]| runs.iter().map(|run| (run.packet, run.at_ns)).collect();
    Outcome {
        delivered: times(&delivered),
        lost: times(&lost),
        counters,
        blocks: Vec::new(),
    }
}

/// The end of slot `index`, decoded.
pub const fn decoded(index: u64) -> u64 {
    (index + 1) * SLOT_NS + DECODE_NS
}
