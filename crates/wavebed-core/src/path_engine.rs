//! The laboratory's engine, on `wavebed-path`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use wavebed_link::Change;
use wavebed_link::pattern::Pattern;
use wavebed_os::clock;
use wavebed_os::sock_diag::SockDiag;
use wavebed_os::tun::Tun;
use wavebed_path::on_time::Interruption;
use wavebed_path::{
    Address, BuiltNetwork, ClassSetup, Device, HostCounters, LegSetup, LinkError, Patterns,
    SampleSetup, Setup, Summary, build_devices, build_legs,
};

use crate::bridge_file::BridgeFile;
use crate::engine::{Engine, Setting, TEXT};
use crate::lab_file::LabFile;
use crate::room::LeastRates;
use crate::shown;
use crate::timeline::{Action, Timeline, TimelineFile};

/// The engine before and after time zero. Both are absent when it could not start.
struct PathEngine {
    waiting: Option<Setup>,
    running: Option<wavebed_path::Engine>,
    origin_ns: u64,
    /// Time zero by the time of day, nanoseconds since 1970.
    origin_unix_ns: u64,
    timeline: Option<Timeline>,
    least_rates: LeastRates,
}

/// The hops of all legs, built, and the timeline that their links follow.
pub struct Built {
    network: BuiltNetwork,
    timeline: Option<Timeline>,
    least_rates: LeastRates,
}

/// Builds the hops of every leg; reads patterns before the laboratory exists.
///
/// # Errors
/// A stage cannot be built: one line.
pub fn build_hops(lab: &LabFile) -> Result<Built, LinkError> {
    let mut patterns = Patterns::default();
    let network = lab.network.build(lab.seed, &mut patterns)?;
    let timeline = timeline(lab.timeline.as_ref(), &mut patterns)?;
    Ok(Built {
        network,
        timeline,
        least_rates: LeastRates::new(lab.hops(), lab.network.mtu),
    })
}

fn timeline(
    file: Option<&TimelineFile>,
    patterns: &mut Patterns,
) -> Result<Option<Timeline>, LinkError> {
    file.map(|file| Timeline::new(file, patterns)).transpose()
}

/// Builds the hops of a bridge: first for all devices, then for each class.
///
/// # Errors
/// As [`build_hops`].
pub fn build_bridge(file: &BridgeFile) -> Result<Built, LinkError> {
    let mut patterns = Patterns::default();
    let hops = build_legs(file.legs(), file.seed, file.mtu, &mut patterns)?;
    let place = file.all_hops().count();
    let cell = match &file.cell {
        Some(cell) => build_devices(cell, file.seed, place, file.mtu, &mut patterns)?,
        None => None,
    };
    let timeline = timeline(file.timeline.as_ref(), &mut patterns)?;
    Ok(Built {
        network: BuiltNetwork { legs: hops, cell },
        timeline,
        least_rates: LeastRates::new(file.views(), file.mtu),
    })
}

/// Builds the engine between two ports, and starts it.
///
/// # Errors
/// A port, a log or a capture failed.
pub fn start_bridge(
    file: &BridgeFile,
    built: Built,
    [near, far]: [Device; 2],
) -> Result<Box<dyn Engine>, String> {
    let mut hops = built.network.legs.into_iter();
    let own = hops.next().unwrap_or_default();
    let (cell, in_cell) = built.network.cell.unzip();
    let mut in_cell: Vec<_> = in_cell.into_iter().flatten().map(Some).collect();
    let classes = file.classes.iter().zip(hops);
    let classes = classes.map(|(class, mut hops)| {
        let place = file.place_in_cell(&class.name);
        hops.extend(place.and_then(|place| in_cell.get_mut(place)?.take()));
        ClassSetup {
            name: format!("{}-{}.{}", file.a, file.b, class.name),
            addresses: class.addresses.clone(),
            hops,
        }
    });
    let setup = Setup {
        origin_ns: 0,
        coalesce: file.coalesce,
        packet_memory_bytes: file.packet_memory_bytes(),
        legs: vec![LegSetup {
            name: format!("{}-{}", file.a, file.b),
            hops: own,
            classes: classes.collect(),
            cell,
            near,
            far: vec![far],
        }],
        hosts: Vec::new(),
        clients: 0,
        log_dir: file.log_dir.clone(),
        packet_log: file.packet_log,
        pcap_dir: file.pcap_dir.clone(),
        sample: None,
    };
    launch(setup, built.timeline, built.least_rates, false)
}

