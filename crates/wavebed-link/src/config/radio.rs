//! The radio stage in the laboratory file.

use std::collections::BTreeMap;
use std::sync::Arc;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{ConfigError, Loader, QueueConfig, RateConfig, fail, lacks, load, queue_of};
use crate::pattern::{End, Kind};
use crate::queue::{Infinite, Queue};
use crate::radio::{
    Acknowledged, Aggregation, Air, Carriers, Code, Connection, Direction, Drx, Grants, Harq, Load,
    Power, Radio, RadioConfig, Rlc, Rrc, Slots, SplitBearer, SplitConfig,
};
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::stage::{Handover, MAX_OVERHEAD_BYTES, MAX_TIME_NS, Stage, Unit};
use crate::wifi::{Bler, SharedAir, Wifi, WifiSettings};

/// Radio layer 2 of one direction. Every part that may be null is off without a value.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Radio")]
pub struct RadioKeys {
    /// Direction of the link.
    direction: Direction,
    /// Bits of transport blocks per second that are the user's, averaged over the duplex frame.
    #[garde(dive)]
    rate: RateConfig,
    /// Block errors, instead of those of the trace.
    #[garde(range(min = 0.0, max = 1.0))]
    bler: Option<f64>,
    /// Slots of the carrier.
    #[garde(dive)]
    slots: SlotKeys,
    /// Slots of the carrier to which the link falls back.
    #[garde(dive)]
    fallback: Option<SlotKeys>,
    /// The buffer of this user.
    #[garde(dive)]
    queue: QueueConfig,
    /// A packet that has waited for this time is dropped (PDCP discardTimer).
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    discard_ns: Option<u64>,
    /// Header bytes of each packet.
    #[serde(default)]
    #[garde(range(max = MAX_OVERHEAD_BYTES))]
    overhead_bytes: u32,
    /// Acknowledged or unacknowledged mode.
    #[garde(dive)]
    rlc: RlcKeys,
    /// In-order delivery.
    #[garde(dive)]
    reordering: Option<ReorderingKeys>,
    /// How the uplink is granted, in slots.
    #[garde(dive)]
    grants: Option<Grants>,
    /// Sleep, and release to idle; the same in both directions of a hop.
    #[garde(dive)]
    connection: Option<ConnectionKeys>,
    /// Whether a handover or a failure of the link forwards the buffer or loses it.
    #[serde(default)]
    handover: Handover,
    /// Bursts of other users, which take slots by proportional fair.
    #[garde(dive)]
    load: Option<Load>,
    /// The carrier and the fallback carrier are legs of one PDCP entity.
    #[garde(dive)]
    split: Option<SplitKeys>,
    /// Component carriers of the downlink, which are activated when data waits.
    #[garde(dive)]
    aggregation: Option<Aggregation>,
    /// Power control of an uplink; null: each part of a slot has the SINR of the whole.
    #[garde(dive)]
    power: Option<Power>,
}

impl RadioKeys {
    pub(super) const fn served(&self) -> (&RateConfig, &QueueConfig) {
        (&self.rate, &self.queue)
    }
}

/// Slots of one carrier.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Slots")]
struct SlotKeys {
    /// Length of a slot.
    #[garde(range(min = 1000, max = 1_000_000_000))]
    slot_ns: u64,
    /// Slots of the TDD period, of the letters D, S and U; empty for FDD.
    #[garde(length(max = MAX_FRAME))]
    #[schemars(regex(pattern = "^[DSU]*$"))]
    frame: String,
    /// Downlink, guard and uplink symbols of an `S` slot.
    special_symbols: [u32; 3],
    /// Time before its slot by which data must be there.
    #[garde(range(max = MAX_TIME_NS))]
    prepare_ns: u64,
    /// Time after its slot until a block is decoded.
    #[garde(range(max = MAX_TIME_NS))]
    decode_ns: u64,
    /// The channel code: ldpc in NR, turbo in LTE.
    #[serde(default)]
    code: Code,
    /// Hybrid ARQ.
    #[garde(dive)]
    harq: Option<Harq>,
}

/// What becomes of a block that HARQ gave up on.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Validate)]
#[serde(tag = "mode", rename_all = "lowercase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Rlc")]
pub(super) enum RlcKeys {
    /// Acknowledged mode: a block that HARQ gave up on is sent again.
    Am {
        /// t-Reassembly; in LTE t-Reordering.
        #[garde(range(max = MAX_TIME_NS))]
        reassembly_ns: u64,
        /// t-PollRetransmit.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        poll_ns: u64,
        /// t-StatusProhibit.
        #[garde(range(max = MAX_TIME_NS))]
        status_ns: u64,
        /// maxRetxThreshold: retransmissions before the radio link fails.
        #[garde(range(min = 1))]
        retransmissions: u8,
        /// From that failure until the link is re-established; nothing is sent meanwhile.
        #[serde(default = "default_reestablish_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        reestablish_ns: u64,
        /// Lost status reports: each costs a poll.
        #[serde(default)]
        #[garde(range(min = 0.0, max = 1.0))]
        status_loss: f64,
        /// Bits of the sequence number: `AM_Window_Size` is half of its range (TS 38.322, clause 7.2).
        #[schemars(extend("enum" = [12, 18, null]))]
        sn_bits: Option<u32>,
    },
    /// Unacknowledged mode: a block that HARQ gave up on is lost.
    Um {},
}

