//! Counts frames in the kernel, with a BPF program at the interface.
//!
//! Each trial has a program and maps of its own, and takes the place of the one before in one step, so that counters are never
//! seen half empty.
//!
//! What cannot be seen here is what the driver drops before the program runs, and a VLAN tag that the interface takes out
//! of the frame: `rx-vlan-offload` must be off for tagged frames. With the program in the driver of a veth, frames that the
//! kernel of this machine sends are cut to size by the other end, since the kernel switches its segmentation offloads
//! off there; a super-packet that comes nevertheless is one large frame.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use wavebed_os::bpf::{Link, Program, XdpMode, possible_processors};
use wavebed_os::error::Context;
use wavebed_os::netlink::{Netlink, interface_index};

use crate::account::{FrameCounters, SAMPLE_BYTES, Sample, hexadecimal};
use crate::bpf::count::{
    self, Count, CountMaps, FIRST_SAMPLE_WORD, LATENCY_WORD, PROCESSOR_WORDS, SAMPLE_WORDS,
    SIZES_WORD, SMALL_SIZES,
};
use crate::frame::Frames;
use crate::histogram::BUCKETS;
use crate::receiver::{Receiver, ReceiverKind};

/// A BPF program that counts what comes in at an interface.
#[derive(Debug)]
pub struct XdpReceiver {
    mode: XdpMode,
    interface: String,
    index: u32,
    netlink: Netlink,
    link: Link,
    processors: usize,
    trial: Option<CountMaps>,
}

impl XdpReceiver {
    /// Attaches to `interface` of the calling thread's network namespace. Until a trial starts every frame passes.
    ///
    /// # Errors
    /// There is no such interface, another program is attached, or the driver has no hook.
    pub fn attach(interface: &str, mode: XdpMode) -> wavebed_os::Result<Self> {
        let index = interface_index(interface)?;
        Ok(Self {
            mode,
            interface: interface.to_owned(),
            index,
            netlink: Netlink::route()?,
            link: Link::attach_xdp(&count::load_idle()?, index, mode)?,
            processors: possible_processors()?,
            trial: None,
        })
    }
}

impl Receiver for XdpReceiver {
    fn kind(&self) -> ReceiverKind {
        match self.mode {
            XdpMode::Native => ReceiverKind::XdpNative,
            XdpMode::Generic => ReceiverKind::XdpGeneric,
        }
    }

    fn start_trial(&mut self, frames: &Frames, trial: u16, sample: u32) -> wavebed_os::Result<()> {
        let maps = CountMaps::new(frames, sample, self.processors)?;
        let program: Program = count::load(frames, trial, &maps)?;
        self.link.replace(&program)?;
        self.trial = Some(maps);
        Ok(())
    }

    fn counters(&mut self) -> wavebed_os::Result<FrameCounters> {
        self.netlink
            .counters(self.index)
            .during("count at interface", self.interface.clone())?;
        Ok(self
            .trial
            .as_ref()
            .map_or_else(FrameCounters::default, read))
    }
}

/// The counters of all processors together.
fn read(maps: &CountMaps) -> FrameCounters {
    let mut counters = FrameCounters::default();
    for processor in maps
        .counters
        .words()
        .chunks_exact(PROCESSOR_WORDS)
        .take(maps.processors)
    {
        add(&mut counters, processor);
    }
    for (size, counter) in maps.sizes.words().iter().enumerate() {
        enter(&mut counters.sizes, size, counter);
    }
    counters.sample = samples(maps);
    counters
}

fn add(counters: &mut FrameCounters, words: &[AtomicU64]) {
    let get = |count: Count| words[count as usize].load(Ordering::Relaxed);
    let some = |count| Some(get(count)).filter(|&value| value != 0);
    let unique = get(Count::Unique);
    counters.unique += unique;
    counters.duplicates += get(Count::Duplicates);
    counters.reordered += get(Count::Reordered);
    counters.stale += get(Count::Stale);
    counters.other_trial += get(Count::OtherTrial);
    counters.damaged += get(Count::Damaged);
    counters.foreign += get(Count::Foreign);
    counters.first_ns = least(counters.first_ns, some(Count::First));
    counters.last_ns = counters.last_ns.max(some(Count::Last));
    if unique > 0 {
        let shortest = some(Count::LatencyLeast).map(|turned| !turned);
        counters.latency_min_ns = least(counters.latency_min_ns, shortest);
        counters.latency_max_ns = counters
            .latency_max_ns
            .max(Some(get(Count::LatencyGreatest)));
    }
    let latency = &words[LATENCY_WORD..LATENCY_WORD + BUCKETS];
    for (bucket, counter) in latency.iter().enumerate() {
        enter(&mut counters.latency, bucket, counter);
    }
    let sizes = &words[SIZES_WORD..SIZES_WORD + SMALL_SIZES];
    for (size, counter) in sizes.iter().enumerate() {
        enter(&mut counters.sizes, size, counter);
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

fn enter(counts: &mut BTreeMap<u32, u64>, key: usize, counter: &AtomicU64) {
    let value = counter.load(Ordering::Relaxed);
    if value > 0 {
        *counts
            .entry(u32::try_from(key).expect("a small key"))
            .or_default() += value;
    }
}

fn samples(maps: &CountMaps) -> Vec<Sample> {
    maps.samples.words()[FIRST_SAMPLE_WORD..]
        .chunks_exact(SAMPLE_WORDS)
        .filter_map(|words| {
            let length = words[1].load(Ordering::Acquire);
            let bytes: Vec<u8> = words[2..]
                .iter()
                .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
                .collect();
            let kept = SAMPLE_BYTES.min(usize::try_from(length).unwrap_or(usize::MAX));
            (length > 0).then(|| Sample {
                time_ns: words[0].load(Ordering::Relaxed),
                length: u32::try_from(length).unwrap_or(u32::MAX),
                hex: hexadecimal(&bytes[..kept]),
            })
        })
        .collect()
}
