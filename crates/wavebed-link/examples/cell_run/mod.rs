//! One direction of a cell in virtual time, from a JSON text: what each device got. `benches/cell.py` writes such texts,
//! and the tests read some.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wavebed_link::config::{
    Member, SchedulerConfig, ServiceConfig, Shared, StageConfig, build_cell, build_shared,
};
use wavebed_link::pattern::Pattern;
use wavebed_link::radio::Cell;
use wavebed_link::{Ecn, Link, RandomStream, Reason, Run, RunFlags};

/// A cell, its devices and how long they run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub seed: u64,
    /// Traffic ends here.
    pub duration_ns: u64,
    /// Air time, bytes and delays count from here on.
    #[serde(default)]
    pub from_ns: u64,
    pub scheduler: SchedulerConfig,
    pub devices: Vec<DeviceCase>,
    /// The text of each pattern that a stage names.
    #[serde(default)]
    pub patterns: BTreeMap<String, String>,
    /// Whether blocks are recorded, for the air time.
    #[serde(default)]
    pub blocks: bool,
    /// Least time between two polls. Results do not depend on it, but for full buffers, which are filled then.
    #[serde(default)]
    pub step_ns: u64,
    /// The only device without a cell: its radio is a stage of its link.
    #[serde(default)]
    pub alone: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCase {
    /// The number of devices like this.
    #[serde(default = "one")]
    pub count: usize,
    pub stages: Vec<StageConfig>,
    #[serde(default)]
    pub service: Option<ServiceConfig>,
    pub traffic: Traffic,
}

const fn one() -> usize {
    1
}

/// What a device is sent, or sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// Packets of `bytes`, so that `keep_bytes` are always in the link.
    Full { bytes: u16, keep_bytes: u64 },
    /// Packets at these times, in order; their delays are reported.
    Times { bytes: u16, at_ns: Vec<u64> },
    /// Packets at irregular times: gaps evenly distributed from 0 to twice `gap_ns`, in `flows` flows; one in two is
    /// ECT(1).
    Random { bytes: u16, gap_ns: u64, flows: u32 },
}

/// What came of a case.
#[derive(Debug)]
pub struct Outcome {
    pub devices: Vec<DeviceOutcome>,
    /// Events that were handled.
    pub events: u64,
}

#[derive(Debug, Default)]
pub struct DeviceOutcome {
    pub offered: u64,
    pub delivered: u64,
    pub dropped: BTreeMap<&'static str, u64>,
    /// Segments in the link at the end.
    pub left: u64,
    pub marked: u64,
    pub blocks: u64,
    pub blocks_failed: u64,
    /// From `from_ns` to the end of the traffic.
    pub bytes: u64,
    /// Time of the slots' parts that it was given, retransmissions included.
    pub air_ns: f64,
    /// Delays of the packets of `times`, in their order; null: not delivered.
    pub delays_ns: Vec<Option<u64>>,
}

impl DeviceOutcome {
    /// Segments that are neither delivered, nor dropped, nor in the link.
    pub fn unaccounted(&self) -> i128 {
        let dropped: u64 = self.dropped.values().sum();
        i128::from(self.offered)
            - i128::from(self.delivered)
            - i128::from(dropped)
            - i128::from(self.left)
    }

    pub fn json(&self) -> Value {
        json!({
            "offered": self.offered, "delivered": self.delivered, "dropped": self.dropped, "left": self.left,
            "marked": self.marked, "unaccounted": i64::try_from(self.unaccounted()).unwrap_or(i64::MAX),
            "blocks": self.blocks, "blocks_failed": self.blocks_failed, "bytes": self.bytes, "air_ns": self.air_ns,
            "delays_ns": self.delays_ns,
        })
    }
}

/// A device while it runs.
struct Device {
    link: Link,
    traffic: Traffic,
    random: RandomStream,
    number: u32,
    /// The next packet of `times` or `random`.
    next_ns: u64,
    sent_ns: Vec<u64>,
    outcome: DeviceOutcome,
    /// The rate of each recent block when it was first sent.
    first_rate: BTreeMap<u64, u64>,
}

