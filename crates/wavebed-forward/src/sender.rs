//! What sends frames.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::frame::Frames;

/// The ways to send, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderKind {
    /// A BPF program that writes frames in the kernel and redirects them (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18).
    LiveFrames,
    /// `AF_XDP` with the driver's own memory.
    AfXdpZeroCopy,
    /// `AF_XDP` with copies.
    AfXdpCopy,
    /// `AF_PACKET` with a shared ring, past the queueing discipline.
    TxRing,
    /// `AF_PACKET` with `sendmmsg`, past the queueing discipline.
    Sendmmsg,
}

/// Frames to send: `0..frames`.
#[derive(Clone, Debug)]
pub struct Job {
    /// Goes into every stamp.
    pub trial: u16,
    /// How many.
    pub frames: u64,
    /// Nanoseconds between two frames, in units of 2^-32; 0 sends as fast as it goes. Frame `n` is due at
    /// `start_ns + (n * interval_q32 >> 32)` and is never sent before, but for the others of its batch.
    pub interval_q32: u64,
    /// Frames that leave together when they are late anyhow, or when one is due: 1 to 64. A batch is due with its first frame.
    pub batch: u32,
    /// When frame 0 is due, monotonic, nanoseconds.
    pub start_ns: u64,
    /// When to give up, monotonic, nanoseconds.
    pub deadline_ns: u64,
}

/// What became of a [`Job`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Frames handed to the interface: numbers `0..frames`, without a gap.
    pub frames: u64,
    /// Of these, how many the interface is known to have refused.
    pub refused: u64,
    /// From `start_ns` until the last was handed over.
    pub took_ns: u64,
    /// How late the latest batch was.
    pub late_max_ns: u64,
    /// Batches that were more than 100 µs late.
    pub late_batches: u64,
    /// All batches.
    pub batches: u64,
}

/// Sends frames through one interface. Belongs to the thread that made it.
pub trait Sender {
    /// Which way it is.
    fn kind(&self) -> SenderKind;

    /// Does the job, or as much as `stop` and the deadline let it.
    ///
    /// # Errors
    /// The interface went away, or the kernel refuses.
    fn send(&mut self, frames: &Frames, job: &Job, stop: &AtomicBool) -> wavebed_os::Result<Sent>;
}
