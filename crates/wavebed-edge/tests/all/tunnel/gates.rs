//! The gates of the tunnel, in virtual time; `--nocapture` shows the figures. The link counts whole packets, with the 60 bytes of the tunnel.

#![expect(clippy::print_stdout, reason = "the figures of the documentation")]

use wavebed_edge::tunnel::law::{AutorateLaw, DeliveryLaw, Law, RateLimits};

use crate::tunnel::simulation::{MS, OVERHEAD_BYTES, S, Setup, Source, World, cbr, ping, tcp};

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
        drops: false,
    }
}

/// IP bytes of `sources` as thousandths of what the link carries; with `overhead` bytes for each packet.
fn per_mille(sources: &[Source], overhead: u64, rate_bps: u64, from_ns: u64, to_ns: u64) -> u64 {
    let of = |source: &Source| {
        let bytes = source.arrived_bytes(from_ns, to_ns);
        bytes + bytes / u64::from(source.bytes) * overhead
    };
    let bytes: u64 = sources.iter().map(of).sum();
    let carried = rate_bps / 8 * ((to_ns - from_ns) / MS) / 1000;
    bytes * 1000 / carried
}

/// Shares of TCP (IP bytes) and of all (with overhead), in thousandths of the link, and ping's p95 above the base.
#[derive(Debug)]
struct Shares {
    tcp: u64,
    all: u64,
    ping_ns: u64,
}

/// UDP at twice the link, two TCP flows and ping.
fn flood(law: Option<Box<dyn Law>>, rate_bps: u64, rtt_ms: u64, udp_host: u8) -> Shares {
    let sources = vec![cbr(udp_host, 2 * rate_bps), tcp(2, 1), tcp(2, 2), ping(2)];
    let overhead = if law.is_some() { OVERHEAD_BYTES } else { 0 };
    let mut world = World::new(setup(rate_bps, rtt_ms), law, sources);
    world.run(15 * S);
    let (from_ns, to_ns) = (5 * S, 15 * S);
    let shares = Shares {
        tcp: per_mille(&world.sources[1..3], 0, rate_bps, from_ns, to_ns),
        all: per_mille(&world.sources, overhead, rate_bps, from_ns, to_ns),
        ping_ns: world.sources[3].delay_p95(from_ns, to_ns) - rtt_ms * MS / 2,
    };
    println!("{rate_bps} bit/s, {rtt_ms} ms, UDP of host {udp_host}: {shares:?}");
    shares
}

#[test]
fn udp_at_twice_the_link_leaves_tcp_its_share_and_ping_its_delay() {
    for (rate, rtt_ms, udp_host) in [(50, 20, 2), (50, 20, 3), (20, 10, 3)] {
        let shares = flood(Some(ours()), rate * MBIT, rtt_ms, udp_host);
        assert!(shares.tcp >= 450, "{shares:?}");
        assert!(shares.ping_ns <= 15 * MS, "{shares:?}");
        assert!(shares.all >= 950, "{shares:?}");
    }
}

#[test]
fn without_the_tunnel_udp_takes_the_link_and_ping_waits() {
    let shares = flood(None, 20 * MBIT, 20, 2);
    assert!(shares.tcp < 100, "{shares:?}");
    assert!(shares.ping_ns > S, "{shares:?}");
}

/// The link falls to a tenth at `at_ns`: how long until its queue, which then exceeds 10 ms, is back below; milliseconds.
fn fall(law: Box<dyn Law>, rate_bps: u64, rtt_ms: u64, at_ns: u64) -> Option<u64> {
    let sources = vec![cbr(2, 2 * rate_bps)];
    let mut world = World::new(setup(rate_bps, rtt_ms), Some(law), sources);
    world.change_rate(at_ns, rate_bps / 10);
    world.run(at_ns + 4 * S);
    let mut after = world.queued.iter().filter(|(time, _)| *time >= at_ns);
    after.find(|(_, queue_ns)| *queue_ns > 10 * MS)?;
    let drained = after.find(|(_, queue_ns)| *queue_ns <= 10 * MS);
    drained.map(|(time, _)| (time - rtt_ms * MS / 2 - at_ns) / MS)
}

