//! The wifi stage in the laboratory file.

use serde::Deserialize;

use super::build::{Loader, MAX_OVERHEAD_BYTES, fail, lacks, load, probability_of, rate};
use super::queue::queue_of;
use super::{ConfigError, QueueConfig, RateConfig};
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::unit::Unit;
use crate::wifi::{Bler, SharedAir, Wifi, WifiSettings};

/// The MAC of 802.11ad. See `docs/models/wifi-802.11ad.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WifiConfig {
    /// Throughput of full aggregates: constant, or the `rate_bps` of a pattern.
    pub rate: RateConfig,
    /// Probability that a frame fails, 0 to 1. `None`: the pattern's `bler`, or 0 where it has none.
    pub bler: Option<f64>,
    /// The queue.
    pub queue: QueueConfig,
    /// The most bytes of an aggregate.
    pub aggregate_bytes: u32,
    /// The most packets of an aggregate.
    pub aggregate_frames: u32,
    /// Airtime of an aggregate beside its bytes, nanoseconds.
    pub overhead_ns: u64,
    /// Retransmissions of a packet at most.
    pub retries: u32,
    /// Bytes of a frame beyond the IP bytes of its packet.
    #[serde(default = "default_overhead_bytes")]
    pub overhead_bytes: u32,
}

/// MAC header, check sequence, delimiter and padding of a frame, and the LLC header.
const fn default_overhead_bytes() -> u32 {
    40
}

/// The longest A-MPDU of any 802.11 PHY: exponent 9 of `2^(13 + exponent) - 1` (802.11ay); 802.11ad has 5 at most.
const MAX_AGGREGATE_BYTES: u32 = (1 << 22) - 1;
/// The largest block acknowledgement window of any 802.11 PHY (802.11ax, 802.11ay); 802.11ad has 64.
const MAX_AGGREGATE_FRAMES: u32 = 1024;
const MAX_OVERHEAD_NS: u64 = 1_000_000_000;
const MAX_RETRIES: u32 = 255;

/// Builds the stage.
pub(super) fn stage(
    config: &WifiConfig,
    mtu_bytes: u32,
    random: RandomStream,
    loader: &mut Loader<'_>,
    air: &SharedAir,
) -> Result<Wifi, ConfigError> {
    let settings = settings(config, mtu_bytes)?;
    let (profile, of_pattern) = match &config.rate {
        RateConfig::Constant { rate_bps } => {
            let rate_bps = rate("rate.rate_bps", *rate_bps)?;
            carried("rate.rate_bps", rate_bps, &settings)?;
            (Profile::constant(rate_bps), Bler::OfPattern(None))
        }
        RateConfig::Pattern {
            file,
            end,
            start_ns,
        } => {
            let pattern = load("rate", file, *start_ns, loader)?;
            let fastest = pattern.rate_bps().and_then(|rates| rates.iter().max());
            let Some((profile, fastest)) =
                Profile::pattern(pattern.clone(), *end, *start_ns, 0).zip(fastest)
            else {
                let needs = "a pattern of kind steps with the column rate_bps";
                return lacks("rate", file, pattern.kind(), needs);
            };
            carried("rate.file", *fastest, &settings)?;
            (profile, Bler::of(&pattern, *end, *start_ns, 0))
        }
        _ => return fail("rate.kind", "does not fit wifi: use constant or pattern"),
    };
    let bler = match config.bler {
        Some(bler) => Bler::Constant(probability_of("bler", bler)?),
        None => of_pattern,
    };
    let queue = queue_of(&config.queue, Unit::Packet, mtu_bytes, random)?;
    let air = air.clone();
    Ok(Wifi::sharing(air, settings, queue, profile, bler, random))
}

fn settings(config: &WifiConfig, mtu_bytes: u32) -> Result<WifiSettings, ConfigError> {
    within(
        "overhead_bytes",
        config.overhead_bytes,
        0,
        MAX_OVERHEAD_BYTES,
    )?;
    let frame_bytes = mtu_bytes + config.overhead_bytes;
    let bytes = config.aggregate_bytes;
    if !(frame_bytes..=MAX_AGGREGATE_BYTES).contains(&bytes) {
        return fail(
            "aggregate_bytes",
            format!(
                "is {bytes}: use at least the MTU with overhead_bytes, {frame_bytes}, and at most \
                 {MAX_AGGREGATE_BYTES}"
            ),
        );
    }
    within(
        "aggregate_frames",
        config.aggregate_frames,
        1,
        MAX_AGGREGATE_FRAMES,
    )?;
    within("overhead_ns", config.overhead_ns, 0, MAX_OVERHEAD_NS)?;
    within("retries", config.retries, 0, MAX_RETRIES)?;
    Ok(WifiSettings {
        aggregate_bytes: bytes,
        aggregate_frames: config.aggregate_frames as usize,
        overhead_ns: config.overhead_ns,
        retries: config.retries,
        overhead_bytes: config.overhead_bytes,
        mtu_bytes,
    })
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), ConfigError> {
    if value < least || value > most {
        return fail(key, format!("is {value}: use {least} to {most}"));
    }
    Ok(())
}

/// Refuses a rate at which the overhead leaves no time for bytes.
fn carried(key: &str, rate_bps: u64, settings: &WifiSettings) -> Result<(), ConfigError> {
    let most_bps = settings.most_bps();
    if rate_bps < most_bps {
        return Ok(());
    }
    fail(
        key,
        format!(
            "has the rate {rate_bps}, but full aggregates of {} bytes with overhead_ns {} carry less than {most_bps} \
             bits per second: use a lower rate, larger aggregates or less overhead",
            settings.full_bytes(),
            settings.overhead_ns
        ),
    )
}
