//! The packets in flight: each is kept until its last segment has left through a door.

use wavebed_packet::Shape;

use crate::pool::{Pool, Span};

/// A packet in flight.
#[derive(Clone, Copy)]
pub struct Packet {
    /// Its bytes, virtio-net header first.
    pub span: Span,
    /// What its headers say.
    pub shape: Shape,
    /// Tells this packet from an earlier one with the same key.
    pub serial: u64,
    /// How long it waited in the device before it was read, at most, nanoseconds.
    pub waited_ns: u64,
    /// Segments that have not left yet, copies included.
    refs: u32,
}

/// A table of packets by key, and the pool that holds their bytes.
#[derive(Default)]
pub struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
    /// The bytes.
    pub pool: Pool,
    in_flight_bytes: u64,
    added: u64,
}

impl Packets {
    /// Adds a packet with all its segments, which waited `waited_ns` to be read, and returns its key.
    ///
    /// # Panics
    /// If there are 2³² packets in flight, which no memory holds.
    pub fn add(&mut self, span: Span, shape: Shape, waited_ns: u64) -> u32 {
        self.in_flight_bytes += self.pool.bytes(span).len() as u64;
        self.added += 1;
        let packet = Packet {
            span,
            shape,
            serial: self.added,
            waited_ns,
            refs: u32::from(shape.segments),
        };
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = packet;
            key
        } else {
            self.slots.push(packet);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 packets fit memory")
        }
    }

    /// The packet of this key.
    #[must_use]
    pub fn packet(&self, key: u32) -> &Packet {
        &self.slots[key as usize]
    }

    /// The bytes of the packet, virtio-net header first.
    #[must_use]
    pub fn bytes(&self, key: u32) -> &[u8] {
        self.pool.bytes(self.slots[key as usize].span)
    }

    /// Copies were made of `segments` of its segments.
    pub fn retain(&mut self, key: u32, segments: u16) {
        self.slots[key as usize].refs += u32::from(segments);
    }

    /// `segments` of its segments have left.
    ///
    /// # Panics
    /// If more segments leave than there are: the books of a stage are wrong.
    pub fn release(&mut self, key: u32, segments: u16) {
        let packet = &mut self.slots[key as usize];
        packet.refs = packet
            .refs
            .checked_sub(u32::from(segments))
            .expect("a segment left twice");
        if packet.refs == 0 {
            let span = packet.span;
            self.in_flight_bytes -= self.pool.bytes(span).len() as u64;
            self.pool.release(span);
            self.free.push(key);
        }
    }

    /// Bytes of all packets that are in flight.
    #[must_use]
    pub const fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }
}
