//! The receiving half of an end: it counts what arrives and reports each 10 ms.

use super::wire::{PacketHeader, Report, unwrapped, wrapped};

/// Time between reports.
pub(super) const REPORT_NS: u64 = 10_000_000;
/// Least time before a report that is sent early.
const EARLY_NS: u64 = 2_000_000;
/// A rise of the delay since the last report that is reported at once: at a tenth of the rate, 10 ms more would put
/// another 90 ms into the queue.
const RISE_US: i64 = 4_000;

/// Delays since the last report, microseconds.
#[derive(Clone, Copy, Debug)]
struct Delays {
    min: i64,
    last: i64,
    sum: i64,
    count: i64,
}

/// Counts packets, and makes reports.
#[derive(Debug, Default)]
pub struct Receiver {
    highest: Option<(u64, u64)>,
    packets: u64,
    bytes: u64,
    arrived_ns: Option<u64>,
    gap_ns: u64,
    delays: Option<Delays>,
    /// The last delay of the last report.
    reported_us: Option<i64>,
    reported_ns: Option<u64>,
    number: u32,
}

impl Receiver {
    /// Takes a packet that arrives at `now_ns` and has `bytes` with all overhead.
    pub fn receive(&mut self, header: PacketHeader, bytes: u64, now_ns: u64) {
        let near = self.highest.map_or(0, |(highest, _)| highest);
        let sequence = unwrapped(near, header.sequence);
        if self.highest.is_none_or(|(highest, _)| sequence > highest) {
            self.highest = Some((sequence, now_ns));
        }
        self.packets += 1;
        self.bytes += bytes;
        if let Some(before_ns) = self.arrived_ns.replace(now_ns) {
            self.gap_ns = self.gap_ns.max(now_ns - before_ns);
        }
        // The difference of clocks is unknown, but it is the same in each: 32 bits of it do.
        let delay = wrapped(now_ns / 1000)
            .wrapping_sub(header.sent_us)
            .cast_signed();
        let delay = i64::from(delay);
        let delays = self.delays.get_or_insert(Delays {
            min: delay,
            last: delay,
            sum: 0,
            count: 0,
        });
        delays.min = delays.min.min(delay);
        delays.last = delay;
        delays.sum += delay;
        delays.count += 1;
    }

    /// When the next report is due; `None` while nothing has arrived since the last one.
    #[must_use]
    pub fn next_report_ns(&self) -> Option<u64> {
        let delays = self.delays?;
        let Some(reported_ns) = self.reported_ns else {
            return Some(0);
        };
        let rises = self
            .reported_us
            .is_some_and(|reported| delays.last - reported > RISE_US);
        Some(reported_ns + if rises { EARLY_NS } else { REPORT_NS })
    }

    /// The report, if it is due.
    pub fn report(&mut self, now_ns: u64) -> Option<Report> {
        self.next_report_ns().filter(|&at_ns| at_ns <= now_ns)?;
        let delays = self.delays.take()?;
        let (highest, arrived_ns) = self.highest?;
        self.reported_ns = Some(now_ns);
        self.reported_us = Some(delays.last);
        self.number = self.number.wrapping_add(1);
        let low = |delay: i64| wrapped(delay.cast_unsigned());
        Some(Report {
            number: self.number,
            at_us: wrapped(now_ns / 1000),
            highest: wrapped(highest),
            held_us: u32::try_from((now_ns - arrived_ns) / 1000).unwrap_or(u32::MAX),
            packets: self.packets,
            bytes: self.bytes,
            delay_min_us: low(delays.min),
            delay_mean_us: low(delays.sum / delays.count),
            delay_last_us: low(delays.last),
            gap_us: u32::try_from(std::mem::take(&mut self.gap_ns) / 1000).unwrap_or(u32::MAX),
        })
    }
}
