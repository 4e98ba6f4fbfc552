//! One direction that runs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fmt::Display;
use std::path::{Path as File, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::bottleneck::Outage;
use crate::config::{
    ConfigError, DelayConfig, LossConfig, QueueConfig, RateConfig, StageConfig, build,
};
use crate::counters::{Counts, Reason};
use crate::link::Link;
use crate::pattern::{End, Kind, Pattern, PatternError};
use crate::radio::Direction;
use crate::random_stream::RandomStream;
use crate::run::{Backlog, Ecn, Run, RunFlags};
use crate::stage::{Change, Conditions, Unit};

/// A packet that is offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// IP bytes, headers included; at least 1.
    pub bytes: u16,
    /// Any number that packets of one flow have in common, for fair queueing.
    pub flow: u32,
    /// The ECN field.
    pub ecn: Ecn,
}

impl Packet {
    /// A packet of this many IP bytes of flow 0 that is not ECN-capable.
    #[must_use]
    pub const fn new(bytes: u16) -> Self {
        Self {
            bytes,
            flow: 0,
            ecn: Ecn::NotEct,
        }
    }

    /// The packet as one of this flow.
    #[must_use]
    pub const fn of_flow(self, flow: u32) -> Self {
        Self { flow, ..self }
    }

    /// The packet with this ECN field.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

/// How a packet left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// At the far end.
    Delivered,
    /// Dropped.
    Dropped(Reason),
}

/// A packet that left a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// When, nanoseconds of virtual time.
    pub at_ns: u64,
    /// How.
    pub fate: Fate,
    /// The packet; its ECN field may have become [`Ecn::Ce`].
    pub packet: Packet,
    /// The bit that a link with bit errors has flipped, counted from the first bit on the wire.
    pub flipped_bit: Option<u32>,
    /// What was offered with it.
    pub content: T,
}

/// One direction in virtual time. `T` belongs to a packet and leaves with it; a copy that the link makes of a packet
/// gets a clone.
pub struct SimLink<T> {
    link: Link,
    contents: Contents<T>,
    departures: VecDeque<Departure<T>>,
    delivered: Vec<Run>,
    now_ns: u64,
    /// Whether everything up to `now_ns` was polled.
    is_polled: bool,
}

impl<T> fmt::Debug for SimLink<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SimLink")
            .field("now_ns", &self.now_ns)
            .field("backlog", &self.link.backlog())
            .finish_non_exhaustive()
    }
}

impl<T: Clone> SimLink<T> {
    pub(super) fn of(link: Link) -> Self {
        Self {
            link,
            contents: Contents::new(),
            departures: VecDeque::new(),
            delivered: Vec::new(),
            now_ns: 0,
            is_polled: false,
        }
    }

    /// Offers `packet` at `now_ns`. A time before an earlier call counts as the time of that call.
    pub fn send(&mut self, now_ns: u64, packet: Packet, content: T) {
        self.now_ns = self.now_ns.max(now_ns);
        self.is_polled = false;
        let bytes = packet.bytes.max(1);
        self.link.accept(Run {
            at_ns: self.now_ns,
            packet: self.contents.keep(content),
            first: 0,
            count: 1,
            segment_bytes: bytes,
            last_bytes: bytes,
            flow: packet.flow,
            flip: 0,
            ecn: packet.ecn,
            flags: RunFlags::default(),
        });
    }

    /// The next packet that left up to and including `now_ns`, the earliest first; call it until `None`. A time before
    /// an earlier call counts as the time of that call.
    pub fn poll(&mut self, now_ns: u64) -> Option<Departure<T>> {
        if now_ns > self.now_ns {
            self.now_ns = now_ns;
            self.is_polled = false;
        }
        if !self.is_polled {
            self.is_polled = true;
            self.advance();
        }
        self.departures.pop_front()
    }

