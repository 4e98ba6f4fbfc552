//! The packets in flight: each is stored until its last segment was delivered or dropped.

use std::io;
use std::sync::Arc;

use wavebed_link::Run;
use wavebed_packet::Shape;

use crate::packet_memory::PacketMemory;
use crate::pool::{Pool, Span};

/// Memory of a segment in flight beside its bytes, at most: the table entry of its packet, and a run of its own in a
/// stage whose list has up to twice the capacity in use. Most runs hold many segments and take less.
const BESIDE_BYTES: usize = size_of::<Packet>() + size_of::<u32>() + 2 * size_of::<Run>();

/// The memory beside packets is taken for this many segments at a time. It is not returned: lists keep their capacity.
const SEGMENTS_AT_A_TIME: u64 = 4_096;

/// A packet that was read into the pool's room.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its bytes, with the virtio-net header.
    pub length: usize,
    /// How many of them stand between the virtio-net header and the IP header: a link-layer header.
    pub front: u8,
    /// When it was read.
    pub read_ns: u64,
    /// How long it waited in the device before that, at most, nanoseconds.
    pub waited_ns: u64,
}

/// A packet in flight.
#[derive(Clone, Copy)]
pub struct Packet {
    /// Its bytes, virtio-net header first.
    pub span: Span,
    /// Its segments and header fields.
    pub shape: Shape,
    /// Bytes between its virtio-net header and its IP header.
    pub front: u8,
    /// Distinguishes this packet from an earlier one with the same key.
    pub serial: u64,
    /// How long it waited in the device before it was read, at most, nanoseconds.
    pub waited_ns: u64,
    /// When it was read.
    pub read_ns: u64,
    /// Segments that have not left yet, copies included.
    refs: u32,
}

/// A table of packets by key, and the pool that holds their bytes.
pub struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
    /// The bytes.
    pub pool: Pool,
    memory: Arc<PacketMemory>,
    in_flight_bytes: u64,
    in_flight_segments: u64,
    /// Number of segments for which memory beside their packets was taken.
    covered_segments: u64,
    added: u64,
}

impl Packets {
    /// An empty table whose packets count against `memory`.
    ///
    /// # Errors
    /// There is no memory for the first packet.
    pub fn new(memory: Arc<PacketMemory>) -> io::Result<Self> {
        Ok(Self {
            slots: Vec::new(),
            free: Vec::new(),
            pool: Pool::new(Arc::clone(&memory))?,
            memory,
            in_flight_bytes: 0,
            in_flight_segments: 0,
            covered_segments: 0,
            added: 0,
        })
    }

    /// Adds the packet that was read into the pool's room, with all its segments, and returns its key. `None` if there
    /// is no memory for it.
    pub fn add(&mut self, arrival: &Arrival, shape: Shape) -> Option<u32> {
        let segments = u64::from(shape.segments);
        let wanted = self.in_flight_segments + segments;
        if wanted > self.covered_segments && !self.cover(wanted) {
            return None;
        }
        let key = match self.free.last() {
            Some(&key) => key,
            None => self.next_key()?,
        };
        let span = self.pool.keep(arrival.length)?;
        self.in_flight_bytes += arrival.length as u64;
        self.in_flight_segments = wanted;
        self.added += 1;
        let packet = Packet {
            span,
            shape,
            front: arrival.front,
            serial: self.added,
            waited_ns: arrival.waited_ns,
            read_ns: arrival.read_ns,
            refs: u32::from(shape.segments),
        };
        if self.free.pop().is_some() {
            self.slots[key as usize] = packet;
        } else {
            self.slots.push(packet);
        }
        Some(key)
    }

    /// A new key. Both lists get capacity for it, so that a release needs no memory.
    fn next_key(&mut self) -> Option<u32> {
        self.slots.try_reserve(1).ok()?;
        self.free.try_reserve(self.slots.len() + 1).ok()?;
        u32::try_from(self.slots.len()).ok()
    }

    /// Takes the memory that this many segments need beside their packets.
    #[cold]
    fn cover(&mut self, segments: u64) -> bool {
        let more = (segments - self.covered_segments).next_multiple_of(SEGMENTS_AT_A_TIME);
        let bytes =
            usize::try_from(more).map_or(usize::MAX, |more| more.saturating_mul(BESIDE_BYTES));
        let taken = self.memory.take(bytes);
        if taken {
            self.covered_segments += more;
        }
        taken
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
        self.in_flight_segments += u64::from(segments);
    }

    /// `segments` of its segments have left.
    ///
    /// # Panics
    /// If more segments leave than there are: the accounting of a stage is wrong.
    pub fn release(&mut self, key: u32, segments: u16) {
        let packet = &mut self.slots[key as usize];
        packet.refs = packet
            .refs
            .checked_sub(u32::from(segments))
            .expect("a segment left twice");
        self.in_flight_segments -= u64::from(segments);
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
