//! The cell that devices share, in the laboratory file.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::radio::{air, build_device};
use super::values::{ConfigError, Loader, RateConfig, check_bounds, fail};
use super::{Shared, StageConfig, build_shared};
use crate::radio::{Cell, ModelledUser, Radio};
pub use crate::radio::{Policy, SchedulerConfig, ServiceConfig, SliceConfig, TrafficConfig};
use crate::random_stream::RandomStream;
use crate::stage::Stage;

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

/// Builds one direction of a cell, and the stages of each device: in the place of its radio stands its port. A device that
/// has the cell for itself keeps its radio.
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
    // A device alone has every slot: its radio needs no port.
    let alone = devices.len() == 1 && users.is_empty() && config.control_units == 0;
    let alone = if alone { devices.pop() } else { None };
    let mut alone = alone.map(|(radio, _)| radio);
    let cell = Cell::new(config.clone(), devices, users);
    let with_port = |(place, stages): (usize, Vec<Option<Box<dyn Stage>>>)| {
        let mut stage_of = |stage: Option<Box<dyn Stage>>| match (stage, alone.take()) {
            (Some(stage), radio) => {
                alone = radio;
                stage
            }
            (None, Some(radio)) => Box::new(radio),
            (None, None) => cell.port(place),
        };
        stages.into_iter().map(&mut stage_of).collect()
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

/// Random streams of modelled users beside the streams of the first stage of the first device.
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
