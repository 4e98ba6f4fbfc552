//! The queues of all hosts.

use wavebed_link::queue::CodelSettings;
use wavebed_link::{Backlog, RandomStream};

use super::flow::Flow;
use super::rounds::{Member, Rounds, Turn};
use super::table::{Entry, Table};
use super::{HostAddress, Packet, QueueCounters};

/// Queues for flows, as many as FQ-CoDel has (RFC 8290, section 5.2.2).
const FLOWS: u32 = 1024;
const HOSTS: u32 = 1024;
/// Most packets that one overflow drops (RFC 8290, section 4.1).
const DROP_BATCH: u32 = 64;

/// Parameters of [`FlowQueues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowQueuesSettings {
    /// `CoDel` of each flow.
    pub codel: CodelSettings,
    /// Bytes that a flow, and a host, may send per round.
    pub quantum_bytes: u32,
    /// Bytes of all queues together.
    pub limit_bytes: u64,
    /// The address that identifies a host that shares the link.
    pub host: HostAddress,
}

impl Default for FlowQueuesSettings {
    /// The values of `fq_codel` in Linux 6.18: target 5 ms, interval 100 ms, quantum 1514, 32 MiB, ECN on.
    fn default() -> Self {
        Self {
            codel: CodelSettings {
                ecn: true,
                ..CodelSettings::default()
            },
            quantum_bytes: 1514,
            limit_bytes: 32 << 20,
            host: HostAddress::default(),
        }
    }
}

/// A host: the rounds of its flows.
#[derive(Debug, Default)]
struct Host {
    flows: Rounds,
    turn: Turn,
}

impl Member for Host {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl Entry for Host {
    fn is_idle(&self) -> bool {
        !self.turn.is_listed()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Packets before the link: hosts in deficit round robin, and within each host its flows, each under `CoDel` and BLUE.
#[derive(Debug)]
pub struct FlowQueues {
    settings: FlowQueuesSettings,
    rounds: Rounds,
    hosts: Vec<Host>,
    host_table: Table,
    flows: Vec<Flow>,
    flow_table: Table,
    random: RandomStream,
    draws: u64,
    backlog: Backlog,
    counters: QueueCounters,
}

impl FlowQueues {
    /// Empty queues. `seed` perturbs the hash of flows and hosts, and draws BLUE's drops.
    ///
    /// # Panics
    /// If the quantum is zero.
    #[must_use]
    pub fn new(settings: FlowQueuesSettings, seed: u64) -> Self {
        assert!(settings.quantum_bytes > 0, "the quantum is zero");
        let random = RandomStream::new(seed, 0);
        Self {
            settings,
            rounds: Rounds::default(),
            hosts: (0..HOSTS).map(|_| Host::default()).collect(),
            host_table: Table::new(HOSTS, random.process(0)),
            flows: (0..FLOWS).map(|_| Flow::default()).collect(),
            flow_table: Table::new(FLOWS, random.process(1)),
            random: random.process(2),
            draws: 0,
            backlog: Backlog::default(),
            counters: QueueCounters::default(),
        }
    }

    /// Bytes of all queues together from now on.
    pub const fn set_limit_bytes(&mut self, limit_bytes: u64) {
        self.settings.limit_bytes = limit_bytes;
    }

    /// Waiting packets.
    #[must_use]
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Takes an IP packet that arrives now. If all are too long then, the fattest flow loses packets from its head.
    pub fn enqueue(&mut self, bytes: Vec<u8>, now_ns: u64) {
        let packet = Packet::new(bytes, now_ns, self.settings.host);
        let mtu_bytes = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        self.settings.codel.mtu_bytes = self.settings.codel.mtu_bytes.max(mtu_bytes);
        self.counters.arrived += 1;
        self.backlog.segments += 1;
        self.backlog.bytes += packet.len();
        let quantum = i64::from(self.settings.quantum_bytes);
        let index = self.flow_table.find(
            u64::from(packet.flow) ^ packet.host.rotate_left(32),
            &mut self.flows,
        );
        let flow = &mut self.flows[index as usize];
        if flow.is_idle() {
            flow.host = self.host_table.find(packet.host, &mut self.hosts);
        }
        flow.push(packet);
        let host = &mut self.hosts[flow.host as usize];
        self.rounds.add(flow.host, host, quantum);
        host.flows.add(index, flow, quantum);
        while self.backlog.bytes > self.settings.limit_bytes && self.drop_batch(now_ns) {}
    }

    /// Drops from the head of the flow with most bytes: half of them, but at most a batch.
    fn drop_batch(&mut self, now_ns: u64) -> bool {
        let Some(fattest) = self.flows.iter_mut().max_by_key(|flow| flow.bytes()) else {
            return false;
        };
        let goal = fattest.bytes() / 2;
        let mut dropped = 0;
        while (dropped == 0 || fattest.bytes() > goal)
            && dropped < DROP_BATCH
            && let Some(packet) = fattest.pop()
        {
            dropped += 1;
            self.backlog.segments -= 1;
            self.backlog.bytes -= packet.len();
        }
        fattest.blue.overflow(now_ns, self.settings.codel.target_ns);
        self.counters.dropped_overflow += u64::from(dropped);
        dropped > 0
    }

    /// Takes the next packet for the link at `now_ns`.
    pub fn dequeue(&mut self, now_ns: u64) -> Option<Packet> {
        let Self {
            settings,
            hosts,
            flows,
            random,
            draws,
            counters,
            ..
        } = self;
        let quantum = i64::from(settings.quantum_bytes);
        let before = counters.dropped_codel + counters.dropped_blue;
        let mut draw = || {
            *draws += 1;
            u32::try_from(random.word(*draws) >> 32).unwrap_or_default()
        };
        let served = self.rounds.serve(hosts, quantum, |host| {
            host.flows.serve(flows, quantum, |flow| {
                let waiting = flow.bytes();
                let packet = flow.take(now_ns, &settings.codel, &mut draw, counters);
                self.backlog.bytes -= waiting - flow.bytes();
                let packet = packet?;
                let bytes = i64::try_from(packet.len()).unwrap_or(i64::MAX);
                Some((packet, bytes))
            })
        });
        let dropped = counters.dropped_codel + counters.dropped_blue - before;
        self.backlog.segments -= dropped + u64::from(served.is_some());
        let (packet, _) = served?;
        self.counters.sent += 1;
        Some(packet)
    }
}
