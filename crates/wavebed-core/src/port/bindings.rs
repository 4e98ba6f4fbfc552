//! The ways to send and to receive: which there are, best first, and which work here.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use wavebed_forward::account::FrameCounters;
use wavebed_forward::af_xdp::AfXdp;
use wavebed_forward::frame::{FrameSpec, Frames, NUMBERS, Range};
use wavebed_forward::live_frames::LiveFrames;
use wavebed_forward::receiver::{Receiver, ReceiverKind};
use wavebed_forward::rx_ring::RxRing;
use wavebed_forward::sender::{Job, Sender, SenderKind, Sent};
use wavebed_forward::sendmmsg::Sendmmsg;
use wavebed_forward::tx_ring::TxRing;
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::XdpMode;
use wavebed_os::ethtool::Ethtool;
use wavebed_os::interface::Interface;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::{clock, netlink};

use super::requests::{Answer, Ceiling, Refusal, cannot_or_failed};

/// Best first.
const SENDERS: [SenderKind; 5] = [
    SenderKind::LiveFrames,
    SenderKind::AfXdpZeroCopy,
    SenderKind::AfXdpCopy,
    SenderKind::TxRing,
    SenderKind::Sendmmsg,
];

/// Best first.
const RECEIVERS: [ReceiverKind; 3] = [
    ReceiverKind::XdpNative,
    ReceiverKind::XdpGeneric,
    ReceiverKind::RxRing,
];

/// One way, and whether it works.
#[derive(Debug, Serialize)]
pub struct Binding<K> {
    kind: K,
    works: bool,
    why: String,
}

/// `EMSGSIZE`: a frame is longer than this way to send takes.
const TOO_LONG: i32 = 90;

/// Sends with the sender of the `wanted` kind; without one with the sender that is `held`, or the best that can be opened and
/// takes frames of this length. The one that was used is held afterwards.
///
/// # Errors
/// None can be opened, or sending went wrong.
pub fn send(
    interface: &str,
    wanted: Option<SenderKind>,
    held: &mut Option<Box<dyn Sender>>,
    job: impl Fn(&mut dyn Sender) -> wavebed_os::Result<Sent>,
) -> Result<(SenderKind, Sent), Refusal> {
    if let Some(sender) = held
        && wanted.is_none_or(|wanted| wanted == sender.kind())
    {
        match job(sender.as_mut()) {
            Ok(sent) => return Ok((sender.kind(), sent)),
            Err(error) if wanted.is_none() && error.errno() == Some(TOO_LONG) => {}
            Err(error) => return Err(cannot_or_failed(&error)),
        }
    }
    *held = None;
    let mut last = None;
    for &kind in wanted.as_ref().map_or(&SENDERS[..], std::slice::from_ref) {
        let mut sender = match sender(interface, kind) {
            Ok(sender) => sender,
            Err(error) => {
                last = Some(error);
                continue;
            }
        };
        match job(sender.as_mut()) {
            Ok(sent) => {
                *held = Some(sender);
                return Ok((kind, sent));
            }
            Err(error) if error.errno() == Some(TOO_LONG) => last = Some(error),
            Err(error) => return Err(cannot_or_failed(&error)),
        }
    }
    Err(cannot_or_failed(&last.expect("there are some to try")))
}

/// Opens the receiver of this kind, or the best that can be opened.
///
/// # Errors
/// None can.
pub fn open_receiver(
    interface: &str,
    kind: Option<ReceiverKind>,
) -> Result<Box<dyn Receiver>, Refusal> {
    let mut last = None;
    for &kind in kind.as_ref().map_or(&RECEIVERS[..], std::slice::from_ref) {
        match receiver(interface, kind) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = Some(error),
        }
    }
    Err(cannot_or_failed(&last.expect("there are some to try")))
}

fn sender(interface: &str, kind: SenderKind) -> wavebed_os::Result<Box<dyn Sender>> {
    Ok(match kind {
        SenderKind::LiveFrames => {
            netlink::require_redirected_frames(interface)?;
            Box::new(LiveFrames::open(interface)?)
        }
        SenderKind::AfXdpZeroCopy => Box::new(AfXdp::open(interface, true)?),
        SenderKind::AfXdpCopy => Box::new(AfXdp::open(interface, false)?),
        SenderKind::TxRing => Box::new(TxRing::open(interface)?),
        SenderKind::Sendmmsg => Box::new(Sendmmsg::open(interface)?),
    })
}

fn receiver(interface: &str, kind: ReceiverKind) -> wavebed_os::Result<Box<dyn Receiver>> {
    Ok(match kind {
        ReceiverKind::XdpNative => Box::new(XdpReceiver::attach(interface, XdpMode::Native)?),
        ReceiverKind::XdpGeneric => Box::new(XdpReceiver::attach(interface, XdpMode::Generic)?),
        ReceiverKind::RxRing => Box::new(RxRing::open(interface)?),
    })
}

