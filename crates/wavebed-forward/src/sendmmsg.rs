//! Sends by `sendmmsg`, past the queueing discipline: works wherever packet sockets do.

use std::sync::atomic::AtomicBool;

use wavebed_os::packet_socket::{MAX_BATCH, PacketSocket};

use crate::frame::Frames;
use crate::paced::{check_longest, send_paced};
use crate::sender::{Job, Sender, SenderKind, Sent};

/// A sender by `sendmmsg`.
#[derive(Debug)]
pub struct Sendmmsg {
    socket: PacketSocket,
    buffer: Vec<u8>,
}

impl Sendmmsg {
    /// Sends through `interface`.
    ///
    /// # Errors
    /// There is no such interface, or the process may not.
    pub fn open(interface: &str) -> wavebed_os::Result<Self> {
        Ok(Self {
            socket: PacketSocket::open(interface)?,
            buffer: Vec::new(),
        })
    }
}

impl Sender for Sendmmsg {
    fn kind(&self) -> SenderKind {
        SenderKind::Sendmmsg
    }

    fn send(&mut self, frames: &Frames, job: &Job, stop: &AtomicBool) -> wavebed_os::Result<Sent> {
        check_longest(frames, self.socket.longest_frame(), self.socket.interface())?;
        // Whole cache lines, so that frames do not share them.
        let stride = frames.longest().next_multiple_of(64);
        self.buffer.resize(MAX_BATCH * stride, 0);
        send_paced(job, stop, |numbers, now_ns| {
            let mut lengths = [0; MAX_BATCH];
            let mut count = 0;
            for (number, room) in numbers.zip(self.buffer.chunks_exact_mut(stride)) {
                lengths[count] = frames.write(number, job.trial, now_ns, room);
                count += 1;
            }
            let mut batch = [&[][..]; MAX_BATCH];
            let written = self.buffer.chunks_exact(stride).zip(lengths);
            for (slot, (room, length)) in batch.iter_mut().zip(written) {
                *slot = &room[..length];
            }
            self.socket
                .send_batch(&batch[..count])
                .map(|taken| taken as u64)
        })
    }
}
