//! `wavebed-core port INTERFACE`: a port of the forwarding test's tester, as docs/development/port-protocol.md says.

mod bindings;
mod requests;

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Lines, Sender as LineSender};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, io, process, thread};

use serde_json::{Value, json};
use wavebed_forward::answer::{Answerer, Search};
use wavebed_forward::frame::mac_text;
use wavebed_forward::pace::interval_q32;
use wavebed_forward::receiver::{Receiver, ReceiverKind};
use wavebed_forward::sender::{Job, Sender};
use wavebed_os::ethtool::Ethtool;
use wavebed_os::interface::Interface;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::{Error, clock, sched};

use crate::problem::Problem;
use bindings::{LEAD_NS, frames};
use requests::{Answer, Receive, Refusal, Request, Resolve, Send, cannot_or_failed};

/// A request may be this long: a list of many addresses.
const LONGEST_LINE: u64 = 1 << 20;

/// After the end of standard input the work at hand may take this long to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Serves one conversation at `interface`, on processor `core` if one is given.
///
/// # Errors
/// There is no such interface or processor.
pub fn run(interface: &str, core: Option<usize>) -> Result<i32, Problem> {
    if let Some(core) = core {
        sched::place_thread(0, core, None)
            .map_err(|error| Problem::wrong(format!("--core {core}: {error}")))?;
    }
    let mut port = Port::open(interface)?;
    for line in read_lines(Arc::clone(&port.stop)) {
        let answer = match line
            .map_err(Refusal::wrong)
            .and_then(|line| port.serve(&line))
        {
            Ok(value) => json!({ "ok": value }),
            Err(refusal) => json!({"error": refusal.line, "kind": refusal.kind}),
        };
        let mut output = io::stdout().lock();
        if writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .is_err()
        {
            break; // nobody listens any more
        }
    }
    Ok(0)
}

/// The lines of standard input, read by a thread of its own, so that its end is seen while frames are sent.
fn read_lines(stop: Arc<AtomicBool>) -> Lines<Result<String, String>> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        pass_on(&mut io::stdin().lock(), &sender);
        stop.store(true, Ordering::Relaxed);
        drop(sender);
        thread::sleep(GRACE);
        // What was attached hangs on descriptors: the kernel detaches it.
        process::exit(0);
    });
    lines
}

/// Passes lines on until the input ends or a line is longer than any request.
fn pass_on(input: &mut impl BufRead, sender: &LineSender<Result<String, String>>) {
    loop {
        let mut line = Vec::new();
        match input
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() == Some(&b'\n') => {
                let text = String::from_utf8(line);
                let _ = sender.send(text.map_err(|_| "the request is not UTF-8".to_owned()));
            }
            Ok(_) if line.len() as u64 == LONGEST_LINE => {
                let longest = format!("the request is longer than {LONGEST_LINE} bytes");
                let _ = sender.send(Err(longest));
                return;
            }
            Ok(_) => return, // cut off in the middle
        }
    }
}

/// A port with what it has opened.
struct Port {
    name: String,
    index: u32,
    netlink: Netlink,
    ethtool: Ethtool,
    sender: Option<Box<dyn Sender>>,
    receiver: Option<Box<dyn Receiver>>,
    answerer: Option<Answerer>,
    stop: Arc<AtomicBool>,
}