    /// When to poll next, if nothing else is offered; `None`: nothing is in the link. Never later than the next
    /// departure.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let left = self.departures.front().map(|_| self.now_ns);
        let dropped = self.link.has_lost().then_some(self.now_ns);
        left.or(dropped).or_else(|| self.link.next_event_ns())
    }

    /// Packets in the link, and their bytes.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.link.backlog()
    }

    /// Packets offered, delivered, marked, and dropped by reason so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        self.link.counters().total()
    }

    /// Rate, delay, loss and radio state at the time of the last call.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        self.link.conditions(self.now_ns)
    }

    /// Applies a live change at `now_ns`. False if it concerns no part of the link.
    pub fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        self.now_ns = self.now_ns.max(now_ns);
        self.advance();
        self.is_polled = false;
        self.link.apply(self.now_ns, change)
    }

    /// Processes everything up to `now_ns`.
    fn advance(&mut self) {
        self.link.poll(self.now_ns, &mut self.delivered);
        for run in self.link.take_copied() {
            self.contents.retain(run.packet);
        }
        let known = self.departures.len();
        for run in self.delivered.drain(..) {
            let content = self.contents.take(run.packet);
            self.departures
                .push_back(departure(&run, Fate::Delivered, content));
        }
        let delivered = self.departures.len();
        for (run, reason) in self.link.take_lost_with_reasons() {
            let content = self.contents.take(run.packet);
            self.departures
                .push_back(departure(&run, Fate::Dropped(reason), content));
        }
        if self.departures.len() > delivered {
            self.departures.make_contiguous()[known..].sort_by_key(|left| left.at_ns);
        }
    }
}

const fn departure<T>(run: &Run, fate: Fate, content: T) -> Departure<T> {
    Departure {
        at_ns: run.at_ns,
        fate,
        packet: Packet {
            bytes: run.last_bytes,
            flow: run.flow,
            ecn: run.ecn,
        },
        flipped_bit: run.flipped_bit(),
        content,
    }
}

/// What belongs to the packets in a link, by their keys.
struct Contents<T> {
    kept: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

impl<T: Clone> Contents<T> {
    const fn new() -> Self {
        Self {
            kept: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Keeps `content` and returns its key.
    fn keep(&mut self, content: T) -> u32 {
        if let Some(key) = self.free.pop() {
            self.kept[key as usize] = Some((content, 1));
            return key;
        }
        let key = u32::try_from(self.kept.len()).expect("fewer packets than memory holds");
        self.kept.push(Some((content, 1)));
        key
    }

    /// Counts one more packet with this content.
    fn retain(&mut self, key: u32) {
        if let Some((_, count)) = &mut self.kept[key as usize] {
            *count += 1;
        }
    }

    /// The content of a packet that leaves.
    fn take(&mut self, key: u32) -> T {
        let place = &mut self.kept[key as usize];
        if let Some((content, count)) = place
            && *count > 1
        {
            *count -= 1;
            return content.clone();
        }
        self.free.push(key);
        let (content, _) = place.take().expect("a packet leaves once");
        content
    }
}

/// A description that breaks a rule, or a file that cannot be read: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The error of the stage with this number, from 0.
    pub(super) fn at(place: u64, error: &ConfigError) -> Self {
        Self(format!("stage {}: {error}", place + 1))
    }
}

impl From<PatternError> for SpecError {
    fn from(error: PatternError) -> Self {
        Self(format!("a pattern: {error}"))
    }
}

/// Reads a pattern file by its name. The error is one line without the name.
pub type Load<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// The rate of a link over time.
#[derive(Clone, Debug)]
pub enum Rate {
    /// Always the same.
    Constant {
        /// Bits per second, more than 0.
        rate_bps: u64,
    },
    /// The rate of a pattern.
    Pattern {
        /// The pattern.
        pattern: Arc<Pattern>,
        /// Behaviour after its end.
        end: End,
        /// Its position at time 0, nanoseconds.
        start_ns: u64,
    },
}

impl Rate {
    /// A constant rate, bits per second.
    #[must_use]
    pub const fn constant(rate_bps: u64) -> Self {
        Self::Constant { rate_bps }
    }

