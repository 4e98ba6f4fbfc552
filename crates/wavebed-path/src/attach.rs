//! The directions of a leg, built: their chains of links with logs and captures, between their devices.

use std::path::PathBuf;
use std::sync::Arc;

use wavebed_link::{Link, Stage};
use wavebed_os::clock;

use crate::capture::{self, CaptureWriter};
use crate::classes::{Classes, Side};
use crate::coalesce::Coalesce;
use crate::direction::{ClassChain, Direction};
use crate::engine::{EngineError, HopSetup, LegSetup};
use crate::event_loop::AttachedDirection;
use crate::frames::Frames;
use crate::link_chain::{LinkChain, NamedLink};
use crate::packet_log::{LinkLog, PacketLogSender};
use crate::packet_memory::PacketMemory;
use crate::packets::Packets;
use crate::port::{Device, TimedInput, TimedOutput};
use crate::series::SeriesSender;

/// The senders of the logs of a direction, with the indices of its first link and of its departures.
pub(crate) struct DirectionLogs {
    pub series: Option<(SeriesSender, usize, usize)>,
    pub packets: Option<(PacketLogSender, usize)>,
}

/// Links by name, before they are built.
type Links = Vec<(String, Vec<Box<dyn Stage>>)>;

/// A chain of links, before it is built.
pub(crate) struct ChainSetup {
    pub name: String,
    links: Links,
}

/// One direction of a leg, before its loop starts.
pub(crate) struct DirectionSetup {
    /// The chain for all devices, then those of classes.
    pub chains: Vec<ChainSetup>,
    classes: Option<Classes>,
    input: Arc<Device>,
    output: Arc<Device>,
}

impl DirectionSetup {
    pub fn links(&self) -> impl Iterator<Item = &(String, Vec<Box<dyn Stage>>)> {
        self.chains.iter().flat_map(|chain| &chain.links)
    }

    pub fn link_names(&self) -> Vec<String> {
        self.links().map(|(name, _)| name.clone()).collect()
    }

    fn name(&self) -> &str {
        &self.chains[0].name
    }
}

/// The two directions of a leg.
pub(crate) fn directions_of(leg: LegSetup) -> [DirectionSetup; 2] {
    let (near, far) = (Arc::new(leg.near), Arc::new(leg.far));
    let classes = |side| {
        let addresses = leg.classes.iter().map(|class| class.addresses.as_slice());
        (!leg.classes.is_empty()).then(|| Classes::new(addresses, side))
    };
    let (to_devices, from_devices) = (classes(Side::Destination), classes(Side::Source));
    let (mut down, mut up) = (Vec::new(), Vec::new());
    let mut add = |name: &str, hops| {
        let [towards, back] = links_of(hops);
        for (chains, links, direction) in [(&mut down, towards, "down"), (&mut up, back, "up")] {
            let name = format!("{name}.{direction}");
            chains.push(ChainSetup { name, links });
        }
    };
    add(&leg.name, leg.hops);
    for class in leg.classes {
        add(&format!("{}.{}", leg.name, class.name), class.hops);
    }
    [
        DirectionSetup {
            chains: down,
            classes: to_devices,
            input: near.clone(),
            output: far.clone(),
        },
        DirectionSetup {
            chains: up,
            classes: from_devices,
            input: far,
            output: near,
        },
    ]
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
        direction: setup.name().to_owned(),
        source,
    })?;
    let name = setup.name().to_owned();
    let mut builder = ChainBuilder {
        coalesce,
        logs: &logs,
        is_captured: capture.is_some(),
        built: 0,
    };
    let mut chains = setup.chains.into_iter().map(|chain| ClassChain {
        name: chain.name,
        chain: builder.chain(chain.links),
    });
    let own = chains.next().expect("each direction has a chain");
    let mut direction = Direction {
        chain: own.chain,
        classes: chains.collect(),
        packets,
        empty_ns: 0,
        advanced_ns: 0,
        capture,
        frames: setup.input.ethernet().map(|_| Frames::new(setup.classes)),
    };
    let timed = timed_ports(&setup.input, &setup.output, origin_ns);
    if timed.is_some() {
        direction.chains_mut().for_each(LinkChain::write_ahead);
    }
    let attached = AttachedDirection {
        name,
        timed,
        direction,
        input: setup.input,
        output: setup.output,
        series: logs.series,
    };
    Ok((attached, writer))
}

/// The ports of a direction in a guest of virtual time, where the kernel knows when packets were sent, and hands them over
/// on time.
fn timed_ports(
    input: &Arc<Device>,
    output: &Arc<Device>,
    origin_ns: u64,
) -> Option<(TimedInput, TimedOutput)> {
    match (&**input, &**output) {
        (Device::Tun(one), Device::Tun(other)) if one.become_timed() && other.become_timed() => {
            Some((
                TimedInput::new(Arc::clone(input), origin_ns),
                TimedOutput::new(Arc::clone(output), origin_ns),
            ))
        }
        _ => None,
    }
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