/// Tries every sender at `interface`.
///
/// A packet socket or an `AF_XDP` socket that can be opened sends. Live frames only work where they arrive: beyond what the
/// driver says, some are sent through a pair of the port's own.
pub fn probe_senders(interface: &str) -> Vec<Binding<SenderKind>> {
    let try_it = |kind| match sender(interface, kind) {
        Ok(_) if kind == SenderKind::LiveFrames => prove(kind).map_err(|no| no.line),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    SENDERS.map(|kind| tried(kind, try_it(kind))).into()
}

/// Tries every receiver at `interface`. The one that is `held` already works.
pub fn probe_receivers(interface: &str, held: Option<ReceiverKind>) -> Vec<Binding<ReceiverKind>> {
    let try_it = |kind| {
        if held == Some(kind) {
            return Ok(());
        }
        receiver(interface, kind)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    RECEIVERS.map(|kind| tried(kind, try_it(kind))).into()
}

fn tried<K>(kind: K, result: Result<(), String>) -> Binding<K> {
    Binding {
        kind,
        works: result.is_ok(),
        why: result.err().unwrap_or_default(),
    }
}

/// The ends of the pair.
const SENDING: &str = "sending";
const RECEIVING: &str = "receiving";
const TRIAL: u16 = 1;
/// What an interface has without asking.
const USUAL_MTU: u32 = 1500;

/// What was sent and received, how.
struct Measured {
    /// The sender's account.
    sent: Sent,
    /// The receiver's.
    counters: FrameCounters,
    /// From when the first frame was due until the last was sent and received.
    took_ns: u64,
    /// How it was sent.
    sender: SenderKind,
    /// How it was received.
    receiver: ReceiverKind,
}

/// Sends as fast as it goes through a veth pair in a network namespace of its own.
pub fn measure(request: &Ceiling, stop: &AtomicBool) -> Answer {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0 and at most ten seconds"
    )]
    let limit_ns = (request.seconds * 1e9) as u64;
    let measured = in_a_pair(request, NUMBERS - 1, limit_ns, 0, stop)?;
    let received = measured.counters.unique;
    if received == 0 {
        return Err(Refusal::failed(format!(
            "ceiling: of {} frames sent none was received",
            measured.sent.frames
        )));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^52")]
    let pps = received as f64 * 1e9 / measured.took_ns as f64;
    Ok(json!({
        "pps": pps,
        "sent": measured.sent.frames,
        "received": received,
        "sender": measured.sender,
        "receiver": measured.receiver,
    }))
}

/// Frames that prove a sender: fewer than the 256 that a veth holds.
const PROOF: u64 = 200;
/// Longest time that a proof may take, a second.
const PROOF_NS: u64 = 1_000_000_000;
/// The last frames of a proof may be on their way for this long: on a busy machine the kernel takes what
/// came when it gets to it.
const ON_THEIR_WAY_NS: u64 = 1_000_000_000;
/// Between two looks for them.
const LOOK: Duration = Duration::from_millis(1);

/// Sends a few frames through a pair by `sender` and makes sure that they all arrive.
///
/// # Errors
/// They did not, or it could not be tried.
pub fn prove(sender: SenderKind) -> Result<(), Refusal> {
    let request = Ceiling {
        size_bytes: vec![64],
        flows: 1,
        seconds: 1.0,
        sender: Some(sender),
        receiver: Some(ReceiverKind::XdpNative),
    };
    let stop = AtomicBool::new(false);
    let arrived = in_a_pair(&request, PROOF, PROOF_NS, ON_THEIR_WAY_NS, &stop)?;
    if arrived.counters.unique != PROOF {
        return Err(Refusal::cannot(format!(
            "of {PROOF} frames sent through a veth pair {} arrived",
            arrived.counters.unique
        )));
    }
    Ok(())
}

/// Sends `count` frames, or for `limit_ns`, and counts them at the other end: those that have come when all are sent, or
/// come within `wait_ns` after that.
///
/// # Errors
/// The request breaks a rule, the machine cannot, or it went wrong.
fn in_a_pair(
    request: &Ceiling,
    count: u64,
    limit_ns: u64,
    wait_ns: u64,
    stop: &AtomicBool,
) -> Result<Measured, Refusal> {
    let work = || {
        // The namespace goes with the thread and its sockets.
        let _namespace = NetworkNamespace::new().map_err(|error| cannot_or_failed(&error))?;
        send_and_count(request, count, limit_ns, wait_ns, stop)
    };
    thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Refusal::failed("ceiling: the measurement broke off")))
}

