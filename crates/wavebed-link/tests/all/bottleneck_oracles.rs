//! Bottlenecks against independent, plain simulations of the same link.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::link_support::{Event, Outcome, drive, segment, super_packet, through};
use proptest::prelude::*;
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig};
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::queue::{DropTail, Infinite, Limit};
use wavebed_link::rate::{
    Fluid, Opportunities, Profile, Sampled, SampledConfig, Server, TokenBucket, at_rate,
};
use wavebed_link::{Change, Link, Run, Unit};

/// A segment in a naive model: packet, index, bytes, arrival.
#[derive(Clone, Copy, Debug)]
struct Item {
    packet: u32,
    index: u16,
    bytes: u64,
    at_ns: u64,
}

fn items(arrivals: &[Run]) -> Vec<Item> {
    let mut items = Vec::new();
    for run in arrivals {
        for index in 0..run.count {
            let last = index + 1 == run.count;
            let bytes = u64::from(if last {
                run.last_bytes
            } else {
                run.segment_bytes
            });
            items.push(Item {
                packet: run.packet,
                index,
                bytes,
                at_ns: run.at_ns,
            });
        }
    }
    items
}

fn fits(limit: Limit, held: &[u64], bytes: u64, rate: u64) -> bool {
    let sum: u64 = held.iter().sum::<u64>() + bytes;
    match limit {
        Limit::Bytes(most) => sum <= most,
        Limit::Packets(most) => (held.len() as u64) < most,
        Limit::TimeNs(time) => {
            u128::from(sum) * 8_000_000_000 <= u128::from(time) * u128::from(rate)
        }
    }
}

type DeliveredAndLost = (Vec<(u32, u16, u64)>, Vec<(u32, u16, u64)>);

fn delivered_and_lost(outcome: &Outcome) -> DeliveredAndLost {
    (outcome.departures(), outcome.losses())
}

/// Drop-tail at a constant rate, by exact fractions: service times are kept as numerators over the rate.
fn constant_oracle(arrivals: &[Run], rate: u64, limit: Limit, overhead: u64) -> DeliveredAndLost {
    let rate_wide = u128::from(rate);
    let (mut delivered, mut lost) = (Vec::new(), Vec::new());
    let mut free: u128 = 0;
    let mut waiting: VecDeque<(u64, u64)> = VecDeque::new();
    for item in items(arrivals) {
        while waiting
            .front()
            .is_some_and(|&(start_ns, _)| start_ns <= item.at_ns)
        {
            waiting.pop_front();
        }
        let held: Vec<u64> = waiting.iter().map(|&(_, bytes)| bytes).collect();
        if !fits(limit, &held, item.bytes, rate) {
            lost.push((item.packet, item.index, item.at_ns));
            continue;
        }
        let arrival = u128::from(item.at_ns) * rate_wide;
        let start = arrival.max(free);
        free = start + u128::from(item.bytes + overhead) * 8_000_000_000;
        waiting.push_back((
            u64::try_from(start.div_ceil(rate_wide)).unwrap(),
            item.bytes,
        ));
        delivered.push((
            item.packet,
            item.index,
            u64::try_from(free.div_ceil(rate_wide)).unwrap(),
        ));
    }
    (delivered, lost)
}

/// A rate that changes, nanosecond by nanosecond: each offers its rate in nanobits to the segments that have arrived.
fn ticking_oracle(
    arrivals: &[Run],
    rate_at: impl Fn(u64) -> u64,
    until_ns: u64,
) -> Vec<(u32, u16, u64)> {
    let mut to_come: VecDeque<Item> = items(arrivals).into();
    let mut queue: VecDeque<(Item, u64)> = VecDeque::new();
    let mut delivered = Vec::new();
    for now_ns in 0..until_ns {
        while let Some(item) = to_come.front().copied().filter(|item| item.at_ns <= now_ns) {
            to_come.pop_front();
            queue.push_back((item, item.bytes * 8_000_000_000));
        }
        let mut budget = rate_at(now_ns);
        while let Some((item, left)) = queue.front_mut() {
            let served = budget.min(*left);
            *left -= served;
            budget -= served;
            if *left > 0 {
                break;
            }
            delivered.push((item.packet, item.index, now_ns + 1));
            queue.pop_front();
        }
    }
    delivered
}

