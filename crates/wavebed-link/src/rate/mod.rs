//! Servers: start and end of the service of the segment at the head of a queue.
//!
//! Work is counted in nanobits (a rate of one bit per second does one nanobit of work in a nanosecond), so that
//! integers hold every service time exactly, also where the rate changes in the middle of a segment.

mod light;
mod opportunities;
mod profile;

pub use light::Light;
pub use opportunities::Opportunities;
pub use profile::{Profile, Sampled, SampledConfig};

use profile::{NANOBITS_PER_BYTE, Place};

/// A server of a queue, one segment after another.
///
/// Times never go back. [`Server::serve`] is called at the time that [`Server::ready`] returned, or at the end of the
/// previous service.
pub trait Server: Send {
    /// The earliest time at or after `at_ns` at which service of a segment of `bytes` may begin, or `None` if it never
    /// may.
    fn ready(&mut self, at_ns: u64, bytes: u64) -> Option<u64>;

    /// Serves a segment of `bytes` from `start_ns` on. Returns when the last byte is served, or `None` if never.
    fn serve(&mut self, start_ns: u64, bytes: u64) -> Option<u64>;

    /// Reports that the server was idle for the `for_ns` up to and including `at_ns`; `u64::MAX` if it has served nothing.
    fn idle(&mut self, at_ns: u64, for_ns: u64);

    /// Interrupts the current service at `at_ns`. Returns the remaining work, nanobits.
    fn break_off(&mut self, at_ns: u64) -> u64;

    /// Continues a service that has `work` nanobits left, from `at_ns` on. Returns what [`Server::serve`] returns.
    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64>;

    /// Sets a new rate from `at_ns` on, while idle. Returns false if this server has no rate, and must be replaced by
    /// [`at_rate`].
    fn set_profile(&mut self, at_ns: u64, profile: Profile) -> bool;

    /// The rate over time, for limits in time and for outages; the mean for a server without a rate.
    fn profile(&self) -> Profile;

    /// The rate at `at_ns`, for a display; `None` for a server without a rate.
    fn rate_of(&self, at_ns: u64) -> Option<u64> {
        Some(self.profile().rate_of(at_ns))
    }

    /// Whether [`Server::ready`] depends on the size of the head.
    fn minds_size(&self) -> bool {
        false
    }

    /// Whether a live change of the rate concerns this server.
    fn takes_rate(&self) -> bool {
        true
    }

    /// When the server's pattern ends, if it does.
    fn end_ns(&self) -> Option<u64>;
}

/// The server that works at this rate, and at the light rate of its pattern if that has one.
#[must_use]
pub fn at_rate(profile: Profile) -> Box<dyn Server> {
    match Light::new(&profile) {
        Some(server) => Box::new(server),
        None => Box::new(Fluid::new(profile)),
    }
}

/// The work of one packet, nanopackets: at one packet per second, a nanosecond does one.
const NANOPACKETS_PER_PACKET: u64 = 1_000_000_000;

/// Serves a number of packets per second, independent of their size: the limit of a UE's processor or USB bus.
///
/// The k-th packet of a busy period leaves in the nanosecond in which the time of k packets ends. The rest of that
/// nanosecond serves the next packet if it waits already, as in [`Fluid`](Fluid).
#[derive(Debug)]
pub struct Packets {
    /// Packets per second.
    rate: u64,
    /// Unused work of the previous nanosecond, nanopackets.
    spare: u64,
    /// Start of the last service, and its work.
    start_ns: u64,
    need: u64,
}

impl Packets {
    /// An idle server.
    ///
    /// # Panics
    /// If the rate is zero; configurations refuse it.
    #[must_use]
    pub fn new(packets_per_s: u64) -> Self {
        assert!(packets_per_s > 0, "a server without service");
        Self {
            rate: packets_per_s,
            spare: 0,
            start_ns: 0,
            need: 0,
        }
    }
}

impl Server for Packets {
    fn ready(&mut self, at_ns: u64, _bytes: u64) -> Option<u64> {
        Some(at_ns)
    }

    fn serve(&mut self, start_ns: u64, _bytes: u64) -> Option<u64> {
        self.resume(start_ns, NANOPACKETS_PER_PACKET)
    }

    fn idle(&mut self, _at_ns: u64, _for_ns: u64) {
        self.spare = 0;
    }

    /// Work is in nanopackets here.
    fn break_off(&mut self, at_ns: u64) -> u64 {
        self.spare = 0;
        let done = (at_ns - self.start_ns).saturating_mul(self.rate);
        self.need.saturating_sub(done)
    }

    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64> {
        self.start_ns = at_ns;
        self.need = work.saturating_sub(self.spare);
        if self.need == 0 {
            self.spare -= work;
            return Some(at_ns);
        }
        let span_ns = self.need.div_ceil(self.rate);
        self.spare = span_ns * self.rate - self.need;
        Some(at_ns.saturating_add(span_ns))
    }