impl Port {
    fn open(name: &str) -> Result<Self, Problem> {
        let index = interface_index(name)
            .map_err(|_| Problem::wrong(format!("{name}: there is no such interface")))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            netlink: Netlink::route()?,
            ethtool: Ethtool::open(name)?,
            sender: None,
            receiver: None,
            answerer: None,
            stop: Arc::default(),
        })
    }

    fn serve(&mut self, line: &str) -> Answer {
        match requests::read(line).map_err(Refusal::wrong)? {
            Request::Describe {} => self.describe(),
            Request::Counters {} => self.counters(),
            Request::Offload { name, on } => self.offload(&name, on),
            Request::Probe {} => Ok(self.probe()),
            Request::Answer { addresses } => {
                self.answerer = None;
                let ranges = addresses.into_ranges();
                if !ranges.is_empty() {
                    let answerer = Answerer::start(&self.name, self.mac()?, ranges);
                    self.answerer = Some(answerer.map_err(|error| cannot_or_failed(&error))?);
                }
                Ok(json!({}))
            }
            Request::Resolve(resolve) => self.resolve(&resolve),
            Request::Receive(receive) => self.receive(&receive),
            Request::FrameCounters {} => self.frame_counters(),
            Request::Send(send) => self.send(&send),
            Request::Release {} => {
                self.receiver = None;
                self.sender = None;
                Ok(json!({}))
            }
            Request::Ceiling(request) => bindings::measure(&request, &self.stop),
        }
    }

    /// The interface as it is now.
    fn interface(&self) -> Result<Interface, Refusal> {
        self.netlink.interface(self.index).map_err(|error| {
            Refusal::failed(format!("{}: the interface went away: {error}", self.name))
        })
    }

    fn mac(&self) -> Result<[u8; 6], Refusal> {
        let missing = || Refusal::cannot(format!("{}: this is no Ethernet interface", self.name));
        self.interface()?.mac.ok_or_else(missing)
    }

    fn resolve(&self, request: &Resolve) -> Answer {
        let search = Search {
            interface: &self.name,
            mac: self.mac()?,
            address: request.address,
            source: request.source,
            vlan: request.vlan,
            timeout_ns: request.timeout_ns,
        };
        Ok(json!({ "mac": mac_text(search.run().map_err(Refusal::from)?) }))
    }

    fn receive(&mut self, request: &Receive) -> Answer {
        let frames = frames(&request.frames)?;
        self.interface()?;
        let attached = self.receiver.as_ref().map(|receiver| receiver.kind());
        if attached.is_none() || request.receiver.is_some_and(|kind| attached != Some(kind)) {
            self.receiver = None;
            self.receiver = Some(bindings::open_receiver(&self.name, request.receiver)?);
        }
        let receiver = self.receiver.as_mut().expect("just opened");
        receiver
            .start_trial(&frames, request.trial, request.sample)
            .map_err(|error| cannot_or_failed(&error))?;
        Ok(json!({ "receiver": receiver.kind() }))
    }

    fn frame_counters(&mut self) -> Answer {
        let Some(receiver) = &mut self.receiver else {
            return Err(Refusal::wrong(
                "frame_counters: nothing is received: send `receive` first",
            ));
        };
        let counters = receiver
            .counters()
            .map_err(|error| cannot_or_failed(&error))?;
        Ok(json!(counters))
    }

    fn send(&mut self, request: &Send) -> Answer {
        let frames = frames(&request.frames)?;
        let interval_q32 = match request.rate_pps {
            None => 0,
            Some(rate) => interval_q32(rate).ok_or_else(|| {
                Refusal::wrong(format!(
                    "rate_pps: {rate} is not within 0.25 and 10^9 frames per second"
                ))
            })?,
        };
        if !(1..=64).contains(&request.batch) {
            return Err(Refusal::wrong(format!(
                "batch: {} is not within 1 and 64",
                request.batch
            )));
        }
        let interface = self.interface()?;
        check_mtu(&request.frames, &interface)?;
        if !interface.up {
            return Err(Refusal::failed(format!(
                "{}: the interface is down",
                self.name
            )));
        }
        let work = |sender: &mut dyn Sender| {
            let start_ns = clock::monotonic_ns() + LEAD_NS;
            let job = Job {
                trial: request.trial,
                frames: request.count,
                interval_q32,
                batch: request.batch,
                start_ns,
                deadline_ns: start_ns.saturating_add(request.deadline_ns),
            };
            sender.send(&frames, &job, &self.stop)
        };
        let (kind, sent) = bindings::send(&self.name, request.sender, &mut self.sender, work)?;
        let mut answer = json!(sent);
        answer["sender"] = json!(kind);
        Ok(answer)
    }
}

/// An MTU counts what follows the Ethernet header and its tag.
fn check_mtu(
    spec: &wavebed_forward::frame::FrameSpec,
    interface: &Interface,
) -> Result<(), Refusal> {
    let around = 14 + 4 + if spec.vlan.is_some() { 4 } else { 0 };
    let largest = spec.sizes_bytes.iter().copied().max().unwrap_or(0);
    let needed = u32::from(largest).saturating_sub(around);
    if needed > interface.mtu {
        return Err(Refusal::wrong(format!(
            "sizes_bytes: frames of {largest} bytes need an MTU of {needed}, and {} has {}",
            interface.name, interface.mtu
        )));
    }
    Ok(())
}

