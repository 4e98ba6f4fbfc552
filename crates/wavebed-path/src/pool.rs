//! The memory pool of packet bytes in flight.
//!
//! Every packet is read into the buffer of the largest size that was released last, which is still in the cache. A
//! packet that nearly fills its buffer stays there, and none of its bytes is copied between the two devices. A smaller
//! packet is moved to a chunk of consecutive packets, so that it takes its own length only.

use std::io;
use std::sync::Arc;

use memmap2::MmapMut;

use crate::packet_memory::PacketMemory;

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
    /// Blocks with memory and no packet, last used last.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{CHUNK_BYTES, KEPT_FREE_BYTES, LARGEST_READ, Pool};
    use crate::packet_memory::PacketMemory;

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
}