/// Builds the engine on these devices, and starts it unless it is to wait. `addresses` are the clients'.
///
/// # Errors
/// A device, a log or a capture failed.
pub fn start(
    lab: &LabFile,
    built: Built,
    devices: Vec<(Tun, Vec<Tun>)>,
    hosts: Vec<HostCounters>,
    addresses: Vec<(Ipv4Addr, Ipv6Addr)>,
    sockets: Vec<(String, SockDiag)>,
) -> Result<Box<dyn Engine>, String> {
    let ends = lab.network.hosts.windows(2);
    let mut names: Vec<String> = ends
        .map(|ends| format!("{}-{}", ends[0].name, ends[1].name))
        .take(lab.network.row().len())
        .collect();
    names.extend(names.last().map(|last| format!("{last}-second")));
    let legs = built.network.legs.into_iter().zip(devices).zip(names);
    let legs = legs.map(|((hops, (near, far)), name)| LegSetup {
        name,
        hops,
        classes: Vec::new(),
        cell: None,
        near: Device::Tun(near),
        far: far.into_iter().map(Device::Tun).collect(),
    });
    let mut legs: Vec<LegSetup> = legs.collect();
    if let (Some(file), Some((cell, hops)), Some(last)) =
        (&lab.network.cell, built.network.cell, legs.last_mut())
    {
        let gateway = &lab.network.hosts[lab.network.row().len() - 1].name;
        let devices = (file.devices.iter().zip(hops)).zip(addresses);
        let devices = devices.map(|((device, hop), (v4, v6))| ClassSetup {
            name: format!("{gateway}-{}", device.host),
            addresses: vec![Address::Ip(v4.into()), Address::Ip(v6.into())],
            hops: vec![hop],
        });
        last.classes = devices.collect();
        last.name = format!("{gateway}-{}", file.name);
        last.cell = Some(cell);
    }
    let setup = Setup {
        origin_ns: 0,
        coalesce: lab.network.coalesce,
        packet_memory_bytes: lab.packet_memory_bytes(),
        legs,
        hosts,
        clients: lab.network.clients(),
        log_dir: lab.log_dir.clone(),
        packet_log: lab.network.packet_log && lab.log_dir.is_some(),
        pcap_dir: lab.pcap_dir.clone(),
        sample: lab.sample.map(|sample| SampleSetup {
            flows_ns: sample.flows_ns,
            cpu_ns: sample.cpu_ns,
            hosts: sockets,
        }),
    };
    launch(setup, built.timeline, built.least_rates, lab.wait)
}

fn launch(
    setup: Setup,
    timeline: Option<Timeline>,
    least_rates: LeastRates,
    wait: bool,
) -> Result<Box<dyn Engine>, String> {
    let mut engine = PathEngine {
        waiting: Some(setup),
        running: None,
        origin_ns: 0,
        origin_unix_ns: 0,
        timeline,
        least_rates,
    };
    if !wait {
        engine.begin()?;
    }
    Ok(Box::new(engine))
}

impl PathEngine {
    fn running(&self) -> Result<&wavebed_path::Engine, String> {
        self.running
            .as_ref()
            .ok_or_else(|| "time has not begun: send begin first".to_owned())
    }

    /// Time since time zero.
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns() - self.origin_ns
    }
}

fn interrupt(
    engine: &wavebed_path::Engine,
    link: Option<&str>,
    interruption: Interruption,
) -> Result<(), String> {
    let done = engine.interrupt(link, interruption);
    done.map_err(|error| error.to_string())
}

impl Engine for PathEngine {
    fn begin(&mut self) -> Result<u64, String> {
        let Some(mut setup) = self.waiting.take() else {
            return Err("time has begun already".to_owned());
        };
        self.origin_ns = clock::monotonic_ns();
        self.origin_unix_ns = self.origin_ns + clock::realtime_offset_ns();
        setup.origin_ns = self.origin_ns;
        let engine = wavebed_path::Engine::start(setup).map_err(|error| error.to_string())?;
        // Time has begun when every loop runs; a loop that answers runs.
        engine.show().map_err(|error| error.to_string())?;
        self.running = Some(engine);
        Ok(self.origin_ns)
    }

    fn show(&self) -> Result<Value, String> {
        if self.waiting.is_some() {
            return Ok(
                json!({"now_ns": null, "zero_ns": null, "links": [], "directions": [], "flows": null}),
            );
        }
        let engine = self.running()?;
        let loops = engine.show().map_err(|error| error.to_string())?;
        let links = loops.iter().flat_map(|each| &each.links);
        let directions = loops.iter().flat_map(|each| &each.directions);
        let mut answer = json!({
            "now_ns": self.now_ns(),
            "zero_ns": self.origin_ns,
            "links": links.map(shown::link).collect::<Vec<_>>(),
            "directions": directions.map(shown::direction).collect::<Vec<_>>(),
            "flows": engine.flows(),
            "in_flight_bytes": loops.iter().map(|each| each.in_flight_bytes).sum::<u64>(),
            "pool_bytes": loops.iter().map(|each| each.pool_bytes).sum::<usize>(),
        });
        let cells: Vec<_> = loops.iter().flat_map(|each| &each.cells).collect();
        if !cells.is_empty() {
            answer["cells"] = json!(cells);
        }
        let frames: Vec<_> = loops.iter().flat_map(|each| &each.frames).collect();
        if !frames.is_empty() {
            answer["frames"] = json!(frames);
        }
        if let Some(timeline) = &self.timeline {
            answer["timeline"] = timeline.state(self.now_ns());
        }
        Ok(answer)
    }

