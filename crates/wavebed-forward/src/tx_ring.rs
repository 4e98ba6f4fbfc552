//! Sends from a ring of `AF_PACKET`, past the queueing discipline: one system call for a batch, no copy into the kernel's
//! message structures.

use std::sync::atomic::AtomicBool;

use wavebed_os::packet_ring;

use crate::frame::Frames;
use crate::paced::{check_longest, send_paced};
use crate::sender::{Job, Sender, SenderKind, Sent};

/// Slots of the ring: more than a virtual interface queues (256), and few enough that small frames stay in the cache.
const SLOTS: u32 = 512;
/// Frames of a normal MTU with a VLAN tag, in slots of 2 KiB; the ring's own headers take 42 bytes of each.
const NORMAL_FRAME: u32 = 2048 - 42;

/// A sender by a packet ring.
#[derive(Debug)]
pub struct TxRing {
    ring: packet_ring::TxRing,
}

impl TxRing {
    /// Sends through `interface`.
    ///
    /// # Errors
    /// There is no such interface, the process may not, or there is no memory.
    pub fn open(interface: &str) -> wavebed_os::Result<Self> {
        let ring = packet_ring::TxRing::open(interface, NORMAL_FRAME, SLOTS)?;
        Ok(Self { ring })
    }
}

impl Sender for TxRing {
    fn kind(&self) -> SenderKind {
        SenderKind::TxRing
    }

    fn send(&mut self, frames: &Frames, job: &Job, stop: &AtomicBool) -> wavebed_os::Result<Sent> {
        let socket = self.ring.socket();
        let longest = socket.longest_frame().min(NORMAL_FRAME as usize);
        check_longest(frames, longest, socket.interface())?;
        send_paced(job, stop, |numbers, now_ns| {
            for number in numbers {
                let Some(slot) = self.ring.slot() else {
                    break;
                };
                let length = frames.write(number, job.trial, now_ns, slot);
                self.ring.fill(length);
            }
            self.ring.flush().map(u64::from)
        })
    }
}
