//! The wifi stage in the laboratory file.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::build::{Loader, fail, lacks, load};
use super::queue::queue_of;
use super::{ConfigError, QueueConfig, RateConfig};
use crate::bounds::MAX_OVERHEAD_BYTES;
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::unit::Unit;
use crate::wifi::{Bler, SharedAir, Wifi, WifiSettings};

/// The MAC of 802.11ad: A-MPDU, block acknowledgement, retries. See `docs/models/wifi-802.11ad.md`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wifi")]
pub struct WifiConfig {
    /// Throughput of full aggregates: constant, or the `rate_bps` of a pattern.
    #[garde(dive)]
    pub rate: RateConfig,
    /// Frame errors, instead of those of the trace.
    #[garde(range(min = 0.0, max = 1.0))]
    pub bler: Option<f64>,
    /// The buffer of this user.
    #[garde(dive)]
    pub queue: QueueConfig,
    /// Most bytes of an aggregate.
    #[garde(range(min = 1, max = MAX_AGGREGATE_BYTES))]
    pub aggregate_bytes: u32,
    /// Most packets of an aggregate.
    #[garde(range(min = 1, max = MAX_AGGREGATE_FRAMES))]
    pub aggregate_frames: u32,
    /// Airtime of an aggregate beside its bytes.
    #[garde(range(max = MAX_OVERHEAD_NS))]
    pub overhead_ns: u64,
    /// Retransmissions of a packet at most.
    #[garde(range(max = MAX_RETRIES))]
    pub retries: u32,
    /// Bytes of a frame beyond the IP bytes of its packet.
    #[serde(default = "default_overhead_bytes")]
    #[garde(range(max = MAX_OVERHEAD_BYTES))]
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
    let queue = queue_of(&config.queue, Unit::Packet, mtu_bytes, random)?;
    let (profile, of_pattern) = match &config.rate {
        RateConfig::Constant { rate_bps } => {
            carried("rate.rate_bps", *rate_bps, &settings)?;
            (Profile::constant(*rate_bps), Bler::OfPattern(None))
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
        Some(bler) => Bler::Constant(bler),
        None => of_pattern,
    };
    let air = air.clone();
    Ok(Wifi::sharing(air, settings, queue, profile, bler, random))
}

fn settings(config: &WifiConfig, mtu_bytes: u32) -> Result<WifiSettings, ConfigError> {
    let frame_bytes = mtu_bytes + config.overhead_bytes;
    let bytes = config.aggregate_bytes;
    if bytes < frame_bytes {
        return fail(
            "aggregate_bytes",
            format!("is {bytes}: use at least the MTU with overhead_bytes, {frame_bytes}"),
        );
    }
    Ok(WifiSettings {
        aggregate_bytes: bytes,
        aggregate_frames: config.aggregate_frames as usize,
        overhead_ns: config.overhead_ns,
        retries: config.retries,
        overhead_bytes: config.overhead_bytes,
        mtu_bytes,
    })
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