    /// The rate of a pattern that is repeated.
    #[must_use]
    pub fn repeated(pattern: impl Into<Arc<Pattern>>) -> Self {
        Self::Pattern {
            pattern: pattern.into(),
            end: End::Repeat,
            start_ns: 0,
        }
    }
}

/// One direction: what packets pass, in order.
#[derive(Clone, Debug, Default)]
pub struct LinkSpec {
    stages: Vec<StageConfig>,
    patterns: BTreeMap<PathBuf, Arc<Pattern>>,
}

impl LinkSpec {
    /// A link that delivers everything at once.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The stages in `text`, a JSON array as `down` and `up` of a trial that `wavebed resolve` writes; `load` reads the
    /// pattern files that they name.
    ///
    /// # Errors
    /// The first key that is missing, is of another type or breaks a rule.
    pub fn from_json(text: &str, load: &mut Load<'_>) -> Result<Self, SpecError> {
        let stages = serde_json::from_str(text)
            .map_err(|error| SpecError::new(format!("stages: {error}")))?;
        let mut read = |name: &File| read_pattern(name, load).map(Arc::new);
        Self::of_stages(stages, &mut read)
    }

    /// The link with these stages, after a check of their values.
    pub(super) fn of_stages(
        stages: Vec<StageConfig>,
        load: &mut dyn FnMut(&File) -> Result<Arc<Pattern>, String>,
    ) -> Result<Self, SpecError> {
        let mut patterns = BTreeMap::new();
        for (place, stage) in (0..).zip(&stages) {
            let mut read = |name: &File| {
                let pattern = match patterns.get(name) {
                    Some(pattern) => Arc::clone(pattern),
                    None => load(name)?,
                };
                patterns.insert(name.to_owned(), Arc::clone(&pattern));
                Ok(pattern)
            };
            build(stage, RandomStream::new(0, 0), &mut read)
                .map_err(|error| SpecError::at(place, &error))?;
        }
        Ok(Self { stages, patterns })
    }

    /// Adds a queue and a server with this rate; a pattern of opportunities is served as such.
    #[must_use]
    pub fn bottleneck(mut self, rate: Rate, queue: QueueConfig) -> Self {
        let rate = self.named(rate);
        self.stage(StageConfig::Bottleneck {
            rate,
            queue,
            overhead_bytes: 0,
            unit: Unit::Packet,
            outage: Outage::Hold,
        })
    }

    /// Adds a radio with the settings of a preset ([`preset_names`]): slots, HARQ, RLC, and the
    /// grants of the uplink, each as wavebed has it by default.
    ///
    /// # Errors
    /// If there is no such preset.
    pub fn radio(
        mut self,
        preset: &str,
        direction: Direction,
        rate: Rate,
    ) -> Result<Self, SpecError> {
        let rate = self.named(rate);
        let stage = stage(preset, direction, &rate)?;
        Ok(self.stage(stage))
    }

    /// Adds the radio of a pattern that `wavebed channel` wrote: its header names preset and direction. The pattern is
    /// repeated.
    ///
    /// # Errors
    /// If the header names none, or an unknown one.
    pub fn radio_of(self, pattern: impl Into<Arc<Pattern>>) -> Result<Self, SpecError> {
        let pattern = pattern.into();
        let header = |key: &str| {
            let found = pattern.headers().iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone()).ok_or_else(|| {
                SpecError::new(format!(
                    "the pattern has no header key '{key}': take one of wavebed channel, or name preset and direction"
                ))
            })
        };
        let preset = header("radio")?;
        let direction = match header("direction")?.as_str() {
            "down" => Direction::Down,
            "up" => Direction::Up,
            other => {
                return Err(SpecError::new(format!(
                    "the pattern's direction is '{other}': use down or up"
                )));
            }
        };
        self.radio(&preset, direction, Rate::repeated(pattern))
    }

    /// Adds a constant delay.
    #[must_use]
    pub fn delay_ns(self, delay_ns: u64) -> Self {
        self.stage(StageConfig::Delay {
            delay: DelayConfig::Constant { delay_ns },
            reorder: false,
            limit_packets: None,
        })
    }