/// The light rate of an oracle: the rates of each nanosecond, full and light, repeated; bytes; idle time.
#[derive(Clone, Debug)]
struct LightRates {
    each: Vec<(u64, u64)>,
    bytes: u64,
    idle_ns: u64,
    text: String,
}

impl LightRates {
    /// The rates `at_ns` after the start; an outage is one of both.
    fn at(&self, at_ns: u64) -> (u64, u64) {
        let (full, light) = self.each[usize::try_from(at_ns).unwrap() % self.each.len()];
        (full, if full == 0 { 0 } else { light })
    }
}

/// A link with a light rate, nanosecond by nanosecond. From `second.0` on the rates of `second.1` hold.
fn light_oracle(
    arrivals: &[Run],
    first: &LightRates,
    second: (u64, &LightRates),
    until_ns: u64,
) -> Vec<(u32, u16, u64)> {
    let mut to_come: VecDeque<Item> = items(arrivals).into();
    let mut queue: VecDeque<(Item, u64)> = VecDeque::new();
    let mut delivered = Vec::new();
    let (mut light_left, mut empty_since) = (0u64, None);
    for now_ns in 0..until_ns {
        let (rates, since_ns) = if now_ns < second.0 {
            (first, 0)
        } else {
            (second.1, second.0)
        };
        if now_ns == second.0 {
            light_left = 0;
        }
        while let Some(item) = to_come.pop_front_if_due(now_ns) {
            let idle = |since: u64| now_ns - since >= rates.idle_ns;
            if queue.is_empty() && empty_since.is_none_or(idle) {
                light_left = rates.bytes * 8_000_000_000;
            }
            queue.push_back((item, item.bytes * 8_000_000_000));
        }
        let (full, light) = rates.at(now_ns - since_ns);
        let mut full_budget = if light_left == 0 { full } else { 0 };
        let mut light_budget = light;
        while let Some((item, left)) = queue.front_mut() {
            if light_left > 0 {
                let served = light_budget.min(*left).min(light_left);
                light_budget -= served;
                light_left -= served;
                *left -= served;
                if light_left == 0 {
                    let rest = u128::from(full) * u128::from(light_budget) / u128::from(light);
                    full_budget = u64::try_from(rest).unwrap();
                }
            }
            let served = full_budget.min(*left);
            full_budget -= served;
            *left -= served;
            if *left > 0 {
                break;
            }
            delivered.push((item.packet, item.index, now_ns + 1));
            queue.pop_front();
            empty_since = Some(now_ns + 1);
        }
    }
    delivered
}

/// Random rates, and the text of their pattern.
fn light_rates() -> impl Strategy<Value = LightRates> {
    let rate = || {
        prop_oneof![
            1 => Just(0u64),
            4 => 1_000_000_000u64..20_000_000_000,
            1 => 500_000_000_000u64..=1_000_000_000_000,
        ]
    };
    let rows = prop::collection::vec((1u64..300, rate(), rate()), 1..8);
    (rows, 1u64..900, 1u64..200).prop_map(|(rows, bytes, idle_ns)| {
        let (mut each, mut lines) = (Vec::new(), String::new());
        for (span_ns, full, light) in rows {
            writeln!(lines, "0.{:09},{full},{light}", each.len()).unwrap();
            each.extend(std::iter::repeat_n(
                (full, light),
                usize::try_from(span_ns).unwrap(),
            ));
        }
        let text = format!(
            "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.{:09}\n# light_bytes = {bytes}\n\
             # light_idle_s = 0.{idle_ns:09}\ntime_s,rate_bps,light_rate_bps\n{lines}",
            each.len()
        );
        LightRates {
            each,
            bytes,
            idle_ns,
            text,
        }
    })
}

