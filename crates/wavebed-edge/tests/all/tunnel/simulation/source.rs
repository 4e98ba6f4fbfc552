//! Sources of packets.

use super::super::packets::Flow;
use super::MS;
use super::tcp::Tcp;

/// What a source does.
#[derive(Debug)]
pub enum Kind {
    /// A packet each `every_ns` nanoseconds.
    Steady {
        every_ns: u64,
        due_ns: u64,
    },
    Tcp(Tcp),
}

/// A source and what arrived of it.
#[derive(Debug)]
pub struct Source {
    pub flow: Flow,
    pub bytes: u16,
    pub ecn: u8,
    pub kind: Kind,
    pub sent: u64,
    /// Time of arrival and delay since it was made, for each packet.
    pub arrived: Vec<(u64, u64)>,
}

impl Source {
    fn new(flow: Flow, bytes: u16, kind: Kind) -> Self {
        Self {
            flow,
            bytes,
            ecn: 0,
            kind,
            sent: 0,
            arrived: Vec::new(),
        }
    }

    /// IP bytes that arrived from `from_ns` until before `to_ns`.
    pub fn arrived_bytes(&self, from_ns: u64, to_ns: u64) -> u64 {
        let within = |(at_ns, _): &&(u64, u64)| (from_ns..to_ns).contains(at_ns);
        self.arrived.iter().filter(within).count() as u64 * u64::from(self.bytes)
    }

    /// The delay, nanoseconds, below which 95 % of the packets arrived within this time are.
    pub fn delay_p95(&self, from_ns: u64, to_ns: u64) -> u64 {
        let delays = self.delays(from_ns, to_ns);
        delays[delays.len() * 95 / 100]
    }

    /// The delays of the packets arrived within this time, nanoseconds, the least first.
    pub fn delays(&self, from_ns: u64, to_ns: u64) -> Vec<u64> {
        let within = |(at_ns, _): &&(u64, u64)| (from_ns..to_ns).contains(at_ns);
        let arrived = self.arrived.iter().filter(within);
        let mut delays: Vec<u64> = arrived.map(|each| each.1).collect();
        delays.sort_unstable();
        delays
    }

    /// The same, with a packet each `every_ns`.
    pub fn each(mut self, every_ns: u64) -> Self {
        let due_ns = 7 * MS;
        self.kind = Kind::Steady { every_ns, due_ns };
        self
    }
}

/// UDP of `rate_bps`, IP bytes, to host `host`.
pub fn cbr(host: u8, rate_bps: u64) -> Source {
    let flow = Flow {
        source: 1,
        destination: host,
        protocol: 17,
        port: 5000,
    };
    let every_ns = 1400 * 8 * 1_000_000_000 / rate_bps;
    let due_ns = 0;
    Source::new(flow, 1400, Kind::Steady { every_ns, due_ns })
}

/// A packet of 64 bytes each 50 ms.
pub fn ping(host: u8) -> Source {
    let flow = Flow {
        source: 2,
        destination: host,
        protocol: 1,
        port: 8,
    };
    let kind = Kind::Steady {
        every_ns: 50 * MS,
        due_ns: 7 * MS,
    };
    Source::new(flow, 64, kind)
}

/// A TCP flow with as much data as it may send.
pub fn tcp(host: u8, port: u16) -> Source {
    let flow = Flow {
        source: 3,
        destination: host,
        protocol: 6,
        port,
    };
    Source::new(flow, 1400, Kind::Tcp(Tcp::new()))
}
