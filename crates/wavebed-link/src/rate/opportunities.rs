//! Delivery opportunities, as mahimahi replays them.

use std::sync::Arc;

use super::profile::NANOBITS_PER_BYTE;
use super::{Profile, Server};
use crate::pattern::{End, Pattern};

/// Serves a number of bytes at given times, and nothing in between.
///
/// An opportunity is filled byte by byte from the head of the queue on; a segment leaves at the opportunity that takes
/// its last byte. The unused rest is lost. A segment that arrives at the time of an opportunity is too late for it.
#[derive(Debug)]
pub struct Opportunities {
    pattern: Arc<Pattern>,
    end: End,
    start_ns: u64,
    origin_ns: u64,
    place: Place,
    serving: Serving,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Pattern time, over all laps, at which the lap of the next opportunity began.
    lap_ns: u64,
    /// The next opportunity.
    row: usize,
    /// Time of the current opportunity.
    at_ns: u64,
    /// Its unused bytes.
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Serving {
    bytes: u64,
    place: Place,
}

impl Opportunities {
    /// Plays `pattern` from its time `start_ns` on, which is the virtual time `origin_ns`. `None` if it has no
    /// opportunities. No value holds after the last opportunity, so [`End::Hold`] acts as [`End::Repeat`];
    /// configurations refuse it.
    #[must_use]
    pub fn new(pattern: Arc<Pattern>, end: End, start_ns: u64, origin_ns: u64) -> Option<Self> {
        pattern.bytes()?;
        let end = if end == End::Stop {
            End::Stop
        } else {
            End::Repeat
        };
        let start_ns = if end == End::Stop {
            start_ns
        } else {
            start_ns % pattern.period()
        };
        let row = pattern.at().partition_point(|&at| at < start_ns);
        let place = Place {
            lap_ns: 0,
            row,
            at_ns: origin_ns,
            bytes: 0,
        };
        let serving = Serving { bytes: 0, place };
        let mut server = Self {
            pattern,
            end,
            start_ns,
            origin_ns,
            place,
            serving,
        };
        server.wrap();
        Some(server)
    }

    /// Advances to the next lap if this one has no more opportunities.
    fn wrap(&mut self) {
        if self.place.row == self.pattern.at().len() && self.end == End::Repeat {
            self.place.row = 0;
            self.place.lap_ns = self.place.lap_ns.saturating_add(self.pattern.period());
        }
    }

    /// Time of the next opportunity.
    fn next_ns(&self) -> Option<u64> {
        let at = self.pattern.at().get(self.place.row)?;
        Some(
            (self
                .place
                .lap_ns
                .saturating_add(*at)
                .saturating_sub(self.start_ns))
            .saturating_add(self.origin_ns),
        )
    }

    /// Advances to the next opportunity.
    fn step(&mut self) -> Option<()> {
        self.place.at_ns = self.next_ns()?;
        self.place.bytes = u64::from(self.pattern.bytes()?[self.place.row]);
        self.place.row += 1;
        self.wrap();
        Some(())
    }

    fn take(&mut self, start_ns: u64, mut bytes: u64) -> Option<u64> {
        self.serving = Serving {
            bytes,
            place: self.place,
        };
        loop {
            let taken = bytes.min(self.place.bytes);
            bytes -= taken;
            self.place.bytes -= taken;
            if bytes == 0 {
                return Some(self.place.at_ns.max(start_ns));
            }
            self.step()?;
        }
    }
}

impl Server for Opportunities {
    fn ready(&mut self, at_ns: u64, _bytes: u64) -> Option<u64> {
        if self.place.bytes > 0 {
            Some(at_ns)
        } else {
            self.next_ns().map(|next_ns| next_ns.max(at_ns))
        }
    }

    fn serve(&mut self, start_ns: u64, bytes: u64) -> Option<u64> {
        self.take(start_ns, bytes)
    }

    fn idle(&mut self, at_ns: u64, _for_ns: u64) {
        self.place.bytes = 0;
        if at_ns < self.origin_ns || self.next_ns().is_none_or(|next_ns| next_ns > at_ns) {
            return;
        }
        let period = self.pattern.period();
        let position = (at_ns - self.origin_ns).saturating_add(self.start_ns);
        // One lap is kept back for an opportunity at the very end of a lap.
        let laps = (position - self.place.lap_ns) / period;
        if laps > 1 && self.end == End::Repeat {
            self.place.lap_ns += (laps - 1) * period;
            self.place.row = 0;
        }
        while self.next_ns().is_some_and(|next_ns| next_ns <= at_ns) {
            let within = position - self.place.lap_ns;
            self.place.row = self.pattern.at().partition_point(|&at| at <= within);
            self.wrap();
        }
    }

    fn break_off(&mut self, at_ns: u64) -> u64 {
        let Serving { mut bytes, place } = self.serving;
        self.place = place;
        loop {
            let taken = bytes.min(self.place.bytes);
            bytes -= taken;
            self.place.bytes -= taken;
            let due = self.next_ns().is_some_and(|next_ns| next_ns <= at_ns);
            if bytes == 0 || !due || self.step().is_none() {
                return bytes * NANOBITS_PER_BYTE;
            }
        }
    }

    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64> {
        self.take(at_ns, work.div_ceil(NANOBITS_PER_BYTE))
    }

    fn set_profile(&mut self, _at_ns: u64, _profile: Profile) -> bool {
        false
    }

    fn profile(&self) -> Profile {
        Profile::constant(self.pattern.mean_rate_bps().unwrap_or(0))
    }

    fn rate_of(&self, _at_ns: u64) -> Option<u64> {
        None
    }

    fn end_ns(&self) -> Option<u64> {
        let length = self.pattern.period().saturating_sub(self.start_ns);
        (self.end == End::Stop).then(|| self.origin_ns.saturating_add(length))
    }
}
