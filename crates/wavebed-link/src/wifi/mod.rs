//! The MAC of 802.11ad: aggregates of frames, a block acknowledgement for each, retries, delivery in order.
//!
//! See `docs/models/wifi-802.11ad.md`.

mod air;
mod station;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use air::{Bler, WifiSettings};

use crate::queue::Queue;
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::run::{Backlog, NEVER, Run};
use crate::stage::{Change, Conditions, Outlet, Stage};
use station::{Event, Station};

/// The air of one hop, which its stations share.
#[derive(Clone, Default)]
pub struct SharedAir(Arc<Mutex<Medium>>);

impl std::fmt::Debug for SharedAir {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SharedAir")
    }
}

impl SharedAir {
    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A station that sends its queue in aggregates.
///
/// A poll advances all stations of the air to its time, so that one that waits longer is not overtaken. What happened to
/// the others is kept until they are polled.
pub struct Wifi {
    air: SharedAir,
    place: usize,
}

impl Wifi {
    /// A station with nothing to send at time 0, at this rate, with an air of its own. Its `queue` returns wire segments.
    #[must_use]
    pub fn new(
        settings: WifiSettings,
        queue: Box<dyn Queue>,
        rate: Profile,
        bler: Bler,
        random: RandomStream,
    ) -> Self {
        let air = SharedAir::default();
        Self::sharing(air, settings, queue, rate, bler, random)
    }

    /// The same, on this air.
    #[must_use]
    pub fn sharing(
        air: SharedAir,
        settings: WifiSettings,
        queue: Box<dyn Queue>,
        rate: Profile,
        bler: Bler,
        random: RandomStream,
    ) -> Self {
        let station = Station::new(settings, queue, rate, bler, random);
        let place = air.medium().join(station);
        Self { air, place }
    }
}

impl Stage for Wifi {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let mut medium = self.air.medium();
        medium.advance(run.at_ns, self.place, out);
        medium.station(self.place).accept(run, out);
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        self.air.medium().advance(now_ns, self.place, out);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.air.medium().next_of(self.place)
    }

    fn backlog(&self) -> Backlog {
        self.air.medium().station(self.place).backlog()
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let mut medium = self.air.medium();
        let at_ns = now_ns.max(medium.reached_ns());
        medium.station(self.place).apply(at_ns, change)
    }

    fn takes(&self) -> &'static [&'static str] {
        &["rate", "pattern"]
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        Conditions {
            rate_bps: Some(self.air.medium().station(self.place).rate_of(now_ns)),
            ..Conditions::default()
        }
    }
}

/// The stations that share the air, advanced together.
#[derive(Default)]
struct Medium {
    stations: Vec<Station>,
    /// The end of the last aggregate.
    free_ns: u64,
    /// Who sent it.
    last: usize,
    reached_ns: u64,
}

impl Medium {
    /// Adds a station, and returns its place.
    fn join(&mut self, station: Station) -> usize {
        self.stations.push(station);
        self.last = self.stations.len() - 1;
        self.last
    }

    fn station(&mut self, place: usize) -> &mut Station {
        &mut self.stations[place]
    }

    /// How far the stations have been advanced.
    const fn reached_ns(&self) -> u64 {
        self.reached_ns
    }

    /// When the station at `place` should be polled next, if nothing else arrives.
    fn next_of(&mut self, place: usize) -> Option<u64> {
        let free_ns = self.free_ns;
        self.stations[place].due_ns(free_ns)
    }

    /// Processes all events of all stations up to `now_ns`, in order. Events of the station at `own` go to `out`.
    fn advance(&mut self, now_ns: u64, own: usize, out: &mut Outlet<'_>) {
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

    /// The next event, and its station. Of stations that could start together, the one that has been ready longer
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
