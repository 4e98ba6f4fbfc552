//! The radio stage in the laboratory file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::build::{Loader, fail, load, positive_time, probability_of, rate, time};
use super::queue::queue_of;
use super::split::{self, SplitKeys};
use super::{ConfigError, QueueConfig, RateConfig};
use crate::pattern::{End, Kind};
use crate::radio::{
    Acknowledged, Aggregation, Air, Carriers, Code, Configured, Connection, Direction, Drx,
    GrantLosses, Grants, Handover, Harq, Load, Radio, RadioConfig, Rlc, Rrc, Slots,
};
use crate::random_stream::RandomStream;
use crate::stage::Stage;
use crate::unit::Unit;
use crate::wifi::SharedAir;

/// A radio stage.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadioKeys {
    direction: Direction,
    rate: RateConfig,
    bler: Option<f64>,
    slots: SlotKeys,
    fallback: Option<SlotKeys>,
    queue: QueueConfig,
    discard_ns: Option<u64>,
    #[serde(default)]
    overhead_bytes: u32,
    rlc: RlcKeys,
    reordering: Option<ReorderingKeys>,
    grants: Option<GrantKeys>,
    connection: Option<ConnectionKeys>,
    #[serde(default)]
    handover: Handover,
    load: Option<LoadKeys>,
    split: Option<SplitKeys>,
    aggregation: Option<AggregationKeys>,
}

