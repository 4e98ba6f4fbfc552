//! The engine: the event loops of all hops, their logs and captures, and how to talk to them while they run.

use std::io::{self, PipeWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wavebed_link::{Change, Link, Stage};
use wavebed_os::clock;
use wavebed_os::machine_time::MachineTime;
use wavebed_os::tun::Tun;

use crate::capture::{self, Capture, CaptureWriter};
use crate::direction::{Direction, NamedLink};
use crate::event_loop::{Command, Ended, Loop, LoopState, Way};
use crate::host_books::HostBooks;
use crate::join::Join;
use crate::lane::Lane;
use crate::packet_memory::PacketMemory;
use crate::packets::Packets;
use crate::sampler::{FlowsNow, SampleSetup, Sampler, SamplerError};
use crate::series::{self, SeriesSender, SeriesWriter};
use crate::summary::Summary;

/// How long a running loop may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// One segment of a hop, its stages built.
pub struct SegmentSetup {
    /// Its name; its links are `NAME.down` and `NAME.up`.
    pub name: String,
    /// Stages towards the client.
    pub down: Vec<Box<dyn Stage>>,
    /// Stages towards the server.
    pub up: Vec<Box<dyn Stage>>,
}

/// One hop, with its two devices.
pub struct HopSetup {
    /// `HOST-HOST`, the one nearer to the server first.
    pub name: String,
    /// Segments, the one nearest to the server first.
    pub segments: Vec<SegmentSetup>,
    /// The device of the host nearer to the server.
    pub near: Tun,
    /// The device of the host nearer to the client.
    pub far: Tun,
}

/// What an engine is made of.
pub struct Setup {
    /// Time zero on the monotonic clock, nanoseconds.
    pub origin_ns: u64,
    /// Which departures are joined.
    pub join: Join,
    /// Memory that packets in flight may take, bytes.
    pub packet_memory_bytes: usize,
    /// The hops.
    pub hops: Vec<HopSetup>,
    /// The hosts' own counters.
    pub hosts: Vec<HostBooks>,
    /// Where the per-millisecond series go.
    pub log_dir: Option<PathBuf>,
    /// Where the captures go.
    pub pcap_dir: Option<PathBuf>,
    /// What is sampled; only with `log_dir`.
    pub sample: Option<SampleSetup>,
}

/// Something went wrong with the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A device or a thread failed.
    #[error("{lane}: {source}")]
    Lane {
        /// The lane, `HOST-HOST.down` or `.up`.
        lane: String,
        /// What the system said.
        source: io::Error,
    },
    /// The loop of a lane has ended or does not answer.
    #[error("{0} does not answer")]
    Silent(String),
    /// The series could not be written.
    #[error(transparent)]
    Series(#[from] series::SeriesError),
    /// The samples could not be written.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The capture could not be written.
    #[error(transparent)]
    Capture(#[from] capture::CaptureError),
    /// There is no link of this name.
    #[error("there is no link {name}; the links are {known}")]
    UnknownLink {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
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
    hosts: Vec<HostBooks>,
    memory: Arc<PacketMemory>,
    series: Option<SeriesWriter>,
    sampler: Option<Sampler>,
    began: Option<MachineTime>,
}

impl Engine {
    /// Starts the event loops.
    ///
    /// # Errors
    /// When a log or capture cannot be made, or a thread cannot be started.
    pub fn start(setup: Setup) -> Result<Self, EngineError> {
        let apart = runs_lanes_apart(setup.join);
        let hops: Vec<[LaneSetup; 2]> = setup.hops.into_iter().map(lanes_of).collect();
        let (sender, series) = match &setup.log_dir {
            Some(dir) => {
                let links: Vec<String> = hops
                    .iter()
                    .flatten()
                    .flat_map(LaneSetup::link_names)
                    .collect();
                let departures: Vec<String> = hops
                    .iter()
                    .flatten()
                    .map(|lane| lane.name.clone())
                    .collect();
                let (sender, writer) = series::start(dir, &links, &departures)?;
                (Some(sender), Some(writer))
            }
            None => (None, None),
        };
        let mut engine = Self {
            loops: Vec::new(),
            hosts: setup.hosts,
            memory: Arc::new(PacketMemory::new(setup.packet_memory_bytes)),
            series,
            sampler: None,
            began: MachineTime::now().ok(),
        };
        let (mut first_link, mut departures) = (0, 0);
        for hop in hops {
            let mut ways = Vec::new();
            for lane in hop {
                let links = lane.links.len();
                let series = sender
                    .clone()
                    .map(|sender| (sender, first_link, departures));
                ways.push(make_way(
                    lane,
                    setup.origin_ns,
                    setup.join,
                    &engine.memory,
                    series,
                    setup.pcap_dir.as_ref(),
                )?);
                first_link += links;
                departures += 1;
            }
            if apart {
                for way in ways {
                    engine.loops.push(start_loop(vec![way], setup.origin_ns)?);
                }
            } else {
                engine.loops.push(start_loop(ways, setup.origin_ns)?);
            }
        }
        if let (Some(sample), Some(dir)) = (setup.sample, &setup.log_dir) {
            engine.sampler = Some(Sampler::start(sample, dir, setup.origin_ns)?);
        }
        Ok(engine)
    }

    /// The state of every loop; links come hop by hop, towards the client and back.
    ///
    /// # Errors
    /// When a loop does not answer.
    pub fn show(&self) -> Result<Vec<LoopState>, EngineError> {
        self.loops
            .iter()
            .map(|running| running.ask(Command::Show))
            .collect()
    }

    /// What the last sample found at the server; `None` without samples.
    #[must_use]
    pub fn flows(&self) -> Option<FlowsNow> {
        self.sampler.as_ref()?.last()
    }

    /// Makes a live change of one link. A link that was not named exactly is not guessed.
    ///
    /// # Errors
    /// When there is no such link, none of its stages takes the change, or the loop does not answer.
    pub fn apply(&self, link: &str, change: &Change) -> Result<(), EngineError> {
        let Some(lane) = self
            .loops
            .iter()
            .find(|lane| lane.links.iter().any(|name| name == link))
        else {
            return Err(EngineError::UnknownLink {
                name: link.into(),
                known: self.link_names().join(", "),
            });
        };
        match lane.ask(|answer| Command::Apply(link.into(), change.clone(), answer))? {
            Some(true) => Ok(()),
            _ => Err(EngineError::NotTaken(link.into())),
        }
    }

    /// The names of all links.
    #[must_use]
    pub fn link_names(&self) -> Vec<String> {
        self.loops
            .iter()
            .flat_map(|lane| lane.links.iter().cloned())
            .collect()
    }

    /// Whether a loop has ended by itself, which it does only when something is wrong.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.loops.iter().any(|lane| lane.thread.is_finished())
    }

    /// Stops the loops, finishes logs and captures, and draws up the summary.
    ///
    /// # Errors
    /// The first error of a loop. What could not be written to a disk is a doubt of the summary: packets went on.
    pub fn stop(self) -> Result<Summary, EngineError> {
        let mut summary = Summary::new(&self.hosts, self.memory.limit_bytes());
        let mut captures = Vec::new();
        if let Some(sampler) = self.sampler {
            summary.add_sampler(sampler.finish());
        }
        for running in &self.loops {
            running.tell(Command::Stop);
        }
        for running in self.loops {
            let failed = |source| EngineError::Lane {
                lane: running.name.clone(),
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
        if let Some(Err(error)) = self.series.map(SeriesWriter::finish) {
            summary.add_unwritten("series", &error, "rows");
        }
        let lost = self.began.zip(MachineTime::now().ok());
        summary.judge_time(lost.map(|(began, ended)| ended.since(&began)));
        Ok(summary)
    }
}

impl RunningLoop {
    fn tell(&self, command: Command) {
        // A loop that has ended answers nothing; `ask` and `stop` find out.
        let _ = self.commands.send(command);
        let _ = (&self.wake).write_all(b"!");
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, EngineError> {
        let (answer, answered) = channel();
        self.tell(command(answer));
        answered
            .recv_timeout(ANSWER_TIME)
            .map_err(|_| EngineError::Silent(self.name.clone()))
    }
}

/// One direction of a hop, before it runs.
struct LaneSetup {
    name: String,
    links: Vec<(String, Vec<Box<dyn Stage>>)>,
    input: Arc<Tun>,
    output: Arc<Tun>,
}

impl LaneSetup {
    fn link_names(&self) -> Vec<String> {
        self.links.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// The two directions of a hop; packets that go up pass its segments in reverse order.
fn lanes_of(hop: HopSetup) -> [LaneSetup; 2] {
    let (near, far) = (Arc::new(hop.near), Arc::new(hop.far));
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for segment in hop.segments {
        down.push((format!("{}.down", segment.name), segment.down));
        up.push((format!("{}.up", segment.name), segment.up));
    }
    up.reverse();
    [
        LaneSetup {
            name: format!("{}.down", hop.name),
            links: down,
            input: near.clone(),
            output: far.clone(),
        },
        LaneSetup {
            name: format!("{}.up", hop.name),
            links: up,
            input: far,
            output: near,
        },
    ]
}

/// Whether the two directions of a hop get a thread each. They share nothing, so with processors to spare they do. On
/// two processors, bulk data in super-packets is better off with one thread (20 Gbit/s asked for: 11 to 17 against 9 to 14),
/// but what is handed over segment by segment needs two (2.41 against 1.9 Gbit/s).
fn runs_lanes_apart(join: Join) -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors > 2 || (processors == 2 && join == Join::Off)
}

/// A lane with its devices, and the writer of its capture.
fn make_way(
    setup: LaneSetup,
    origin_ns: u64,
    join: Join,
    memory: &Arc<PacketMemory>,
    series: Option<(SeriesSender, usize, usize)>,
    pcap_dir: Option<&PathBuf>,
) -> Result<(Way, Option<CaptureWriter>), EngineError> {
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
    let packets = Packets::new(Arc::clone(memory)).map_err(|source| EngineError::Lane {
        lane: setup.name.clone(),
        source,
    })?;
    let lane = build_lane(setup.links, join, series.is_some(), packets, capture);
    let way = Way {
        name: setup.name,
        lane,
        input: setup.input,
        output: setup.output,
        series,
    };
    Ok((way, writer))
}

fn start_loop(
    ways: Vec<(Way, Option<CaptureWriter>)>,
    origin_ns: u64,
) -> Result<RunningLoop, EngineError> {
    let (ways, captures): (Vec<Way>, Vec<Option<CaptureWriter>>) = ways.into_iter().unzip();
    let name = ways
        .iter()
        .map(|way| way.name.as_str())
        .collect::<Vec<_>>()
        .join("+");
    let links = ways
        .iter()
        .flat_map(|way| &way.lane.direction.links)
        .map(|named| named.name.clone())
        .collect();
    let failed = |source| EngineError::Lane {
        lane: name.clone(),
        source,
    };
    let (wake_reader, wake) = io::pipe().map_err(failed)?;
    let (commands, received) = channel();
    let event_loop = Loop {
        ways,
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

/// A lane of these links, with capture points numbered as they are named.
fn build_lane(
    links: Vec<(String, Vec<Box<dyn Stage>>)>,
    join: Join,
    with_series: bool,
    packets: Packets,
    capture: Option<Capture>,
) -> Lane {
    let named = links
        .into_iter()
        .zip(0u32..)
        .map(|((name, stages), index)| NamedLink {
            name,
            link: Link::new(stages, with_series),
            points: capture.is_some().then_some((2 * index, 2 * index + 1)),
        });
    let direction = Direction::new(named.collect(), join, with_series);
    Lane {
        direction,
        packets,
        empty_ns: 0,
        capture,
    }
}
