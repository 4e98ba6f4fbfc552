//! The specification of a network, declared once, and the stages built from it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wavebed_link::config::{
    BackgroundConfig, BuiltCell, Member, SchedulerConfig, ServiceConfig, Shared, StageConfig,
    build_cell, build_shared, check_bounds,
};
use wavebed_link::pattern::Pattern;
use wavebed_link::{RandomStream, Stage};
use wavebed_os::unix;

use crate::coalesce::Coalesce;
use crate::engine::{CellSetup, HopSetup};

/// The smallest MTU with IPv6 (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;
/// The largest IPv4 packet.
const GREATEST_MTU: u32 = 65_535;
/// Addresses of the prefix of the last leg, beside the host at its other end.
const MOST_DEVICES: usize = 250;
/// A few packets in each direction, and free blocks kept for reuse.
pub const LEAST_PACKET_MEMORY_BYTES: usize = 16 << 20;

/// The network of a trial: hosts in a row, and the hops between them.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Network")]
pub struct NetworkConfig {
    /// Bytes of the largest IP packet.
    #[garde(range(min = LEAST_MTU, max = GREATEST_MTU))]
    pub mtu: u32,
    /// Whether the server is this machine and its network.
    pub nat: bool,
    /// Which wire segments are coalesced into GSO packets where they leave.
    #[garde(dive)]
    pub coalesce: Coalesce,
    /// Memory that packets in flight may take; null for a quarter of what the engine may have.
    #[garde(range(min = LEAST_PACKET_MEMORY_BYTES))]
    pub packet_memory_bytes: Option<usize>,
    /// Hosts, the server first, the client last.
    #[garde(dive)]
    pub hosts: Vec<HostConfig>,
    /// Legs between neighbours; one more may connect the last two, for a second radio of the client.
    #[garde(dive)]
    pub legs: Vec<LegConfig>,
    /// The cell behind the last leg, whose devices are the last hosts; null: one client.
    #[serde(default)]
    #[garde(dive)]
    pub cell: Option<CellConfig>,
    /// Whether the times of every packet and of every radio block are recorded.
    #[serde(default)]
    pub packet_log: bool,
    /// Whether programs reach sockets of the machine's programs by their names in the file system.
    #[serde(default)]
    pub outside_sockets: bool,
    /// With nat, which way questions go to a resolver that only this machine reaches.
    #[serde(default)]
    pub names: Way,
    /// When the client's flows get other source ports at the server, after time zero, rising.
    #[serde(default)]
    pub rebind_at_ns: Vec<u64>,
}

/// Which way the laboratory's questions for names take with NAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Over the path: a phone's resolver is behind its radio.
    #[default]
    Path,
    /// Beside the path, without its delay and its losses.
    Beside,
}

/// A host.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Host")]
pub struct HostConfig {
    /// Its name.
    #[garde(custom(check_name))]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$"))]
    pub name: String,
    /// TCP congestion control of its connections; null: the machine's default.
    pub congestion_control: Option<String>,
    /// Settings of its network namespace.
    #[serde(default)]
    #[garde(custom(check_settings))]
    pub sysctls: BTreeMap<String, String>,
}

/// The hops between two hosts; down leads from the first to the second.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Leg")]
pub struct LegConfig {
    /// The host towards the server.
    #[serde(rename = "from")]
    pub start: String,
    /// The host towards the client.
    #[serde(rename = "to")]
    pub end: String,
    /// Hops, the one nearest to the server first; none only before a cell.
    #[garde(dive)]
    pub hops: Vec<HopConfig>,
}

/// The radio cell that devices share: a hop after the last leg.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "RadioCell")]
pub struct CellConfig {
    /// Its name; the links of a device are NAME.DEVICE.down and NAME.DEVICE.up.
    #[garde(custom(check_name))]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$"))]
    pub name: String,
    /// Who gets the slots towards the devices.
    #[garde(dive)]
    pub down: SchedulerConfig,
    /// Who gets the slots towards the base station.
    #[garde(dive)]
    pub up: SchedulerConfig,
    /// The devices: the last hosts, in the same order.
    #[garde(length(min = 1, max = MOST_DEVICES), dive)]
    pub devices: Vec<DeviceConfig>,
    /// Modelled users of the downlink.
    #[serde(default)]
    #[garde(dive)]
    pub down_background: Vec<BackgroundConfig>,
    /// Modelled users of the uplink.
    #[serde(default)]
    #[garde(dive)]
    pub up_background: Vec<BackgroundConfig>,
}

