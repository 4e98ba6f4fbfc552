//! The memory pool of packet bytes in flight.
//!
//! Every packet is read into the buffer of the largest size that was released last, which is still in the cache. A
//! packet that nearly fills its buffer stays there, and none of its bytes is copied between the two devices. A smaller
//! packet is moved to a chunk of consecutive packets, so that it takes its own length only.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::MmapMut;
use wavebed_link::Run;
use wavebed_packet::ip::packet_length;
use wavebed_packet::{Shape, VnetHeader};

/// Size of the largest read from a TUN device: 64 KiB of packet and the virtio-net header, in whole pages.
pub const LARGEST_READ: usize = 17 * 4_096;

/// Packets of at least this size stay in their buffer: it is then at most a fifth larger.
const STAYS_BYTES: usize = 58_000;

/// A chunk for smaller packets; its unused end is at most a ninth of it.
const CHUNK_BYTES: usize = 512 << 10;

/// Free memory that is kept for reuse, of either kind.
const KEPT_FREE_BYTES: usize = 8 << 20;

/// Packets in a chunk start at multiples of this, so that headers are read from aligned addresses.
const ALIGN: usize = 16;

/// Where the bytes of one packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    block: u32,
    offset: u32,
    length: u32,
}

struct Block {
    bytes: Option<MmapMut>,
    /// Packets in it.
    live: u32,
}

/// Blocks of one size.
struct Blocks {
    size: usize,
    all: Vec<Block>,
    /// Blocks with memory but no packet, the most recently freed last.
    free: Vec<u32>,
    /// Blocks whose memory was returned.
    vacant: Vec<u32>,
}

impl Blocks {
    const fn new(size: usize) -> Self {
        Self {
            size,
            all: Vec::new(),
            free: Vec::new(),
            vacant: Vec::new(),
        }
    }

    /// An empty block; `None` if the limit is reached or the system has no memory.
    fn take(&mut self, memory: &PacketMemory) -> Option<u32> {
        if let Some(block) = self.free.pop() {
            return Some(block);
        }
        if !memory.take(self.size) {
            return None;
        }
        let block = self.make();
        if block.is_none() {
            memory.give_back(self.size);
        }
        block
    }

    /// A block with new memory. Both lists of blocks get capacity for all blocks, so that a release needs no memory.
    fn make(&mut self) -> Option<u32> {
        let count = self.all.len() + 1;
        self.all.try_reserve(1).ok()?;
        self.free.try_reserve(count - self.free.len()).ok()?;
        self.vacant.try_reserve(count - self.vacant.len()).ok()?;
        let bytes = Some(MmapMut::map_anon(self.size).ok()?);
        if let Some(block) = self.vacant.pop() {
            self.all[block as usize].bytes = bytes;
            return Some(block);
        }
        let block = u32::try_from(self.all.len()).ok()?;
        self.all.push(Block { bytes, live: 0 });
        Some(block)
    }

    /// Takes back a block whose last packet has left.
    fn give_back(&mut self, block: u32, memory: &PacketMemory) {
        if self.free.len() * self.size < KEPT_FREE_BYTES {
            self.free.push(block);
        } else {
            self.all[block as usize].bytes = None;
            self.vacant.push(block);
            memory.give_back(self.size);
        }
    }

    fn bytes(&self, block: u32) -> &[u8] {
        self.all[block as usize]
            .bytes
            .as_deref()
            .expect("a block in use has memory")
    }

    fn bytes_mut(&mut self, block: u32) -> &mut [u8] {
        self.all[block as usize]
            .bytes
            .as_deref_mut()
            .expect("a block in use has memory")
    }

    const fn memory_bytes(&self) -> usize {
        (self.all.len() - self.vacant.len()) * self.size
    }
}

/// Marks a block number as one of a large buffer.
const LARGE: u32 = 1 << 31;

/// Buffers, chunks, and the packets in them.
pub struct Pool {
    large: Blocks,
    chunks: Blocks,
    memory: Arc<PacketMemory>,
    /// The buffer into which the next packet is read.
    room: u32,
    /// The chunk being filled, and its fill level.
    chunk: u32,
    filled: usize,
}

impl Pool {
    /// An empty pool whose blocks count against `memory`.
    ///
    /// # Errors
    /// There is no memory for the first packet.
    pub fn new(memory: Arc<PacketMemory>) -> io::Result<Self> {
        let (mut large, mut chunks) = (Blocks::new(LARGEST_READ), Blocks::new(CHUNK_BYTES));
        let (Some(room), Some(chunk)) = (large.take(&memory), chunks.take(&memory)) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        Ok(Self {
            large,
            chunks,
            memory,
            room,
            chunk,
            filled: 0,
        })
    }

