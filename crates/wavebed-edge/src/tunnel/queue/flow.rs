//! One flow's queue under `CoDel` and BLUE.

use std::collections::VecDeque;

use wavebed_link::queue::{CodelControl, CodelSettings, Waiting};

use super::rounds::{Member, Turn};
use super::table::Entry;
use super::{Blue, Packet, QueueCounters};

/// Packets of one flow in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Flow {
    packets: VecDeque<Packet>,
    bytes: u64,
    codel: CodelControl,
    pub(super) blue: Blue,
    turn: Turn,
    /// The host that it is served with.
    pub(super) host: u32,
}

/// A flow as its `CoDel` sees it.
struct UnderCodel<'a> {
    packets: &'a mut VecDeque<Packet>,
    bytes: &'a mut u64,
    counters: &'a mut QueueCounters,
}

impl Waiting for UnderCodel<'_> {
    type Packet = Packet;

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        *self.bytes -= packet.len();
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        *self.bytes
    }

    fn arrived_ns(packet: &Packet) -> u64 {
        packet.arrived_ns
    }

    fn is_ect1(packet: &Packet) -> bool {
        packet.is_ect1()
    }

    fn mark(&mut self, packet: &mut Packet, _now_ns: u64) -> bool {
        let marked = packet.mark();
        self.counters.marked += u64::from(marked);
        marked
    }

    fn drop(&mut self, _packet: Packet, _now_ns: u64) {
        self.counters.dropped_codel += 1;
    }
}

impl Flow {
    pub(super) fn push(&mut self, packet: Packet) {
        self.bytes += packet.len();
        self.packets.push_back(packet);
    }

    /// Takes the head, past `CoDel` and BLUE.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next packet for the link. `random` draws 32 uniform bits.
    pub(super) fn take(
        &mut self,
        now_ns: u64,
        settings: &CodelSettings,
        random: &mut impl FnMut() -> u32,
        counters: &mut QueueCounters,
    ) -> Option<Packet> {
        loop {
            let mut waiting = UnderCodel {
                packets: &mut self.packets,
                bytes: &mut self.bytes,
                counters,
            };
            let Some(packet) = self.codel.dequeue(&mut waiting, now_ns, settings) else {
                self.blue.empty(now_ns, settings.target_ns);
                return None;
            };
            // The last packet of a flow is not dropped, as in COBALT.
            if self.packets.is_empty() || !self.blue.drops(random()) {
                return Some(packet);
            }
            counters.dropped_blue += 1;
        }
    }
}

impl Member for Flow {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl Entry for Flow {
    fn is_idle(&self) -> bool {
        !self.turn.is_listed()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}