impl RadioKeys {
    pub(super) const fn served(&self) -> (&RateConfig, &QueueConfig) {
        (&self.rate, &self.queue)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotKeys {
    slot_ns: u64,
    frame: String,
    special_symbols: [u32; 3],
    prepare_ns: u64,
    decode_ns: u64,
    #[serde(default)]
    code: Code,
    harq: Option<HarqKeys>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HarqKeys {
    processes: u32,
    feedback_slots: u64,
    schedule_slots: u64,
    limit: u32,
    combining_gain_db: f64,
    slope_per_db: f64,
    #[serde(default)]
    ack_loss: f64,
    #[serde(default)]
    nack_loss: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum RlcKeys {
    Am {
        reassembly_ns: u64,
        poll_ns: u64,
        status_ns: u64,
        retransmissions: u8,
        #[serde(default = "default_reestablish_ns")]
        reestablish_ns: u64,
        #[serde(default)]
        status_loss: f64,
        sn_bits: Option<u32>,
    },
    Um {},
}

/// That of files written before the key existed.
const fn default_reestablish_ns() -> u64 {
    100_000_000
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReorderingKeys {
    timer_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantKeys {
    request_slots: u64,
    schedule_slots: u64,
    prepare_slots: u64,
    first_bytes: u64,
    configured: Option<ConfiguredKeys>,
    losses: Option<GrantLossKeys>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantLossKeys {
    request: f64,
    report: f64,
    prohibit_ns: u64,
    most_requests: u32,
    access_ns: u64,
    retry_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadKeys {
    mean: f64,
    burst_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregationKeys {
    carriers: u32,
    activation_ns: u64,
    deactivation_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfiguredKeys {
    slots: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectionKeys {
    drx: Option<DrxKeys>,
    rrc: Option<RrcKeys>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrxKeys {
    inactivity_ns: u64,
    short_cycle_ns: Option<u64>,
    short_cycles: u64,
    long_cycle_ns: u64,
    on_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "keys carry their unit")]
struct RrcKeys {
    inactivity_ns: u64,
    promotion_ns: u64,
    paging_ns: u64,
}

const SYMBOLS: u32 = 14;
const MAX_SLOTS: u64 = 1_000_000;
/// Slots of 20 ms at 120 kHz: the longest TDD period, of two patterns (TS 38.213, 11.1).
const MAX_FRAME: usize = 160;
/// `nrofHARQ-ProcessesForPDSCH-v1700` (TS 38.331).
const MAX_PROCESSES: u32 = 32;
const MAX_SLOT_NS: u64 = 1_000_000_000;
const MAX_LOAD: f64 = 0.99;
/// Shorter bursts would cost time, and no scheduler would see them.
const MIN_BURST_NS: u64 = 100_000;
/// `maxNrofServingCells` (TS 38.331).
const MAX_CARRIERS: u32 = 32;
/// `sr-TransMax` is at most 64 (TS 38.331).
const MAX_REQUESTS: u32 = 64;
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
        discard_ns: keys
            .discard_ns
            .map(|value| positive_time("discard_ns", value))
            .transpose()?,
        rlc: rlc(keys.rlc)?,
        reordering: keys.reordering.map(reordering).transpose()?,
        grants: keys.grants.map(grants).transpose()?,
        handover: keys.handover,
        load: keys.load.map(other_users).transpose()?,
        aggregation: keys.aggregation.map(aggregation).transpose()?,
    };
    if config.overhead_bytes > super::build::MAX_OVERHEAD_BYTES {
        return fail(
            "overhead_bytes",
            format!("is {}: use at most 1000", config.overhead_bytes),
        );
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
    let bler = keys
        .bler
        .map(|value| probability_of("bler", value))
        .transpose()?;
    let queue = queue_of(&keys.queue, Unit::Packet, mtu_bytes, random)?;
    let connection = keys
        .connection
        .map(|keys| connection(keys, shared))
        .transpose()?;
    if let Some(split) = &keys.split {
        let air = split::airs(&keys.rate, bler, loader)?;
        return split::build(split, config, air, queue, connection, random);
    }
    let air = air(&keys.rate, bler, loader)?;
    Ok(Box::new(Radio::new(config, air, queue, connection, random)))
}

fn count(key: &str, value: u64, least: u64) -> Result<u64, ConfigError> {
    if (least..=MAX_SLOTS).contains(&value) {
        Ok(value)
    } else {
        fail(key, format!("is {value}: use {least} to {MAX_SLOTS}"))
    }
}

/// Rate, block error rate and state over time.
pub(super) fn air(
    config: &RateConfig,
    bler: Option<f64>,
    loader: &mut Loader<'_>,
) -> Result<Air, ConfigError> {
    match config {
        RateConfig::Constant { rate_bps } => {
            let air = Air::constant(rate("rate.rate_bps", *rate_bps)?, 0.0);
            Ok(bler.map_or(air.clone(), |bler| air.with_fixed_bler(bler)))
        }
        RateConfig::Pattern {
            file,
            end,
            start_ns,
        } => {
            let pattern = load("rate", file, *start_ns, loader)?;
            if pattern.kind() != Kind::Steps || pattern.rate_bps().is_none() {
                return super::build::lacks(
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
    if !(1000..=MAX_SLOT_NS).contains(&keys.slot_ns) {
        return fail(
            &format!("{key}.slot_ns"),
            format!("is {}: use 1000 to {MAX_SLOT_NS}", keys.slot_ns),
        );
    }
    Ok(Slots {
        slot_ns: keys.slot_ns,
        own_symbols,
        other_symbols,
        prepare_ns: time(&format!("{key}.prepare_ns"), keys.prepare_ns)?,
        decode_ns: time(&format!("{key}.decode_ns"), keys.decode_ns)?,
        code: keys.code,
        harq: keys.harq.map(|keys| harq(key, keys)).transpose()?,
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
    if keys.frame.len() > MAX_FRAME {
        return fail(&name, format!("is too long: use at most {MAX_FRAME} slots"));
    }
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

fn harq(key: &str, keys: HarqKeys) -> Result<Harq, ConfigError> {
    let key = |name: &str| format!("{key}.harq.{name}");
    if !(1..=MAX_PROCESSES).contains(&keys.processes) {
        return fail(
            &key("processes"),
            format!("is {}: use 1 to {MAX_PROCESSES}", keys.processes),
        );
    }
    if !(1..=64).contains(&keys.limit) {
        return fail(&key("limit"), format!("is {}: use 1 to 64", keys.limit));
    }
    for (name, value) in [
        ("combining_gain_db", keys.combining_gain_db),
        ("slope_per_db", keys.slope_per_db),
    ] {
        if !(0.0..=100.0).contains(&value) {
            return fail(&key(name), format!("is {value}: use 0 to 100"));
        }
    }
    Ok(Harq {
        processes: keys.processes,
        feedback_slots: count(&key("feedback_slots"), keys.feedback_slots, 0)?,
        schedule_slots: count(&key("schedule_slots"), keys.schedule_slots, 1)?,
        limit: keys.limit,
        combining_gain_db: keys.combining_gain_db,
        slope_per_db: keys.slope_per_db,
        ack_loss: probability_of(&key("ack_loss"), keys.ack_loss)?,
        nack_loss: probability_of(&key("nack_loss"), keys.nack_loss)?,
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
            reassembly_ns: time("rlc.reassembly_ns", reassembly_ns)?,
            poll_ns: time("rlc.poll_ns", poll_ns)?,
            status_ns: time("rlc.status_ns", status_ns)?,
            retransmissions,
            reestablish_ns: positive_time("rlc.reestablish_ns", reestablish_ns)?,
            status_loss: probability_of("rlc.status_loss", status_loss)?,
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

fn other_users(keys: LoadKeys) -> Result<Load, ConfigError> {
    if keys.mean <= 0.0 || !(0.0..=MAX_LOAD).contains(&keys.mean) {
        return fail(
            "load.mean",
            format!("is {}: use more than 0 and at most {MAX_LOAD}", keys.mean),
        );
    }
    if keys.burst_ns < MIN_BURST_NS {
        return fail(
            "load.burst_ns",
            format!("is {}: use at least {MIN_BURST_NS}", keys.burst_ns),
        );
    }
    Ok(Load {
        mean: keys.mean,
        burst_ns: time("load.burst_ns", keys.burst_ns)?,
    })
}

fn aggregation(keys: AggregationKeys) -> Result<Aggregation, ConfigError> {
    if !(2..=MAX_CARRIERS).contains(&keys.carriers) {
        return fail(
            "aggregation.carriers",
            format!("is {}: use 2 to {MAX_CARRIERS}", keys.carriers),
        );
    }
    Ok(Aggregation {
        carriers: keys.carriers,
        activation_ns: time("aggregation.activation_ns", keys.activation_ns)?,
        deactivation_ns: positive_time("aggregation.deactivation_ns", keys.deactivation_ns)?,
    })
}

fn grant_losses(keys: GrantLossKeys) -> Result<GrantLosses, ConfigError> {
    let key = |name: &str| format!("grants.losses.{name}");
    if !(1..=MAX_REQUESTS).contains(&keys.most_requests) {
        return fail(
            &key("most_requests"),
            format!("is {}: use 1 to {MAX_REQUESTS}", keys.most_requests),
        );
    }
    Ok(GrantLosses {
        request: probability_of(&key("request"), keys.request)?,
        report: probability_of(&key("report"), keys.report)?,
        prohibit_ns: time(&key("prohibit_ns"), keys.prohibit_ns)?,
        most_requests: keys.most_requests,
        access_ns: time(&key("access_ns"), keys.access_ns)?,
        retry_ns: positive_time(&key("retry_ns"), keys.retry_ns)?,
    })
}

/// The timer; without it the receiver waits until the gap is filled or given up.
fn reordering(keys: ReorderingKeys) -> Result<Option<u64>, ConfigError> {
    let timer = keys.timer_ns;
    timer
        .map(|value| time("reordering.timer_ns", value))
        .transpose()
}

pub(super) fn grants(keys: GrantKeys) -> Result<Grants, ConfigError> {
    let configured = keys
        .configured
        .map(|keys| {
            Ok(Configured {
                slots: count("grants.configured.slots", keys.slots, 1)?,
                bytes: count("grants.configured.bytes", keys.bytes, 1)?,
            })
        })
        .transpose()?;
    Ok(Grants {
        request_slots: count("grants.request_slots", keys.request_slots, 1)?,
        schedule_slots: count("grants.schedule_slots", keys.schedule_slots, 0)?,
        prepare_slots: count("grants.prepare_slots", keys.prepare_slots, 1)?,
        first_bytes: count("grants.first_bytes", keys.first_bytes, 1)?,
        configured,
        losses: keys.losses.map(grant_losses).transpose()?,
    })
}

/// The connection of the hop: that of the other direction, if it exists and is equal.
fn connection(keys: ConnectionKeys, shared: &mut Shared) -> Result<Arc<Connection>, ConfigError> {
    let drx = keys.drx.map(drx).transpose()?;
    let rrc = keys
        .rrc
        .map(|keys| {
            Ok(Rrc {
                inactivity_ns: time("connection.rrc.inactivity_ns", keys.inactivity_ns)?,
                promotion_ns: time("connection.rrc.promotion_ns", keys.promotion_ns)?,
                paging_ns: time("connection.rrc.paging_ns", keys.paging_ns)?,
            })
        })
        .transpose()?;
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
    let key = |name: &str| format!("connection.drx.{name}");
    let short = keys
        .short_cycle_ns
        .map(|cycle_ns| {
            Ok((
                positive_time(&key("short_cycle_ns"), cycle_ns)?,
                keys.short_cycles,
            ))
        })
        .transpose()?;
    let long_cycle_ns = positive_time(&key("long_cycle_ns"), keys.long_cycle_ns)?;
    if keys.on_ns > long_cycle_ns {
        return fail(
            &key("on_ns"),
            format!("is {}: use at most the cycle, {long_cycle_ns}", keys.on_ns),
        );
    }
    Ok(Drx {
        inactivity_ns: time(&key("inactivity_ns"), keys.inactivity_ns)?,
        short,
        long_cycle_ns,
        on_ns: keys.on_ns,
    })
}
