//! A radio as one leg of a split bearer: how much it takes, and what it gives back when its link has failed.

use super::Radio;
use super::contents::{Chunk, Part};
use super::settings::Rlc;
use crate::run::Run;
use crate::stage::{Backlog, Outlet};

const BITS_NS: u128 = 8_000_000_000;

impl Radio {
    /// Bytes that fit beside those that wait, if what waits may be as much as the rate of `at_ns` carries in
    /// `target_ns`.
    pub(super) fn room(&mut self, at_ns: u64, target_ns: u64) -> u64 {
        let rate_bps = self.air.at(at_ns).rate_bps;
        let bytes = (u128::from(rate_bps) * u128::from(target_ns)).div_ceil(BITS_NS);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        bytes.saturating_sub(self.waiting_bytes(at_ns))
    }

    /// From a failure of the radio link to its re-establishment.
    pub(super) const fn reestablish_ns(&self) -> u64 {
        match self.config.rlc {
            Rlc::Acknowledged(timers) => timers.reestablish_ns,
            Rlc::Unacknowledged => 0,
        }
    }

    /// The UE sleeps until `ready_ns`.
    pub(super) fn sleep(&mut self, at_ns: u64, ready_ns: u64) {
        self.asleep_ns = self.asleep_ns.max(ready_ns);
        self.make_plan(at_ns);
    }

    /// Gives back everything that was not delivered, if the settings of handovers keep it. A segment that arrived in
    /// part is given back whole.
    pub(super) fn take_undelivered(&mut self, at_ns: u64, out: &mut Outlet<'_>) -> Vec<Run> {
        self.hand_over(at_ns, out);
        let sent: Vec<Chunk> = self
            .resend
            .drain(..)
            .chain(self.pending.drain(..))
            .collect();
        let runs = sent.into_iter().filter_map(|chunk| match chunk.part {
            Part::Whole(run) => Some(run),
            Part::Piece => self.cuts.take_out(chunk.count),
        });
        let mut runs: Vec<Run> = runs.collect();
        while let Some(run) = self.queue.dequeue(at_ns, out) {
            out.waited(at_ns, &run);
            runs.push(run);
        }
        self.on_air = Backlog::default();
        self.make_plan(at_ns);
        runs
    }

    /// Sends `runs` before all new data.
    pub(super) fn send_first(&mut self, at_ns: u64, runs: Vec<Run>) {
        if !self.has_data(at_ns) {
            self.asleep_ns = self.asleep_ns.max(at_ns);
            if let Some(scheduler) = &mut self.scheduler {
                scheduler.idle_until(at_ns);
            }
        }
        for run in runs {
            self.take_off(run);
            let Some(chunk) = self.pending.pop_back() else {
                return;
            };
            let ready_ns = at_ns;
            let place = self
                .resend
                .partition_point(|other| other.ready_ns <= ready_ns);
            self.resend.insert(place, Chunk { ready_ns, ..chunk });
        }
        self.make_plan(at_ns);
    }
}