    /// Room to read the next packet into. Nothing is taken until [`Pool::keep`].
    pub fn room(&mut self) -> &mut [u8] {
        self.large.bytes_mut(self.room)
    }

    /// The first `length` bytes that were read into [`Pool::room`].
    #[must_use]
    pub fn read(&self, length: usize) -> &[u8] {
        &self.large.bytes(self.room)[..length]
    }

    /// Keeps the first `length` bytes that were read into [`Pool::room`]; `None` if there is no memory for the packets
    /// after it, and then the next one is read in its place.
    ///
    /// # Panics
    /// If `length` is larger than the room.
    pub fn keep(&mut self, length: usize) -> Option<Span> {
        let kept = u32::try_from(length).expect("a packet is shorter than its buffer");
        if length >= STAYS_BYTES {
            let next = self.large.take(&self.memory)?;
            let block = std::mem::replace(&mut self.room, next);
            self.large.all[block as usize].live = 1;
            return Some(Span {
                block: block | LARGE,
                offset: 0,
                length: kept,
            });
        }
        if self.filled + length > CHUNK_BYTES {
            self.chunk = self.chunks.take(&self.memory)?;
            self.filled = 0;
        }
        let chunk = self.chunks.bytes_mut(self.chunk);
        chunk[self.filled..self.filled + length]
            .copy_from_slice(&self.large.bytes(self.room)[..length]);
        self.chunks.all[self.chunk as usize].live += 1;
        let offset = u32::try_from(self.filled).expect("a chunk is smaller than 4 GiB");
        self.filled = (self.filled + length).next_multiple_of(ALIGN);
        Some(Span {
            block: self.chunk,
            offset,
            length: kept,
        })
    }

    /// The bytes of a packet that is kept.
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        let block = if span.block & LARGE == 0 {
            self.chunks.bytes(span.block)
        } else {
            self.large.bytes(span.block & !LARGE)
        };
        &block[span.offset as usize..(span.offset + span.length) as usize]
    }

    /// Releases a packet.
    pub fn release(&mut self, span: Span) {
        if span.block & LARGE != 0 {
            let block = span.block & !LARGE;
            self.large.all[block as usize].live = 0;
            self.large.give_back(block, &self.memory);
            return;
        }
        let chunk = &mut self.chunks.all[span.block as usize];
        chunk.live -= 1;
        if chunk.live > 0 {
            return;
        }
        if span.block == self.chunk {
            self.filled = 0;
        } else {
            self.chunks.give_back(span.block, &self.memory);
        }
    }

    /// Bytes of memory that buffers and chunks take.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.large.memory_bytes() + self.chunks.memory_bytes()
    }
}

/// Memory of a segment in flight beside its bytes, at most: the table entry of its packet, and a run of its own in a
/// stage whose list has up to twice the capacity in use. Most runs hold many segments and take less.
const BESIDE_BYTES: usize = size_of::<Packet>() + size_of::<u32>() + 2 * size_of::<Run>();

/// The memory beside packets is taken for this many segments at a time. It is not returned: lists keep their capacity.
const SEGMENTS_AT_A_TIME: u64 = 4_096;

/// The device of a packet of no cell, or of none of its devices.
pub const NO_DEVICE: u16 = u16::MAX;

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
    /// The device of a cell that it comes from or goes to; [`NO_DEVICE`] for none.
    pub device: u16,
    /// Whether its segments came as frames of their own.
    pub is_merged: bool,
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
    /// The device of a cell that it comes from or goes to; [`NO_DEVICE`] for none.
    pub device: u16,
    /// Distinguishes this packet from an earlier one with the same key.
    pub serial: u64,
    /// Whether its segments came as frames of their own.
    pub is_merged: bool,
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
            device: arrival.device,
            serial: self.added,
            is_merged: arrival.is_merged,
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

/// The memory in use and its limit. It is updated only where memory is mapped or unmapped: an atomic operation costs
/// nothing beside the system call, and a packet that fits into a mapped block needs no update.
#[derive(Debug)]
pub struct PacketMemory {
    limit_bytes: usize,
    taken_bytes: AtomicUsize,
}

impl PacketMemory {
    /// This limit, with nothing taken.
    #[must_use]
    pub const fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            taken_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes `bytes`, or nothing if that exceeds the limit.
    pub fn take(&self, bytes: usize) -> bool {
        let with = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|&sum| sum <= self.limit_bytes)
        };
        self.taken_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with)
            .is_ok()
    }

    /// Returns `bytes` that were taken.
    pub fn give_back(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The limit.
    #[must_use]
    pub const fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }
}

