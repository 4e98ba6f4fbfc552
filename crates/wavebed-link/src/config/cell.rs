//! The cell that devices share, in the laboratory file.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::radio::{air, build_device};
use super::values::{ConfigError, Loader, RateConfig, check_bounds, fail};
use super::{Shared, StageConfig, build_shared};
use crate::radio::{Cell, ModelledUser, Radio};
use crate::random_stream::RandomStream;
use crate::stage::{MAX_RATE_BPS, MAX_TIME_NS, Stage};

/// Resource blocks of the widest carrier (TS 38.101-1, table 5.3.2-1: 273).
const MAX_UNITS: u32 = 275;
/// A terabyte.
const MAX_FILE_BYTES: u64 = 1_000_000_000_000;
/// Lower rates and shorter periods would cost time, and no scheduler would notice them.
const MIN_ON_BPS: u64 = 1000;
const MIN_ON_NS: u64 = 100_000;
/// The least urgent priority level (TS 23.501, clause 5.7.3.3).
const MAX_LEVEL: u32 = 127;

/// Who gets the slots of one direction of a cell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellScheduler")]
pub struct SchedulerConfig {
    /// Which device is served first.
    pub policy: Policy,
    /// Parts of a slot, each for one device: resource block groups (TS 38.214 5.1.2.2.1).
    #[garde(range(min = 1, max = MAX_UNITS))]
    pub units: u32,
    /// Slots over which proportional fair averages what a device was given.
    #[serde(default = "average_slots")]
    #[garde(range(min = 1.0, max = 1e6))]
    pub average_slots: f64,
    /// Devices that one slot serves at most, by control channel or beams; null: one for each part.
    #[serde(default)]
    #[garde(range(min = 1, max = MAX_UNITS))]
    pub devices_per_slot: Option<u32>,
    /// Parts of a slot that the control information of each served device takes.
    #[serde(default)]
    #[garde(range(max = MAX_UNITS))]
    pub control_units: u32,
    /// Slices, with their least shares of each slot (`rRMPolicyMinRatio`, TS 28.541).
    #[serde(default)]
    #[garde(dive)]
    pub slices: Vec<SliceConfig>,
}

/// As `LastAvgTPutWeight` of 5G-LENA.
const fn average_slots() -> f64 {
    99.0
}

/// Which device is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The highest ratio of the rate that a device could have to the rate that it was given (Jalali, Padovani, Pankaj
    /// 2000).
    ProportionalFair,
    /// One after another, in equal parts.
    RoundRobin,
    /// The highest rate.
    MaximumRate,
    /// Guaranteed rates by priority level, then the lowest priority level (TS 23.501, clause 5.7.3.3); proportional fair
    /// within a level.
    Priority,
}

/// A slice of a cell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellSlice")]
pub struct SliceConfig {
    /// Its name.
    pub name: String,
    /// Its part of the slots.
    #[garde(range(min = 0.0, max = 1.0))]
    pub share: f64,
}

/// What a device is entitled to in one direction.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellService")]
pub struct ServiceConfig {
    /// Priority level, the lowest first. 90: of 5QI 9, the default bearer (TS 23.501, 5.7.4).
    #[serde(default = "level")]
    #[garde(range(min = 1, max = MAX_LEVEL))]
    pub level: u32,
    /// Guaranteed bit rate (GFBR), bits per second; null: none.
    #[serde(default)]
    #[garde(range(min = 1, max = MAX_RATE_BPS))]
    pub guaranteed_bps: Option<u64>,
    /// The slice; null: none.
    #[serde(default)]
    pub slice: Option<String>,
}

const fn level() -> u32 {
    90
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            level: level(),
            guaranteed_bps: None,
            slice: None,
        }
    }
}