/// Of files written before the key existed.
const fn default_reestablish_ns() -> u64 {
    100_000_000
}

/// In-order delivery.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reordering")]
struct ReorderingKeys {
    /// How long a gap is waited for; null: until it is filled or given up (LTE RLC AM).
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    timer_ns: Option<u64>,
}

/// Sleep states; the two directions of a hop share them.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Connection")]
struct ConnectionKeys {
    /// Connected-mode sleep.
    #[garde(dive)]
    drx: Option<DrxKeys>,
    /// Release after idle time, and promotion.
    #[garde(dive)]
    rrc: Option<Rrc>,
}

/// Connected-mode sleep (TS 38.321, clause 5.7).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Drx")]
struct DrxKeys {
    /// Idle time before it sleeps.
    #[garde(range(max = MAX_TIME_NS))]
    inactivity_ns: u64,
    /// Short cycle.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    short_cycle_ns: Option<u64>,
    /// How many short cycles come first (TS 38.331).
    #[garde(range(max = 16))]
    short_cycles: u64,
    /// Long cycle, a multiple of the short one.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    long_cycle_ns: u64,
    /// On-duration in each cycle.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    on_ns: u64,
}

const SYMBOLS: u32 = 14;
/// Slots of 20 ms at 120 kHz: the longest TDD period, of two patterns (TS 38.213, 11.1).
const MAX_FRAME: usize = 160;
/// Lengths of the sequence number (TS 38.322, clause 6.2.3.3).
const SN_BITS: [u32; 2] = [12, 18];

/// The shared state of the stages of one hop: the connection of its two directions, and the air of 802.11ad.
#[derive(Debug, Default)]
pub struct Shared {
    pub(super) wifi: SharedAir,
    connection: Option<(ConnectionSettings, Arc<Connection>)>,
}

type ConnectionSettings = (Option<Drx>, Option<Rrc>);

/// Builds the stage.
pub(super) fn build(
    keys: &RadioKeys,
    mtu_bytes: u32,
    random: RandomStream,
    loader: &mut Loader<'_>,
    shared: &mut Shared,
) -> Result<Box<dyn Stage>, ConfigError> {
    let config = radio_config(keys)?;
    let queue = queue_of(&keys.queue, Unit::Packet, mtu_bytes, random)?;
    let connection = keys
        .connection
        .map(|keys| connection(keys, shared))
        .transpose()?;
    if let Some(split) = &keys.split {
        let rate = (&keys.rate, keys.bler);
        return build_split(split, config, rate, loader, queue, connection, random);
    }
    let air = air(&keys.rate, keys.bler, loader)?;
    Ok(Box::new(Radio::new(config, air, queue, connection, random)))
}

/// Builds the radio of a device of a cell.
pub(super) fn build_device(
    keys: &RadioKeys,
    mtu_bytes: u32,
    random: RandomStream,
    loader: &mut Loader<'_>,
    shared: &mut Shared,
) -> Result<Radio, ConfigError> {
    if keys.split.is_some() {
        return fail("split", "does not fit a device of a cell: use null");
    }
    let config = radio_config(keys)?;
    let queue = queue_of(&keys.queue, Unit::Packet, mtu_bytes, random)?;
    let connection = keys
        .connection
        .map(|keys| connection(keys, shared))
        .transpose()?;
    let air = air(&keys.rate, keys.bler, loader)?;
    Ok(Radio::new(config, air, queue, connection, random))
}

/// The settings of a radio.
fn radio_config(keys: &RadioKeys) -> Result<RadioConfig, ConfigError> {
    let direction = keys.direction;
    let config = RadioConfig {
        direction,
        carriers: Carriers {
            primary: slots("slots", &keys.slots, direction)?,
            fallback: keys
                .fallback
                .as_ref()
                .map(|keys| slots("fallback", keys, direction))
                .transpose()?,
        },
        overhead_bytes: keys.overhead_bytes,
        discard_ns: keys.discard_ns,
        rlc: rlc(keys.rlc)?,
        reordering: keys.reordering.map(|keys| keys.timer_ns),
        grants: keys.grants,
        handover: keys.handover,
        load: keys.load,
        aggregation: keys.aggregation,
        power: keys.power,
    };
    if config.power.is_some() && direction == Direction::Down {
        return fail("power", "is for an uplink: use null");
    }
    if config.aggregation.is_some() && (direction == Direction::Up || config.grants.is_some()) {
        return fail("aggregation", "is for a downlink without grants: use null");
    }
    if config.discard_ns.is_some() && matches!(keys.queue, QueueConfig::FqCodel { .. }) {
        return fail(
            "discard_ns",
            "does not fit an fq_codel queue, which has no single order: use another queue or null",
        );
    }
    Ok(config)
}