#[test]
fn a_fall_to_a_tenth_is_drained_in_ten_times_the_feedback() {
    // What was sent before feedback can come takes ten times as long at a tenth of the rate: at 5 ms of round trip, with
    // a report, less than 200 ms; with more, that much more. A probe may be under way, so the median of many moments.
    for (rate, rtt_ms) in [(20, 5), (50, 5), (100, 5), (50, 10), (50, 20)] {
        let moments = (0..9).map(|moment| 3 * S + moment * 37 * MS);
        let mut took: Vec<u64> = moments
            .map(|at_ns| fall(ours(), rate * MBIT, rtt_ms, at_ns).expect("drained"))
            .collect();
        took.sort_unstable();
        println!("{rate} Mbit/s falls to a tenth, {rtt_ms} ms: {took:?} ms");
        let most = 200 + 10 * (rtt_ms - 5);
        assert!(took[4] <= most, "{took:?} ms");
        assert!(took[8] <= most + 150, "{took:?} ms");
    }
    let theirs = fall(autorate(), 50 * MBIT, 20, 5 * S);
    println!("cake-autorate: {theirs:?} ms");
    assert!(theirs.is_none_or(|took| took > 1000), "{theirs:?} ms");
}

/// The link rises tenfold at 5 s: how long until 90 % of it are used, in windows of 100 ms.
fn rise(law: Box<dyn Law>, rate_bps: u64, rtt_ms: u64) -> Option<u64> {
    let new_bps = 10 * rate_bps;
    let sources = vec![cbr(2, 2 * new_bps)];
    let mut world = World::new(setup(rate_bps, rtt_ms), Some(law), sources);
    world.change_rate(5 * S, new_bps);
    let mut to_ns = 5 * S;
    while to_ns < 27 * S {
        to_ns += 20 * MS;
        world.run(to_ns);
        let from_ns = to_ns - 100 * MS;
        if per_mille(&world.sources, OVERHEAD_BYTES, new_bps, from_ns, to_ns) >= 900 {
            let took = (to_ns - 5 * S) / MS;
            println!("{rate_bps} bit/s rises tenfold, {rtt_ms} ms: {took} ms");
            return Some(took);
        }
    }
    None
}

#[test]
fn a_tenfold_rise_is_used_within_a_second() {
    for (rate, rtt_ms) in [(2, 10), (5, 20), (10, 20), (5, 40)] {
        let took = rise(ours(), rate * MBIT, rtt_ms).expect("used");
        assert!(took <= 1000, "{took} ms");
    }
    let theirs = rise(autorate(), 2 * MBIT, 20).expect("used at last");
    assert!(theirs > 10_000, "{theirs} ms");
}

#[test]
fn a_blockage_of_a_second_costs_a_second() {
    for drops in [false, true] {
        let setup = Setup {
            drops,
            ..setup(50 * MBIT, 20)
        };
        let sources = vec![tcp(2, 1), tcp(2, 2), ping(2)];
        let mut world = World::new(setup, Some(ours()), sources);
        world.change_rate(5 * S, 0);
        world.change_rate(6 * S, 50 * MBIT);
        world.run(8 * S);
        let share = |from_ms, to_ms| {
            let tcp = &world.sources[..2];
            per_mille(tcp, OVERHEAD_BYTES, 50 * MBIT, from_ms * MS, to_ms * MS)
        };
        let (before, again) = (share(4000, 5000), share(6000, 6300));
        let after = share(6300, 7300);
        println!("drops {drops}: before {before}, first 300 ms {again}, second after {after}");
        assert!(share(5050, 6000) == 0, "the link is blocked");
        assert!(again >= 300, "{again}");
        assert!(after * 10 >= before * 9, "{before}, {after}");
    }
}

#[test]
fn random_loss_does_not_lower_the_rate() {
    let lossless = setup(50 * MBIT, 20);
    let mut used = [
        lossless,
        Setup {
            loss: 0.01,
            ..lossless
        },
    ]
    .map(|setup| {
        let mut world = World::new(setup, Some(ours()), vec![cbr(2, 100 * MBIT)]);
        world.run(15 * S);
        assert!(world.state().rate_bps >= 46 * MBIT, "{:?}", world.state());
        assert_eq!(world.state().lost_packets > 100, setup.loss > 0.0);
        per_mille(&world.sources, OVERHEAD_BYTES, 50 * MBIT, 5 * S, 15 * S)
    });
    println!("used without and with loss: {used:?}");
    // What is lost is lost, but no more.
    used[0] = used[0] * 98 / 100;
    assert!(used[1] >= used[0], "{used:?}");
}

#[test]
fn a_longer_path_is_not_taken_for_a_queue_for_ever() {
    let mut world = World::new(setup(50 * MBIT, 20), Some(ours()), vec![cbr(2, 100 * MBIT)]);
    world.change_delay(5 * S, 30 * MS);
    world.run(10 * S);
    let used = per_mille(&world.sources, OVERHEAD_BYTES, 50 * MBIT, 7 * S, 10 * S);
    assert!(used >= 900, "{used}");
}