/// A modelled user of a cell, which has demand but no packets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "BackgroundUser")]
pub struct BackgroundConfig {
    /// Its name.
    pub name: String,
    /// The rate that it would have with all slots.
    #[garde(dive)]
    pub rate: RateConfig,
    /// Its demand.
    #[garde(dive)]
    pub traffic: TrafficConfig,
    /// What it is entitled to; null: what the default bearer is.
    #[serde(default)]
    #[garde(dive)]
    pub service: Option<ServiceConfig>,
}

/// The demand of a modelled user.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "BackgroundTraffic")]
pub enum TrafficConfig {
    /// Always more data.
    FullBuffer {},
    /// Packets at a constant rate in random periods. Periods and pauses are exponentially distributed.
    OnOff {
        /// Bits per second while on.
        #[garde(range(min = MIN_ON_BPS, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Mean time on.
        #[garde(range(min = MIN_ON_NS, max = MAX_TIME_NS))]
        on_ns: u64,
        /// Mean time off.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        off_ns: u64,
    },
    /// Poisson arrivals of files, which queue at one user (FTP model 3, TR 36.889, annex A).
    Files {
        /// Files per second.
        #[garde(range(min = 1e-6, max = 1e6))]
        per_s: f64,
        /// Bytes of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
    },
    /// Poisson arrivals of users, who leave when they have their file (FTP model 1, TR 36.814).
    UserPerFile {
        /// Users per second.
        #[garde(range(min = 1e-6, max = 1e6))]
        per_s: f64,
        /// Bytes of the file of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
    },
    /// A file, an exponentially distributed pause, the next file (FTP model 2, TR 36.814).
    FileAfterFile {
        /// Bytes of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
        /// Mean pause between the end of a file and the next one.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        pause_ns: u64,
    },
    /// A video of which a segment is fetched in each period, or later if the one before is late.
    Video {
        /// Bits per second of the video.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Length of a segment.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        segment_ns: u64,
        /// How far the player runs ahead. A segment that is later stops the video.
        #[serde(default = "buffer_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        buffer_ns: u64,
    },
}

/// As `maxBufferLength` of hls.js.
const fn buffer_ns() -> u64 {
    30_000_000_000
}

/// One direction of a device of a cell.
pub struct Member<'a> {
    /// Its stages: exactly one is a radio.
    pub stages: &'a [StageConfig],
    /// What it is entitled to; `None`: what the default bearer is.
    pub service: Option<&'a ServiceConfig>,
    /// The state that its two directions share.
    pub shared: &'a mut Shared,
    /// The random stream of its first stage; each other one has the next process.
    pub random: (u64, u64),
}

/// The device whose values break a rule, by its place, and the rule.
pub type CellError = (Option<usize>, ConfigError);

/// A cell, and the stages of each of its devices.
pub type BuiltCell = (Cell, Vec<Vec<Box<dyn Stage>>>);

/// Builds one direction of a cell, and the stages of each device: in the place of its radio stands its port.
///
/// # Errors
/// The first value that breaks a rule: the place of its device if it has one, and its key.
pub fn build_cell(
    config: &SchedulerConfig,
    background: &[BackgroundConfig],
    members: Vec<Member<'_>>,
    mtu_bytes: u32,
    loader: &mut Loader<'_>,
) -> Result<BuiltCell, CellError> {
    check(config).map_err(|error| (None, error))?;
    let mut users = Vec::new();
    for (place, user) in background.iter().enumerate() {
        let first = members.first().map_or((0, 0), |member| member.random);
        let built = modelled(user, config, first, place as u64, loader);
        let in_list = |error: ConfigError| ConfigError {
            key: format!("background[{place}].{}", error.key),
            ..error
        };
        users.push(built.map_err(|error| (None, in_list(error)))?);
    }
    let mut built: Vec<Vec<Option<Box<dyn Stage>>>> = Vec::new();
    let mut devices: Vec<(Radio, ServiceConfig)> = Vec::new();
    for (place, mut member) in members.into_iter().enumerate() {
        let service = member.service.cloned().unwrap_or_default();
        let (radio, stages) = (check_service(&service, config))
            .and_then(|()| device(&mut member, mtu_bytes, loader))
            .map_err(|error| (Some(place), error))?;
        let first = devices.first().map_or(&radio, |(first, _)| first);
        if !radio.has_slots_of(first) {
            let broken = fail(
                "slots",
                "differ from those of the first device: use the same",
            );
            return broken.map_err(|error| (Some(place), error));
        }
        devices.push((radio, service));
        built.push(stages);
    }
    let cell = Cell::new(config.clone(), devices, users);
    let with_port = |(place, stages): (usize, Vec<Option<Box<dyn Stage>>>)| {
        let stages = stages.into_iter();
        stages
            .map(|stage| stage.unwrap_or_else(|| cell.port(place)))
            .collect()
    };
    let stages = built.into_iter().enumerate().map(with_port).collect();
    Ok((cell, stages))
}

