//! Packets of the host against the largest one that the path carries, which QUIC finds out.
//!
//! The device keeps its MTU: to change it takes a right (`CAP_NET_ADMIN`) that an end has dropped. What is too large is
//! fragmented where IPv4 allows it, and answered by ICMP otherwise.

mod answer;
mod bucket;
mod fragment;
mod size_test;

use std::time::Duration;

use bucket::Bucket;
pub use size_test::SizeTest;

/// QUIC searches while one probe is lost or acknowledged after the other. Two round trips and the other end's delays, at
/// most, pass between two of them.
const QUIET_RTTS: u32 = 4;
const LEAST_QUIET: Duration = Duration::from_millis(400);
/// Packets that wait for the end of a search: a window of TCP with several flows.
const MOST_HELD: usize = 512;

/// What an end shows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PathState {
    /// The largest packet that the path carries, no more than the device's MTU, bytes.
    pub path_mtu: usize,
    /// Packets that were dropped because they are larger.
    pub too_large: u64,
    /// Packets that were fragmented because they are.
    pub fragmented: u64,
}

/// What is to be done with a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Fits(Vec<u8>),
    /// Send these in its place.
    Fragments(Vec<Vec<u8>>),
    /// Nothing yet: it waits for the end of a search.
    Held,
    /// It is dropped; the host gets the answer, if there is one.
    Dropped(Option<Vec<u8>>),
}

/// A search of QUIC: the probes sent when that was last looked at, and since when nothing has changed.
#[derive(Clone, Copy, Debug)]
struct Search {
    probes: u64,
    since_ns: u64,
}

/// The path's MTU.
#[derive(Debug)]
pub struct PathMtu {
    /// The device's MTU.
    device: usize,
    /// The largest packet that QUIC takes, no more than that.
    limit: usize,
    search: Option<Search>,
    held: Vec<Vec<u8>>,
    released: bool,
    answers: Bucket,
    too_large: u64,
    fragmented: u64,
}

impl PathMtu {
    /// The path MTU of an end without a connection: the MTU of the device.
    pub fn new(device: u32) -> Self {
        let device = usize::try_from(device).unwrap_or(usize::MAX);
        Self {
            device,
            limit: device,
            search: None,
            held: Vec::new(),
            released: false,
            answers: Bucket::default(),
            too_large: 0,
            fragmented: 0,
        }
    }

    /// QUIC takes packets of `limit` bytes now. `look` gives the probes that it has sent and the round trip time.
    pub fn observe(&mut self, limit: usize, now_ns: u64, look: impl FnOnce() -> (u64, Duration)) {
        let limit = limit.min(self.device);
        let before = std::mem::replace(&mut self.limit, limit);
        if limit > before {
            self.released = true;
        }
        if limit == self.device {
            // As large as can be: there is nothing to wait for.
            self.search = None;
        } else if limit < before || self.search.is_some() {
            let (probes, rtt) = look();
            let quiet = LEAST_QUIET.max(QUIET_RTTS * rtt);
            let quiet_ns = u64::try_from(quiet.as_nanos()).unwrap_or(u64::MAX);
            match self.search {
                Some(search) if search.probes == probes && limit == before => {
                    if now_ns.saturating_sub(search.since_ns) >= quiet_ns {
                        self.search = None;
                        self.released = true;
                    }
                }
                _ => {
                    let since_ns = now_ns;
                    self.search = Some(Search { probes, since_ns });
                }
            }
        }
    }

    /// Whether `packet` may be sent.
    pub fn judge(&mut self, packet: Vec<u8>, now_ns: u64) -> Verdict {
        if packet.len() <= self.limit {
            return Verdict::Fits(packet);
        }
        // A host would keep the MTU of an answer for ten minutes, and QUIC starts at its least one.
        if self.search.is_some() && self.held.len() < MOST_HELD {
            self.held.push(packet);
            return Verdict::Held;
        }
        if let Some(fragments) = fragment::fragments(&packet, self.limit) {
            self.fragmented += 1;
            return Verdict::Fragments(fragments);
        }
        self.too_large += 1;
        if self.search.is_some() {
            return Verdict::Dropped(None);
        }
        let answer = answer::answer(&packet, self.limit);
        Verdict::Dropped(answer.filter(|_| self.answers.take(now_ns)))
    }

    /// Packets that waited and are to be judged again.
    pub fn released(&mut self) -> Vec<Vec<u8>> {
        if std::mem::take(&mut self.released) {
            std::mem::take(&mut self.held)
        } else {
            Vec::new()
        }
    }

    /// Whether QUIC carries packets of the device's MTU, as far as is known.
    pub const fn is_full(&self) -> bool {
        self.limit == self.device
    }

    /// Whether a search goes on, which [`Self::observe`] ends.
    pub const fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Its state.
    pub const fn state(&self) -> PathState {
        PathState {
            path_mtu: self.limit,
            too_large: self.too_large,
            fragmented: self.fragmented,
        }
    }
}

#[cfg(test)]
mod tests;
