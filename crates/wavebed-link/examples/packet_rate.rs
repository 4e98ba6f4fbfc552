//! Packets per second that one core takes through a link, as JSON.
//!
//! Usage: `packet_rate CASE [PACKETS]`; CASE is `constant`, `pattern`, `radio` or `radio-up`. Packets of 1200 bytes come
//! at irregular times; each is offered with a number, and leaves with it. The processor time is this thread's,
//! from `/proc/thread-self/schedstat`.

#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "printing numbers is all it is for"
)]

use std::error::Error;
use std::fs;

use wavebed_link::RandomStream;
use wavebed_link::config::QueueConfig;
use wavebed_link::pattern::Pattern;
use wavebed_link::queue::Limit;
use wavebed_link::sim::{Fate, LinkSpec, Packet, Rate, SAMPLE_DOWN, SAMPLE_UP, SimLink};

const PACKET_BYTES: u16 = 1200;
const DELAY_NS: u64 = 10_000_000;
const CONSTANT_BPS: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let case = arguments
        .next()
        .ok_or("name a case: constant, pattern, radio or radio-up")?;
    let packets = arguments
        .next()
        .map_or(Ok(2_000_000), |text| text.parse())?;
    let queue = QueueConfig::Droptail {
        limit: Limit::Packets(1000),
    };
    let link = LinkSpec::new();
    // Offered: 95 % of the rate, or of the mean of the pattern.
    let (spec, mean_bps) = match case.as_str() {
        "constant" => (
            link.bottleneck(Rate::constant(CONSTANT_BPS), queue),
            CONSTANT_BPS,
        ),
        "pattern" => {
            let pattern = Pattern::parse(SAMPLE_DOWN)?;
            let mean_bps = pattern.mean_rate_bps().ok_or("no rates")?;
            (link.bottleneck(Rate::repeated(pattern), queue), mean_bps)
        }
        "radio" | "radio-up" => {
            let is_up = case == "radio-up";
            let pattern = Pattern::parse(if is_up { SAMPLE_UP } else { SAMPLE_DOWN })?;
            let mean_bps = pattern.mean_rate_bps().ok_or("no rates")?;
            (link.radio_of(pattern)?, mean_bps)
        }
        _ => return Err("no such case: constant, pattern, radio or radio-up".into()),
    };
    let mut link = SimLink::new(&spec.delay_ns(DELAY_NS), 1)?;
    let gap_ns = u64::from(PACKET_BYTES) * 8 * 1_000_000_000 / (mean_bps * 95 / 100);

    let before_ns = processor_ns()?;
    let delivered = pass(&mut link, packets, gap_ns);
    let used_s = (processor_ns()? - before_ns) as f64 / 1e9;

    let dropped = link.counts().dropped_total().segments;
    let blocks = link.counts().blocks_sent;
    assert_eq!(
        delivered + dropped,
        packets,
        "every packet is accounted for"
    );
    println!(
        "{{\"case\": \"{case}\", \"packets\": {packets}, \"delivered\": {delivered}, \"dropped\": {dropped}, \
         \"blocks\": {blocks}, \"cpu_s\": {used_s:.4}, \"packets_per_s\": {:.0}}}",
        packets as f64 / used_s
    );
    Ok(())
}

/// Passes packets with mean gaps of `gap_ns`, evenly distributed from 0 to twice that. Returns how many arrived.
fn pass(link: &mut SimLink<u64>, packets: u64, gap_ns: u64) -> u64 {
    let random = RandomStream::new(1, 1);
    let mut now_ns = 0;
    let mut delivered = 0;
    let mut count = |link: &mut SimLink<u64>, now_ns: u64| {
        while let Some(departure) = link.poll(now_ns) {
            assert!(departure.content < packets);
            delivered += u64::from(departure.fate == Fate::Delivered);
        }
    };
    for number in 0..packets {
        now_ns += random.word(number) % (2 * gap_ns + 1);
        count(link, now_ns);
        link.send(now_ns, Packet::new(PACKET_BYTES), number);
    }
    while let Some(next_ns) = link.next_event_ns() {
        count(link, next_ns);
    }
    delivered
}

/// Processor time of this thread so far, nanoseconds.
fn processor_ns() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(first.parse()?)
}
