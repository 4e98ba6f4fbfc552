//! Blockages at many moments; each loses what is in flight.

use wavebed_edge::tunnel::law::{DeliveryLaw, RateLimits};

use crate::tunnel::simulation::{MS, S, Setup, World, tcp};

const RATE_BPS: u64 = 50_000_000;

/// From the end of a blockage of 1 s to the first packet of TCP that arrives.
fn pause_ns(from_ns: u64) -> Option<u64> {
    let limits = RateLimits {
        floor_bps: 500_000,
        start_bps: 5_000_000,
        most_bps: 2_000_000_000,
    };
    let setup = Setup {
        rate_bps: RATE_BPS,
        rtt_ns: 20 * MS,
        loss: 0.0,
        drops: true,
    };
    let law = Box::new(DeliveryLaw::new(limits));
    let mut world = World::new(setup, Some(law), vec![tcp(2, 1), tcp(2, 2)]);
    let to_ns = from_ns + S;
    world.change_rate(from_ns, 0);
    world.change_rate(to_ns, RATE_BPS);
    world.run(to_ns + 2 * S);
    let arrived = world.sources.iter().flat_map(|source| &source.arrived);
    let after = arrived.filter_map(|(at_ns, _)| at_ns.checked_sub(to_ns));
    after.min()
}

#[test]
fn traffic_is_back_300_ms_after_a_blockage_whenever_it_came() {
    for moment in 0..8 {
        let pause_ns = pause_ns(3 * S + moment * 41 * MS);
        assert!(
            pause_ns.is_some_and(|pause| pause <= 300 * MS),
            "{moment}: {pause_ns:?}"
        );
    }
}
