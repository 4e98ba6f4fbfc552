//! Flow queues under `CoDel` and BLUE, in deficit round robin of hosts, and of the flows of each host.

mod blue;
mod flow;
mod flow_queues;
mod packet;
mod rounds;
mod table;

pub use blue::Blue;
pub use flow_queues::{FlowQueues, FlowQueuesSettings};
pub use packet::{HostAddress, Packet};

/// Packets of [`FlowQueues`] and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct QueueCounters {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that left for the link.
    pub sent: u64,
    /// Packets that got the mark CE.
    pub marked: u64,
    /// Drops by `CoDel`.
    pub dropped_codel: u64,
    /// Drops by BLUE.
    pub dropped_blue: u64,
    /// Drops because all queues together were full.
    pub dropped_overflow: u64,
}

impl QueueCounters {
    /// All drops.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_codel + self.dropped_blue + self.dropped_overflow
    }
}