/// mahimahi's link queue: a list of opportunities, and a packet in transit that has left the queue.
fn opportunities_oracle(
    arrivals: &[Run],
    opportunities: &[(u64, u64)],
    limit: Limit,
    until_ns: u64,
) -> DeliveredAndLost {
    let (mut delivered, mut lost) = (Vec::new(), Vec::new());
    let mut queue: VecDeque<Item> = VecDeque::new();
    let mut transit: Option<(Item, u64)> = None;
    let mut next = 0;
    let mut arrivals: VecDeque<Item> = items(arrivals).into();
    loop {
        let opportunity = opportunities
            .get(next)
            .copied()
            .filter(|&(at_ns, _)| at_ns <= until_ns);
        let arrival = arrivals.front().copied();
        match (opportunity, arrival) {
            (Some((at_ns, _)), Some(item)) if item.at_ns < at_ns => {}
            (Some((at_ns, mut budget)), _) => {
                next += 1;
                while budget > 0 {
                    let Some((item, left)) = transit
                        .take()
                        .or_else(|| queue.pop_front().map(|item| (item, item.bytes)))
                    else {
                        break;
                    };
                    let served = left.min(budget);
                    budget -= served;
                    if served == left {
                        delivered.push((item.packet, item.index, at_ns));
                    } else {
                        transit = Some((item, left - served));
                    }
                }
                continue;
            }
            (None, Some(_)) => {}
            (None, None) => return (delivered, lost),
        }
        if let Some(item) = arrivals.pop_front() {
            let held: Vec<u64> = queue.iter().map(|item| item.bytes).collect();
            if fits(limit, &held, item.bytes, 0) {
                queue.push_back(item);
            } else {
                lost.push((item.packet, item.index, item.at_ns));
            }
        }
    }
}

/// A token bucket without a limit, filled nanosecond by nanosecond.
fn bucket_oracle(arrivals: &[Run], rate: u64, burst: u64, until_ns: u64) -> Vec<(u32, u16, u64)> {
    let mut to_come: VecDeque<Item> = items(arrivals).into();
    let mut queue: VecDeque<Item> = VecDeque::new();
    let depth = i128::from(burst) * 8_000_000_000;
    let mut tokens = depth;
    let mut delivered = Vec::new();
    for now_ns in 0..=until_ns {
        while let Some(item) = to_come.pop_front_if_due(now_ns) {
            queue.push_back(item);
        }
        while let Some(item) = queue.front().copied() {
            let work = i128::from(item.bytes) * 8_000_000_000;
            if tokens < work.min(depth) {
                break;
            }
            tokens -= work;
            delivered.push((item.packet, item.index, now_ns));
            queue.pop_front();
        }
        tokens = (tokens + i128::from(rate)).min(depth);
    }
    delivered
}

/// netem: each packet is scheduled on arrival, with the rate at that time. Fractions add up within a busy period.
fn sampled_oracle(arrivals: &[Run], rate_at: impl Fn(u64) -> u64, most: usize) -> DeliveredAndLost {
    let (mut delivered, mut lost): DeliveredAndLost = (Vec::new(), Vec::new());
    let (mut begin_ns, mut busy_rate, mut work) = (0, 0, 0u128);
    let mut free_ns = 0;
    for item in items(arrivals) {
        if delivered
            .iter()
            .filter(|&&(_, _, at_ns)| at_ns > item.at_ns)
            .count()
            >= most
        {
            lost.push((item.packet, item.index, item.at_ns));
            continue;
        }
        let sampled_ns = (item.at_ns..u64::MAX)
            .find(|&at_ns| rate_at(at_ns) > 0)
            .unwrap();
        let rate = rate_at(sampled_ns);
        if sampled_ns > free_ns || rate != busy_rate {
            (begin_ns, busy_rate, work) = (free_ns.max(sampled_ns), rate, 0);
        }
        work += u128::from(item.bytes) * 8_000_000_000;
        free_ns = begin_ns + u64::try_from(work.div_ceil(u128::from(rate))).unwrap();
        delivered.push((item.packet, item.index, free_ns));
    }
    (delivered, lost)
}

trait Due {
    fn pop_front_if_due(&mut self, now_ns: u64) -> Option<Item>;
}

impl Due for VecDeque<Item> {
    fn pop_front_if_due(&mut self, now_ns: u64) -> Option<Item> {
        if self.front()?.at_ns > now_ns {
            return None;
        }
        self.pop_front()
    }
}

fn arrivals(gap_ns: u64, most: u16) -> impl Strategy<Value = Vec<Run>> {
    let one = (0..gap_ns, 1..=6u16, 40..=most, 1..=most);
    prop::collection::vec(one, 1..60).prop_map(|list| {
        let mut at_ns = 0;
        let mut runs = Vec::new();
        for (packet, (gap_ns, count, bytes, last)) in (0u32..).zip(list) {
            at_ns += gap_ns;
            runs.push(super_packet(at_ns, packet, count, bytes, last.min(bytes)));
        }
        runs
    })
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u64..20_000).prop_map(Limit::Bytes),
        (1u64..20).prop_map(Limit::Packets),
        (1u64..50_000).prop_map(Limit::TimeNs),
    ]
}