/// A device of a cell.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellDevice")]
pub struct DeviceConfig {
    /// Its host.
    pub host: String,
    /// Stages towards the device, in the order in which packets meet them; exactly one is a radio.
    pub down: Vec<StageConfig>,
    /// Stages towards the base station; exactly one is a radio.
    pub up: Vec<StageConfig>,
    /// What it is entitled to in the downlink; null: what the default bearer is.
    #[serde(default)]
    #[garde(dive)]
    pub down_service: Option<ServiceConfig>,
    /// What it is entitled to in the uplink; null: what the default bearer is.
    #[serde(default)]
    #[garde(dive)]
    pub up_service: Option<ServiceConfig>,
}

/// One part of a leg.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "Hop")]
pub struct HopConfig {
    /// Its name; its links are NAME.down and NAME.up.
    #[garde(custom(check_name))]
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$"))]
    pub name: String,
    /// Its kind, for reports; the stages define its behaviour.
    pub kind: HopKind,
    /// Stages towards the client, in the order in which packets meet them.
    pub down: Vec<StageConfig>,
    /// Stages towards the server.
    pub up: Vec<StageConfig>,
}

/// The kind of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopKind {
    /// A cable or a wired network.
    Wired,
    /// A radio link.
    Radio,
}

/// A hop, or a device of a cell as one.
#[derive(Clone, Debug)]
pub struct HopView<'a> {
    /// Its name, of a device `CELL.DEVICE`; its links are NAME.down and NAME.up.
    pub name: Cow<'a, str>,
    /// Its kind.
    pub kind: HopKind,
    /// Its stages towards the client.
    pub down: &'a [StageConfig],
    /// Its stages towards the server.
    pub up: &'a [StageConfig],
}

impl HopConfig {
    /// The hop without its own copy.
    #[must_use]
    pub fn view(&self) -> HopView<'_> {
        HopView {
            name: Cow::Borrowed(&self.name),
            kind: self.kind,
            down: &self.down,
            up: &self.up,
        }
    }
}

impl CellConfig {
    /// The name of a device's hop.
    #[must_use]
    pub fn hop_name(&self, device: &DeviceConfig) -> String {
        format!("{}.{}", self.name, device.host)
    }

    /// Its devices as hops.
    pub fn hops(&self) -> impl Iterator<Item = HopView<'_>> {
        self.devices.iter().map(|device| HopView {
            name: Cow::Owned(self.hop_name(device)),
            kind: HopKind::Radio,
            down: &device.down,
            up: &device.up,
        })
    }

    /// Checks what ties its values together, beside what [`build_cell`] checks.
    ///
    /// # Errors
    /// One line with the broken rule.
    pub fn check(&self) -> Result<(), String> {
        for device in &self.devices {
            for (direction, stages) in [("down", &device.down), ("up", &device.up)] {
                let is_radio = |stage: &&StageConfig| matches!(stage, StageConfig::Radio(_));
                let radios = stages.iter().filter(is_radio).count();
                if radios != 1 {
                    return Err(format!(
                        "cell: devices: {}: {direction}: has {radios} stages radio: use exactly one",
                        device.host
                    ));
                }
            }
        }
        for (key, users) in [
            ("down_background", &self.down_background),
            ("up_background", &self.up_background),
        ] {
            let mut names: Vec<&str> = (self.devices.iter())
                .map(|device| device.host.as_str())
                .collect();
            for BackgroundConfig { name, .. } in users {
                if !is_name(name) || names.contains(&name.as_str()) {
                    return Err(format!(
                        "cell: {key}: {name:?} is no valid name, or the name of another user: use another one"
                    ));
                }
                names.push(name);
            }
        }
        Ok(())
    }
}

impl NetworkConfig {
    /// The legs between neighbours.
    #[must_use]
    pub fn row(&self) -> &[LegConfig] {
        &self.legs[..self.legs.len().min(self.row_hosts().saturating_sub(1))]
    }

    /// The leg beside the row, between the last two hosts.
    #[must_use]
    pub fn second_leg(&self) -> Option<&LegConfig> {
        self.legs.get(self.row_hosts().saturating_sub(1))
    }

