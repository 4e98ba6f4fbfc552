//! The gates of the tunnel, in virtual time.

use wavebed_edge::tunnel::law::{AutorateLaw, DeliveryLaw, Law, RateLimits};

use crate::simulation::{MS, S, Setup, Source, World, cbr, ping, tcp};

const MBIT: u64 = 1_000_000;

const LIMITS: RateLimits = RateLimits {
    floor_bps: MBIT / 2,
    start_bps: 5 * MBIT,
    most_bps: 2_000 * MBIT,
};

fn ours() -> Box<dyn Law> {
    Box::new(DeliveryLaw::new(LIMITS))
}

fn autorate() -> Box<dyn Law> {
    Box::new(AutorateLaw::new(LIMITS))
}

fn setup(rate_bps: u64, rtt_ms: u64) -> Setup {
    Setup {
        rate_bps,
        rtt_ns: rtt_ms * MS,
        loss: 0.0,
    }
}

/// IP bytes of `sources` as a fraction of the link's, of 1000.
fn per_mille(sources: &[Source], rate_bps: u64, from_ns: u64, to_ns: u64) -> u64 {
    let bytes: u64 = sources
        .iter()
        .map(|source| source.arrived_bytes(from_ns, to_ns))
        .sum();
    bytes * 8 * 1000 / (rate_bps * (to_ns - from_ns) / S)
}

/// UDP at twice the link, two TCP flows and ping: TCP and all, of 1000 of the link, and ping's p95 above base.
fn flood(law: Option<Box<dyn Law>>, rate_bps: u64, rtt_ms: u64, udp_host: u8) -> (u64, u64, u64) {
    let sources = vec![cbr(udp_host, 2 * rate_bps), tcp(2, 1), tcp(2, 2), ping(2)];
    let mut world = World::new(setup(rate_bps, rtt_ms), law, sources);
    world.run(15 * S);
    let (from_ns, to_ns) = (5 * S, 15 * S);
    let tcp = per_mille(&world.sources[1..3], rate_bps, from_ns, to_ns);
    let all = per_mille(&world.sources, rate_bps, from_ns, to_ns);
    let p95_ns = world.sources[3].delay_p95(from_ns, to_ns) - rtt_ms * MS / 2;
    (tcp, all, p95_ns)
}

/// The link falls to a tenth at 5 s: until when its queue is longer than 10 ms.
fn fall(law: Box<dyn Law>, rate_bps: u64, rtt_ms: u64) -> u64 {
    let mut world = World::new(
        setup(rate_bps, rtt_ms),
        Some(law),
        vec![cbr(2, 2 * rate_bps)],
    );
    world.change_rate(5 * S, rate_bps / 10);
    world.run(7 * S);
    let long = |(at_ns, queue_ns): &&(u64, u64)| *at_ns >= 5 * S && *queue_ns > 10 * MS;
    let last = world.queued.iter().rfind(long);
    last.map_or(0, |(at_ns, queue_ns)| {
        at_ns - rtt_ms * MS / 2 - 5 * S + 0 * queue_ns
    })
}

/// The link rises tenfold at 5 s: when 90 % of it are used, in 100 ms.
fn rise(law: Box<dyn Law>, rate_bps: u64, rtt_ms: u64) -> Option<u64> {
    let new_bps = 10 * rate_bps;
    let mut world = World::new(
        setup(rate_bps, rtt_ms),
        Some(law),
        vec![cbr(2, 2 * new_bps)],
    );
    world.change_rate(5 * S, new_bps);
    world.run(25 * S);
    let source = &world.sources[0];
    let mut from_ns = 5 * S;
    while from_ns < 25 * S {
        let bytes = source.arrived_bytes(from_ns, from_ns + 100 * MS) * 1460 / 1400;
        if bytes * 80 >= new_bps * 9 / 10 {
            return Some(from_ns + 100 * MS - 5 * S);
        }
        from_ns += 20 * MS;
    }
    None
}

#[test]
fn look() {
    for rtt in [10, 20, 40] {
        for rate in [20, 100] {
            println!(
                "rtt {rtt} rate {rate} fall ours {} autorate {}",
                fall(ours(), rate * MBIT, rtt) / MS,
                fall(autorate(), rate * MBIT, rtt) / MS
            );
            println!(
                "rtt {rtt} rate {rate} rise ours {:?} autorate {:?}",
                rise(ours(), rate * MBIT / 10, rtt),
                rise(autorate(), rate * MBIT / 10, rtt)
            );
        }
        for lossy in [0.0, 0.01] {
            let mut world = World::new(
                Setup {
                    loss: lossy,
                    ..setup(50 * MBIT, rtt)
                },
                Some(ours()),
                vec![cbr(2, 100 * MBIT)],
            );
            world.run(15 * S);
            println!(
                "rtt {rtt} loss {lossy} used {} lost {}",
                per_mille(&world.sources, 50 * MBIT, 5 * S, 15 * S),
                world.state().lost_packets
            );
        }
        let mut world = World::new(
            setup(50 * MBIT, rtt),
            Some(ours()),
            vec![tcp(2, 1), tcp(2, 2), ping(2)],
        );
        world.change_rate(5 * S, 0);
        world.change_rate(6 * S, 50 * MBIT);
        world.run(10 * S);
        for from in 45..80 {
            println!(
                "  {from} {}",
                per_mille(
                    &world.sources,
                    50 * MBIT,
                    from * 100 * MS,
                    (from + 1) * 100 * MS
                )
            );
        }
    }
    for rtt in [10, 20, 40, 80] {
        for (rate, host) in [(50, 2), (50, 3), (10, 2)] {
            let got = flood(Some(ours()), rate * MBIT, rtt, host);
            println!("rtt {rtt} rate {rate} host {host} ours {got:?}");
        }
    }
}
