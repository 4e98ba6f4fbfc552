//! Prints how many frames live frames and the counting program carry over a veth pair, sender and receiver on the processor
//! that the process is kept on: `taskset -c 0 ceiling [SIZE [V6]]`. Root is needed.

use std::env;
use std::sync::atomic::AtomicBool;

use wavebed_forward::frame::{FrameSpec, Frames, Range};
use wavebed_forward::live_frames::LiveFrames;
use wavebed_forward::receiver::Receiver;
use wavebed_forward::sender::{Job, Sender};
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::XdpMode;
use wavebed_os::clock::monotonic_ns;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};

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
        receiver.open_books(&frames, trial, 0)?;
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
        let books = receiver.books()?;
        #[expect(clippy::cast_precision_loss, reason = "a rate to print")]
        let mpps = |count: u64| count as f64 * 1e3 / sent.took_ns as f64;
        println!(
            "sent {:.3} Mpps, received {:.3} Mpps, {} refused, {} lost",
            mpps(sent.frames),
            mpps(books.unique),
            sent.refused,
            sent.frames - books.unique
        );
    }
    Ok(())
}
