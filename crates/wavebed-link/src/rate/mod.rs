//! Servers: start and end of the service of the segment at the head of a queue.
//!
//! Work is counted in nanobits (a rate of one bit per second does one nanobit of work in a nanosecond), so that
//! integers hold every service time exactly, also where the rate changes in the middle of a segment.

mod fluid;
mod light;
mod opportunities;
mod packets;
mod profile;
mod sampled;
mod token_bucket;

pub use fluid::Fluid;
pub use light::Light;
pub use opportunities::Opportunities;
pub use packets::Packets;
pub use profile::Profile;
pub use sampled::{Sampled, SampledConfig};
pub use token_bucket::TokenBucket;

/// The work of one byte, nanobits.
pub const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

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

    /// Continues with `work` nanobits of a segment from `at_ns` on, as [`Server::serve`].
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
