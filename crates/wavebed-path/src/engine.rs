//! The engine: the event loops of all hops, their logs and captures, and how to talk to them while they run.

use std::io::{self, PipeWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wavebed_link::{Change, Link, Stage};
use wavebed_os::clock;
use wavebed_os::tun::Tun;

use crate::capture::{self, Capture, CaptureWriter};
use crate::direction::{Direction, NamedLink};
use crate::event_loop::{Command, Ended, HopState, Loop};
use crate::hop::Hop;
use crate::host_books::HostBooks;
use crate::join::Join;
use crate::packets::Packets;
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
    /// The hops.
    pub hops: Vec<HopSetup>,
    /// The hosts' own counters.
    pub hosts: Vec<HostBooks>,
    /// Where the per-millisecond series go.
    pub log_dir: Option<PathBuf>,
    /// Where the captures go.
    pub pcap_dir: Option<PathBuf>,
}

/// Something went wrong with the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A device or a thread failed.
    #[error("hop {hop}: {source}")]
    Hop {
        /// The hop.
        hop: String,
        /// What the system said.
        source: io::Error,
    },
    /// The loop of a hop has ended or does not answer.
    #[error("hop {0} does not answer")]
    Silent(String),
    /// The series could not be written.
    #[error(transparent)]
    Series(#[from] series::SeriesError),
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

struct RunningHop {
    name: String,
    links: Vec<String>,
    thread: JoinHandle<io::Result<Ended>>,
    commands: Sender<Command>,
    wake: PipeWriter,
    capture: Option<CaptureWriter>,
}

/// A running engine.
pub struct Engine {
    hops: Vec<RunningHop>,
    hosts: Vec<HostBooks>,
    series: Option<SeriesWriter>,
}

impl Engine {
    /// Starts the event loops.
    ///
    /// # Errors
    /// When a log or capture cannot be made, or a thread cannot be started.
    pub fn start(setup: Setup) -> Result<Self, EngineError> {
        let (sender, series) = match &setup.log_dir {
            Some(dir) => {
                let links: Vec<String> = setup.hops.iter().flat_map(link_names).collect();
                let departures: Vec<String> = setup
                    .hops
                    .iter()
                    .flat_map(|hop| [format!("{}.down", hop.name), format!("{}.up", hop.name)])
                    .collect();
                let (sender, writer) = series::start(dir, &links, &departures)?;
                (Some(sender), Some(writer))
            }
            None => (None, None),
        };
        let mut engine = Self {
            hops: Vec::new(),
            hosts: setup.hosts,
            series,
        };
        let mut first_link = 0;
        for (index, hop) in setup.hops.into_iter().enumerate() {
            let links = link_names(&hop).len();
            let series = sender.clone().map(|sender| (sender, first_link, 2 * index));
            let running = start_hop(
                hop,
                setup.origin_ns,
                setup.join,
                series,
                setup.pcap_dir.as_ref(),
            )?;
            engine.hops.push(running);
            first_link += links;
        }
        Ok(engine)
    }

    /// The state of every hop.
    ///
    /// # Errors
    /// When a loop does not answer.
    pub fn show(&self) -> Result<Vec<HopState>, EngineError> {
        self.hops.iter().map(|hop| hop.ask(Command::Show)).collect()
    }

    /// Makes a live change of one link. A link that was not named exactly is not guessed.
    ///
    /// # Errors
    /// When there is no such link, none of its stages takes the change, or the loop does not answer.
    pub fn apply(&self, link: &str, change: &Change) -> Result<(), EngineError> {
        let Some(hop) = self
            .hops
            .iter()
            .find(|hop| hop.links.iter().any(|name| name == link))
        else {
            return Err(EngineError::UnknownLink {
                name: link.into(),
                known: self.link_names().join(", "),
            });
        };
        match hop.ask(|answer| Command::Apply(link.into(), change.clone(), answer))? {
            Some(true) => Ok(()),
            _ => Err(EngineError::NotTaken(link.into())),
        }
    }

    /// The names of all links.
    #[must_use]
    pub fn link_names(&self) -> Vec<String> {
        self.hops
            .iter()
            .flat_map(|hop| hop.links.iter().cloned())
            .collect()
    }

    /// Whether a loop has ended by itself, which it does only when something is wrong.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.hops.iter().any(|hop| hop.thread.is_finished())
    }

    /// Stops the loops, finishes logs and captures, and draws up the summary.
    ///
    /// # Errors
    /// The first error of a loop, a log or a capture.
    pub fn stop(self) -> Result<Summary, EngineError> {
        let mut summary = Summary::new(&self.hosts);
        let mut captures = Vec::new();
        for hop in self.hops {
            hop.tell(Command::Stop);
            let failed = |source| EngineError::Hop {
                hop: hop.name.clone(),
                source,
            };
            let ended = hop
                .thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                .map_err(failed)?;
            summary.add_hop(&hop.name, &ended);
            captures.extend(hop.capture);
        }
        for writer in captures {
            writer.finish()?;
        }
        if let Some(series) = self.series {
            series.finish()?;
        }
        Ok(summary)
    }
}

