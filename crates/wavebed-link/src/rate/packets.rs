//! A server with a rate in packets.

use super::{Profile, Server};

/// The work of one packet, nanopackets: at one packet per second, a nanosecond does one.
const NANOPACKETS_PER_PACKET: u64 = 1_000_000_000;

/// Serves a number of packets per second, independent of their size: the limit of a UE's processor or USB bus.
///
/// The k-th packet of a busy period leaves in the nanosecond in which the time of k packets ends. The rest of that
/// nanosecond serves the next packet if it waits already, as in [`Fluid`](super::Fluid).
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