/// Rate, block error rate and state over time.
pub(super) fn air(
    config: &RateConfig,
    bler: Option<f64>,
    loader: &mut Loader<'_>,
) -> Result<Air, ConfigError> {
    match config {
        RateConfig::Constant { rate_bps } => {
            let air = Air::constant(*rate_bps, 0.0);
            Ok(bler.map_or(air.clone(), |bler| air.with_fixed_bler(bler)))
        }
        RateConfig::Pattern {
            file,
            end,
            start_ns,
        } => {
            let pattern = load("rate", file, *start_ns, loader)?;
            if pattern.kind() != Kind::Steps || pattern.rate_bps().is_none() {
                return lacks(
                    "rate",
                    file,
                    pattern.kind(),
                    "a pattern of kind steps with the column rate_bps",
                );
            }
            let end: End = *end;
            let air = Air::pattern(pattern, end, *start_ns, 0, bler);
            air.map_or_else(|| fail("rate.file", "has no rates"), Ok)
        }
        _ => fail("rate.kind", "does not fit a radio: use constant or pattern"),
    }
}

fn slots(key: &str, keys: &SlotKeys, direction: Direction) -> Result<Slots, ConfigError> {
    let (own_symbols, other_symbols) = frame(key, keys, direction)?;
    Ok(Slots {
        slot_ns: keys.slot_ns,
        own_symbols,
        other_symbols,
        prepare_ns: keys.prepare_ns,
        decode_ns: keys.decode_ns,
        code: keys.code,
        harq: keys.harq,
    })
}

/// Symbols of this and of the other direction in each slot of the frame.
fn frame(
    key: &str,
    keys: &SlotKeys,
    direction: Direction,
) -> Result<(Vec<u32>, Vec<u32>), ConfigError> {
    let [down, guard, up] = keys.special_symbols;
    if keys.frame.is_empty() {
        return Ok((vec![SYMBOLS], vec![SYMBOLS]));
    }
    let name = format!("{key}.frame");
    if keys.frame.contains('S')
        && down.checked_add(guard).and_then(|sum| sum.checked_add(up)) != Some(SYMBOLS)
    {
        return fail(
            &format!("{key}.special_symbols"),
            format!("are {down} + {guard} + {up}: they must be {SYMBOLS} together"),
        );
    }
    let symbols_of: BTreeMap<char, (u32, u32)> =
        BTreeMap::from([('D', (SYMBOLS, 0)), ('S', (down, up)), ('U', (0, SYMBOLS))]);
    let mut downs = Vec::new();
    let mut ups = Vec::new();
    for letter in keys.frame.chars() {
        let Some(&(down, up)) = symbols_of.get(&letter) else {
            return fail(&name, format!("has {letter:?}: use D, U and S"));
        };
        downs.push(down);
        ups.push(up);
    }
    for (symbols, what) in [(&downs, "downlink"), (&ups, "uplink")] {
        if symbols.iter().all(|&symbols| symbols == 0) {
            return fail(
                &name,
                format!("{:?} has no {what}: add a slot for it", keys.frame),
            );
        }
    }
    Ok(match direction {
        Direction::Down => (downs, ups),
        Direction::Up => (ups, downs),
    })
}

pub(super) fn rlc(keys: RlcKeys) -> Result<Rlc, ConfigError> {
    Ok(match keys {
        RlcKeys::Um {} => Rlc::Unacknowledged,
        RlcKeys::Am {
            reassembly_ns,
            poll_ns,
            status_ns,
            retransmissions,
            reestablish_ns,
            status_loss,
            sn_bits,
        } => Rlc::Acknowledged(Acknowledged {
            reassembly_ns,
            poll_ns,
            status_ns,
            retransmissions,
            reestablish_ns,
            status_loss,
            window: sn_bits.map(window).transpose()?,
        }),
    })
}

/// `AM_Window_Size` (TS 38.322, clause 7.2).
fn window(sn_bits: u32) -> Result<u64, ConfigError> {
    if SN_BITS.contains(&sn_bits) {
        Ok(1 << (sn_bits - 1))
    } else {
        fail("rlc.sn_bits", format!("is {sn_bits}: use 12 or 18"))
    }
}

