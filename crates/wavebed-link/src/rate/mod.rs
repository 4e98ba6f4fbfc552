//! Servers: when the segment at the head of a queue may be served, and when its service is over.
//!
//! Work is counted in nanobits (a rate of one bit per second does one nanobit of work in a nanosecond), so that
//! integers hold every service time exactly, also where the rate changes in the middle of a segment.

mod fluid;
mod opportunities;
mod packets;
mod profile;
mod sampled;
mod token_bucket;

pub use fluid::Fluid;
pub use opportunities::Opportunities;
pub use packets::Packets;
pub use profile::Profile;
pub use sampled::{Sampled, SampledConfig};
pub use token_bucket::TokenBucket;

/// The work of one byte, nanobits.
pub const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

/// What serves the head of a queue, one segment after another.
///
/// Times never go back. A call of [`Server::serve`] is at the time that [`Server::ready`] gave, or at the time
/// at which the service before ended.
pub trait Server: Send {
    /// The earliest time at or after `at_ns` at which service of a segment of `bytes` may begin, or `None` if
    /// that time never comes.
    fn ready(&mut self, at_ns: u64, bytes: u64) -> Option<u64>;

    /// Serves a segment of `bytes` from `start_ns` on. Returns when the last byte is served, or `None` if never.
    fn serve(&mut self, start_ns: u64, bytes: u64) -> Option<u64>;

    /// Says that there was nothing to serve up to and including `at_ns`.
    fn idle(&mut self, at_ns: u64);

    /// Breaks off the service that the last [`Server::serve`] began and that is not over at `at_ns`. Returns
    /// the work that is left, nanobits.
    fn break_off(&mut self, at_ns: u64) -> u64;

    /// Goes on with `work` nanobits of a segment from `at_ns` on, as [`Server::serve`].
    fn resume(&mut self, at_ns: u64, work: u64) -> Option<u64>;

    /// Takes a new rate from `at_ns` on, while nothing is being served. Returns false if this server has no
    /// rate, and has to be replaced by one that has.
    fn set_profile(&mut self, at_ns: u64, profile: Profile) -> bool;

    /// The rate over time, for limits in time and for outages; the mean for a server without a rate.
    fn profile(&self) -> Profile;

    /// Whether [`Server::ready`] depends on the size of the head.
    fn minds_size(&self) -> bool {
        false
    }

    /// Whether a live change of the rate concerns this server.
    fn takes_rate(&self) -> bool {
        true
    }

    /// When the pattern ends that drives the server, if it does.
    fn end_ns(&self) -> Option<u64>;
}
