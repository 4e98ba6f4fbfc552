//! Packets on their way: what was sent and not yet reported.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: u64,
    at_ns: u64,
    /// Bytes sent up to and including it.
    bytes: u64,
}

/// Packets sent after the last one that the receiver reported.
#[derive(Debug, Default)]
pub(super) struct Record {
    on_the_way: VecDeque<Sent>,
    next: u64,
    sent_bytes: u64,
    reported_bytes: u64,
}

impl Record {
    /// Records a packet of `bytes`; returns its sequence number.
    pub(super) fn send(&mut self, bytes: u64, now_ns: u64) -> u64 {
        let sequence = self.next;
        self.next += 1;
        self.sent_bytes += bytes;
        self.on_the_way.push_back(Sent {
            sequence,
            at_ns: now_ns,
            bytes: self.sent_bytes,
        });
        sequence
    }

    /// The receiver has packet `sequence`: all before it arrived or are lost. Returns when it was sent, unless it was
    /// reported before.
    pub(super) fn received(&mut self, sequence: u64) -> Option<u64> {
        let mut at_ns = None;
        while let Some(sent) = self
            .on_the_way
            .front()
            .filter(|sent| sent.sequence <= sequence)
        {
            at_ns = (sent.sequence == sequence).then_some(sent.at_ns);
            self.reported_bytes = sent.bytes;
            self.on_the_way.pop_front();
        }
        at_ns
    }

    /// The next sequence number.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes sent in all.
    pub(super) const fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes on the way.
    pub(super) const fn in_flight_bytes(&self) -> u64 {
        self.sent_bytes - self.reported_bytes
    }

    /// When the oldest packet on the way was sent.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.on_the_way.front().map(|sent| sent.at_ns)
    }
}