fn send_and_count(
    request: &Ceiling,
    count: u64,
    limit_ns: u64,
    wait_ns: u64,
    stop: &AtomicBool,
) -> Result<Measured, Refusal> {
    let largest = request.size_bytes.iter().copied().max().unwrap_or(0);
    let (from, to) = make_pair(u32::from(largest))
        .map_err(|error| Refusal::cannot(format!("cannot make a veth pair: {error}")))?;
    let frames = frames(&specification(request, &from, &to))?;
    if request.sender == Some(SenderKind::LiveFrames) {
        // A veth takes redirected frames only while its other end polls. A program in the driver sees to that as well.
        Ethtool::open(RECEIVING)
            .and_then(|receiving| receiving.set_feature("rx-gro", true))
            .map_err(|error| cannot_or_failed(&error))?;
    }
    // The receiver first, so that a sender sees what its program makes possible.
    let mut receiver = open_receiver(RECEIVING, request.receiver)?;
    receiver
        .start_trial(&frames, TRIAL, 0)
        .map_err(|error| cannot_or_failed(&error))?;
    let start_ns = Cell::new(0);
    let work = |sender: &mut dyn Sender| {
        start_ns.set(clock::monotonic_ns() + LEAD_NS);
        let job = Job {
            trial: TRIAL,
            frames: count,
            interval_q32: 0,
            batch: 64,
            start_ns: start_ns.get(),
            deadline_ns: start_ns.get() + limit_ns,
        };
        sender.send(&frames, &job, stop)
    };
    let (sender, sent) = send(SENDING, request.sender, &mut None, work)?;
    let end_ns = clock::monotonic_ns() + wait_ns;
    let counters = loop {
        let is_over = clock::monotonic_ns() >= end_ns;
        let counters = receiver
            .counters()
            .map_err(|error| cannot_or_failed(&error))?;
        if is_over || counters.unique >= sent.frames {
            break counters;
        }
        thread::sleep(LOOK);
    };
    let received_ns = counters
        .last_ns
        .map_or(0, |last| last.saturating_sub(start_ns.get()));
    Ok(Measured {
        took_ns: sent.took_ns.max(received_ns).max(1),
        sent,
        counters,
        sender,
        receiver: receiver.kind(),
    })
}

/// Makes the pair in the thread's namespace and waits until it carries.
fn make_pair(largest: u32) -> Result<(Interface, Interface), String> {
    let text = |error: wavebed_os::Error| error.to_string();
    let netlink = Netlink::route().map_err(text)?;
    let told = |error: std::io::Error| error.to_string();
    netlink.add_veth(SENDING, RECEIVING).map_err(told)?;
    let mut ends = Vec::new();
    for name in [SENDING, RECEIVING] {
        let index = interface_index(name).map_err(text)?;
        let mtu = largest.saturating_sub(18);
        if mtu > USUAL_MTU {
            netlink.set_mtu(index, mtu).map_err(told)?;
        }
        netlink.set_up(index).map_err(told)?;
        ends.push(index);
    }
    let [from, to] = [ends[0], ends[1]].map(|index| netlink.interface(index));
    Ok((from.map_err(told)?, to.map_err(told)?))
}

/// Frames for the pair: addresses of RFC 2544's range for benchmarks, ports enough for every number of flows.
fn specification(request: &Ceiling, from: &Interface, to: &Interface) -> FrameSpec {
    let address = |third| Range {
        first: IpAddr::V4(Ipv4Addr::new(198, 18, third, 2)),
        count: 1,
    };
    let ports = Range {
        first: 49_152,
        count: 256,
    };
    FrameSpec {
        sizes_bytes: request.size_bytes.clone(),
        source_mac: from.mac.unwrap_or_default(),
        destination_mac: to.mac.unwrap_or_default(),
        vlan: None,
        pppoe_session: None,
        sources: address(0),
        destinations: address(1),
        source_ports: ports,
        destination_ports: ports,
        flows: request.flows,
    }
}

/// The first frame is due this long after the request: time for a sender to load its program and to warm its memory.
pub(super) const LEAD_NS: u64 = 50_000_000;

/// Builds the table of frames.
pub(super) fn frames(spec: &wavebed_forward::frame::FrameSpec) -> Result<Frames, Refusal> {
    Frames::new(spec).map_err(|error| Refusal::wrong(format!("frames: {error}")))
}

#[cfg(test)]
mod tests {
    use wavebed_forward::frame::Frames;

    use super::*;

    #[test]
    fn the_frames_of_a_ceiling_are_valid_for_every_number_of_flows() {
        let mac = |last| Interface {
            name: String::new(),
            mac: Some([2, 0, 0, 0, 0, last]),
            mtu: 1500,
            up: true,
            carrier: true,
            carrier_changes: 0,
            master: None,
            xdp: false,
            counters: wavebed_os::interface::Counters::default(),
        };
        for flows in [1, 256, 16_384] {
            let request = Ceiling {
                size_bytes: vec![64],
                flows,
                seconds: 0.1,
                sender: None,
                receiver: None,
            };
            assert!(Frames::new(&specification(&request, &mac(1), &mac(2))).is_ok());
        }
    }
}
