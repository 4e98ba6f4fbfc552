//! The engine: the event loops of all legs, their logs, their captures, and their control while they run.

use std::io;
use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wavebed_link::radio::Cell;
use wavebed_link::{Change, Link, Stage};
use wavebed_os::clock;
use wavebed_os::clock::MachineTime;

use crate::capture::{CaptureError, CaptureWriter};
use crate::cell_account::FileTimes;
use crate::coalesce::Coalesce;
use crate::direction::{Direction, InCell, Way};
use crate::event_loop::{AttachedDirection, Command, Ended, Loop, LoopState};
use crate::frames::Frames;
use crate::host_counters::HostCounters;
use crate::link_chain::{ClassChain, LinkChain, NamedLink};
use crate::on_time::Interruption;
use crate::packet_log::{LinkLog, PacketLogSender, PacketLogWriter};
use crate::pool::{PacketMemory, Packets};
use crate::port::{Device, TimedInput, TimedOutput};
use crate::sampler::{FlowsNow, SampleSetup, Sampler, SamplerError};
use crate::series::{
    Address, Classes, SeriesCell, SeriesLink, SeriesNames, SeriesSender, SeriesWriter, Side,
};
use crate::summary::Summary;
use crate::{capture, packet_log, series};

/// Longest time that a running loop takes to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// One hop of a leg, its stages built.
pub struct HopSetup {
    /// Its name; its links are `NAME.down` and `NAME.up`.
    pub name: String,
    /// Stages towards the client.
    pub down: Vec<Box<dyn Stage>>,
    /// Stages towards the server.
    pub up: Vec<Box<dyn Stage>>,
}

/// Devices with links of their own: of a class of a bridge, or one of a cell.
pub struct ClassSetup {
    /// The name of their departures: `PORT-PORT.CLASS`, or `HOST-DEVICE`.
    pub name: String,
    /// Their addresses.
    pub addresses: Vec<Address>,
    /// Their hops, the one nearest to the server first.
    pub hops: Vec<HopSetup>,
}

/// A cell.
pub struct CellSetup {
    /// Its name.
    pub name: String,
    /// Its scheduler towards the devices.
    pub down: Cell,
    /// Its scheduler towards the base station.
    pub up: Cell,
}

/// One leg, with its devices.
pub struct LegSetup {
    /// `HOST-HOST`, the one nearer to the server first; with a cell `HOST-CELL`.
    pub name: String,
    /// Hops, the one nearest to the server first.
    pub hops: Vec<HopSetup>,
    /// Classes of devices on the client's side, between ports of Ethernet; the devices of a cell.
    pub classes: Vec<ClassSetup>,
    /// The cell that the classes are in.
    pub cell: Option<CellSetup>,
    /// The device nearer to the server.
    pub near: Device,
    /// The device nearer to the client, of the same kind; in a cell one for each of its devices.
    pub far: Vec<Device>,
}

