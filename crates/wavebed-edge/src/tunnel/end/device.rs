//! The TUN device: super-packets are cut into wire segments before they are queued, and packets that arrived together
//! are coalesced before they are written.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use bytes::Bytes;
use wavebed_os::interface::Route;
use wavebed_os::netlink::Netlink;
use wavebed_os::tun::Tun;
use wavebed_packet::{Coalesced, MAX_COALESCED, VnetHeader, complete_segment, inspect};

use super::settings::Settings;
use crate::tunnel::{CoalesceCounters, CoalesceTable};

/// The largest packet with its virtio-net header.
const BUFFER_BYTES: usize = VnetHeader::LEN + 65_536;

/// A TUN device, and buffers.
pub struct Device {
    tun: Tun,
    buffer: Vec<u8>,
    table: CoalesceTable<Bytes>,
    counters: CoalesceCounters,
}

impl Device {
    /// Makes the device, with its address and routes, and brings it up.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn create(settings: &Settings) -> Result<Self, wavebed_os::Error> {
        let failed = |operation, source| wavebed_os::Error {
            operation,
            object: settings.device.clone(),
            source,
        };
        let tun = Tun::create(&settings.device, settings.mtu)?;
        let netlink = Netlink::route()?;
        let own = settings.address;
        netlink
            .add_address(tun.index(), own.address, own.bits)
            .map_err(|error| failed("give an address to", error))?;
        netlink
            .set_up(tun.index())
            .map_err(|error| failed("bring up", error))?;
        netlink
            .wait_until_local(own.address)
            .map_err(|error| failed("receive at the address of", error))?;
        for route in &settings.routes {
            let route = Route {
                destination: route.address,
                prefix_bits: route.bits,
                interface: tun.index(),
                source: None,
                congestion_control: None,
            };
            netlink
                .add_route(&route)
                .map_err(|error| failed("add a route over", error))?;
        }
        let table = CoalesceTable::new(tun.has_udp_offload());
        Ok(Self {
            tun,
            buffer: vec![0; BUFFER_BYTES],
            table,
            counters: CoalesceCounters::default(),
        })
    }

    /// Reads one packet of the host, and passes its wire segments on. False if there is none.
    ///
    /// # Errors
    /// The error of read(2).
    pub fn read(&mut self, mut pass: impl FnMut(Vec<u8>)) -> io::Result<bool> {
        let Some(bytes) = self.tun.read(&mut self.buffer)? else {
            return Ok(false);
        };
        let Some((vnet, packet)) = VnetHeader::split(&self.buffer[..bytes]) else {
            return Ok(true);
        };
        // A packet that contradicts its header is none that the kernel sends.
        if let Ok(shape) = inspect(&vnet, packet) {
            for index in 0..shape.segments {
                let mut segment = Vec::with_capacity(shape.segment_bytes.into());
                complete_segment(&vnet, packet, &shape, index, false, &mut segment);
                pass(segment);
            }
        }
        Ok(true)
    }

    /// Gives the host a packet, now or with [`Self::flush`].
    pub fn write(&mut self, packet: Bytes) {
        let mut write = |all: &Coalesced<'_, Bytes>| write(&self.tun, all, &mut self.counters);
        self.table.take(packet, &mut write);
    }

    /// Gives the host all packets that wait for others of their flow.
    pub fn flush(&mut self) {
        let mut write = |all: &Coalesced<'_, Bytes>| write(&self.tun, all, &mut self.counters);
        self.table.flush(&mut write);
    }

    /// What was coalesced.
    pub const fn counters(&self) -> CoalesceCounters {
        self.counters
    }
}

/// Writes a packet or super-packet. The packets of a super-packet that the kernel refuses are written alone; one that it
/// refuses then is lost, as on a link.
fn write(tun: &Tun, all: &Coalesced<'_, Bytes>, counters: &mut CoalesceCounters) {
    let vnet = all.vnet.to_bytes();
    let mut parts = [IoSlice::new(&[]); 2 + MAX_COALESCED];
    parts[0] = IoSlice::new(&vnet);
    parts[1] = IoSlice::new(all.header);
    for (part, payload) in parts[2..].iter_mut().zip(all.payloads()) {
        *part = IoSlice::new(payload);
    }
    let count = all.packets.len();
    let is_written = tun.write_vectored(&parts[..2 + count]).is_ok();
    if count == 1 {
        return;
    }
    if is_written {
        counters.super_packets += 1;
        counters.coalesced += count as u64;
        return;
    }
    let vnet = VnetHeader::default().to_bytes();
    for packet in all.packets {
        let _ = tun.write_vectored(&[IoSlice::new(&vnet), IoSlice::new(packet)]);
    }
}

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.tun.as_fd().as_raw_fd()
    }
}
