//! The input and output of packets: a TUN device, a port of Ethernet, or a list in a test.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use wavebed_os::ethernet_port::{EthernetPort, Refusal};
use wavebed_os::tun::{Timed, Tun, VNET_HEADER_BYTES};

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

    /// Whether it takes several datagrams of a flow as one packet, with UDP segmentation offload.
    fn takes_datagrams_together(&self) -> bool {
        false
    }

    /// When the packet that was read last was sent, or came; `None` where the device does not know.
    fn sent_ns(&self) -> Option<u64> {
        None
    }

    /// The time between the first and the last frame of the packet that was read last; `None` for a packet of one frame.
    fn merged_ns(&self) -> Option<u64> {
        None
    }

    /// Whether a read needs no system call.
    fn is_mapped(&self) -> bool {
        false
    }

    /// Adds a packet, due at `due_ns`, to those that [`Port::flush`] writes.
    fn write_ahead(&mut self, due_ns: u64, parts: &[IoSlice<'_>]) {
        let _ = (due_ns, parts);
    }

    /// Writes the packets that were added since the last call; `refusals` gets the outcome of each.
    fn flush(&mut self, refusals: &mut Vec<Option<Refusal>>) {
        let _ = refusals;
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

    fn takes_datagrams_together(&self) -> bool {
        match &**self {
            Device::Tun(tun) => tun.has_udp_offload(),
            Device::Ethernet(_) => false,
        }
    }
}

/// A TUN device of a guest of virtual time, as an input: each packet has the time at which it was sent.
pub struct TimedInput {
    device: Arc<Device>,
    origin_ns: u64,
    buffer: Vec<u8>,
    /// What was read and not taken.
    filled: std::ops::Range<usize>,
    /// The last read left the device empty.
    is_empty: bool,
    sent_ns: u64,
}

/// Bytes read at a time. Where there is less room than for the largest packet, the kernel adds none.
const TIMED_READ_BYTES: usize = 1 << 20;
const LARGEST_TIMED: usize = Timed::LEN + VNET_HEADER_BYTES + 65_536;

impl TimedInput {
    /// The input of a timed device; `origin_ns` is time zero on the monotonic clock.
    #[must_use]
    pub fn new(device: Arc<Device>, origin_ns: u64) -> Self {
        Self {
            device,
            origin_ns,
            buffer: vec![0; TIMED_READ_BYTES],
            filled: 0..0,
            is_empty: false,
            sent_ns: 0,
        }
    }
}

impl Port for TimedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.filled.is_empty() {
            if std::mem::take(&mut self.is_empty) {
                return Ok(None);
            }
            let Some(count) = self.device.read(&mut self.buffer)? else {
                return Ok(None);
            };
            self.filled = 0..count;
            self.is_empty = count + LARGEST_TIMED <= TIMED_READ_BYTES;
        }
        let Some((timed, packet)) = Timed::split(&self.buffer[self.filled.clone()]) else {
            self.filled = 0..0;
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.filled.start += Timed::LEN + packet.len();
        self.sent_ns = timed.at_ns.saturating_sub(self.origin_ns);
        buffer[..packet.len()].copy_from_slice(packet);
        Ok(Some(packet.len()))
    }

    fn write(&mut self, _: &[IoSlice<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sent_ns(&self) -> Option<u64> {
        Some(self.sent_ns)
    }
}

/// A TUN device of a guest of virtual time, as an output: it hands packets over when they are due.
pub struct TimedOutput {
    device: Arc<Device>,
    origin_ns: u64,
    buffer: Vec<u8>,
    /// Where each packet in the buffer ends.
    ends: Vec<usize>,
}

impl TimedOutput {
    /// The output of a timed device; `origin_ns` is time zero on the monotonic clock.
    #[must_use]
    pub const fn new(device: Arc<Device>, origin_ns: u64) -> Self {
        Self {
            device,
            origin_ns,
            buffer: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn write_from(&self, from: usize) -> io::Result<usize> {
        match &*self.device {
            Device::Tun(tun) => tun.write_vectored(&[IoSlice::new(&self.buffer[from..])]),
            Device::Ethernet(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Port for TimedOutput {
    fn read(&mut self, _: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn write(&mut self, _: &[IoSlice<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_ahead(&mut self, due_ns: u64, parts: &[IoSlice<'_>]) {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let timed = Timed {
            at_ns: self.origin_ns + due_ns,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        self.buffer.extend(timed.to_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        self.ends.push(self.buffer.len());
    }

    fn flush(&mut self, refusals: &mut Vec<Option<Refusal>>) {
        let mut from = 0;
        let mut packet = 0;
        while packet < self.ends.len() {
            match self.write_from(from) {
                Ok(count) => from += count,
                // The first packet of the rest is refused.
                Err(error) => {
                    refusals.push(Some(Refusal::of(&error)));
                    from = self.ends[packet];
                    packet += 1;
                }
            }
            while self.ends.get(packet).is_some_and(|end| *end <= from) {
                refusals.push(None);
                packet += 1;
            }
        }
        self.ends.clear();
        self.buffer.clear();
    }
}
