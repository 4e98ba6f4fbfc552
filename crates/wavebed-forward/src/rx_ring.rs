//! Counts frames in user space, from a ring of `AF_PACKET`: works wherever packet sockets do.
//!
//! The kernel's packet hook reads the time of day of a frame. This time is mapped to the monotonic clock
//! once for each block; the error is below a microsecond on an idle processor. It is later than the frame's arrival by
//! what the driver and NAPI take.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wavebed_os::clock::realtime_offset_ns;
use wavebed_os::netlink::interface_index;
use wavebed_os::packet_ring::{BlockRing, Captured, VlanTag};

use crate::account::{Accounts, FrameCounters};
use crate::frame::Frames;
use crate::receiver::{Receiver, ReceiverKind};

/// Room for about 100 000 frames: a tenth of a second at a million per second.
const RING_BYTES: u32 = 32 << 20;
/// All headers, the stamp, and what a sample keeps.
const KEEP_BYTES: u32 = 160;
/// How long the thread waits for a block before it looks whether it is asked something.
const WAIT_NS: u64 = 5_000_000;
/// How long after a fault it looks again.
const AFTER_FAULT: Duration = Duration::from_millis(20);
/// Frames are seen a few milliseconds after they came; more than this, and the thread does not get the processor.
const SETTLE_LIMIT: Duration = Duration::from_secs(8);
const VLAN_BYTES: usize = 4;
/// Destination and source.
const MAC_BYTES: usize = 12;

/// A receiver by a packet ring, with a thread of its own.
#[derive(Debug)]
pub struct RxRing {
    interface: String,
    index: u32,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    accounts: Option<Accounts>,
    /// Frames that came and were dropped, and that were seen, since the ring was made.
    came: u64,
    dropped: u64,
    seen: u64,
    /// Frames that must have been seen, when the owner waits for that.
    awaited: Awaited,
    /// Of `dropped`: those that are counted, or came before the trial.
    booked: u64,
    fault: Option<(&'static str, Option<i32>)>,
    stop: bool,
}

/// See [`State::awaited`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Awaited {
    #[default]
    Nothing,
    /// All frames that arrived before the thread reads this value.
    All,
    /// This many frames.
    Frames(u64),
}

impl RxRing {
    /// Receives what comes in at `interface`. The thread runs on the processors of the caller.
    ///
    /// # Errors
    /// There is no such interface, the process may not, or there is no memory.
    pub fn open(interface: &str) -> wavebed_os::Result<Self> {
        let ring = BlockRing::open(interface, RING_BYTES, KEEP_BYTES)?;
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let thread = thread::Builder::new()
            .name("rx-ring".to_owned())
            .spawn(move || theirs.serve(ring))
            .map_err(|source| wavebed_os::Error {
                operation: "start a thread to receive from",
                object: interface.to_owned(),
                source,
            })?;
        Ok(Self {
            interface: interface.to_owned(),
            index: interface_index(interface)?,
            desk,
            thread: Some(thread),
        })
    }

    /// Waits until every frame that has come by now is seen.
    fn settle(&self) -> wavebed_os::Result<MutexGuard<'_, State>> {
        let mut state = self.desk.lock();
        state.awaited = Awaited::All;
        let (state, wait) = self
            .desk
            .settled
            .wait_timeout_while(state, SETTLE_LIMIT, |state| {
                state.awaited != Awaited::Nothing && state.fault.is_none()
            })
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((operation, errno)) = state.fault {
            let source = errno.map_or(io::ErrorKind::Other.into(), io::Error::from_raw_os_error);
            return Err(self.error(operation, source));
        }
        if wait.timed_out() {
            return Err(self.error("count the frames of", io::ErrorKind::TimedOut.into()));
        }
        Ok(state)
    }

    fn error(&self, operation: &'static str, source: io::Error) -> wavebed_os::Error {
        wavebed_os::Error {
            operation,
            object: self.interface.clone(),
            source,
        }
    }
}

