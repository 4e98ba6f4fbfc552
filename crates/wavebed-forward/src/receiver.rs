//! What counts frames.

use serde::Serialize;

use crate::account::FrameCounters;
use crate::frame::Frames;

/// The ways to receive, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverKind {
    /// A BPF program in the driver counts, and drops what it has counted.
    XdpNative,
    /// The same in the kernel's generic hook.
    XdpGeneric,
    /// `AF_PACKET` with a shared ring, counted in user space.
    RxRing,
}

/// Counts the frames that come in at one interface.
pub trait Receiver {
    /// Which way it is.
    fn kind(&self) -> ReceiverKind;

    /// Starts the counters of a trial at zero: `frames` of trial `trial` are expected; the first `sample` of them are kept.
    ///
    /// # Errors
    /// The interface went away, or the kernel refuses.
    fn start_trial(&mut self, frames: &Frames, trial: u16, sample: u32) -> wavebed_os::Result<()>;

    /// The counters so far. Frames that come later are still counted.
    ///
    /// # Errors
    /// The interface went away.
    fn counters(&mut self) -> wavebed_os::Result<FrameCounters>;
}