    /// The number of the last hosts that are clients: one, or the devices of a cell.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.cell.as_ref().map_or(1, |cell| cell.devices.len())
    }

    /// The hosts of the row: all, or those up to the first device of a cell.
    fn row_hosts(&self) -> usize {
        (self.hosts.len() + 1).saturating_sub(self.clients())
    }

    /// The hops of all legs, and the devices of the cell.
    pub fn hops(&self) -> impl Iterator<Item = HopView<'_>> {
        let legs = self.legs.iter().flat_map(|leg| &leg.hops);
        let devices = self.cell.iter().flat_map(CellConfig::hops);
        legs.map(HopConfig::view).chain(devices)
    }

    /// Checks the bounds, and what ties values together; stages are checked when they are built.
    ///
    /// # Errors
    /// One line with the broken rule.
    pub fn check(&self) -> Result<(), String> {
        check_bounds(self).map_err(|error| error.to_string())?;
        if let Some(cell) = &self.cell {
            cell.check()?;
        }
        self.check_hosts()?;
        self.check_legs()?;
        if self.nat && !self.rebind_at_ns.is_empty() {
            return Err(
                "rebind_at_ns: with nat the server is this machine, whose connections stay: set it to []".to_owned(),
            );
        }
        if !self.rebind_at_ns.is_sorted_by(|one, next| one < next) {
            return Err("rebind_at_ns: must rise".to_owned());
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), String> {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        if let Some(cell) = &self.cell {
            let devices = cell.devices.iter().map(|device| device.host.as_str());
            let gateways = names.len().checked_sub(cell.devices.len());
            let is_right = gateways.is_some_and(|gateways| {
                (1..=2).contains(&gateways) && names[gateways..].iter().copied().eq(devices)
            });
            if !is_right || names[0] != "server" {
                return Err(
                    "hosts: with a cell must be the server, perhaps an edge, then the devices of the cell in their \
                     order"
                        .to_owned(),
                );
            }
        } else if !(2..=3).contains(&names.len())
            || names[0] != "server"
            || names[names.len() - 1] != "client"
        {
            return Err(
                "hosts: must be two or three, the first named server, the last named client"
                    .to_owned(),
            );
        }
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        if distinct.len() != names.len() {
            return Err("hosts: names must be distinct".to_owned());
        }
        let server = &self.hosts[0];
        if self.nat && (server.congestion_control.is_some() || !server.sysctls.is_empty()) {
            return Err(
                "hosts: with nat the server is this machine, whose settings are not changed: set \
                        its congestion_control to null and its sysctls to {}"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_legs(&self) -> Result<(), String> {
        let row = self.row_hosts() - 1;
        if self.cell.is_some() && self.legs.len() > row {
            return Err(format!(
                "legs: with a cell there are {row}, and no second leg, not {}",
                self.legs.len()
            ));
        }
        if !(row..=row + 1).contains(&self.legs.len()) {
            return Err(format!(
                "legs: {} hosts require {row} legs, and may have one more, not {}",
                self.row_hosts(),
                self.legs.len()
            ));
        }
        if self.nat && self.second_leg().is_some() {
            return Err("legs: with nat there is no second leg to the client".to_owned());
        }
        let mut names = BTreeSet::new();
        if let Some(cell) = &self.cell {
            names.insert(Cow::Borrowed(cell.name.as_str()));
            names.extend(cell.hops().map(|hop| hop.name));
        }
        for (index, leg) in self.legs.iter().enumerate() {
            let start = index.min(row - 1);
            let ends = [&self.hosts[start].name, &self.hosts[start + 1].name];
            if [&leg.start, &leg.end] != ends {
                return Err(format!(
                    "legs[{index}]: leads from {} to {}: in the row it leads from {} to {}",
                    leg.start, leg.end, ends[0], ends[1]
                ));
            }
            let is_before_cell = self.cell.is_some() && index + 1 == row;
            if leg.hops.is_empty() && !is_before_cell {
                return Err(format!("legs[{index}].hops: use at least 1 of them"));
            }
            for hop in &leg.hops {
                if !names.insert(Cow::Borrowed(hop.name.as_str())) {
                    return Err(format!(
                        "hops: names must be distinct: {:?} occurs twice",
                        hop.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether `name` is valid in socket names, host names and file names.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    first && name.len() <= 32 && name.bytes().all(fits)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that garde calls"
)]
fn check_name(name: &str, _: &()) -> garde::Result {
    if is_name(name) {
        return Ok(());
    }
    Err(garde::Error::new(format!(
        "{name:?} is no valid name: use 1 to 32 letters, digits, '-', '_', '.', beginning with a letter or digit"
    )))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that garde calls"
)]
fn check_settings(sysctls: &BTreeMap<String, String>, _: &()) -> garde::Result {
    let fits = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let wrong = |key: &&String| !(key.starts_with("net.") && key.split('.').all(fits));
    sysctls.keys().find(wrong).map_or(Ok(()), |key| {
        Err(garde::Error::new(format!(
            "{key:?} is no setting of a network namespace: use one that begins with net."
        )))
    })
}

impl HopKind {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wired => "wired",
            Self::Radio => "radio",
        }
    }
}

/// A link that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A pattern cannot be read, or breaks a rule: its file, the line and the rule.
    #[error("{0}")]
    Pattern(String),
    /// A stage cannot be made.
    #[error("{link}: {message}")]
    Stage {
        /// Which link.
        link: String,
        /// Why.
        message: String,
    },
}

/// Patterns, each read once and shared by all links that use it.
#[derive(Default)]
pub struct Patterns {
    read: HashMap<PathBuf, Arc<Pattern>>,
    failure: Option<String>,
    is_unread: bool,
}

impl Patterns {
    /// Patterns whose files are not opened: stages that need one are checked, and left out.
    #[must_use]
    pub fn unread() -> Self {
        Self {
            is_unread: true,
            ..Self::default()
        }
    }

    /// The pattern in `file`.
    ///
    /// # Errors
    /// One line that names the file, the line and the rule.
    pub fn load(&mut self, file: &Path) -> Result<Arc<Pattern>, String> {
        if let Some(pattern) = self.read.get(file) {
            return Ok(Arc::clone(pattern));
        }
        let parsed = if self.is_unread {
            Err("is not read here".to_owned())
        } else {
            Self::parse(file)
        };
        let pattern = parsed.inspect_err(|line| self.failure = Some(line.clone()))?;
        let pattern = Arc::new(pattern);
        self.read.insert(file.to_owned(), Arc::clone(&pattern));
        Ok(pattern)
    }

    fn parse(file: &Path) -> Result<Pattern, String> {
        let text = unix::read_text(file, unix::MAX_BYTES)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Pattern::parse(&text)
            .map_err(|error| format!("{}:{}: {}", file.display(), error.line, error.message))
    }
}

/// The hops of a network, built.
#[derive(Default)]
pub struct BuiltNetwork {
    /// The hops of each leg.
    pub legs: Vec<Vec<HopSetup>>,
    /// The cell, and a hop for each of its devices.
    pub cell: Option<(CellSetup, Vec<HopSetup>)>,
}

impl NetworkConfig {
    /// Builds the hops of all legs, and the cell.
    ///
    /// # Errors
    /// The first stage that cannot be made.
    pub fn build(&self, seed: u64, patterns: &mut Patterns) -> Result<BuiltNetwork, LinkError> {
        let legs = self.legs.iter().map(|leg| leg.hops.as_slice());
        let built = build_legs(legs, seed, self.mtu, patterns)?;
        let place = self.legs.iter().map(|leg| leg.hops.len()).sum();
        let cell = match &self.cell {
            Some(cell) => build_devices(cell, seed, place, self.mtu, patterns)?,
            None => None,
        };
        Ok(BuiltNetwork { legs: built, cell })
    }
}

/// The random process of the first stage of the hop at this place on the path, in direction 0 (down) or 1 (up).
const fn first_process(place: u64, direction: u64) -> u64 {
    (2 * place + direction) << 16
}

/// Builds a cell whose first device has this place on the path, each other one the next. None where patterns are unread.
///
/// # Errors
/// The first value that breaks a rule.
pub fn build_devices(
    cell: &CellConfig,
    seed: u64,
    place: usize,
    mtu: u32,
    patterns: &mut Patterns,
) -> Result<Option<(CellSetup, Vec<HopSetup>)>, LinkError> {
    if patterns.is_unread {
        // A pattern that is not read keeps a cell from being built: its devices are checked one by one.
        for device in &cell.devices {
            let hop = HopConfig {
                name: cell.hop_name(device),
                kind: HopKind::Radio,
                down: device.down.clone(),
                up: device.up.clone(),
            };
            build_legs([[hop].as_slice()], seed, mtu, patterns)?;
        }
    }
    let mut shared: Vec<Shared> = cell.devices.iter().map(|_| Shared::default()).collect();
    let mut side = |direction: u64| -> Result<Option<BuiltCell>, LinkError> {
        let (name, scheduler, background) = match direction {
            0 => ("down", &cell.down, &cell.down_background),
            _ => ("up", &cell.up, &cell.up_background),
        };
        let members = (cell.devices.iter().zip(&mut shared)).zip(place as u64..);
        let members = members.map(|((device, shared), place)| {
            let (stages, service) = match direction {
                0 => (&device.down, &device.down_service),
                _ => (&device.up, &device.up_service),
            };
            Member {
                stages,
                service: service.as_ref(),
                shared,
                random: (seed, first_process(place, direction)),
            }
        });
        let members = members.collect();
        let mut load = |file: &Path| patterns.load(file);
        match build_cell(scheduler, background, members, mtu, &mut load) {
            Ok(built) => Ok(Some(built)),
            Err(_) if patterns.is_unread && patterns.failure.take().is_some() => Ok(None),
            Err((device, error)) => {
                let device = device.map(|place| cell.hop_name(&cell.devices[place]));
                let link = format!("{}.{name}", device.as_ref().unwrap_or(&cell.name));
                let message = error.to_string();
                let stage = LinkError::Stage { link, message };
                Err(patterns.failure.take().map_or(stage, LinkError::Pattern))
            }
        }
    };
    let (Some((down, towards)), Some((up, back))) = (side(0)?, side(1)?) else {
        return Ok(None);
    };
    let hops = (cell.devices.iter().zip(towards)).zip(back);
    let hops = hops.map(|((device, down), up)| HopSetup {
        name: cell.hop_name(device),
        down,
        up,
    });
    let name = cell.name.clone();
    Ok(Some((CellSetup { name, down, up }, hops.collect())))
}

/// Builds the hops of all legs. Random streams are keyed by the position of the stage on the path: hop, direction,
/// stage.
///
/// # Errors
/// The first stage that cannot be made.
pub fn build_legs<'a>(
    legs: impl IntoIterator<Item = &'a [HopConfig]>,
    seed: u64,
    mtu: u32,
    patterns: &mut Patterns,
) -> Result<Vec<Vec<HopSetup>>, LinkError> {
    let mut place = 0;
    let mut built = Vec::new();
    for leg in legs {
        let mut hops = Vec::with_capacity(leg.len());
        for hop in leg {
            let mut shared = Shared::default();
            let mut side = |name: &str, stages: &[StageConfig], direction: u64| {
                let first_place = first_process(place, direction);
                build_stages(stages, seed, first_place, mtu, patterns, &mut shared).map_err(
                    |message| {
                        let link = format!("{}.{name}", hop.name);
                        let stage = LinkError::Stage { link, message };
                        patterns.failure.take().map_or(stage, LinkError::Pattern)
                    },
                )
            };
            hops.push(HopSetup {
                name: hop.name.clone(),
                down: side("down", &hop.down, 0)?,
                up: side("up", &hop.up, 1)?,
            });
            place += 1;
        }
        built.push(hops);
    }
    Ok(built)
}

fn build_stages(
    stages: &[StageConfig],
    seed: u64,
    first_place: u64,
    mtu: u32,
    patterns: &mut Patterns,
    shared: &mut Shared,
) -> Result<Vec<Box<dyn Stage>>, String> {
    let mut built = Vec::with_capacity(stages.len());
    for (place, stage) in (first_place..).zip(stages) {
        let mut load = |file: &Path| patterns.load(file);
        let random = RandomStream::new(seed, place);
        match build_shared(stage, mtu, random, &mut load, shared) {
            Ok(made) => built.push(made),
            // All rules hold, except its pattern's.
            Err(_) if patterns.is_unread && patterns.failure.take().is_some() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(built)
}