impl Receiver for RxRing {
    fn kind(&self) -> ReceiverKind {
        ReceiverKind::RxRing
    }

    fn start_trial(&mut self, frames: &Frames, trial: u16, sample: u32) -> wavebed_os::Result<()> {
        if interface_index(&self.interface)? != self.index {
            return Err(self.error(
                "find again",
                io::Error::other("another interface has its name"),
            ));
        }
        self.desk.lock().fault = None;
        let mut state = self.settle()?;
        state.booked = state.dropped;
        state.accounts = Some(Accounts::new(frames, trial, sample));
        Ok(())
    }

    fn counters(&mut self) -> wavebed_os::Result<FrameCounters> {
        let mut state = self.settle()?;
        let lost = state.dropped - state.booked;
        state.booked = state.dropped;
        Ok(state
            .accounts
            .as_mut()
            .map_or_else(FrameCounters::default, |accounts| {
                accounts.lose(lost);
                accounts.counters()
            }))
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        self.desk.lock().stop = true;
        if let Some(thread) = self.thread.take() {
            // It has panicked, which was said when it did.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread.
    fn serve(&self, mut ring: BlockRing) {
        loop {
            let waited = ring.wait(WAIT_NS);
            let mut state = self.lock();
            if state.stop {
                return;
            }
            let result = waited.and_then(|_| {
                state.read(&mut ring);
                state.answer(&ring)
            });
            if let Err(error) = result {
                state.fault = Some((error.operation, error.errno()));
            }
            if state.awaited == Awaited::Nothing || state.fault.is_some() {
                self.settled.notify_all();
            }
            let faulty = state.fault.is_some();
            drop(state);
            if faulty {
                thread::sleep(AFTER_FAULT);
            }
        }
    }
}

impl State {
    /// Counts the frames of a block.
    fn read(&mut self, ring: &mut BlockRing) {
        let offset_ns = realtime_offset_ns();
        let accounts = &mut self.accounts;
        let count = ring.read(|frame| {
            let Some(accounts) = accounts else { return };
            let now_ns = frame.realtime_ns.saturating_sub(offset_ns);
            match frame.vlan {
                None => accounts.see(frame.bytes, frame.length, now_ns),
                Some(tag) => see_tagged(accounts, &frame, tag, now_ns),
            }
        });
        self.seen += u64::from(count);
    }

    /// Notes whether what the owner waits for has happened.
    fn answer(&mut self, ring: &BlockRing) -> wavebed_os::Result<()> {
        if self.awaited == Awaited::All {
            let news = ring.statistics()?;
            self.came += u64::from(news.frames);
            self.dropped += u64::from(news.dropped);
            self.awaited = Awaited::Frames(self.came - self.dropped);
        }
        if matches!(self.awaited, Awaited::Frames(count) if self.seen >= count) {
            self.awaited = Awaited::Nothing;
        }
        Ok(())
    }
}

/// Counts a frame with the VLAN tag that the kernel has taken out of it.
fn see_tagged(accounts: &mut Accounts, frame: &Captured<'_>, tag: VlanTag, now_ns: u64) {
    let mut bytes = [0; KEEP_BYTES as usize + VLAN_BYTES];
    let Some((addresses, rest)) = frame.bytes.split_at_checked(MAC_BYTES) else {
        return accounts.see(frame.bytes, frame.length, now_ns);
    };
    bytes[..MAC_BYTES].copy_from_slice(addresses);
    bytes[MAC_BYTES..MAC_BYTES + 2].copy_from_slice(&tag.ether_type.to_be_bytes());
    bytes[MAC_BYTES + 2..MAC_BYTES + VLAN_BYTES].copy_from_slice(&tag.control.to_be_bytes());
    let end = frame.bytes.len() + VLAN_BYTES;
    bytes[MAC_BYTES + VLAN_BYTES..end].copy_from_slice(rest);
    accounts.see(&bytes[..end], frame.length + 4, now_ns);
}