/// Runs the case; `drain`: until nothing is left.
pub fn run(case: &Case, drain: bool) -> Result<Outcome, String> {
    let (cell, mut devices) = build(case)?;
    let mut delivered = Vec::new();
    let mut events = 0;
    let mut now_ns = 0;
    loop {
        offer(&mut devices, now_ns, case.duration_ns);
        events += 1;
        for device in &mut devices {
            device.link.poll_to_port(now_ns);
        }
        if let Some(cell) = &cell {
            cell.advance(now_ns);
        }
        for device in &mut devices {
            device.link.poll(now_ns, &mut delivered);
            device.collect(&mut delivered, case);
        }
        let links = devices
            .iter()
            .filter_map(|device| device.link.next_event_ns());
        let arrivals = devices.iter().map(|device| device.next_ns);
        let shared = cell.as_ref().and_then(Cell::next_event_ns);
        let next = links.chain(arrivals).chain(shared).min();
        let refill = devices
            .iter()
            .any(|device| now_ns < case.duration_ns && device.lacks() > 0);
        match next {
            _ if refill => {}
            Some(next_ns) if next_ns < u64::MAX && (drain || next_ns < case.duration_ns) => {
                now_ns = next_ns.max(now_ns + case.step_ns);
            }
            _ => break,
        }
    }
    for device in &mut devices {
        device.finish();
    }
    let devices = devices.into_iter().map(|device| device.outcome).collect();
    Ok(Outcome { devices, events })
}

fn build(case: &Case) -> Result<(Option<Cell>, Vec<Device>), String> {
    let mut patterns: BTreeMap<&str, Arc<Pattern>> = BTreeMap::new();
    for (name, text) in &case.patterns {
        let pattern = Pattern::parse(text).map_err(|error| format!("{name}: {error}"))?;
        patterns.insert(name, Arc::new(pattern));
    }
    let mut load = |file: &Path| {
        let name = file.to_str().unwrap_or_default();
        let found = patterns.get(name).map(Arc::clone);
        found.ok_or_else(|| format!("{name}: no such pattern"))
    };
    if let ([only], true) = (&case.devices[..], case.alone) {
        let mut shared = Shared::default();
        let stages = (1u64 << 16..).zip(&only.stages).map(|(place, stage)| {
            let random = RandomStream::new(case.seed, place);
            build_shared(stage, 1500, random, &mut load, &mut shared)
                .map_err(|error| error.to_string())
        });
        let stages = stages.collect::<Result<Vec<_>, String>>()?;
        let device = Device::new(
            Link::new(stages, false),
            only,
            RandomStream::new(case.seed, 1),
        );
        return Ok((None, vec![device]));
    }
    let all = case.devices.iter();
    let all = all.flat_map(|device| std::iter::repeat_n(device, device.count));
    let mut shared: Vec<Shared> = all.clone().map(|_| Shared::default()).collect();
    let members = (1u64..).zip(all.clone().zip(&mut shared));
    let members = members.map(|(number, (device, shared))| Member {
        stages: &device.stages,
        service: device.service.as_ref(),
        shared,
        random: (case.seed, number << 16),
    });
    let (cell, stages) = build_cell(&case.scheduler, &[], members.collect(), 1500, &mut load)
        .map_err(|(place, error)| format!("device {place:?}: {error}"))?;
    let devices = (1u64..).zip(stages).zip(all);
    let devices = devices.map(|((number, stages), device)| {
        let mut link = Link::new(stages, false);
        if case.blocks {
            link.log_packets();
        }
        Device::new(link, device, RandomStream::new(case.seed, number))
    });
    Ok((Some(cell), devices.collect()))
}

/// Sends what is due up to `now_ns`, in order of times.
fn offer(devices: &mut [Device], now_ns: u64, end_ns: u64) {
    for device in devices.iter_mut() {
        while device.next_ns <= now_ns {
            if device.next_ns >= end_ns {
                device.next_ns = u64::MAX;
                break;
            }
            device.send_next();
        }
        if now_ns < end_ns {
            device.refill(now_ns);
        }
    }
}

impl Device {
    fn new(link: Link, device: &DeviceCase, random: RandomStream) -> Self {
        let (next_ns, packets) = match &device.traffic {
            Traffic::Full { .. } => (u64::MAX, 0),
            Traffic::Times { at_ns, .. } => {
                (at_ns.first().copied().unwrap_or(u64::MAX), at_ns.len())
            }
            Traffic::Random { gap_ns, .. } => (random.word(0) % (2 * gap_ns + 1), 0),
        };
        let outcome = DeviceOutcome {
            delays_ns: vec![None; packets],
            ..DeviceOutcome::default()
        };
        Self {
            link,
            traffic: device.traffic.clone(),
            random,
            number: 0,
            next_ns,
            sent_ns: Vec::new(),
            outcome,
            first_rate: BTreeMap::new(),
        }
    }

