//! Packets of the host on their way to the other end: those that the path carries go to the queues, and the host gets
//! answers to the others.

use std::time::Duration;

use super::path_mtu::{PathMtu, PathState, Verdict};
use crate::tunnel::Sender;
use crate::tunnel::wire::PacketHeader;

/// The sender behind the path's MTU.
pub struct Outgoing {
    /// Queues and rate.
    pub sender: Sender,
    mtu: PathMtu,
    /// ICMP answers that the host is to get.
    answers: Vec<Vec<u8>>,
}

impl Outgoing {
    /// A sender for a device with this MTU.
    pub fn new(sender: Sender, device_mtu: u32) -> Self {
        Self {
            sender,
            mtu: PathMtu::new(device_mtu),
            answers: Vec::new(),
        }
    }

    /// Takes a packet of the host.
    pub fn enqueue(&mut self, packet: Vec<u8>, now_ns: u64) {
        let verdict = self.mtu.judge(packet, now_ns);
        self.follow(verdict, now_ns);
    }

    fn follow(&mut self, verdict: Verdict, now_ns: u64) {
        match verdict {
            Verdict::Fits(packet) => self.sender.enqueue(packet, now_ns),
            Verdict::Fragments(packets) => {
                for packet in packets {
                    self.sender.enqueue(packet, now_ns);
                }
            }
            Verdict::Dropped(answer) => self.answers.extend(answer),
            Verdict::Held => {}
        }
    }

    /// The next packet that may be sent, or an empty one.
    pub fn poll(&mut self, now_ns: u64) -> Option<(PacketHeader, Vec<u8>)> {
        let (header, packet) = self.sender.poll(now_ns)?;
        let packet = match self.mtu.judge(packet, now_ns) {
            Verdict::Fits(packet) => packet,
            verdict => {
                // The path has shrunk since it was queued. The number is sent all the same, or it would count as lost.
                self.follow(verdict, now_ns);
                Vec::new()
            }
        };
        Some((header, packet))
    }

    /// QUIC takes packets of `limit` bytes now, as [`PathMtu::observe`].
    pub fn observe(&mut self, limit: usize, now_ns: u64, look: impl FnOnce() -> (u64, Duration)) {
        self.mtu.observe(limit, now_ns, look);
        for packet in self.mtu.released() {
            self.enqueue(packet, now_ns);
        }
    }

    /// The answers since the last call.
    pub fn answers(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.answers)
    }

    /// Whether the path carries packets of the device's MTU, as far as is known.
    pub const fn is_full(&self) -> bool {
        self.mtu.is_full()
    }

    /// Whether QUIC searches for the path's MTU, so that [`Self::observe`] has to be called soon.
    pub const fn is_searching(&self) -> bool {
        self.mtu.is_searching()
    }

    /// The state of the path's MTU.
    pub const fn path_state(&self) -> PathState {
        self.mtu.state()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::SenderSettings;
    use crate::tunnel::law::{DeliveryLaw, RateLimits};
    use crate::tunnel::queue::FlowQueuesSettings;

    const RTT: Duration = Duration::from_millis(20);
    const SECOND_NS: u64 = 1_000_000_000;

    fn outgoing() -> Outgoing {
        let limits = RateLimits {
            floor_bps: 1_000_000,
            start_bps: 20_000_000,
            most_bps: 100_000_000,
        };
        let settings = SenderSettings {
            queues: FlowQueuesSettings::default(),
            overhead_bytes: 60,
            seed: 1,
        };
        let sender = Sender::new(settings, Box::new(DeliveryLaw::new(limits)));
        Outgoing::new(sender, 1360)
    }

    fn packet(bytes: usize, flags: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend(u16::try_from(bytes).expect("short").to_be_bytes());
        packet.extend([0, 0, flags, 0, 63, 17, 0, 0, 10, 0, 0, 2, 198, 51, 100, 7]);
        packet.resize(bytes, 0);
        packet
    }

    #[test]
    fn a_packet_queued_before_the_path_shrank_is_not_lost_silently() {
        let mut outgoing = outgoing();
        outgoing.enqueue(packet(1360, 0x40), 0);
        outgoing.observe(1153, 0, || (0, RTT));
        let (_, sent) = outgoing.poll(0).expect("its number");
        assert!(sent.is_empty() && outgoing.answers().is_empty());
        outgoing.observe(1153, SECOND_NS, || (0, RTT));
        assert_eq!(outgoing.answers().len(), 1);
        assert_eq!(outgoing.path_state().too_large, 1);
    }

    #[test]
    fn fragments_are_sent_in_place_of_their_packet() {
        let mut outgoing = outgoing();
        outgoing.observe(1153, 0, || (0, RTT));
        outgoing.enqueue(packet(1360, 0), 0);
        outgoing.observe(1153, SECOND_NS, || (0, RTT));
        let mut sent = Vec::new();
        for now_ns in (SECOND_NS..2 * SECOND_NS).step_by(1_000_000) {
            sent.extend(outgoing.poll(now_ns).map(|(_, packet)| packet.len()));
        }
        assert_eq!(sent, [1148, 232]);
        assert!(outgoing.answers().is_empty());
    }
}