    fn set_profile(&mut self, _at_ns: u64, _profile: Profile) -> bool {
        false
    }

    /// Any number of bits per second.
    fn profile(&self) -> Profile {
        Profile::constant(u64::MAX)
    }

    fn rate_of(&self, _at_ns: u64) -> Option<u64> {
        None
    }

    fn takes_rate(&self) -> bool {
        false
    }

    fn end_ns(&self) -> Option<u64> {
        None
    }
}

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
    serving: BucketServing,
}

/// The level when the last service began.
#[derive(Clone, Copy, Debug)]
struct BucketServing {
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
        let serving = BucketServing {
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
        let BucketServing {
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
        self.serving = BucketServing {
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

/// Serves bits at a rate, one segment after another.
///
/// A segment's service ends in the nanosecond in which its last bit is served. The rest of that nanosecond serves the
/// next segment if it waits already, so that long runs are exact.
#[derive(Debug)]
pub struct Fluid {
    profile: Profile,
    /// Unused work of the previous nanosecond, nanobits.
    spare: u64,
    quotient: Quotient,
    serving: Serving,
}

/// The service that was begun last.
#[derive(Clone, Copy, Debug)]
struct Serving {
    start_ns: u64,
    need: u64,
    place: Place,
}

/// Cache of the last division: most segments of a flow have one size, and divisions cost more than the rest.
#[derive(Clone, Copy, Debug, Default)]
struct Quotient {
    work: u64,
    rate: u64,
    span_ns: u64,
    rest: u64,
}

impl Fluid {
    /// A server with this rate.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let serving = Serving {
            start_ns: 0,
            need: 0,
            place: profile.place(),
        };
        Self {
            profile,
            spare: 0,
            quotient: Quotient::default(),
            serving,
        }
    }

    #[inline]
    fn divide(&mut self, work: u64, rate: u64) -> (u64, u64) {
        let known = &mut self.quotient;
        if known.work != work || known.rate != rate {
            *known = Quotient {
                work,
                rate,
                span_ns: work / rate,
                rest: work % rate,
            };
        }
        (known.span_ns, known.rest)
    }

    /// Serves work without unused work of an earlier nanosecond.
    fn work_off(&mut self, start_ns: u64, need: u64) -> Option<u64> {
        self.serving = Serving {
            start_ns,
            need,
            place: self.profile.place(),
        };
        let (finish_ns, spare) = self.profile.work_off(start_ns, need)?;
        self.spare = spare;
        Some(finish_ns)
    }
}

impl Server for Fluid {
    #[inline]
    fn ready(&mut self, at_ns: u64, _bytes: u64) -> Option<u64> {
        // With spare work, the segment was begun in the nanosecond before.
        if self.spare > 0 || self.profile.rate_at(at_ns) > 0 {
            return Some(at_ns);
        }
        let place = self.profile.place();
        let found = self.profile.next_service(at_ns);
        self.profile.restore(place);
        found
    }

    #[inline]
    fn serve(&mut self, start_ns: u64, bytes: u64) -> Option<u64> {
        let work = bytes * NANOBITS_PER_BYTE;
        let rate = self.profile.rate_at(start_ns);
        if work <= self.spare {
            self.spare -= work;
            self.serving = Serving {
                start_ns,
                need: 0,
                place: self.profile.place(),
            };
            return Some(start_ns);
        }
        if self.spare >= rate {
            // The rate has just fallen; the general case is fast enough for that.
            return self.work_off(start_ns, work - self.spare);
        }
        let (mut span_ns, rest) = self.divide(work, rate);
        let spare = if rest > self.spare {
            span_ns += 1;
            rate - (rest - self.spare)
        } else {
            self.spare - rest
        };
        if span_ns > self.profile.until_ns() - start_ns {
            return self.work_off(start_ns, work - self.spare);
        }
        self.serving = Serving {
            start_ns,
            need: work - self.spare,
            place: self.profile.place(),
        };
        self.spare = spare;
        Some(start_ns + span_ns)
    }

    fn idle(&mut self, _at_ns: u64, _for_ns: u64) {
        self.spare = 0;
    }

    fn break_off(&mut self, at_ns: u64) -> u64 {
        let Serving {
            start_ns,
            need,
            place,
        } = self.serving;
        self.profile.restore(place);
        self.spare = 0;
        need - self.profile.work_done(start_ns, at_ns, need)
    }

    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64> {
        self.work_off(at_ns, work)
    }

    fn set_profile(&mut self, _at_ns: u64, profile: Profile) -> bool {
        if profile.has_light() {
            return false;
        }
        self.profile = profile;
        true
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn end_ns(&self) -> Option<u64> {
        self.profile.end_ns()
    }
}
