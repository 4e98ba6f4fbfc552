//! The ways to send and to receive: which there are, best first, and which work here.

use serde::Serialize;
use wavebed_forward::af_xdp::AfXdp;
use wavebed_forward::live_frames::LiveFrames;
use wavebed_forward::receiver::{Receiver, ReceiverKind};
use wavebed_forward::rx_ring::RxRing;
use wavebed_forward::sender::{Sender, SenderKind, Sent};
use wavebed_forward::sendmmsg::Sendmmsg;
use wavebed_forward::tx_ring::TxRing;
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::XdpMode;
use wavebed_os::netdev;

use super::ceiling;
use super::refusal::{Refusal, cannot_or_failed};

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
            netdev::require_redirected_frames(interface)?;
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
        Ok(_) if kind == SenderKind::LiveFrames => ceiling::prove(kind).map_err(|no| no.line),
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