/// What ties the values of a scheduler together.
fn check(config: &SchedulerConfig) -> Result<(), ConfigError> {
    check_bounds(config)?;
    if config.control_units >= config.units {
        return fail(
            "control_units",
            format!(
                "is {}: use less than the units, {}",
                config.control_units, config.units
            ),
        );
    }
    for (place, slice) in config.slices.iter().enumerate() {
        if config.slices[..place]
            .iter()
            .any(|other| other.name == slice.name)
        {
            return fail(
                "slices",
                format!("{:?} occurs twice: names must be distinct", slice.name),
            );
        }
    }
    let sum: f64 = config.slices.iter().map(|slice| slice.share).sum();
    if sum > 1.0 + 1e-9 {
        return fail("slices", format!("have {sum} together: use at most 1"));
    }
    Ok(())
}

fn check_service(service: &ServiceConfig, config: &SchedulerConfig) -> Result<(), ConfigError> {
    check_bounds(service)?;
    let known = |name: &String| config.slices.iter().any(|slice| slice.name == *name);
    match &service.slice {
        Some(name) if !known(name) => fail(
            "service.slice",
            format!("{name:?} is no slice of the cell: add it to its slices"),
        ),
        _ => Ok(()),
    }
}

/// Random streams of modelled users beside those of the first stage of the first device.
const MODELLED: u64 = 5 << 40;

/// A modelled user, and what it is entitled to.
fn modelled(
    user: &BackgroundConfig,
    config: &SchedulerConfig,
    (seed, first): (u64, u64),
    place: u64,
    loader: &mut Loader<'_>,
) -> Result<(ModelledUser, ServiceConfig), ConfigError> {
    check_bounds(user)?;
    let service = user.service.clone().unwrap_or_default();
    check_service(&service, config)?;
    let air = air(&user.rate, None, loader)?;
    let random = RandomStream::new(seed, first).process(MODELLED + place);
    let user = ModelledUser::new(user.name.clone(), user.traffic, air, random);
    Ok((user, service))
}

/// The radio of a device, and its stages: the radio's is none yet.
type BuiltDevice = (Radio, Vec<Option<Box<dyn Stage>>>);

fn device(
    member: &mut Member<'_>,
    mtu_bytes: u32,
    loader: &mut Loader<'_>,
) -> Result<BuiltDevice, ConfigError> {
    let (seed, first) = member.random;
    let mut radio = None;
    let mut stages = Vec::with_capacity(member.stages.len());
    for (place, stage) in (first..).zip(member.stages) {
        let random = RandomStream::new(seed, place);
        stages.push(match stage {
            StageConfig::Radio(keys) => {
                check_bounds(stage)?;
                let built = build_device(keys, mtu_bytes, random, loader, member.shared)?;
                if radio.replace(built).is_some() {
                    return fail("stage", "radio occurs twice: a device of a cell has one");
                }
                None
            }
            _ => Some(build_shared(
                stage,
                mtu_bytes,
                random,
                loader,
                member.shared,
            )?),
        });
    }
    match radio {
        Some(radio) => Ok((radio, stages)),
        None => fail("stage", "is never radio: a device of a cell needs one"),
    }
}