#[test]
fn without_load_the_rate_stays() {
    let mut world = World::new(setup(50 * MBIT, 20), Some(ours()), vec![cbr(2, MBIT)]);
    world.run(5 * S);
    assert_eq!(world.state().rate_bps, LIMITS.start_bps);
    assert_eq!(world.state().lost_packets, 0);
}

#[test]
fn short_stalls_of_the_radio_cost_little_more_than_they_last() {
    // Retransmissions of RLC hold back what came after: 5 % of the time, and with 30 ms 10 %.
    for (stall_ms, every_ms) in [(10, 200), (30, 300)] {
        let mut world = World::new(setup(50 * MBIT, 20), Some(ours()), vec![cbr(2, 100 * MBIT)]);
        for turn in 1..12_000 / every_ms {
            let at_ns = turn * every_ms * MS;
            world.change_rate(at_ns, 0);
            world.change_rate(at_ns + stall_ms * MS, 50 * MBIT);
        }
        world.run(11 * S);
        let used = per_mille(&world.sources, OVERHEAD_BYTES, 50 * MBIT, 3 * S, 11 * S);
        let open = 1000 - 1000 * stall_ms / every_ms;
        println!("stalls of {stall_ms} ms each {every_ms} ms: {used} of {open}");
        assert!(used * 100 >= open * 85, "{used} of {open}");
    }
}

#[test]
fn tcp_alone_uses_the_link_at_short_and_long_round_trips() {
    for (rate, rtt_ms) in [(20, 1), (20, 5), (20, 20), (50, 40)] {
        let rate_bps = rate * MBIT;
        let mut world = World::new(
            setup(rate_bps, rtt_ms),
            Some(ours()),
            vec![tcp(2, 1), ping(2)],
        );
        world.run(15 * S);
        let used = per_mille(&world.sources, OVERHEAD_BYTES, rate_bps, 5 * S, 15 * S);
        let ping_ns = world.sources[1].delay_p95(5 * S, 15 * S) - rtt_ms * MS / 2;
        println!("one TCP flow, {rate_bps} bit/s, {rtt_ms} ms: {used}, ping {ping_ns} ns");
        assert!(used >= 800, "{used}");
        assert!(ping_ns <= 15 * MS, "{ping_ns}");
    }
}

/// Four TCP flows and ping over a link whose rate changes each 50 ms, between 0.6 and 1.4 of 50 Mbit/s: what of the
/// link is used, in thousandths, and the mean of ping above the base.
fn fluctuating(law: Option<Box<dyn Law>>, rtt_ms: u64) -> (u64, u64) {
    let sources = (1..5).map(|port| tcp(2, port)).chain([ping(2)]).collect();
    let overhead = if law.is_some() { OVERHEAD_BYTES } else { 0 };
    let mut world = World::new(setup(50 * MBIT, rtt_ms), law, sources);
    let mut carried = 0;
    for turn in 0..300u64 {
        // Multiplicative congruential: the same rates each time.
        let draw = (turn + 1).wrapping_mul(6_364_136_223_846_793_005) >> 33;
        let rate_bps = 30 * MBIT + draw % (40 * MBIT);
        world.change_rate(turn * 50 * MS, rate_bps);
        if turn >= 100 {
            carried += rate_bps / 8 / 20;
        }
    }
    world.run(15 * S);
    let bytes: u64 = world
        .sources
        .iter()
        .map(|source| {
            let bytes = source.arrived_bytes(5 * S, 15 * S);
            bytes + bytes / u64::from(source.bytes) * overhead
        })
        .sum();
    let delays = world.sources[4]
        .arrived
        .iter()
        .filter(|(at_ns, _)| *at_ns >= 5 * S);
    let (sum, count) = delays.fold((0, 0), |(sum, count), (_, delay)| (sum + delay, count + 1));
    (bytes * 1000 / carried, sum / count - rtt_ms * MS / 2)
}

#[test]
fn a_link_whose_rate_fluctuates_is_used_and_adds_little_delay() {
    for rtt_ms in [20, 40] {
        let (used, ping_ns) = fluctuating(Some(ours()), rtt_ms);
        let without = fluctuating(None, rtt_ms);
        println!("fluctuating link, {rtt_ms} ms: {used}, {ping_ns} ns; without {without:?}");
        assert!(used >= 780 && ping_ns <= 15 * MS, "{used}, {ping_ns} ns");
        assert!(without.1 > 500 * MS, "{without:?}");
    }
    let theirs = fluctuating(Some(autorate()), 20);
    println!("cake-autorate: {theirs:?}");
}
