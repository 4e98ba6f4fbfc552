//! Sends by `AF_XDP`, with copies or without.

use std::hint;
use std::sync::atomic::AtomicBool;

use wavebed_os::clock::monotonic_ns;
use wavebed_os::xdp_socket::{XdpMode, XdpTx};

use crate::frame::Frames;
use crate::paced::{check_longest, send_paced};
use crate::sender::{Job, Sender, SenderKind, Sent};

/// How long a driver may take to say that the last frames were sent: many times what a gigabit link needs for a full ring.
const DRAIN_NS: u64 = 100_000_000;

/// A sender by `AF_XDP` through the first queue of an interface.
#[derive(Debug)]
pub struct AfXdp {
    ring: XdpTx,
    kind: SenderKind,
}

impl AfXdp {
    /// Sends through `interface`.
    ///
    /// # Errors
    /// There is no such interface, the process may not, or the driver cannot send without copies.
    pub fn open(interface: &str, zero_copy: bool) -> wavebed_os::Result<Self> {
        let (mode, kind) = if zero_copy {
            (XdpMode::ZeroCopy, SenderKind::AfXdpZeroCopy)
        } else {
            (XdpMode::Copy, SenderKind::AfXdpCopy)
        };
        Ok(Self {
            ring: XdpTx::open(interface, mode)?,
            kind,
        })
    }
}

impl Sender for AfXdp {
    fn kind(&self) -> SenderKind {
        self.kind
    }

    fn send(&mut self, frames: &Frames, job: &Job, stop: &AtomicBool) -> wavebed_os::Result<Sent> {
        check_longest(frames, self.ring.longest_frame(), self.ring.interface())?;
        let mut sent = send_paced(job, stop, |numbers, now_ns| {
            for number in numbers {
                let Some(slot) = self.ring.slot() else {
                    break;
                };
                let length = frames.write(number, job.trial, now_ns, slot);
                self.ring.fill(length);
            }
            self.ring.flush().map(u64::from)
        })?;
        // A driver that sends from our memory may not have come to the last ones.
        let patience_ns = monotonic_ns() + DRAIN_NS;
        while self.ring.outstanding() > 0 && monotonic_ns() < patience_ns {
            hint::spin_loop();
        }
        sent.frames = sent.frames.saturating_sub(self.ring.outstanding().into());
        Ok(sent)
    }
}
