//! The input and output of packets: a TUN device, or a list in a test.

use std::io::{self, IoSlice};
use std::sync::Arc;

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
}

impl Port for Arc<Tun> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Tun::read(self, buffer)
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.write_vectored(parts).map(drop)
    }
}