impl Port {
    pub(super) fn describe(&self) -> Answer {
        let interface = self.interface()?;
        let features = self
            .ethtool
            .features()
            .map_err(|error| self.asked(&error))?;
        let offloads: BTreeMap<_, _> = features.iter().map(|(name, is)| (name, is.on)).collect();
        let fixed: Vec<_> = features.iter().filter(|(_, is)| is.fixed).collect();
        let fixed: Vec<_> = fixed.into_iter().map(|(name, _)| name).collect();
        let addresses = self.netlink.addresses(self.index).map_err(|error| {
            Refusal::failed(format!("{}: cannot read its addresses: {error}", self.name))
        })?;
        let addresses: Vec<_> = addresses
            .iter()
            .map(|(is, bits)| format!("{is}/{bits}"))
            .collect();
        Ok(json!({
            "version": VERSION,
            "interface": interface.name,
            "index": self.index,
            "mac": mac_text(self.mac()?),
            "mtu": interface.mtu,
            "up": interface.up,
            "carrier": interface.carrier,
            "carrier_changes": interface.carrier_changes,
            "speed_mbps": self.ethtool.speed_mbps().map_err(|error| self.asked(&error))?,
            "driver": self.ethtool.driver().map_err(|error| self.asked(&error))?,
            "addresses": addresses,
            "offloads": offloads,
            "fixed": fixed,
            "machine": machine()?,
            "cores": cores()?,
            "xdp": interface.xdp && !self.has_a_program(),
        }))
    }

    /// Whether the program at the interface is this port's.
    fn has_a_program(&self) -> bool {
        let kind = self.receiver.as_ref().map(|receiver| receiver.kind());
        matches!(
            kind,
            Some(ReceiverKind::XdpNative | ReceiverKind::XdpGeneric)
        )
    }

    pub(super) fn counters(&self) -> Answer {
        let interface = self.interface()?;
        let time_ns = clock::monotonic_ns();
        let is = interface.counters;
        let driver = self
            .ethtool
            .statistics()
            .map_err(|error| self.asked(&error))?;
        Ok(json!({
            "time_ns": time_ns,
            "rx_packets": is.rx_packets,
            "rx_bytes": is.rx_bytes,
            "rx_dropped": is.rx_dropped,
            "rx_errors": is.rx_errors,
            "rx_missed": is.rx_missed,
            "tx_packets": is.tx_packets,
            "tx_bytes": is.tx_bytes,
            "tx_dropped": is.tx_dropped,
            "tx_errors": is.tx_errors,
            "carrier_changes": interface.carrier_changes,
            "up": interface.up,
            "driver": driver,
        }))
    }

    pub(super) fn offload(&self, name: &str, on: bool) -> Answer {
        match self.ethtool.set_feature(name, on) {
            Ok(is) => Ok(json!({ "on": is })),
            Err(error) if error.source.kind() == io::ErrorKind::InvalidInput => {
                Err(Refusal::wrong(format!(
                    "name: {} has no feature {name:?}: see `ethtool -k`",
                    self.name
                )))
            }
            Err(error) => Err(self.asked(&error)),
        }
    }

    pub(super) fn probe(&self) -> Value {
        let held = self.receiver.as_ref().map(|receiver| receiver.kind());
        json!({"senders": bindings::probe_senders(&self.name), "receivers": bindings::probe_receivers(&self.name, held)})
    }

    fn asked(&self, error: &Error) -> Refusal {
        if error.errno() == Some(GONE) {
            Refusal::failed(format!("{}: the interface went away", self.name))
        } else {
            cannot_or_failed(error)
        }
    }
}

/// The version of the protocol.
const VERSION: u32 = 2;

/// `ENODEV`.
const GONE: i32 = 19;

/// The same text for as long as this machine has not been started again, and no other machine's.
fn machine() -> Result<String, Refusal> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Refusal::cannot(format!("cannot read {path}: {error}")))?;
    Ok(text.trim().to_owned())
}

/// Processors that are running, whichever of them this process may use.
fn cores() -> Result<usize, Refusal> {
    let text = fs::read_to_string("/proc/stat");
    let text = text.map_err(|error| Refusal::cannot(format!("cannot read /proc/stat: {error}")))?;
    let lines = text.lines();
    let numbered = lines.filter_map(|line| line.strip_prefix("cpu")?.chars().next());
    Ok(numbered.filter(char::is_ascii_digit).count())
}
