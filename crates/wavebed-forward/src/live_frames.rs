//! Sends frames that a BPF program writes in the kernel (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18).
//!
//! What it needs: an interface whose driver takes redirected frames (`ndo_xdp_xmit`). A veth takes them only while its peer
//! polls: the peer has an XDP program in the driver, or GRO is switched on there (`ethtool -K PEER gro on`). Otherwise
//! every frame is refused.
//!
//! Frames that the interface refuses (on a veth: the peer's ring of 256 is full) are lost on the device's side of the line.
//! They are counted to the frame by what the driver answers (see [`crate::bpf::refused`]). A veth counts them too, unless the
//! peer does not poll: in `tx_dropped`, and in `ethtool -S` as `tx_queue_N_xdp_xmit_errors`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use wavebed_os::bpf::Program;
use wavebed_os::clock::{monotonic_ns, sleep_until};
use wavebed_os::error::Context;
use wavebed_os::netlink::{Netlink, interface_index};

use crate::bpf::keep::Keep;
use crate::bpf::refused::Refused;
use crate::bpf::send::{self, SendMaps, State};
use crate::frame::Frames;
use crate::paced::check_longest;
use crate::sender::{Job, Sender, SenderKind, Sent};

/// Frames of a round when there is no pace: what the kernel itself takes for a good number (`NAPI_POLL_WEIGHT`).
const UNPACED_BATCH: u32 = 64;
/// The largest batch (see [`Job::batch`]).
const MAX_BATCH: u32 = 64;
/// How long the kernel runs before it is asked again whether to stop: about this. To begin again takes it some 0.2 ms, in
/// which frames become late.
const SLICE_NS: u64 = 50_000_000;
/// A frame takes at least this long, about.
const FRAME_NS: u64 = 500;
/// A round that waits in vain takes about this long (see [`send::WAIT_ROUNDS`]).
const ROUND_NS: u64 = 25_000;
/// Waits longer than this begin with sleep.
const SLEEP_OVER_NS: u64 = 200_000;
/// How long before a batch is due the sleep ends: a normal thread's timer slack (50 µs), and as much again to wake up.
const WAKE_BEFORE_NS: u64 = 100_000;
/// How soon a sleep sees that it is to stop.
const LONGEST_SLEEP_NS: u64 = 20_000_000;
/// The kernel puts a frame into one page with its own records and the room around it (`bpf_prog_test_run_xdp`): a little
/// more than this is left.
const LONGEST_BYTES: usize = 3_300;
/// Above the MTU, an interface takes the Ethernet header and a VLAN tag.
const LINK_BYTES: usize = 18;

/// Sends with a BPF program that the kernel runs for each frame.
#[derive(Debug)]
pub struct LiveFrames {
    interface: String,
    index: u32,
    netlink: Netlink,
    refused: Refused,
    keep: Keep,
}

/// A job with the program that does it.
struct Work<'a> {
    job: Job,
    maps: &'a SendMaps,
    program: Program,
    frame: Vec<u8>,
    batch: u32,
}

impl LiveFrames {
    /// A sender through `interface` of the calling thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn open(interface: &str) -> wavebed_os::Result<Self> {
        let index = interface_index(interface)?;
        Ok(Self {
            interface: interface.to_owned(),
            index,
            netlink: Netlink::route()?,
            refused: Refused::watch()?,
            keep: Keep::new()?,
        })
    }

    /// Refuses an interface that is down, and a frame that it does not take: the kernel would drop them without a word.
    fn check(&self, frames: &Frames) -> wavebed_os::Result<()> {
        let now = self
            .netlink
            .interface(self.index)
            .during("send through", &self.interface)?;
        if !now.up {
            return Err(io::Error::from_raw_os_error(ENETDOWN))
                .during("send through", &self.interface);
        }
        let longest = LONGEST_BYTES.min(now.mtu as usize + LINK_BYTES);
        check_longest(frames, longest, &self.interface)
    }

    /// An interface that took nothing has not sent.
    fn check_taken(&self, sent: &Sent) -> wavebed_os::Result<()> {
        let Some(error) = self.refused.error() else {
            return Ok(());
        };
        if sent.frames == 0 || sent.refused < sent.frames {
            return Ok(());
        }
        let mut what = self.interface.clone();
        if matches!(error, ENXIO | EOPNOTSUPP) {
            what += ", which takes no redirected frames (a veth takes them when its peer has GRO on: ethtool -K PEER gro on)";
        }
        Err(io::Error::from_raw_os_error(error)).during("send through", what)
    }
}