/// The parts of an engine.
pub struct Setup {
    /// Time zero on the monotonic clock, nanoseconds.
    pub origin_ns: u64,
    /// Which segments are coalesced.
    pub coalesce: Coalesce,
    /// Memory that packets in flight may take, bytes.
    pub packet_memory_bytes: usize,
    /// The legs.
    pub legs: Vec<LegSetup>,
    /// The hosts' own counters.
    pub hosts: Vec<HostCounters>,
    /// How many of the last hosts are clients: one, or the devices of a cell.
    pub clients: usize,
    /// Where the per-millisecond series go.
    pub log_dir: Option<PathBuf>,
    /// Whether `log_dir` gets a packet log of each link too.
    pub packet_log: bool,
    /// Where the captures go.
    pub pcap_dir: Option<PathBuf>,
    /// The samplers; only with `log_dir`.
    pub sample: Option<SampleSetup>,
}

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A device or a thread failed.
    #[error("{direction}: {source}")]
    Direction {
        /// The direction, `HOST-HOST.down` or `.up`.
        direction: String,
        /// The system's error.
        source: io::Error,
    },
    /// The loop of a direction has ended or does not answer.
    #[error("{0} does not answer")]
    Silent(String),
    /// The series could not be written.
    #[error(transparent)]
    Series(#[from] series::SeriesError),
    /// The packet log could not be written.
    #[error(transparent)]
    PacketLog(#[from] packet_log::PacketLogError),
    /// The samples could not be written.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The capture could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// There is no link of this name.
    #[error("there is no link {name}; the links are {known}")]
    UnknownLink {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// No stage of the link can make this change.
    #[error("{0} has no stage that takes this change")]
    NotTaken(String),
}

struct RunningLoop {
    name: String,
    links: Vec<String>,
    thread: JoinHandle<io::Result<Ended>>,
    commands: Sender<Command>,
    wake: PipeWriter,
    captures: Vec<CaptureWriter>,
}

/// A running engine.
pub struct Engine {
    loops: Vec<RunningLoop>,
    hosts: Vec<HostCounters>,
    clients: usize,
    memory: Arc<PacketMemory>,
    series: Option<SeriesWriter>,
    packet_log: Option<PacketLogWriter>,
    sampler: Option<Sampler>,
    began: Option<MachineTime>,
}

impl Engine {
    /// Starts the event loops.
    ///
    /// # Errors
    /// When a log or capture file cannot be made, or a thread cannot be started.
    pub fn start(setup: Setup) -> Result<Self, EngineError> {
        let thread_each = has_thread_per_direction(setup.coalesce);
        let legs: Vec<_> = setup.legs.into_iter().map(directions_of).collect();
        let (senders, writers) = start_logs(setup.log_dir.as_deref(), setup.packet_log, &legs)?;
        let mut engine = Self {
            loops: Vec::new(),
            hosts: setup.hosts,
            clients: setup.clients,
            memory: Arc::new(PacketMemory::new(setup.packet_memory_bytes)),
            series: writers.series,
            packet_log: writers.packets,
            sampler: None,
            began: MachineTime::now().ok(),
        };
        let (mut first_link, mut departures) = (0, 0);
        for leg in legs {
            let mut directions = Vec::new();
            for direction in leg {
                let (links, accounts) = (direction.links().count(), direction.departures.len());
                directions.push(attach(
                    direction,
                    setup.origin_ns,
                    setup.coalesce,
                    &engine.memory,
                    senders.of(first_link, departures),
                    setup.pcap_dir.as_ref(),
                )?);
                first_link += links;
                departures += accounts;
            }
            if thread_each {
                for attached in directions {
                    engine
                        .loops
                        .push(start_loop(vec![attached], setup.origin_ns)?);
                }
            } else {
                engine.loops.push(start_loop(directions, setup.origin_ns)?);
            }
        }
        if let (Some(sample), Some(dir)) = (setup.sample, &setup.log_dir) {
            engine.sampler = Some(Sampler::start(sample, dir, setup.origin_ns)?);
        }
        Ok(engine)
    }

    /// The state of every loop; links come leg by leg, towards the client and back.
    ///
    /// # Errors
    /// When a loop does not answer.
    pub fn show(&self) -> Result<Vec<LoopState>, EngineError> {
        self.loops
            .iter()
            .map(|running| running.ask(Command::Show))
            .collect()
    }

    /// The server's connections at the last sample; `None` without samples.
    #[must_use]
    pub fn flows(&self) -> Option<FlowsNow> {
        self.sampler.as_ref()?.last()
    }

    /// Changes one link while it runs. The name must match exactly.
    ///
    /// # Errors
    /// When there is no such link, none of its stages takes the change, or the loop does not answer.
    pub fn apply(&self, link: &str, change: &Change) -> Result<(), EngineError> {
        match self
            .loop_of(link)?
            .ask(|answer| Command::Apply(link.into(), change.clone(), answer))?
        {
            Some(true) => Ok(()),
            _ => Err(EngineError::NotTaken(link.into())),
        }
    }

    /// Lets nothing enter the links of one direction, or of all, for some time. `link` is one of that direction.
    ///
    /// # Errors
    /// When there is no such link, or a loop does not answer.
    pub fn interrupt(
        &self,
        link: Option<&str>,
        interruption: Interruption,
    ) -> Result<(), EngineError> {
        let loops = match link {
            Some(link) => std::slice::from_ref(self.loop_of(link)?),
            None => &self.loops,
        };
        for running in loops {
            running.ask(|answer| Command::Interrupt(link.map(Into::into), interruption, answer))?;
        }
        Ok(())
    }

    fn loop_of(&self, link: &str) -> Result<&RunningLoop, EngineError> {
        let has_link = |running: &&RunningLoop| running.links.iter().any(|name| name == link);
        self.loops
            .iter()
            .find(has_link)
            .ok_or_else(|| EngineError::UnknownLink {
                name: link.into(),
                known: self.link_names().join(", "),
            })
    }

    /// The names of all links.
    #[must_use]
    pub fn link_names(&self) -> Vec<String> {
        self.loops
            .iter()
            .flat_map(|running| running.links.iter().cloned())
            .collect()
    }

    /// Whether a loop has ended without a stop command, which happens on an error only.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.loops
            .iter()
            .any(|running| running.thread.is_finished())
    }

    /// Stops the loops, completes logs and captures, and returns the summary.
    ///
    /// # Errors
    /// The first error of a loop. A failed write to disk makes the run suspect in the summary; packets are forwarded all the same.
    pub fn stop(self) -> Result<Summary, EngineError> {
        let mut summary = Summary::new(&self.hosts, self.memory.limit_bytes());
        let mut captures = Vec::new();
        if let Some(sampler) = self.sampler {
            summary.add_sampler(sampler.finish());
        }
        for running in &self.loops {
            running.send(Command::Stop);
        }
        for running in self.loops {
            let failed = |source| EngineError::Direction {
                direction: running.name.clone(),
                source,
            };
            let ended = running
                .thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                .map_err(failed)?;
            summary.add_loop(&ended);
            captures.extend(running.captures);
        }
        for writer in captures {
            if let Err(error) = writer.finish() {
                summary.add_unwritten("capture", &error, "segments");
            }
        }
        if let Some(Err(error)) = self.packet_log.map(PacketLogWriter::finish) {
            summary.add_unwritten("packet log", &error, "rows");
        }
        if let Some(Err(error)) = self.series.map(SeriesWriter::finish) {
            summary.add_unwritten("series", &error, "rows");
        }
        let lost = self.began.zip(MachineTime::now().ok());
        summary.judge_time(lost.map(|(began, ended)| ended.since(&began)));
        // A bridge has no hosts, and nobody to send.
        if !self.hosts.is_empty() {
            summary.judge_traffic(self.clients);
        }
        Ok(summary)
    }
}

impl RunningLoop {
    fn send(&self, command: Command) {
        // A loop that has ended does not answer; `ask` and `stop` detect it.
        let _ = self.commands.send(command);
        let _ = (&self.wake).write_all(b"!");
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, EngineError> {
        let (answer, answered) = channel();
        self.send(command(answer));
        answered
            .recv_timeout(ANSWER_TIME)
            .map_err(|_| EngineError::Silent(self.name.clone()))
    }
}

/// The writers of the logs.
#[derive(Default)]
struct LogWriters {
    series: Option<SeriesWriter>,
    packets: Option<PacketLogWriter>,
}

/// The senders of the logs.
#[derive(Default)]
struct LogSenders {
    series: Option<SeriesSender>,
    packets: Option<PacketLogSender>,
}

/// Starts the writers of the logs that `log` asks for.
fn start_logs(
    log: Option<&Path>,
    with_packets: bool,
    legs: &[[DirectionSetup; 2]],
) -> Result<(LogSenders, LogWriters), EngineError> {
    let (mut senders, mut writers) = (LogSenders::default(), LogWriters::default());
    let Some(dir) = log else {
        return Ok((senders, writers));
    };
    let directions = || legs.iter().flatten();
    let links: Vec<String> = directions().flat_map(DirectionSetup::link_names).collect();
    let departures: Vec<String> = directions()
        .flat_map(|direction| direction.departures.clone())
        .collect();
    let with_air: Vec<SeriesLink> = directions()
        .flat_map(DirectionSetup::series_links)
        .collect();
    let cells: Vec<SeriesCell> = (directions().filter_map(|direction| direction.cell.as_ref()))
        .filter(|at| at.cell.is_shared())
        .map(|at| SeriesCell {
            name: at.name.clone(),
            users: at
                .cell
                .background()
                .into_iter()
                .map(|user| user.name)
                .collect(),
        })
        .collect();
    let names = SeriesNames {
        links: with_air,
        departures,
        cells,
    };
    let (sender, writer) = series::start(dir, &names)?;
    (senders.series, writers.series) = (Some(sender), Some(writer));
    if with_packets {
        let (sender, writer) = packet_log::start(dir, &links)?;
        (senders.packets, writers.packets) = (Some(sender), Some(writer));
    }
    Ok((senders, writers))
}

impl LogSenders {
    /// The logs of the direction whose first link has this index, as its departures have.
    fn of(&self, first_link: usize, departures: usize) -> DirectionLogs {
        DirectionLogs {
            series: (self.series.clone()).map(|sender| (sender, first_link, departures)),
            packets: self.packets.clone().map(|sender| (sender, first_link)),
        }
    }
}

/// Whether the two directions of a leg get a thread each. They share no state, so they do on more than two processors.
/// On two processors, bulk data in super-packets is faster with one thread (20 Gbit/s offered: 11 to 17 against 9 to 14
/// Gbit/s), and single segments are faster with two (2.41 against 1.9 Gbit/s).
fn has_thread_per_direction(coalesce: Coalesce) -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors > 2 || (processors == 2 && coalesce == Coalesce::Off)
}

fn start_loop(
    directions: Vec<(AttachedDirection, Option<CaptureWriter>)>,
    origin_ns: u64,
) -> Result<RunningLoop, EngineError> {
    let (directions, captures): (Vec<AttachedDirection>, Vec<Option<CaptureWriter>>) =
        directions.into_iter().unzip();
    let name = directions
        .iter()
        .map(|attached| attached.name.as_str())
        .collect::<Vec<_>>()
        .join("+");
    let links = directions
        .iter()
        .flat_map(|attached| attached.direction.links())
        .map(|named| named.name.clone())
        .collect();
    let failed = |source| EngineError::Direction {
        direction: name.clone(),
        source,
    };
    let (wake_reader, wake) = io::pipe().map_err(failed)?;
    let (commands, received) = channel();
    let event_loop = Loop {
        directions,
        origin_ns,
        commands: received,
        wake: wake_reader,
    };
    let thread = std::thread::Builder::new()
        .name("links".into())
        .spawn(move || event_loop.run())
        .map_err(failed)?;
    Ok(RunningLoop {
        name,
        links,
        thread,
        commands,
        wake,
        captures: captures.into_iter().flatten().collect(),
    })
}

/// The senders of the logs of a direction, with the indices of its first link and of its departures.
pub(crate) struct DirectionLogs {
    pub series: Option<(SeriesSender, usize, usize)>,
    pub packets: Option<(PacketLogSender, usize)>,
}

/// Links by name, before they are built.
type Links = Vec<(String, Vec<Box<dyn Stage>>)>;

/// A chain of links, before it is built.
struct ChainSetup {
    name: String,
    links: Links,
}

/// One direction of a leg, before its loop starts.
pub(crate) struct DirectionSetup {
    name: String,
    /// In the order of [`Direction::chains`].
    chains: Vec<ChainSetup>,
    /// The names of departures, in the order of [`Direction::accounts`].
    departures: Vec<String>,
    classes: Option<Classes>,
    cell: Option<InCell>,
    inputs: Vec<Arc<Device>>,
    outputs: Vec<Arc<Device>>,
}

impl DirectionSetup {
    pub fn links(&self) -> impl Iterator<Item = &(String, Vec<Box<dyn Stage>>)> {
        self.chains.iter().flat_map(|chain| &chain.links)
    }

    fn series_links(&self) -> Vec<SeriesLink> {
        let links = self.links().map(|(name, stages)| SeriesLink {
            name: name.clone(),
            has_air: stages.iter().any(|stage| stage.counts_air()),
        });
        links.collect()
    }

    pub fn link_names(&self) -> Vec<String> {
        self.links().map(|(name, _)| name.clone()).collect()
    }
}

/// The two directions of a leg.
pub(crate) fn directions_of(leg: LegSetup) -> [DirectionSetup; 2] {
    let near = vec![Arc::new(leg.near)];
    let far: Vec<_> = leg.far.into_iter().map(Arc::new).collect();
    let sorted = |side| {
        let addresses = leg.classes.iter().map(|class| class.addresses.as_slice());
        Classes::new(addresses, side)
    };
    let is_ethernet = near[0].ethernet().is_some();
    let classes = |side| (is_ethernet && !leg.classes.is_empty()).then(|| sorted(side));
    let way = |up: bool| match up {
        true if is_ethernet => Way::UpPorts,
        false if is_ethernet => Way::DownPorts,
        true => Way::Up,
        false => Way::Down(sorted(Side::Destination)),
    };
    let (to_devices, from_devices) = (classes(Side::Destination), classes(Side::Source));
    let (to_cell, from_cell) = (way(false), way(true));
    let in_cell = |cell: &CellSetup, direction: &str, way| InCell {
        cell: if direction == "up" {
            &cell.up
        } else {
            &cell.down
        }
        .clone(),
        way,
        name: format!("{}.{direction}", cell.name),
        file_times: FileTimes::default(),
    };
    let cell = leg.cell.as_ref();
    let (down_cell, up_cell) = (
        cell.map(|cell| in_cell(cell, "down", to_cell)),
        cell.map(|cell| in_cell(cell, "up", from_cell)),
    );
    let mut setups = [
        DirectionSetup {
            name: format!("{}.down", leg.name),
            chains: Vec::new(),
            departures: Vec::new(),
            classes: to_devices,
            cell: down_cell,
            inputs: near.clone(),
            outputs: far.clone(),
        },
        DirectionSetup {
            name: format!("{}.up", leg.name),
            chains: Vec::new(),
            departures: Vec::new(),
            classes: from_devices,
            cell: up_cell,
            inputs: far,
            outputs: near,
        },
    ];
    let mut add = |name: &str, hops| {
        let both = setups.iter_mut().zip(links_of(hops));
        for ((setup, links), direction) in both.zip(["down", "up"]) {
            let name = format!("{name}.{direction}");
            setup.chains.push(ChainSetup { name, links });
        }
    };
    add(&leg.name, leg.hops);
    for class in leg.classes {
        add(&class.name, class.hops);
    }
    for setup in &mut setups {
        let mut names: Vec<String> = setup.chains.iter().map(|each| each.name.clone()).collect();
        match setup.cell.as_ref().map(|at| &at.way) {
            Some(Way::Down(_)) => drop(names.remove(0)),
            Some(Way::Up) => {
                names.remove(0);
                setup.chains.rotate_left(1);
            }
            Some(Way::UpPorts) => setup.chains.rotate_left(1),
            Some(Way::DownPorts) | None => {}
        }
        setup.departures = names;
    }
    setups
}

/// The links of hops, towards the client and back; upstream packets pass the hops in reverse order.
fn links_of(hops: Vec<HopSetup>) -> [Links; 2] {
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for hop in hops {
        down.push((format!("{}.down", hop.name), hop.down));
        up.push((format!("{}.up", hop.name), hop.up));
    }
    up.reverse();
    [down, up]
}

/// A direction with its devices, and the writer of its capture.
pub(crate) fn attach(
    setup: DirectionSetup,
    origin_ns: u64,
    coalesce: Coalesce,
    memory: &Arc<PacketMemory>,
    logs: DirectionLogs,
    pcap_dir: Option<&PathBuf>,
) -> Result<(AttachedDirection, Option<CaptureWriter>), EngineError> {
    let (capture, writer) = match pcap_dir {
        Some(dir) => {
            let links = setup.link_names();
            let points: Vec<String> = links
                .iter()
                .flat_map(|name| [format!("{name}.in"), format!("{name}.out")])
                .collect();
            let (capture, writer) =
                capture::start(dir, &points, origin_ns + clock::realtime_offset_ns())?;
            (Some(capture), Some(writer))
        }
        None => (None, None),
    };
    let packets = Packets::new(Arc::clone(memory)).map_err(|source| EngineError::Direction {
        direction: setup.name.clone(),
        source,
    })?;
    let mut builder = ChainBuilder {
        coalesce,
        logs: &logs,
        is_captured: capture.is_some(),
        built: 0,
    };
    let chains = setup.chains.into_iter();
    let chains = chains.map(|chain| ClassChain::new(chain.name, builder.chain(chain.links)));
    let mut chains: Vec<ClassChain> = chains.collect();
    let is_up = setup.cell.as_ref().is_some_and(|at| at.way.is_up());
    let own = chains.remove(if is_up { chains.len() - 1 } else { 0 });
    let mut direction = Direction::new(own.chain, packets);
    direction.capture = capture;
    direction.frames = (setup.inputs[0].ethernet()).map(|_| Frames::new(setup.classes));
    if let Some(at) = &setup.cell {
        at.cell.keep(logs.series.is_some());
    }
    match setup.cell {
        Some(cell) => direction = direction.in_cell(cell, chains, setup.inputs.len()),
        None => direction.classes = chains,
    }
    let timed = timed_ports(&setup.inputs, &setup.outputs, origin_ns);
    if timed.is_some() {
        direction.write_ahead();
    }
    let mut attached = AttachedDirection::new(setup.name, direction, setup.inputs, setup.outputs);
    attached.timed = timed;
    attached
        .map_inputs(coalesce, origin_ns)
        .and_then(|()| attached.group_inputs())
        .map_err(|source| EngineError::Direction {
            direction: attached.name.clone(),
            source,
        })?;
    attached.series = logs.series;
    Ok((attached, writer))
}

/// The ports of a direction in a guest of virtual time, where the kernel knows when packets were sent, and hands them over
/// on time.
fn timed_ports(
    inputs: &[Arc<Device>],
    outputs: &[Arc<Device>],
    origin_ns: u64,
) -> Option<(Vec<TimedInput>, Vec<TimedOutput>)> {
    let becomes_timed = |device: &Arc<Device>| match &**device {
        Device::Tun(tun) => tun.become_timed(),
        Device::Ethernet(_) => false,
    };
    if !inputs.iter().chain(outputs).all(becomes_timed) {
        return None;
    }
    let inputs = inputs.iter();
    let inputs = inputs.map(|device| TimedInput::new(Arc::clone(device), origin_ns));
    let outputs = outputs.iter();
    let outputs = outputs.map(|device| TimedOutput::new(Arc::clone(device), origin_ns));
    Some((inputs.collect(), outputs.collect()))
}

/// Builds the chains of a direction one after the other.
struct ChainBuilder<'a> {
    coalesce: Coalesce,
    logs: &'a DirectionLogs,
    is_captured: bool,
    /// How many links were built so far.
    built: u32,
}

impl ChainBuilder<'_> {
    /// A chain of these links, with capture points numbered as the links are in their direction.
    fn chain(&mut self, links: Links) -> LinkChain {
        let with_series = self.logs.series.is_some();
        let mut named = Vec::with_capacity(links.len());
        for (name, stages) in links {
            let mut link = Link::new(stages, with_series);
            let log = self.logs.packets.clone().map(|(sender, first_link)| {
                link.log_packets();
                LinkLog::new(sender, first_link + self.built as usize)
            });
            let first_point = 2 * self.built;
            named.push(NamedLink {
                name,
                link,
                points: self.is_captured.then_some((first_point, first_point + 1)),
                log,
            });
            self.built += 1;
        }
        LinkChain::new(named, self.coalesce, with_series)
    }
}
