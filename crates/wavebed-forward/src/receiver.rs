//! What counts frames.

use serde::Serialize;

use crate::account::Books;
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

    /// Opens new books: `frames` of trial `trial` are expected; the first `sample` of them are kept.
    ///
    /// # Errors
    /// The interface went away, or the kernel refuses.
    fn open_books(&mut self, frames: &Frames, trial: u16, sample: u32) -> wavebed_os::Result<()>;

    /// The books so far. Frames that come later are still counted.
    ///
    /// # Errors
    /// The interface went away.
    fn books(&mut self) -> wavebed_os::Result<Books>;
}
