//! The specification of a link: its stages with their types, bounds, defaults and documentation, declared once.
//!
//! [`schemars`] makes their JSON Schema, from which the program in Python builds its own types. Its users read the
//! documentation of a field. [`build`] checks the bounds ([`garde`]) and what ties values together. It reads the patterns
//! and builds the stage. See `docs/development/laboratory-file.md`.

mod cell;
mod radio;
mod values;

use std::path::Path;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

pub use cell::{
    BackgroundConfig, BuiltCell, CellError, Member, Policy, SchedulerConfig, ServiceConfig,
    SliceConfig, TrafficConfig, build_cell,
};
pub use radio::{RadioKeys, Shared, WifiConfig};
pub use values::{
    ConfigError, DelayConfig, Loader, LossConfig, QueueConfig, RateConfig, check_bounds,
};

use crate::bottleneck::{Bottleneck, BottleneckConfig, Outage};
use crate::delay::{Delay, Distribution};
use crate::impairment::{Corrupt, Duplicate, Reorder};
use crate::loss::{FourState, GilbertElliott, Loss};
use crate::pattern::End;
use crate::queue::{DropTail, Limit};
use crate::random_stream::RandomStream;
use crate::rate::{
    Fluid, Opportunities, Packets, Profile, Sampled, SampledConfig, Server, TokenBucket, at_rate,
};
use crate::stage::{MAX_OVERHEAD_BYTES, MAX_TIME_NS, Stage, Unit};
use values::{MAX_LIMIT_PACKETS, fail, lacks, load, number, queue_of};