    /// Adds independent losses with this probability.
    #[must_use]
    pub fn loss(self, probability: f64) -> Self {
        self.stage(StageConfig::Loss {
            model: LossConfig::Independent { probability },
            unit: Unit::Packet,
        })
    }

    /// Adds any stage. A pattern file that it names must be given to [`LinkSpec::with_pattern`].
    #[must_use]
    pub fn stage(mut self, stage: StageConfig) -> Self {
        self.stages.push(stage);
        self
    }

    /// The pattern that stages name as `file`.
    #[must_use]
    pub fn with_pattern(
        mut self,
        file: impl Into<PathBuf>,
        pattern: impl Into<Arc<Pattern>>,
    ) -> Self {
        self.patterns.insert(file.into(), pattern.into());
        self
    }

    /// Its stages, in the order in which packets pass them.
    #[must_use]
    pub fn stages(&self) -> &[StageConfig] {
        &self.stages
    }

    pub(super) fn pattern(&self, file: &File) -> Result<Arc<Pattern>, String> {
        let found = self.patterns.get(file).map(Arc::clone);
        found.ok_or_else(|| {
            format!(
                "{}: no such pattern: give it by with_pattern",
                file.display()
            )
        })
    }

    /// The rate as a stage has it; its pattern is kept under a name.
    fn named(&mut self, rate: Rate) -> RateConfig {
        let (pattern, end, start_ns) = match rate {
            Rate::Constant { rate_bps } => return RateConfig::Constant { rate_bps },
            Rate::Pattern {
                pattern,
                end,
                start_ns,
            } => (pattern, end, start_ns),
        };
        let kind = pattern.kind();
        let file = PathBuf::from(format!("pattern {}", self.patterns.len() + 1));
        self.patterns.insert(file.clone(), pattern);
        if kind == Kind::Opportunities {
            RateConfig::Opportunities {
                file,
                end,
                start_ns,
            }
        } else {
            RateConfig::Pattern {
                file,
                end,
                start_ns,
            }
        }
    }
}

/// Reads a pattern; the error is one line with its name.
pub(super) fn read_pattern(name: &File, load: &mut Load<'_>) -> Result<Pattern, String> {
    let in_file = |error: &dyn Display| format!("{}: {error}", name.display());
    let text = name.to_str().ok_or_else(|| in_file(&"is not UTF-8"))?;
    let bytes = load(text).map_err(|error| in_file(&error))?;
    Pattern::parse_bytes(&bytes).map_err(|error| in_file(&error))
}

/// The stages of each preset by direction, without their rate: `python -m wavebed.radio.presets` writes it.
const PRESETS: &str = include_str!("presets.json");

fn presets() -> Map<String, Value> {
    serde_json::from_str(PRESETS).expect("a test reads it")
}

/// The names of the radio presets, such as `nr-120khz`.
#[must_use]
pub fn preset_names() -> Vec<String> {
    presets().into_iter().map(|(name, _)| name).collect()
}

/// The stage of a preset with this rate.
pub(super) fn stage(
    preset: &str,
    direction: Direction,
    rate: &RateConfig,
) -> Result<StageConfig, SpecError> {
    let side = match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    };
    let mut known = presets();
    let Some(mut stage) = known.get_mut(preset).map(|preset| preset[side].take()) else {
        let names = known.into_iter().map(|(name, _)| name);
        return Err(SpecError::new(format!(
            "no radio preset '{preset}': use {}",
            names.collect::<Vec<String>>().join(", ")
        )));
    };
    stage["rate"] = rate_json(rate)?;
    serde_json::from_value(stage).map_err(|error| SpecError::new(error.to_string()))
}

fn rate_json(rate: &RateConfig) -> Result<Value, SpecError> {
    match rate {
        RateConfig::Constant { rate_bps } => Ok(json!({"kind": "constant", "rate_bps": rate_bps})),
        RateConfig::Pattern {
            file,
            end,
            start_ns,
        } => Ok(json!({"kind": "pattern", "file": file, "end": end, "start_ns": start_ns})),
        _ => Err(SpecError::new(
            "the rate of a radio: use a constant or a pattern of kind steps",
        )),
    }
}
