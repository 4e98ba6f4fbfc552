//! Where packet bytes live while they are in flight: chunks that are filled front to back and reused whole.
//!
//! A packet is read straight into the current chunk, so no byte is copied between the two TUN devices, and a
//! packet takes the room of its own length and no more. A chunk is free again when its last packet has left.

/// Room for the largest thing a TUN device hands over: 64 KiB of packet and the virtio-net header, with slack.
pub const LARGEST_READ: usize = 65_536 + 64;

/// Small enough that a nearly empty chunk wastes little, large enough that its unused end does (3 %).
const CHUNK_BYTES: usize = 2 << 20;

/// Free chunks that are kept for reuse; the last one freed is used first, since it is still in the cache.
const KEPT_FREE: usize = 12;

/// Packets start on such a boundary, so that headers are read from aligned addresses.
const ALIGN: usize = 16;

/// Where the bytes of one packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    chunk: u32,
    offset: u32,
    length: u32,
}

struct Chunk {
    bytes: Vec<u8>,
    live: u32,
}

/// The chunks.
pub struct Pool {
    chunks: Vec<Chunk>,
    /// Chunks with memory and no packet, most recently used last.
    free: Vec<u32>,
    /// Chunks whose memory was given back.
    vacant: Vec<u32>,
    current: u32,
    filled: usize,
}

impl Pool {
    /// An empty pool with one chunk.
    #[must_use]
    pub fn new() -> Self {
        let first = Chunk {
            bytes: vec![0; CHUNK_BYTES],
            live: 0,
        };
        Self {
            chunks: vec![first],
            free: Vec::new(),
            vacant: Vec::new(),
            current: 0,
            filled: 0,
        }
    }

    /// Room to read the next packet into. Nothing is taken until [`Pool::keep`].
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled + LARGEST_READ > CHUNK_BYTES {
            self.next_chunk();
        }
        &mut self.chunks[self.current as usize].bytes[self.filled..self.filled + LARGEST_READ]
    }

    /// Keeps the first `length` bytes that were read into [`Pool::room`].
    ///
    /// # Panics
    /// If `length` is larger than the room.
    pub fn keep(&mut self, length: usize) -> Span {
        assert!(
            length <= LARGEST_READ,
            "a read of {length} bytes does not fit the room"
        );
        let chunk = &mut self.chunks[self.current as usize];
        chunk.live += 1;
        let span = Span {
            chunk: self.current,
            offset: u32::try_from(self.filled).expect("a chunk is smaller than 4 GiB"),
            length: u32::try_from(length).expect("checked above"),
        };
        self.filled = (self.filled + length).next_multiple_of(ALIGN);
        span
    }

    /// The bytes of a packet that is kept.
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        let start = span.offset as usize;
        &self.chunks[span.chunk as usize].bytes[start..start + span.length as usize]
    }

    /// Lets a packet go.
    pub fn release(&mut self, span: Span) {
        let chunk = &mut self.chunks[span.chunk as usize];
        chunk.live -= 1;
        if chunk.live > 0 {
            return;
        }
        if span.chunk == self.current {
            self.filled = 0;
        } else if self.free.len() < KEPT_FREE {
            self.free.push(span.chunk);
        } else {
            chunk.bytes = Vec::new();
            self.vacant.push(span.chunk);
        }
    }

    /// Bytes of memory that the chunks take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        (self.chunks.len() - self.vacant.len()) * CHUNK_BYTES
    }

    fn next_chunk(&mut self) {
        self.filled = 0;
        self.current = if let Some(chunk) = self.free.pop() {
            chunk
        } else if let Some(chunk) = self.vacant.pop() {
            self.chunks[chunk as usize].bytes = vec![0; CHUNK_BYTES];
            chunk
        } else {
            self.chunks.push(Chunk {
                bytes: vec![0; CHUNK_BYTES],
                live: 0,
            });
            u32::try_from(self.chunks.len() - 1).expect("fewer than 2^32 chunks fit memory")
        };
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES, KEPT_FREE, Pool};

    fn put(pool: &mut Pool, length: usize, fill: u8) -> super::Span {
        pool.room()[..length].fill(fill);
        pool.keep(length)
    }

    #[test]
    fn packets_keep_their_bytes_until_released() {
        let mut pool = Pool::new();
        let mut spans = std::collections::VecDeque::new();
        for round in 0..2_000usize {
            let length = 1 + (round * 7_919) % 60_000;
            let fill = u8::try_from(round % 251).unwrap();
            spans.push_back((put(&mut pool, length, fill), fill, length));
            if spans.len() > 100 {
                let (span, fill, length) = spans.pop_front().unwrap();
                assert_eq!(pool.bytes(span).len(), length);
                assert!(pool.bytes(span).iter().all(|&b| b == fill));
                pool.release(span);
            }
        }
    }

    #[test]
    fn memory_follows_what_is_in_flight() {
        let mut pool = Pool::new();
        let held: Vec<_> = (0..2_000).map(|_| put(&mut pool, 60_000, 1)).collect();
        let in_flight = 2_000 * 60_000;
        assert!(
            pool.memory_bytes() < in_flight * 105 / 100 + CHUNK_BYTES,
            "{}",
            pool.memory_bytes()
        );
        for span in held {
            pool.release(span);
        }
        assert!(pool.memory_bytes() <= (KEPT_FREE + 1) * CHUNK_BYTES);
    }

    #[test]
    fn a_lone_packet_does_not_use_up_chunks() {
        let mut pool = Pool::new();
        for _ in 0..10_000 {
            let span = put(&mut pool, 1_500, 1);
            pool.release(span);
        }
        assert_eq!(pool.memory_bytes(), CHUNK_BYTES);
    }
}
