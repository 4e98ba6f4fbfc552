//! The description of one direction.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path as File, PathBuf};
use std::sync::Arc;

use super::presets;
use crate::bottleneck::Outage;
use crate::config::{
    ConfigError, DelayConfig, LossConfig, QueueConfig, RateConfig, StageConfig, build,
};
use crate::pattern::{End, Kind, Pattern, PatternError};
use crate::radio::Direction;
use crate::random_stream::RandomStream;
use crate::unit::Unit;

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
    /// That of a pattern.
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

    /// Adds a radio with the settings of a preset ([`preset_names`](super::preset_names)): slots, HARQ, RLC, and the
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
        let stage = presets::stage(preset, direction, &rate)?;
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