/// The parts of a packet as it was read.
pub(crate) struct Parts<'a> {
    /// The link-layer header; empty without.
    pub front: &'a [u8],
    /// The virtio-net header of the IP packet alone.
    pub vnet: VnetHeader,
    /// The IP packet.
    pub ip: &'a [u8],
    /// What stands after the IP packet, in a short frame.
    pub padding: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The parts of `bytes`, in which `front` bytes stand between virtio-net header and IP header.
    pub fn of(bytes: &'a [u8], front: u8) -> Option<Self> {
        let (vnet, rest) = VnetHeader::split(bytes)?;
        if front == 0 {
            return Some(Self {
                front: &[],
                vnet,
                ip: rest,
                padding: &[],
            });
        }
        let (head, rest) = rest.split_at_checked(usize::from(front))?;
        let (ip, padding) = rest.split_at(packet_length(rest));
        Some(Self {
            front: head,
            vnet: vnet.after(front)?,
            ip,
            padding,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{CHUNK_BYTES, KEPT_FREE_BYTES, LARGEST_READ, PacketMemory, Pool};

    fn pool(limit_bytes: usize) -> Pool {
        Pool::new(Arc::new(PacketMemory::new(limit_bytes))).unwrap()
    }

    fn put(pool: &mut Pool, length: usize, fill: u8) -> super::Span {
        pool.room()[..length].fill(fill);
        pool.keep(length).unwrap()
    }

    #[test]
    fn packets_keep_their_bytes_until_released() {
        let mut pool = pool(usize::MAX);
        let mut spans = std::collections::VecDeque::new();
        for round in 0..3_000usize {
            let length = 1 + (round * 7_919) % 65_546;
            let fill = u8::try_from(round % 251).unwrap();
            spans.push_back((put(&mut pool, length, fill), fill, length));
            if spans.len() > 100 {
                let place = (round * 31) % spans.len();
                let (span, fill, length) = spans.remove(place).unwrap();
                assert_eq!(pool.bytes(span).len(), length);
                assert!(pool.bytes(span).iter().all(|&b| b == fill));
                pool.release(span);
            }
        }
    }

    #[test]
    fn memory_follows_the_packets_in_flight() {
        for length in [40, 1_500, 9_000, 30_000, 57_999, 58_000, 65_546] {
            let mut pool = pool(usize::MAX);
            let count = 120_000_000 / length;
            let held: Vec<_> = (0..count).map(|_| put(&mut pool, length, 1)).collect();
            let in_flight = count * length;
            let memory = pool.memory_bytes();
            assert!(
                memory < in_flight * 5 / 4 + (4 << 20),
                "{memory} for {in_flight} in packets of {length}"
            );
            for span in held {
                pool.release(span);
            }
            assert!(pool.memory_bytes() <= 2 * (KEPT_FREE_BYTES + CHUNK_BYTES + LARGEST_READ));
        }
    }

    #[test]
    fn a_lone_packet_uses_one_block_again_and_again() {
        for length in [1_500, 65_000] {
            let mut pool = pool(usize::MAX);
            for _ in 0..10_000 {
                let span = put(&mut pool, length, 1);
                pool.release(span);
            }
            assert!(pool.memory_bytes() <= CHUNK_BYTES + 2 * LARGEST_READ);
        }
    }

    #[test]
    fn the_buffer_released_last_is_used_first() {
        let mut pool = pool(usize::MAX);
        let first = put(&mut pool, 60_000, 1);
        let second = put(&mut pool, 60_000, 2);
        pool.release(first);
        pool.release(second);
        let _ = put(&mut pool, 60_000, 3);
        assert_eq!(put(&mut pool, 60_000, 4).block, second.block);
    }

    #[test]
    fn no_block_is_made_beyond_the_limit_and_packets_in_flight_stay() {
        for length in [1_500, 65_000] {
            let mut pool = pool(20 << 20);
            let mut held = std::collections::VecDeque::new();
            for round in 0..1_000_000u32 {
                pool.room()[..length].fill(round.to_le_bytes()[0]);
                match pool.keep(length) {
                    Some(span) => held.push_back((span, round.to_le_bytes()[0])),
                    None => break,
                }
            }
            assert!(pool.memory_bytes() <= 20 << 20);
            assert!(held.len() * length > 17 << 20, "{}", held.len());
            assert!(pool.keep(length).is_none());
            let whole = |&(span, fill)| pool.bytes(span).iter().all(|&byte| byte == fill);
            assert!(held.iter().all(whole));
            for (span, _) in held.drain(..) {
                pool.release(span);
            }
            assert!(pool.keep(length).is_some(), "there is room again");
        }
    }

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = PacketMemory::new(100);
        assert!(memory.take(60));
        assert!(!memory.take(41));
        assert!(memory.take(40));
        assert!(!memory.take(1));
        assert!(!memory.take(usize::MAX));
        memory.give_back(60);
        assert!(memory.take(60));
    }
}