/// One stage of a link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[garde(allow_unvalidated)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Stage")]
pub enum StageConfig {
    /// A queue and a server.
    Bottleneck {
        /// The server.
        #[garde(dive)]
        rate: RateConfig,
        /// The queue.
        #[garde(dive)]
        queue: QueueConfig,
        /// Bytes that each wire segment takes beyond its IP bytes.
        #[serde(default)]
        #[garde(range(max = MAX_OVERHEAD_BYTES))]
        overhead_bytes: u32,
        /// The unit of limits and of service.
        #[serde(default)]
        unit: Unit,
        /// Handling of packets at rate zero.
        #[serde(default)]
        outage: Outage,
    },
    /// A delay.
    Delay {
        /// Source of the delays.
        #[garde(dive)]
        delay: DelayConfig,
        /// Whether a segment may overtake one with a longer delay.
        #[serde(default)]
        reorder: bool,
        /// Segments in flight at most; those beyond them are dropped.
        #[serde(default)]
        #[garde(range(min = 1, max = MAX_LIMIT_PACKETS))]
        limit_packets: Option<u64>,
    },
    /// Losses.
    Loss {
        /// Source of the losses.
        #[garde(dive)]
        model: LossConfig,
        /// The unit of loss.
        #[serde(default)]
        unit: Unit,
    },
    /// Copies of wire segments.
    Duplicate {
        /// Probability that a wire segment is copied.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
    },
    /// Wire segments that are delayed and overtaken.
    Reorder {
        /// Probability that a wire segment is delayed.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
        /// Its additional delay.
        #[garde(range(max = MAX_TIME_NS))]
        delay_ns: u64,
    },
    /// Bit errors.
    Corrupt {
        /// Probability that a wire segment gets a flipped bit.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
    },
    /// An NR or LTE link.
    Radio(#[garde(dive)] Box<RadioKeys>),
    /// The MAC of 802.11ad.
    Wifi(#[garde(dive)] WifiConfig),
}

impl StageConfig {
    /// The limit of the stage's queue; `None` without one.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.served()?.1.limit()
    }

    /// The rate at which the stage empties its queue, bits per second, if it is constant.
    #[must_use]
    pub fn constant_rate_bps(&self) -> Option<u64> {
        match self.served()?.0 {
            RateConfig::Constant { rate_bps } | RateConfig::TokenBucket { rate_bps, .. } => {
                Some(*rate_bps)
            }
            RateConfig::Sampled { rate_bps, .. } => *rate_bps,
            RateConfig::Pattern { .. }
            | RateConfig::Opportunities { .. }
            | RateConfig::Packets { .. } => None,
        }
    }

    fn served(&self) -> Option<(&RateConfig, &QueueConfig)> {
        match self {
            Self::Bottleneck { rate, queue, .. } => Some((rate, queue)),
            Self::Radio(keys) => Some(keys.served()),
            Self::Wifi(config) => Some((&config.rate, &config.queue)),
            _ => None,
        }
    }
}

/// The MTU that [`build`] assumes, bytes.
pub const DEFAULT_MTU_BYTES: u32 = 1500;

/// Builds a stage with the random stream `random`; `loader` reads pattern files.
///
/// # Errors
/// The first value that breaks a rule, by its key.
pub fn build(
    config: &StageConfig,
    random: RandomStream,
    loader: &mut Loader<'_>,
) -> Result<Box<dyn Stage>, ConfigError> {
    build_shared(
        config,
        DEFAULT_MTU_BYTES,
        random,
        loader,
        &mut Shared::default(),
    )
}

/// As [`build`], with this MTU, and with the shared state of the stages of one hop.
///
/// # Errors
/// The first value that breaks a rule, by its key.
pub fn build_shared(
    config: &StageConfig,
    mtu_bytes: u32,
    random: RandomStream,
    loader: &mut Loader<'_>,
    shared: &mut Shared,
) -> Result<Box<dyn Stage>, ConfigError> {
    check_bounds(config)?;
    Ok(match config {
        StageConfig::Bottleneck {
            rate,
            queue,
            overhead_bytes,
            unit,
            outage,
        } => {
            let config = BottleneckConfig {
                overhead_bytes: *overhead_bytes,
                unit: *unit,
                outage: *outage,
            };
            if let RateConfig::Sampled { .. } = rate {
                return sampled(rate, queue, config, loader);
            }
            let built = queue_of(queue, *unit, mtu_bytes, random)?;
            if matches!(rate, RateConfig::Packets { .. }) && built.wants_rate() {
                return fail(
                    "queue.limit.time_ns",
                    "does not fit a rate in packets, which has no bytes per second: use packets or bytes",
                );
            }
            let server = server(rate, *outage, mtu_bytes, loader)?;
            // Drop-tail, the usual queue, is called directly.
            if let QueueConfig::Droptail { limit } = queue {
                let queue = DropTail::new(*limit, *unit);
                return Ok(Box::new(Bottleneck::new(config, queue, server)));
            }
            Box::new(Bottleneck::new(config, built, server))
        }
        StageConfig::Delay {
            delay,
            reorder,
            limit_packets,
        } => {
            let most = limit_packets.unwrap_or(u64::MAX);
            Box::new(delay_stage(delay, *reorder, random, loader)?.limited(most))
        }
        StageConfig::Loss { model, unit } => Box::new(loss_stage(model, *unit, random, loader)?),
        StageConfig::Duplicate { probability } => {
            Box::new(Duplicate::new(number("probability", *probability)?, random))
        }
        StageConfig::Reorder {
            probability,
            delay_ns,
        } => Box::new(Reorder::new(
            number("probability", *probability)?,
            *delay_ns,
            random,
        )),
        StageConfig::Radio(keys) => radio::build(keys, mtu_bytes, random, loader, shared)?,
        StageConfig::Corrupt { probability } => {
            Box::new(Corrupt::new(number("probability", *probability)?, random))
        }
        StageConfig::Wifi(config) => Box::new(radio::stage(
            config,
            mtu_bytes,
            random,
            loader,
            &shared.wifi,
        )?),
    })
}

fn profile(
    file: &Path,
    end: End,
    start_ns: u64,
    loader: &mut Loader<'_>,
) -> Result<Profile, ConfigError> {
    let pattern = load("rate", file, start_ns, loader)?;
    let kind = pattern.kind();
    Profile::pattern(pattern, end, start_ns, 0).map_or_else(
        || {
            lacks(
                "rate",
                file,
                kind,
                "a pattern of kind steps with the column rate_bps",
            )
        },
        Ok,
    )
}

fn server(
    config: &RateConfig,
    outage: Outage,
    mtu_bytes: u32,
    loader: &mut Loader<'_>,
) -> Result<Box<dyn Server>, ConfigError> {
    Ok(match config {
        RateConfig::Constant { rate_bps } => Box::new(Fluid::new(Profile::constant(*rate_bps))),
        RateConfig::Pattern {
            file,
            end,
            start_ns,
        } => at_rate(profile(file, *end, *start_ns, loader)?),
        RateConfig::Opportunities {
            file,
            end,
            start_ns,
        } => {
            if *end == End::Hold {
                return fail(
                    "rate.end",
                    "is hold, but no opportunity lasts: use repeat or stop",
                );
            }
            if outage == Outage::Drop {
                return fail(
                    "outage",
                    "is drop, but opportunities have no rate that could be zero: use hold",
                );
            }
            let pattern = load("rate", file, *start_ns, loader)?;
            let kind = pattern.kind();
            match Opportunities::new(pattern, *end, *start_ns, 0) {
                Some(server) => Box::new(server),
                None => return lacks("rate", file, kind, "a pattern of kind opportunities"),
            }
        }
        RateConfig::TokenBucket {
            rate_bps,
            burst_bytes,
        } => {
            if *burst_bytes < u64::from(mtu_bytes) {
                return fail(
                    "rate.burst_bytes",
                    format!("is {burst_bytes}: use at least the MTU, {mtu_bytes}"),
                );
            }
            Box::new(TokenBucket::new(Profile::constant(*rate_bps), *burst_bytes))
        }
        RateConfig::Packets { packets_per_s } => {
            if outage == Outage::Drop {
                return fail(
                    "outage",
                    "is drop, but a rate in packets is never zero: use hold",
                );
            }
            Box::new(Packets::new(*packets_per_s))
        }
        RateConfig::Sampled { .. } => return fail("rate.kind", "sampled is not a server"),
    })
}

fn sampled(
    rate_config: &RateConfig,
    queue: &QueueConfig,
    config: BottleneckConfig,
    loader: &mut Loader<'_>,
) -> Result<Box<dyn Stage>, ConfigError> {
    let RateConfig::Sampled {
        rate_bps,
        file,
        end,
        start_ns,
    } = rate_config
    else {
        return fail("rate.kind", "is not sampled");
    };
    let limit = match queue {
        QueueConfig::Droptail { limit } => Some(*limit),
        QueueConfig::Infinite {} => None,
        _ => {
            return fail(
                "queue.kind",
                "does not fit a sampled rate, which schedules packets on arrival: use droptail or infinite",
            );
        }
    };
    let profile = match (rate_bps, file) {
        (Some(rate_bps), None) if end.is_none() && start_ns.is_none() => {
            Profile::constant(*rate_bps)
        }
        (None, Some(file)) => {
            profile(file, end.unwrap_or_default(), start_ns.unwrap_or(0), loader)?
        }
        (Some(_), None) => {
            return fail(
                "rate.rate_bps",
                "is constant: remove end and start_ns, or use file",
            );
        }
        (Some(_), Some(_)) => {
            return fail("rate", "has both rate_bps and file: remove one of them");
        }
        (None, None) => return fail("rate", "has neither rate_bps nor file: add one of them"),
    };
    let config = SampledConfig {
        limit,
        overhead_bytes: config.overhead_bytes,
        unit: config.unit,
        drop_in_outage: config.outage == Outage::Drop,
    };
    Ok(Box::new(Sampled::new(config, profile)))
}

fn delay_stage(
    config: &DelayConfig,
    reorder: bool,
    random: RandomStream,
    loader: &mut Loader<'_>,
) -> Result<Delay, ConfigError> {
    Ok(match config {
        DelayConfig::Constant { delay_ns } => Delay::constant(*delay_ns, reorder),
        DelayConfig::Pattern {
            file,
            end,
            start_ns,
        } => {
            let pattern = load("delay", file, *start_ns, loader)?;
            if pattern.delay_ns().is_none() {
                return lacks(
                    "delay",
                    file,
                    pattern.kind(),
                    "a steps or packets pattern with the column delay_s",
                );
            }
            Delay::pattern(pattern, *end, *start_ns, reorder)
        }
        DelayConfig::Distribution {
            shape,
            mean_ns,
            spread_ns,
            correlation,
        } => {
            let distribution = Distribution {
                shape: *shape,
                mean_ns: *mean_ns,
                spread_ns: *spread_ns,
                correlation: number("delay.correlation", *correlation)?,
            };
            Delay::distribution(distribution, reorder, random)
        }
    })
}

fn loss_stage(
    config: &LossConfig,
    unit: Unit,
    random: RandomStream,
    loader: &mut Loader<'_>,
) -> Result<Loss, ConfigError> {
    Ok(match config {
        LossConfig::Independent { probability } => {
            Loss::independent(number("model.probability", *probability)?, unit, random)
        }
        LossConfig::GilbertElliott {
            p,
            r,
            good_loss,
            bad_loss,
        } => {
            let model = GilbertElliott {
                p: number("model.p", *p)?,
                r: number("model.r", *r)?,
                good_loss: number("model.good_loss", *good_loss)?,
                bad_loss: number("model.bad_loss", *bad_loss)?,
            };
            Loss::gilbert_elliott(model, unit, random)
        }
        LossConfig::FourState {
            p13,
            p31,
            p23,
            p32,
            p14,
        } => {
            let model = FourState {
                p13: *p13,
                p31: *p31,
                p32: *p32,
                p23: *p23,
                p14: *p14,
            };
            if let Some(problem) = model.problem() {
                return fail("model", format!("breaks a rule: {problem}"));
            }
            Loss::four_state(model, unit, random)
        }
        LossConfig::Pattern {
            file,
            end,
            start_ns,
        } => {
            let pattern = load("model", file, *start_ns, loader)?;
            if pattern.loss().is_none() {
                return lacks(
                    "model",
                    file,
                    pattern.kind(),
                    "a steps or packets pattern with the column loss",
                );
            }
            Loss::pattern(pattern, *end, *start_ns, unit, random)
        }
    })
}
