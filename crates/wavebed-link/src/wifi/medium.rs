//! The medium of a hop: one station sends at a time.

use super::NEVER;
use super::station::{Event, Station};
use crate::stage::Outlet;

/// The stations that share the air, advanced together.
#[derive(Default)]
pub(super) struct Medium {
    stations: Vec<Station>,
    /// The end of the last aggregate.
    free_ns: u64,
    /// Who sent it.
    last: usize,
    reached_ns: u64,
}

impl Medium {
    /// Adds a station, and returns its place.
    pub(super) fn join(&mut self, station: Station) -> usize {
        self.stations.push(station);
        self.last = self.stations.len() - 1;
        self.last
    }

    pub(super) fn station(&mut self, place: usize) -> &mut Station {
        &mut self.stations[place]
    }

    /// How far the stations have been advanced.
    pub(super) const fn reached_ns(&self) -> u64 {
        self.reached_ns
    }

    /// When the station at `place` should be polled next, if nothing else arrives.
    pub(super) fn next_of(&mut self, place: usize) -> Option<u64> {
        let free_ns = self.free_ns;
        self.stations[place].due_ns(free_ns)
    }

    /// Processes all events of all stations up to `now_ns`, in order. Those of the station at `own` go to `out`.
    pub(super) fn advance(&mut self, now_ns: u64, own: usize, out: &mut Outlet<'_>) {
        self.stations[own].tell(now_ns, out);
        while let Some((at_ns, event, place)) = self.next()
            && at_ns <= now_ns
        {
            if place == own {
                self.process(at_ns, event, place, out);
            } else {
                let mut effects = std::mem::take(&mut self.stations[place].effects);
                self.process(at_ns, event, place, &mut Outlet::record(&mut effects));
                self.stations[place].effects = effects;
            }
        }
        self.reached_ns = self.reached_ns.max(now_ns);
    }

    fn process(&mut self, at_ns: u64, event: Event, place: usize, out: &mut Outlet<'_>) {
        let station = &mut self.stations[place];
        match event {
            Event::Finish => station.finish(out),
            Event::Special => station.special(at_ns, out),
            Event::Start => {
                if let Some(end_ns) = station.start(at_ns, out) {
                    self.free_ns = end_ns;
                    self.last = place;
                }
            }
        }
    }

    /// The next event, and of which station. Of stations that could start together, the one that has been ready longer
    /// does; of those that have been ready since the same time, one that did not send last.
    fn next(&mut self) -> Option<(u64, Event, usize)> {
        let (free_ns, last) = (self.free_ns, self.last);
        let each = self.stations.iter_mut().enumerate();
        let next = each.filter_map(|(place, station)| {
            let (at_ns, event) = station.next(free_ns)?;
            let ready_ns = if event == Event::Start {
                station.ready_ns()
            } else {
                NEVER
            };
            Some((at_ns, event, ready_ns, place == last, place))
        });
        next.min()
            .map(|(at_ns, event, _, _, place)| (at_ns, event, place))
    }
}