    fn head(&self) -> Result<Value, String> {
        let loops = self.running()?.show().map_err(|error| error.to_string())?;
        let mut head = shown::head(&loops);
        head["zero_ns"] = self.origin_ns.into();
        if let Some(timeline) = &self.timeline {
            head["timeline"] = timeline.state(self.now_ns());
            head["timeline_columns"] = json!(Timeline::COLUMNS);
        }
        Ok(head)
    }

    fn sample(&self) -> Result<Value, String> {
        let loops = self.running()?.show().map_err(|error| error.to_string())?;
        let mut sample = shown::sample(&loops);
        if let Some(timeline) = &self.timeline {
            sample["timeline"] = timeline.sample(self.now_ns());
        }
        Ok(sample)
    }

    fn set(&self, link: Option<&str>, change: Setting) -> Result<(), String> {
        let engine = self.running()?;
        let change = match change {
            Setting::OutageNs(for_ns) => {
                return interrupt(engine, link, Interruption::once(for_ns));
            }
            Setting::Flap {
                times,
                period_ns,
                down_ns,
            } if times > 0 && 0 < down_ns && down_ns < period_ns => {
                let interruption = Interruption {
                    down_ns,
                    period_ns,
                    times,
                };
                return interrupt(engine, link, interruption);
            }
            Setting::Flap { .. } => {
                return Err("flap: at least one, each shorter than the period".to_owned());
            }
            Setting::Handover { for_ns, handling } => Change::Handover { for_ns, handling },
            Setting::RateBps(rate_bps) => {
                self.least_rates.check(link, rate_bps)?;
                Change::RateBps(rate_bps)
            }
            Setting::DelayNs(delay) => Change::DelayNs(delay),
            Setting::Loss(probability) if (0.0..=1.0).contains(&probability) => {
                Change::Loss(probability)
            }
            Setting::Loss(probability) => {
                return Err(format!("loss: {probability} is outside 0 to 1"));
            }
            Setting::Pattern(text) => {
                let pattern = Pattern::parse(&text)
                    .map_err(|error| format!("pattern: line {}: {}", error.line, error.message))?;
                // One that falls low for a while passes packets at other times.
                let peak_bps = pattern.rate_bps().and_then(|rates| rates.iter().max());
                self.least_rates
                    .check(link, peak_bps.copied().unwrap_or(0))?;
                Change::Pattern(Arc::new(pattern))
            }
        };
        if let Some(link) = link {
            return engine
                .apply(link, &change)
                .map_err(|error| error.to_string());
        }
        let mut taken = false;
        for name in engine.link_names() {
            match engine.apply(&name, &change) {
                Ok(()) => taken = true,
                Err(wavebed_path::EngineError::NotTaken(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if taken {
            Ok(())
        } else {
            Err("no link has a stage that takes this change".to_owned())
        }
    }

    fn timeline(&mut self, action: &Action) -> Result<Value, String> {
        self.running()?;
        let now_ns = self.now_ns();
        let Some(timeline) = &mut self.timeline else {
            return Err("there is no timeline: start with --timeline".to_owned());
        };
        for (link, rate_bps) in timeline.new_rates(action) {
            self.least_rates.check(Some(link), rate_bps)?;
        }
        let changes = timeline.obey(action, now_ns)?;
        let state = timeline.state(now_ns);
        let engine = self.running()?;
        for (link, change) in &changes {
            let done = engine.apply(link, change);
            done.map_err(|error| error.to_string())?;
        }
        Ok(state)
    }

    fn has_failed(&self) -> bool {
        match &self.running {
            Some(engine) => engine.has_failed(),
            None => self.waiting.is_none(),
        }
    }

    fn stop(self: Box<Self>) -> Result<Value, String> {
        let began = self.running.is_some();
        let summary = match (self.waiting, self.running) {
            (Some(setup), _) => Summary::new(&setup.hosts, setup.packet_memory_bytes),
            (None, Some(engine)) => engine.stop().map_err(|error| error.to_string())?,
            (None, None) => return Err("the links could not be started".to_owned()),
        };
        let mut value = serde_json::to_value(&summary).map_err(|error| error.to_string())?;
        value[TEXT] = summary.text().into();
        if began {
            value["zero_ns"] = self.origin_ns.into();
            value["zero_unix_ns"] = self.origin_unix_ns.into();
        }
        Ok(value)
    }
}