    /// Segments that a full buffer lacks.
    fn lacks(&self) -> u64 {
        let Traffic::Full { bytes, keep_bytes } = self.traffic else {
            return 0;
        };
        let counts = self.link.counters().total();
        let inside = counts.offered.bytes - counts.delivered.bytes - counts.dropped_total().bytes;
        keep_bytes.saturating_sub(inside) / u64::from(bytes)
    }

    fn refill(&mut self, now_ns: u64) {
        while let lacks @ 1.. = self.lacks() {
            let Traffic::Full { bytes, .. } = self.traffic else {
                return;
            };
            let count = u16::try_from(lacks.min(40)).unwrap_or(1);
            self.send(now_ns, bytes, count, 0, Ecn::NotEct);
        }
    }

    fn send_next(&mut self) {
        let at_ns = self.next_ns;
        let number = self.number;
        match &self.traffic {
            Traffic::Full { .. } => (),
            Traffic::Times {
                bytes,
                at_ns: times,
            } => {
                let bytes = *bytes;
                self.next_ns = times.get(number as usize + 1).copied().unwrap_or(u64::MAX);
                self.sent_ns.push(at_ns);
                self.send(at_ns, bytes, 1, 0, Ecn::NotEct);
            }
            Traffic::Random {
                bytes,
                gap_ns,
                flows,
            } => {
                let word = self.random.word(u64::from(number) + 1);
                let (bytes, flows) = (*bytes, *flows);
                self.next_ns += word % (2 * gap_ns + 1);
                let flow = u32::try_from(word >> 40).unwrap_or(0) % flows.max(1);
                let ecn = if word >> 63 == 1 {
                    Ecn::Ect1
                } else {
                    Ecn::NotEct
                };
                self.send(at_ns, bytes, 1, flow, ecn);
            }
        }
    }

    fn send(&mut self, at_ns: u64, bytes: u16, count: u16, flow: u32, ecn: Ecn) {
        self.link.accept(Run {
            at_ns,
            packet: self.number,
            first: 0,
            count,
            segment_bytes: bytes,
            last_bytes: bytes,
            flow,
            flip: 0,
            ecn,
            flags: RunFlags::default(),
        });
        self.number = self.number.wrapping_add(1);
    }

    /// Counts what left.
    fn collect(&mut self, delivered: &mut Vec<Run>, case: &Case) {
        for run in delivered.drain(..) {
            if (case.from_ns..case.duration_ns).contains(&run.at_ns) {
                self.outcome.bytes += run.bytes();
            }
            if let Some(sent_ns) = self.sent_ns.get(run.packet as usize) {
                self.outcome.delays_ns[run.packet as usize] = Some(run.at_ns - sent_ns);
            }
        }
        let _ = self.link.take_lost();
        let _ = self.link.take_copied();
        if case.blocks {
            self.count_air(case);
        }
    }

    /// Air time of the blocks since the last call: their part of what a slot carries.
    fn count_air(&mut self, case: &Case) {
        let Some(log) = self.link.packet_log() else {
            return;
        };
        let _ = log.take_entries();
        for block in log.take_blocks() {
            let start_ns = block.slot.start_ns;
            if block.attempt == 1 {
                self.first_rate.insert(block.number, block.rate_bps);
                while self.first_rate.len() > 1000 {
                    self.first_rate.pop_first();
                }
            }
            let Some(&rate_bps) = self.first_rate.get(&block.number) else {
                continue;
            };
            if (case.from_ns..case.duration_ns).contains(&start_ns) && rate_bps > 0 {
                self.outcome.air_ns += block.bytes as f64 * 8e9 / rate_bps as f64;
            }
        }
    }

    fn finish(&mut self) {
        let counts = self.link.counters().total();
        let outcome = &mut self.outcome;
        outcome.offered = counts.offered.segments;
        outcome.delivered = counts.delivered.segments;
        for reason in Reason::ALL {
            let segments = counts.dropped[reason as usize].segments;
            if segments > 0 {
                outcome.dropped.insert(reason.name(), segments);
            }
        }
        outcome.left = self.link.backlog().segments;
        outcome.marked = counts.marked.segments;
        outcome.blocks = counts.blocks_sent;
        outcome.blocks_failed = counts.blocks_failed;
    }
}
