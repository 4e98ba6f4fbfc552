//! The input and output of packets: a TUN device, a port of Ethernet, or a list in a test.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use wavebed_os::ethernet_port::EthernetPort;
use wavebed_os::tun::Tun;

/// One end of a leg.
pub trait Port {
    /// Reads one packet, virtio-net header first. `None` when there is none.
    ///
    /// # Errors
    /// The device's error.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes one packet, virtio-net header first.
    ///
    /// # Errors
    /// The device's error; the packet is then lost.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()>;

    /// Bytes of the largest IP packet on its wire.
    fn largest_packet(&self) -> u32 {
        u32::MAX
    }
}

/// A device at an end of a leg.
#[derive(Debug)]
pub enum Device {
    /// Its packets begin at the IP header.
    Tun(Tun),
    /// Its frames begin at the Ethernet header.
    Ethernet(EthernetPort),
}

impl Device {
    /// The port of Ethernet, if it is one.
    #[must_use]
    pub const fn ethernet(&self) -> Option<&EthernetPort> {
        match self {
            Self::Tun(_) => None,
            Self::Ethernet(port) => Some(port),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(tun) => tun.as_fd(),
            Self::Ethernet(port) => port.as_fd(),
        }
    }
}

impl Port for Arc<Device> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &**self {
            Device::Tun(tun) => tun.read(buffer),
            Device::Ethernet(port) => port.read(buffer),
        }
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        match &**self {
            Device::Tun(tun) => tun.write_vectored(parts).map(drop),
            Device::Ethernet(port) => port.write(parts),
        }
    }

    fn largest_packet(&self) -> u32 {
        self.ethernet().map_or(u32::MAX, EthernetPort::mtu)
    }
}
