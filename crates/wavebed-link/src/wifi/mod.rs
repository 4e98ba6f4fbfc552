//! The MAC of 802.11ad: aggregates of frames, a block acknowledgement for each, retries, delivery in order.
//!
//! See `docs/models/wifi-802.11ad.md`.

mod air;
mod medium;
mod station;
mod window;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::conditions::Conditions;
use crate::queue::Queue;
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::run::Run;
use crate::stage::{Backlog, Change, Outlet, Stage};

use medium::Medium;
use station::Station;

pub use air::Bler;

/// Settings of a [`Wifi`] stage, beside its queue, rate and errors.
#[derive(Clone, Copy, Debug)]
pub struct WifiSettings {
    /// Bytes of an aggregate at most, [`WifiSettings::overhead_bytes`] included. At least one frame of
    /// the MTU.
    pub aggregate_bytes: u32,
    /// Frames of an aggregate at most, and the window of the block acknowledgement. At least 1.
    pub aggregate_frames: usize,
    /// Airtime of an aggregate beside its bytes: preamble, interframe spaces, block acknowledgement.
    pub overhead_ns: u64,
    /// Retransmissions of a frame before it is given up.
    pub retries: u32,
    /// Bytes of a frame beyond the IP bytes of its packet.
    pub overhead_bytes: u32,
    /// The largest packet, IP bytes.
    pub mtu_bytes: u32,
}

impl WifiSettings {
    /// The bytes of a full aggregate: as many frames of the largest packet as it can hold.
    #[must_use]
    pub fn full_bytes(&self) -> u64 {
        let frame_bytes = u64::from(self.mtu_bytes) + u64::from(self.overhead_bytes);
        let by_bytes = u64::from(self.aggregate_bytes) / frame_bytes;
        by_bytes.clamp(1, self.aggregate_frames as u64) * frame_bytes
    }

    /// The rate at which the overhead takes all the time of full aggregates, bits per second, rounded down; `u64::MAX`
    /// without overhead. It bounds the throughput.
    #[must_use]
    pub fn most_bps(&self) -> u64 {
        let bits = u128::from(self.full_bytes()) * 8_000_000_000;
        let rate = bits.checked_div(u128::from(self.overhead_ns));
        rate.map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

const NEVER: u64 = u64::MAX;

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
