//! The TUN device: super-packets are cut into wire segments before they are queued.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use wavebed_os::interface::Route;
use wavebed_os::netlink::Netlink;
use wavebed_os::tun::Tun;
use wavebed_packet::{VnetHeader, complete_segment, inspect};

use super::settings::Settings;

/// The largest packet with its virtio-net header.
const BUFFER_BYTES: usize = VnetHeader::LEN + 65_536;

/// A TUN device, and a buffer.
pub struct Device {
    tun: Tun,
    buffer: Vec<u8>,
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
        Ok(Self {
            tun,
            buffer: vec![0; BUFFER_BYTES],
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

    /// Gives the host a packet. One that the kernel refuses is lost, as on a link.
    pub fn write(&self, packet: &[u8]) {
        let vnet = VnetHeader::default().to_bytes();
        let _ = self
            .tun
            .write_vectored(&[IoSlice::new(&vnet), IoSlice::new(packet)]);
    }
}

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.tun.as_fd().as_raw_fd()
    }
}
