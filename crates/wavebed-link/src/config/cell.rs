//! The cell that devices share, in the laboratory file.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{ConfigError, Loader, RateConfig};
use super::{Shared, StageConfig};
use crate::radio::Cell;
use crate::random_stream::RandomStream;
use crate::stage::{MAX_RATE_BPS, MAX_TIME_NS, Stage};

/// Resource blocks of the widest carrier (TS 38.101-1, table 5.3.2-1: 273).
const MAX_UNITS: u32 = 275;
/// A terabyte.
const MAX_FILE_BYTES: u64 = 1_000_000_000_000;
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
    /// Parts of a slot that can be given to one device: resource block groups (TS 38.214, clause 5.1.2.2.1).
    #[garde(range(min = 1, max = MAX_UNITS))]
    pub units: u32,
    /// Slots over which proportional fair averages what a device was given.
    #[serde(default = "average_slots")]
    #[garde(range(min = 1.0, max = 1e6))]
    pub average_slots: f64,
    /// Devices that one slot serves at most, by its control channel or its beams; null: as many as it has parts.
    #[serde(default)]
    #[garde(range(min = 1, max = MAX_UNITS))]
    pub devices_per_slot: Option<u32>,
    /// Parts of a slot that the control information of each served device takes.
    #[serde(default)]
    #[garde(range(max = MAX_UNITS))]
    pub control_units: u32,
    /// Slices: each has at least its share of every slot while its devices have data (`rRMPolicyMinRatio`, TS 28.541).
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
    /// Priority level; the lowest is served first. 90: of 5QI 9, the default bearer (TS 23.501, table 5.7.4-1).
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
    /// A constant rate in exponentially distributed periods, with exponentially distributed pauses.
    OnOff {
        /// Bits per second while on.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Mean time on.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        on_ns: u64,
        /// Mean time off.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        off_ns: u64,
    },
    /// Files that arrive as a Poisson process (FTP model 1, TR 36.814, annex A.2.1.3.1).
    Files {
        /// Files per second.
        #[garde(range(min = 1e-6, max = 1e6))]
        per_s: f64,
        /// Bytes of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
    },
    /// A file, a pause that is exponentially distributed, the next file (FTP model 2, TR 36.814, annex A.2.1.3.1).
    FileAfterFile {
        /// Bytes of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
        /// Mean pause between the end of a file and the next one.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        pause_ns: u64,
    },
    /// A video: a segment each period, fetched at once.
    Video {
        /// Bits per second of the video.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Length of a segment.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        segment_ns: u64,
    },
}

/// One direction of a device of a cell.
pub struct Member<'a> {
    /// Its stages, of which exactly one is a radio.
    pub stages: &'a [StageConfig],
    /// What it is entitled to.
    pub service: &'a ServiceConfig,
    /// The state that its two directions share.
    pub shared: &'a mut Shared,
    /// The random stream of each of its stages.
    pub random: Vec<RandomStream>,
}

/// Builds one direction of a cell: the cell, and the stages of each device, in whose radio's place stands its port.
///
/// # Errors
/// The first value that breaks a rule, by its key.
pub fn build_cell(
    config: &SchedulerConfig,
    background: &[BackgroundConfig],
    members: Vec<Member<'_>>,
    mtu_bytes: u32,
    random: RandomStream,
    loader: &mut Loader<'_>,
) -> Result<(Cell, Vec<Vec<Box<dyn Stage>>>), ConfigError> {
    let _ = (config, background, members, mtu_bytes, random, loader);
    unimplemented!("the cell")
}
