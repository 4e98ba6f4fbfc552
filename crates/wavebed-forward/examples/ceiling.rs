//! Prints how many frames live frames and the counting program carry over a veth pair, sender and receiver on the processor
//! that the process is kept on: `taskset -c 0 ceiling [SIZE [V6]]`. Root is needed.
//!
//! The floor is what the kernel alone needs: a program that only redirects what it is given, and one that only drops. It is
//! measured in turn with ours, so that both see the same machine.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is all it is for"
)]

use std::env;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

use wavebed_forward::bpf::assembler::Register::{R0, R1, R2, R3};
use wavebed_forward::bpf::assembler::{Assembler, Helper};
use wavebed_forward::frame::{FrameSpec, Frames, Range};
use wavebed_forward::live_frames::LiveFrames;
use wavebed_forward::receiver::Receiver;
use wavebed_forward::sender::{Job, Sender};
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::{Link, Map, Program, ProgramKind, XdpMode};
use wavebed_os::clock::monotonic_ns;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};

const FLOOR_FRAMES: u32 = 500_000;

/// Nanoseconds for a frame between programs that do nothing.
fn floor() -> Result<f64, Box<dyn std::error::Error>> {
    let netlink = Netlink::route()?;
    if interface_index("bare0").is_err() {
        netlink.add_veth("bare0", "bare1")?;
        for name in ["bare0", "bare1"] {
            netlink.set_up(interface_index(name)?)?;
        }
    }
    let mut drop = Assembler::new();
    drop.set(R0, 1).exit();
    let drop = Program::load("drop", ProgramKind::Xdp, &drop.finish())?;
    let _link = Link::attach_xdp(&drop, interface_index("bare1")?, XdpMode::Native)?;
    let interfaces = Map::interfaces("interfaces", 1)?;
    interfaces.set(0, &interface_index("bare0")?.to_ne_bytes())?;
    let mut send = Assembler::new();
    send.set_map(R1, interfaces.as_fd())
        .set(R2, 0)
        .set(R3, 1)
        .call(Helper::Redirect)
        .exit();
    let send = Program::load("redirect", ProgramKind::XdpLive, &send.finish())?;
    let start_ns = monotonic_ns();
    send.run_live(&[0; 60], FLOOR_FRAMES, 64)?;
    #[expect(clippy::cast_precision_loss, reason = "a time to print")]
    Ok((monotonic_ns() - start_ns) as f64 / f64::from(FLOOR_FRAMES))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let size: u16 = env::args().nth(1).map_or(Ok(64), |text| text.parse())?;
    let v6 = env::args().nth(2).is_some();
    NetworkNamespace::new()?;
    let netlink = Netlink::route()?;
    netlink.add_veth("left", "right")?;
    for name in ["left", "right"] {
        netlink.set_up(interface_index(name)?)?;
    }
    let (source, destination) = if v6 {
        ("2001:2::2", "2001:2:0:1::2")
    } else {
        ("198.18.0.2", "198.19.0.2")
    };
    let address = |text: &str| text.parse().map(|first| Range { first, count: 1 });
    let ports = Range {
        first: 49_152,
        count: 64,
    };
    let frames = Frames::new(&FrameSpec {
        sizes_bytes: vec![size],
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        pppoe_session: None,
        sources: address(source)?,
        destinations: address(destination)?,
        source_ports: ports,
        destination_ports: ports,
        flows: 256,
    })?;
    let mut receiver = XdpReceiver::attach("right", XdpMode::Native)?;
    let mut sender = LiveFrames::open("left")?;
    for trial in 0..5 {
        println!("floor {:.0} ns a frame", floor()?);
        receiver.start_trial(&frames, trial, 0)?;
        let start_ns = monotonic_ns();
        let job = Job {
            trial,
            frames: 1_000_000,
            interval_q32: 0,
            batch: 64,
            start_ns,
            deadline_ns: start_ns + 5_000_000_000,
        };
        let sent = sender.send(&frames, &job, &AtomicBool::new(false))?;
        let counters = receiver.counters()?;
        #[expect(clippy::cast_precision_loss, reason = "a rate to print")]
        let mpps = |count: u64| count as f64 * 1e3 / sent.took_ns as f64;
        println!(
            "ours {:.0} ns a frame: sent {:.3} Mpps, received {:.3} Mpps, {} refused, {} lost",
            1e3 / mpps(sent.frames),
            mpps(sent.frames),
            mpps(counters.unique),
            sent.refused,
            sent.frames - counters.unique
        );
    }
    pace(&frames, &mut receiver, &mut sender)
}

/// Gigabit line rate of 64 bytes for a second: how late batches are.
fn pace(
    frames: &Frames,
    receiver: &mut XdpReceiver,
    sender: &mut LiveFrames,
) -> Result<(), Box<dyn std::error::Error>> {
    for (trial, batch) in (5..).zip([1, 8, 32]) {
        receiver.start_trial(frames, trial, 0)?;
        let start_ns = monotonic_ns() + 200_000_000;
        let job = Job {
            trial,
            frames: 1_488_095,
            interval_q32: 672 << 32,
            batch,
            start_ns,
            deadline_ns: start_ns + 5_000_000_000,
        };
        let sent = sender.send(frames, &job, &AtomicBool::new(false))?;
        let counters = receiver.counters()?;
        println!(
            "batches of {batch} at 1.488 Mpps: {sent:?}, {} received",
            counters.unique
        );
    }
    Ok(())
}