/// The connection of the hop: the other direction's, if it exists and is equal.
fn connection(keys: ConnectionKeys, shared: &mut Shared) -> Result<Arc<Connection>, ConfigError> {
    let drx = keys.drx.map(drx).transpose()?;
    let rrc = keys.rrc;
    if let Some((settings, connection)) = &shared.connection {
        if *settings != (drx, rrc) {
            return fail(
                "connection",
                "differs between the two directions of the hop: set both to the same",
            );
        }
        return Ok(Arc::clone(connection));
    }
    let connection = Arc::new(Connection::new(drx, rrc));
    shared.connection = Some(((drx, rrc), Arc::clone(&connection)));
    Ok(connection)
}

fn drx(keys: DrxKeys) -> Result<Drx, ConfigError> {
    if keys.on_ns > keys.long_cycle_ns {
        return fail(
            "connection.drx.on_ns",
            format!(
                "is {}: use at most the cycle, {}",
                keys.on_ns, keys.long_cycle_ns
            ),
        );
    }
    Ok(Drx {
        inactivity_ns: keys.inactivity_ns,
        short: keys
            .short_cycle_ns
            .map(|cycle_ns| (cycle_ns, keys.short_cycles)),
        long_cycle_ns: keys.long_cycle_ns,
        on_ns: keys.on_ns,
    })
}

/// A split bearer: how it gives data to its legs, and the leg on the fallback carrier.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Split")]
pub struct SplitKeys {
    /// A leg takes data while less waits in it than its rate carries in this time.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    target_ns: u64,
    /// Waiting bytes from which on both carriers have new data; null: only one has.
    #[garde(range(max = MAX_THRESHOLD_BYTES))]
    threshold_bytes: Option<u64>,
    /// RLC of the leg on the fallback carrier.
    #[garde(dive)]
    rlc: RlcKeys,
    /// Grants of that leg.
    #[garde(dive)]
    grants: Option<Grants>,
}

const MAX_THRESHOLD_BYTES: u64 = 1_000_000_000_000;
/// Random streams of the leg on the fallback carrier.
const FALLBACK: u64 = 5 << 40;

/// The channels of the two legs.
fn airs(
    config: &RateConfig,
    bler: Option<f64>,
    loader: &mut Loader<'_>,
) -> Result<[Air; 2], ConfigError> {
    let RateConfig::Pattern {
        file,
        end,
        start_ns,
    } = config
    else {
        return fail("rate.kind", "does not fit a split bearer: use pattern");
    };
    let pattern = load("rate", file, *start_ns, loader)?;
    let play = |leg| Air::pattern(Arc::new(leg), *end, *start_ns, 0, bler);
    let fallback = pattern.fallback_leg().and_then(play);
    let (Some(primary), Some(fallback)) = (play(pattern.primary_leg()), fallback) else {
        let needs = "a pattern with the column fallback_rate_bps, or remove split";
        return lacks("rate", file, pattern.kind(), needs);
    };
    Ok([primary, fallback])
}

/// Builds the stage from the settings of the carrier.
pub(super) fn build_split(
    keys: &SplitKeys,
    config: RadioConfig,
    (rate, bler): (&RateConfig, Option<f64>),
    loader: &mut Loader<'_>,
    queue: Box<dyn Queue>,
    connection: Option<Arc<Connection>>,
    random: RandomStream,
) -> Result<Box<dyn Stage>, ConfigError> {
    let Some(fallback) = config.carriers.fallback.clone() else {
        return fail(
            "split",
            "has no second carrier: add fallback, or remove split",
        );
    };
    let bearer = SplitConfig {
        direction: config.direction,
        overhead_bytes: config.overhead_bytes,
        discard_ns: config.discard_ns,
        reordering: config.reordering,
        target_ns: keys.target_ns,
        threshold_bytes: keys.threshold_bytes,
    };
    let leg = RadioConfig {
        discard_ns: None,
        reordering: None,
        carriers: Carriers {
            fallback: None,
            ..config.carriers
        },
        ..config
    };
    let fallback = RadioConfig {
        carriers: Carriers {
            primary: fallback.clone(),
            fallback: Some(fallback),
        },
        rlc: rlc(keys.rlc).map_err(in_split)?,
        grants: keys.grants,
        aggregation: None,
        ..leg.clone()
    };
    let [primary_air, fallback_air] = airs(rate, bler, loader)?;
    let radio = |config, air, random| {
        let queue = Box::new(Infinite::new(Unit::Packet));
        Radio::new(config, air, queue, connection.clone(), random)
    };
    let primary = radio(leg, primary_air, random);
    let fallback = radio(fallback, fallback_air, random.process(FALLBACK));
    Ok(Box::new(SplitBearer::new(
        bearer, queue, connection, primary, fallback,
    )))
}

fn in_split(error: ConfigError) -> ConfigError {
    ConfigError {
        key: format!("split.{}", error.key),
        ..error
    }
}

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