impl RunningHop {
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

fn link_names(hop: &HopSetup) -> Vec<String> {
    let down = hop
        .segments
        .iter()
        .map(|segment| format!("{}.down", segment.name));
    let up = hop
        .segments
        .iter()
        .rev()
        .map(|segment| format!("{}.up", segment.name));
    down.chain(up).collect()
}

fn start_hop(
    hop: HopSetup,
    origin_ns: u64,
    join: Join,
    series: Option<(SeriesSender, usize, usize)>,
    pcap_dir: Option<&PathBuf>,
) -> Result<RunningHop, EngineError> {
    let links = link_names(&hop);
    let (capture, capture_writer) = match pcap_dir {
        Some(dir) => {
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
    let with_series = series.is_some();
    let failed = |source| EngineError::Hop {
        hop: hop.name.clone(),
        source,
    };
    let (wake_reader, wake) = io::pipe().map_err(failed)?;
    let (commands, received) = channel();
    let name = hop.name.clone();
    let event_loop = Loop {
        hop: build_hop(hop.segments, join, with_series, capture),
        ports: [hop.near, hop.far],
        origin_ns,
        commands: received,
        wake: wake_reader,
        series,
    };
    let thread = std::thread::Builder::new()
        .name(format!("hop {name}"))
        .spawn(move || event_loop.run())
        .map_err(|source| EngineError::Hop {
            hop: name.clone(),
            source,
        })?;
    Ok(RunningHop {
        name,
        links,
        thread,
        commands,
        wake,
        capture: capture_writer,
    })
}

/// A hop of these segments, with capture points numbered as [`link_names`] lists the links.
fn build_hop(
    segments: Vec<SegmentSetup>,
    join: Join,
    with_series: bool,
    capture: Option<Capture>,
) -> Hop {
    let captured = capture.is_some();
    let total = segments.len();
    let mut down = Vec::with_capacity(total);
    let mut up = Vec::with_capacity(total);
    let named = |name: String, stages, index: usize| NamedLink {
        name,
        link: Link::new(stages, with_series),
        points: captured.then(|| {
            let point = u32::try_from(2 * index).expect("a path has few links");
            (point, point + 1)
        }),
    };
    for (index, segment) in segments.into_iter().enumerate() {
        down.push(named(format!("{}.down", segment.name), segment.down, index));
        up.push(named(
            format!("{}.up", segment.name),
            segment.up,
            2 * total - 1 - index,
        ));
    }
    up.reverse();
    Hop {
        down: Direction::new(down, join, with_series),
        up: Direction::new(up, join, with_series),
        packets: Packets::default(),
        capture,
    }
}