fn bottleneck(
    limit: Limit,
    overhead_bytes: u32,
    server: impl Server + 'static,
) -> Bottleneck<DropTail> {
    let config = BottleneckConfig {
        overhead_bytes,
        ..BottleneckConfig::default()
    };
    Bottleneck::new(config, DropTail::new(limit, Unit::Packet), Box::new(server))
}

fn unlimited(server: impl Server + 'static) -> Bottleneck<Infinite> {
    Bottleneck::new(
        BottleneckConfig::default(),
        Infinite::new(Unit::Packet),
        Box::new(server),
    )
}

const FAR_NS: u64 = 1 << 50;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn constant_rate_and_droptail_match_exact_fractions(
        arrivals in arrivals(3_000, 1500),
        rate in prop_oneof![1_000_000_000u64..30_000_000_000, 900_000_000_000u64..=1_000_000_000_000],
        limit in limits(),
        overhead in 0u32..40,
    ) {
        let stage = bottleneck(limit, overhead, Fluid::new(Profile::constant(rate)));
        let outcome = through(stage, &arrivals, FAR_NS);
        prop_assert_eq!(delivered_and_lost(&outcome), constant_oracle(&arrivals, rate, limit, u64::from(overhead)));
    }

    #[test]
    fn a_rate_pattern_matches_a_nanosecond_by_nanosecond_server(
        arrivals in arrivals(400, 120),
        steps in prop::collection::vec(
            (1u64..300, prop_oneof![Just(0u64), 1_000_000_000u64..20_000_000_000, 500_000_000_000u64..=1_000_000_000_000]),
            1..8,
        ),
        end in prop_oneof![Just(End::Repeat), Just(End::Hold)],
        start in 0u64..100,
    ) {
        let mut text = String::new();
        let mut at_ns = 0;
        let mut rates = Vec::new();
        for (span_ns, rate) in &steps {
            writeln!(text, "0.{at_ns:09},{rate}").unwrap();
            rates.extend(std::iter::repeat_n(*rate, usize::try_from(*span_ns).unwrap()));
            at_ns += span_ns;
        }
        let text = format!("# wavebed pattern 1\n# kind = steps\n# duration_s = 0.{at_ns:09}\ntime_s,rate_bps\n{text}");
        let start = start % at_ns;
        let pattern = Arc::new(Pattern::parse(&text).unwrap());
        let rate_at = |now_ns: u64| match end {
            End::Hold => rates[usize::try_from((now_ns + start).min(at_ns - 1)).unwrap()],
            _ => rates[usize::try_from((now_ns + start) % at_ns).unwrap()],
        };
        let until_ns = 40_000;
        let profile = Profile::pattern(pattern, end, start, 0).unwrap();
        let outcome = through(unlimited(Fluid::new(profile)), &arrivals, until_ns);
        prop_assert_eq!(outcome.departures(), ticking_oracle(&arrivals, rate_at, until_ns));
    }

    #[test]
    fn a_light_rate_matches_a_nanosecond_by_nanosecond_server(
        arrivals in arrivals(400, 120),
        first in light_rates(),
        second in light_rates(),
        change_ns in 0u64..12_000,
    ) {
        let until_ns = 40_000;
        let pattern = |rates: &LightRates| Arc::new(Pattern::parse(&rates.text).unwrap());
        let profile = Profile::pattern(pattern(&first), End::Repeat, 0, 0).unwrap();
        let stage = Bottleneck::new(BottleneckConfig::default(), Infinite::new(Unit::Packet), at_rate(profile));
        let mut events: Vec<Event> = arrivals.iter().map(|&run| Event::Arrival(run)).collect();
        let place = arrivals.partition_point(|run| run.at_ns < change_ns);
        events.insert(place, Event::Change(change_ns, Change::Pattern(pattern(&second))));
        let outcome = drive(&mut Link::new(vec![Box::new(stage)], false), &events, until_ns, false);
        prop_assert_eq!(outcome.departures(), light_oracle(&arrivals, &first, (change_ns, &second), until_ns));
    }

    #[test]
    fn opportunities_match_mahimahi(
        arrivals in arrivals(3_000, 1500),
        rows in prop::collection::vec((0u64..2_000, 1u64..4_000), 1..12),
        tail in 0u64..2_000,
        start in 0u64..5_000,
        limit in limits().prop_filter("no rate in the oracle", |limit| !matches!(limit, Limit::TimeNs(_))),
    ) {
        let mut text = String::new();
        let mut at_ns = 0;
        let mut list = Vec::new();
        for (gap_ns, bytes) in &rows {
            at_ns += gap_ns;
            writeln!(text, "0.{at_ns:09},{bytes}").unwrap();
            list.push((at_ns, *bytes));
        }
        let period = (at_ns + tail).max(1);
        let text = format!("# wavebed pattern 1\n# kind = opportunities\n# duration_s = 0.{period:09}\ntime_s,bytes\n{text}");
        let start = start % period;
        let pattern = Arc::new(Pattern::parse(&text).unwrap());
        let until_ns = 400_000;
        let laps = 0..=until_ns / period + 2;
        let all: Vec<(u64, u64)> = laps
            .flat_map(|lap| list.iter().map(move |&(at_ns, bytes)| (lap * period + at_ns, bytes)))
            .filter(|&(at_ns, _)| at_ns >= start)
            .map(|(at_ns, bytes)| (at_ns - start, bytes))
            .collect();
        let server = Opportunities::new(pattern, End::Repeat, start, 0).unwrap();
        let outcome = through(bottleneck(limit, 0, server), &arrivals, until_ns);
        prop_assert_eq!(delivered_and_lost(&outcome), opportunities_oracle(&arrivals, &all, limit, until_ns));
    }

    #[test]
    fn a_sampled_rate_matches_departures_fixed_on_arrival(
        arrivals in arrivals(400, 120),
        spans in prop::collection::vec((1u64..300, prop_oneof![Just(0u64), 1_000_000_000u64..20_000_000_000]), 0..5),
        most in 1usize..20,
    ) {
        let mut rates = vec![7_000_000_000];
        let mut text = String::from("0,7000000000\n");
        for (span_ns, rate) in &spans {
            writeln!(text, "0.{:09},{rate}", rates.len()).unwrap();
            rates.extend(std::iter::repeat_n(*rate, usize::try_from(*span_ns).unwrap()));
        }
        let period = rates.len();
        let text = format!("# wavebed pattern 1\n# kind = steps\n# duration_s = 0.{period:09}\ntime_s,rate_bps\n{text}");
        let pattern = Arc::new(Pattern::parse(&text).unwrap());
        let profile = Profile::pattern(pattern, End::Repeat, 0, 0).unwrap();
        let rate_at = |now_ns: u64| rates[usize::try_from(now_ns).unwrap() % period];
        let config = SampledConfig {
            limit: Some(Limit::Packets(most as u64)),
            overhead_bytes: 0,
            unit: Unit::Packet,
            drop_in_outage: false,
        };
        let outcome = through(Sampled::new(config, profile), &arrivals, FAR_NS);
        prop_assert_eq!(delivered_and_lost(&outcome), sampled_oracle(&arrivals, rate_at, most));
    }

    #[test]
    fn a_token_bucket_matches_one_filled_every_nanosecond(
        arrivals in arrivals(400, 120),
        rate in 1_000_000_000u64..20_000_000_000,
        burst in 20u64..1_000,
    ) {
        let until_ns = 40_000;
        let server = TokenBucket::new(Profile::constant(rate), burst);
        let outcome = through(unlimited(server), &arrivals, until_ns);
        prop_assert_eq!(outcome.departures(), bucket_oracle(&arrivals, rate, burst, until_ns));
    }
}

#[test]
fn a_million_segments_end_in_the_nanosecond_that_arithmetic_says() {
    // 7.3 Gbit/s does not divide 12000 bits: 1643.8 ns each.
    let rate = 7_300_000_000;
    let arrivals: Vec<Run> = (0..1_000_000)
        .map(|packet| segment(5, packet, 1500))
        .collect();
    let outcome = through(
        unlimited(Fluid::new(Profile::constant(rate))),
        &arrivals,
        FAR_NS,
    );
    for (index, run) in (1u128..).zip(&outcome.delivered) {
        let exact = (index * 12_000 * 1_000_000_000).div_ceil(u128::from(rate));
        assert_eq!(u128::from(run.at_ns), 5 + exact);
    }
    assert_eq!(outcome.delivered.len(), 1_000_000);
}