impl Sender for LiveFrames {
    fn kind(&self) -> SenderKind {
        SenderKind::LiveFrames
    }

    /// Without a pace a batch has 64 frames, whatever the job says: nothing waits for it.
    ///
    /// To prepare takes some 30 ms. A job that should have begun by then begins when all is ready: its whole schedule moves,
    /// and `took_ns` counts from there.
    fn send(&mut self, frames: &Frames, job: &Job, stop: &AtomicBool) -> wavebed_os::Result<Sent> {
        self.check(frames)?;
        self.refused.forget_error();
        let before = self.refused.count();
        let maps = SendMaps::new(frames, self.index)?;
        let batch = match job.interval_q32 {
            0 => UNPACED_BATCH,
            _ => job.batch.clamp(1, MAX_BATCH),
        };
        let program = send::load(frames, job, batch, &maps, &self.refused)?;
        self.keep.put(&program)?;
        let mut frame = vec![0; frames.longest()];
        frames.write(0, job.trial, 0, &mut frame);
        // To prepare took time: a job that should have begun by now begins now, without a burst of what is late.
        let job = Job {
            start_ns: job.start_ns.max(monotonic_ns()),
            ..job.clone()
        };
        maps.state.words()[State::Start as usize].store(job.start_ns, Ordering::Relaxed);
        // Whatever the row of the longest frame is: after header and stamp there are zeros.
        let work = Work {
            job,
            maps: &maps,
            program,
            frame,
            batch,
        };
        let mut checked_ns = monotonic_ns();
        while work.goes_on(stop) {
            work.run().during("send through", &self.interface)?;
            if monotonic_ns() > checked_ns + SLICE_NS {
                self.check(frames)?;
                checked_ns = monotonic_ns();
            }
        }
        self.check(frames)?;
        let sent = work.sent(self.refused.count() - before);
        self.check_taken(&sent)?;
        Ok(sent)
    }
}

impl Work<'_> {
    fn state(&self, state: State) -> u64 {
        self.maps.state.words()[state as usize].load(Ordering::Relaxed)
    }

    fn set(&self, state: State, value: u64) {
        self.maps.state.words()[state as usize].store(value, Ordering::Relaxed);
    }

    fn goes_on(&self, stop: &AtomicBool) -> bool {
        self.state(State::Next) < self.job.frames
            && monotonic_ns() < self.job.deadline_ns
            && !stop.load(Ordering::Relaxed)
    }

    /// Sleeps for a while, or has the kernel send for a while.
    fn run(&self) -> io::Result<()> {
        let next = self.state(State::Next);
        let now = monotonic_ns();
        let left = self.job.due_ns(next).saturating_sub(now);
        if left > SLEEP_OVER_NS {
            sleep_until(now + (left - WAKE_BEFORE_NS).min(LONGEST_SLEEP_NS));
            return Ok(());
        }
        let batch = u64::from(self.batch);
        let gap = self.job.due_ns(next + batch) - self.job.due_ns(next);
        let (limit, rounds) = if gap > SLEEP_OVER_NS {
            // One batch, and then sleep again.
            (next + batch, left / ROUND_NS + 4)
        } else {
            let round = gap.clamp(batch * FRAME_NS, ROUND_NS.max(batch * FRAME_NS));
            (self.job.frames, SLICE_NS / round)
        };
        self.set(State::Limit, limit.min(self.job.frames));
        self.set(State::Place, 0);
        let repeat = u32::try_from(rounds * batch).unwrap_or(u32::MAX);
        match self.program.run_live(&self.frame, repeat, self.batch) {
            // A signal; whether it means to stop is asked outside.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
            Ok(()) if self.state(State::Failed) > 0 => Err(io::Error::from_raw_os_error(ENODEV)),
            Ok(()) => Ok(()),
        }
    }

    fn sent(&self, refused: u64) -> Sent {
        Sent {
            frames: self.state(State::Next),
            refused,
            took_ns: self.state(State::Last).saturating_sub(self.job.start_ns),
            late_max_ns: self.state(State::LateMax),
            late_batches: self.state(State::LateBatches),
            batches: self.state(State::Batches),
        }
    }
}

/// "No such device or address", "Operation not supported", "No such device" and "Network is down" of Linux.
const ENXIO: i32 = 6;
const EOPNOTSUPP: i32 = 95;
const ENODEV: i32 = 19;
const ENETDOWN: i32 = 100;
