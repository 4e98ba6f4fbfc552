//! A server that works at a rate: constant, or the steps of a pattern.

use super::profile::{Place, Profile};
use super::{NANOBITS_PER_BYTE, Server};

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
