//! A token bucket: bursts pass at once, and the mean rate is bounded.

use super::profile::{Place, Profile};
use super::{NANOBITS_PER_BYTE, Server};

/// A token bucket. A segment leaves when the bucket holds its bytes, and takes them.
///
/// The bucket starts full. A segment larger than the bucket leaves when the bucket is full, and the level becomes
/// negative by the difference, so that the mean rate is kept.
#[derive(Debug)]
pub struct TokenBucket {
    profile: Profile,
    depth: i64,
    tokens: i64,
    as_of_ns: u64,
    serving: Serving,
}

/// The level when the last service began.
#[derive(Clone, Copy, Debug)]
struct Serving {
    work: u64,
    tokens: i64,
    as_of_ns: u64,
    place: Place,
}

impl TokenBucket {
    /// The deepest bucket, bytes.
    pub const MAX_BURST_BYTES: u64 = 1_000_000_000;

    /// A full bucket that holds `burst_bytes` (at most [`Self::MAX_BURST_BYTES`]) and fills at this rate.
    #[must_use]
    pub fn new(profile: Profile, burst_bytes: u64) -> Self {
        let depth = signed(burst_bytes.min(Self::MAX_BURST_BYTES) * NANOBITS_PER_BYTE);
        let serving = Serving {
            work: 0,
            tokens: depth,
            as_of_ns: 0,
            place: profile.place(),
        };
        Self {
            profile,
            depth,
            tokens: depth,
            as_of_ns: 0,
            serving,
        }
    }

    /// Fills the bucket up to `at_ns`.
    fn fill(&mut self, at_ns: u64) {
        if at_ns > self.as_of_ns {
            let missing = self.depth.saturating_sub(self.tokens).unsigned_abs();
            let gained = self.profile.work_done(self.as_of_ns, at_ns, missing);
            self.tokens += signed(gained);
            self.as_of_ns = at_ns;
        }
    }

    /// The missing level for this work.
    fn lacking(&self, work: u64) -> u64 {
        let wanted = signed(work).min(self.depth);
        u64::try_from(wanted.saturating_sub(self.tokens)).unwrap_or(0)
    }
}

fn signed(work: u64) -> i64 {
    i64::try_from(work).unwrap_or(i64::MAX)
}

impl Server for TokenBucket {
    fn ready(&mut self, at_ns: u64, bytes: u64) -> Option<u64> {
        self.fill(at_ns);
        let lacking = self.lacking(bytes * NANOBITS_PER_BYTE);
        if lacking == 0 {
            return Some(at_ns);
        }
        let place = self.profile.place();
        let found = self.profile.work_off(at_ns, lacking);
        self.profile.restore(place);
        found.map(|(ready_ns, _)| ready_ns)
    }

    fn serve(&mut self, start_ns: u64, bytes: u64) -> Option<u64> {
        self.resume(start_ns, bytes * NANOBITS_PER_BYTE)
    }

    fn idle(&mut self, at_ns: u64, _for_ns: u64) {
        self.fill(at_ns);
    }

    fn break_off(&mut self, at_ns: u64) -> u64 {
        let Serving {
            work,
            tokens,
            as_of_ns,
            place,
        } = self.serving;
        self.profile.restore(place);
        self.tokens = tokens;
        self.as_of_ns = as_of_ns;
        self.fill(at_ns);
        work
    }

    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64> {
        self.fill(at_ns);
        self.serving = Serving {
            work,
            tokens: self.tokens,
            as_of_ns: self.as_of_ns,
            place: self.profile.place(),
        };
        let finish_ns = match self.lacking(work) {
            0 => at_ns,
            lacking => {
                let place = self.profile.place();
                let found = self.profile.work_off(at_ns, lacking);
                self.profile.restore(place);
                found?.0
            }
        };
        self.fill(finish_ns);
        self.tokens = self.tokens.saturating_sub(signed(work));
        Some(finish_ns)
    }

    fn set_profile(&mut self, at_ns: u64, profile: Profile) -> bool {
        self.fill(at_ns);
        self.profile = profile;
        true
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn minds_size(&self) -> bool {
        true
    }

    fn end_ns(&self) -> Option<u64> {
        self.profile.end_ns()
    }
}
