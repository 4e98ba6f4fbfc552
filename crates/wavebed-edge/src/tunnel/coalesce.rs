//! Packets that arrived together become super-packets for the host, as GRO makes them: one write to the device, and one
//! passage of the host's network stack, for up to 64 packets of a flow.

use wavebed_packet::{Coalesced, Coalescer, HeaderBuf, Shape, Transport, VnetHeader, inspect};

/// Flows whose packets are held at a time. Linux's GRO holds eight in each of its buckets.
const MOST_FLOWS: usize = 8;

/// What was coalesced since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CoalesceCounters {
    /// Packets that became part of super-packets.
    pub coalesced: u64,
    /// These super-packets.
    pub super_packets: u64,
}

/// Packets of one flow that follow each other.
#[derive(Debug)]
struct Open<P> {
    /// Two flows may have the same hash: they are not coalesced, and each keeps its order.
    flow: u32,
    packets: Coalescer<P>,
}

/// Holds packets of several flows until the end of a batch. Packets of a flow are written in the order in which they
/// came; flows may overtake each other.
#[derive(Debug)]
pub struct CoalesceTable<P> {
    /// In the order in which they began.
    open: Vec<Open<P>>,
    spare: Vec<Coalescer<P>>,
    headers: HeaderBuf,
    udp: bool,
}

impl<P: AsRef<[u8]>> CoalesceTable<P> {
    /// An empty table; `udp`: the device takes super-packets of UDP.
    #[must_use]
    pub fn new(udp: bool) -> Self {
        Self {
            open: Vec::with_capacity(MOST_FLOWS),
            spare: Vec::with_capacity(MOST_FLOWS),
            headers: HeaderBuf::new(),
            udp,
        }
    }

    /// Takes a packet with complete checksums. What no packet can follow is written at once.
    pub fn take(&mut self, packet: P, write: &mut impl FnMut(&Coalesced<'_, P>)) {
        match inspect(&VnetHeader::default(), packet.as_ref()) {
            Ok(shape) if shape.transport != Transport::Other => {
                self.take_with_ports(packet, &shape, write);
            }
            // Fragments have no ports and may belong to any flow, as ICMP errors may: they come after all before.
            _ => {
                self.flush(write);
                alone(packet, write);
            }
        }
    }

    fn take_with_ports(
        &mut self,
        packet: P,
        shape: &Shape,
        write: &mut impl FnMut(&Coalesced<'_, P>),
    ) {
        if shape.transport == Transport::Udp && !self.udp {
            return alone(packet, write);
        }
        let Some(place) = self.open.iter().position(|open| open.flow == shape.flow) else {
            return self.start(packet, shape, write);
        };
        match self.open[place].packets.add(packet, shape) {
            Ok(true) => {}
            Ok(false) => self.close(place, write),
            Err(packet) => {
                self.close(place, write);
                self.start(packet, shape, write);
            }
        }
    }

    fn start(&mut self, packet: P, shape: &Shape, write: &mut impl FnMut(&Coalesced<'_, P>)) {
        let mut packets = self.spare.pop().unwrap_or_default();
        let goes_on = packets.start(packet, shape);
        if goes_on && self.open.len() == MOST_FLOWS {
            self.close(0, write);
        }
        let flow = shape.flow;
        self.open.push(Open { flow, packets });
        if !goes_on {
            self.close(self.open.len() - 1, write);
        }
    }

    /// Writes all packets that are held.
    pub fn flush(&mut self, write: &mut impl FnMut(&Coalesced<'_, P>)) {
        while !self.open.is_empty() {
            self.close(0, write);
        }
    }

    fn close(&mut self, place: usize, write: &mut impl FnMut(&Coalesced<'_, P>)) {
        let mut packets = self.open.remove(place).packets;
        write(&packets.coalesced(&mut self.headers));
        packets.clear();
        self.spare.push(packets);
    }
}

fn alone<P>(packet: P, write: &mut impl FnMut(&Coalesced<'_, P>)) {
    write(&Coalesced {
        vnet: VnetHeader::default(),
        header: &[],
        packets: &[packet],
    });
}
