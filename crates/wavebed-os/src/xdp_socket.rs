//! `AF_XDP` sockets for sending: a ring of descriptors over memory of this process (`networking/af_xdp` in the kernel's
//! documentation).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use memmap2::MmapMut;
use rustix::io::Errno;
use rustix::net;
use rustix::net::sockopt::{
    set_socket_send_buffer_size_force, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XdpRingFlags, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::error::{Context, Result};
use crate::netlink;
use crate::packet_ring::Shared;
use crate::packet_socket::{PacketSocket, SEND_BUFFER_BYTES, no_room};

/// Descriptors of each ring, and chunks of memory: a power of two, as few as fit into the cache with small frames.
const ENTRIES: u32 = 512;
/// Until the queue of a socket that was closed is free: many times what a loaded machine needs for deferred work.
const FREED_WITHIN: Duration = Duration::from_secs(2);
/// The least rings that the kernel accepts: nothing is received.
const FILL_ENTRIES: u32 = 2;
/// Bytes of a chunk: one frame of a normal MTU, or one of a page.
const CHUNK_BYTES: u32 = 2048;
/// See [`CHUNK_BYTES`].
const LONG_CHUNK_BYTES: u32 = 4096;
/// An address outside the memory: the kernel passes over such a descriptor.
const NOWHERE: u64 = u64::MAX >> 16;

/// Copy mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// Zero copy: the driver sends from this process's memory.
    ZeroCopy,
    /// The kernel, for every driver.
    Copy,
}

/// A ring shared with the kernel, as it says where its parts are.
#[derive(Debug)]
struct Ring {
    map: Shared,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
}

impl Ring {
    fn map(
        socket: BorrowedFd<'_>,
        offsets: XdpRingOffset,
        page_offset: u64,
        bytes: usize,
    ) -> io::Result<Self> {
        let place = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        // Linux before 5.4 has none.
        let flags = offsets.flags.ok_or(Errno::OPNOTSUPP)?;
        let entries = place(offsets.desc)?;
        Ok(Self {
            map: Shared::map(socket, page_offset, entries + bytes)?,
            producer: place(offsets.producer)?,
            consumer: place(offsets.consumer)?,
            flags: place(flags)?,
            entries,
        })
    }
}

/// A ring of frames to send through the first queue of one interface.
#[derive(Debug)]
pub struct XdpTx {
    socket: OwnedFd,
    interface: String,
    mode: XdpMode,
    memory: MmapMut,
    chunk_bytes: u32,
    /// Free chunks.
    free: Vec<u64>,
    tx: Ring,
    completion: Ring,
    /// The next descriptor that the kernel takes. The kernel reports taken descriptors late or never.
    taken: u32,
    /// One after the last descriptor that the kernel knows of.
    known: u32,
    /// One after the last descriptor that was filled in for the next [`XdpTx::flush`].
    filled: u32,
    longest_frame: usize,
}

impl XdpTx {
    /// A socket of the first queue of `interface`.
    ///
    /// # Errors
    /// There is no such interface, the process lacks the permission (`CAP_NET_RAW`), or the driver does not have this mode.
    pub fn open(interface: &str, mode: XdpMode) -> Result<Self> {
        let longest_frame = PacketSocket::open(interface)?.longest_frame();
        let fits = longest_frame <= CHUNK_BYTES as usize;
        let chunk_bytes = if fits { CHUNK_BYTES } else { LONG_CHUNK_BYTES };
        let kind = SocketType::RAW;
        let socket = net::socket_with(AddressFamily::XDP, kind, SocketFlags::CLOEXEC, None)
            .during("open an AF_XDP socket for", interface)?;
        let memory = MmapMut::map_anon(ENTRIES as usize * chunk_bytes as usize)
            .during("get memory for AF_XDP frames of", interface)?;
        let (tx, completion) = set_up(socket.as_fd(), &memory, chunk_bytes)
            .during("make AF_XDP rings for", interface)?;
        // As for packet sockets.
        let _ = set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES);
        let operation = match mode {
            XdpMode::ZeroCopy => "bind AF_XDP with zero copy to",
            XdpMode::Copy => "bind AF_XDP with copies to",
        };
        bind(socket.as_fd(), netlink::interface_index(interface)?, mode)
            .during(operation, interface)?;
        Ok(Self {
            socket,
            interface: interface.to_owned(),
            mode,
            memory,
            chunk_bytes,
            free: (0..u64::from(ENTRIES))
                .rev()
                .map(|chunk| chunk * u64::from(chunk_bytes))
                .collect(),
            tx,
            completion,
            taken: 0,
            known: 0,
            filled: 0,
            longest_frame: longest_frame.min(chunk_bytes as usize),
        })
    }

    /// Where to put the next frame, if there is room.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        let address = if let Some(address) = self.refillable() {
            address
        } else {
            if self.free.is_empty() {
                self.complete();
            }
            // Never more descriptors than chunks, so that there is one as well.
            *self.free.last()?
        };
        let at = usize::try_from(address).ok()?;
        Some(&mut self.memory[at..at + self.chunk_bytes as usize])
    }

    /// The frame in the slot that [`XdpTx::slot`] gave last is complete and `length` bytes long.
    ///
    /// # Panics
    /// There was no slot, or the length does not fit.
    pub fn fill(&mut self, length: usize) {
        assert!(length <= self.chunk_bytes as usize, "a frame that fits");
        let address = match self.refillable() {
            Some(address) => address,
            None => self.free.pop().expect("a free slot"),
        };
        self.describe(self.filled, address, u32::try_from(length).unwrap_or(0));
        if self.filled == self.known {
            self.known = self.known.wrapping_add(1);
        }
        self.filled = self.filled.wrapping_add(1);
    }

    /// The chunk of the next descriptor, if the kernel knows the descriptor and did not take it.
    fn refillable(&self) -> Option<u64> {
        let known = self.filled != self.known;
        known
            .then(|| self.descriptor(self.filled))
            .filter(|address| *address != NOWHERE)
    }

    /// Asks the kernel to send the filled descriptors, without waiting. Returns how many frames it took, in order; the
    /// others are discarded.
    ///
    /// With [`XdpMode::ZeroCopy`] the driver takes all, sooner or later; [`XdpTx::outstanding`] counts frames not yet
    /// reported as sent.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn flush(&mut self) -> Result<u32> {
        match self.mode {
            XdpMode::ZeroCopy => self.flush_zero_copy(),
            XdpMode::Copy => self.flush_copy(),
        }
    }

    fn flush_zero_copy(&mut self) -> Result<u32> {
        let count = self.filled.wrapping_sub(self.taken);
        self.taken = self.filled;
        self.publish();
        let flags = self.tx.map.word(self.tx.flags).load(Ordering::Acquire);
        if flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
            && let Err(error) = self.wake()
            && !no_room(&error)
            && error.raw_os_error() != Some(libc::EBUSY)
        {
            return Err(error).during("send through", &self.interface);
        }
        Ok(count)
    }

    /// The kernel sends within the call (`__xsk_generic_xmit`): it takes one descriptor after the other. When the
    /// interface has no room it takes no more: `EAGAIN`. When the interface drops a frame it has taken it: `EBUSY`, and
    /// it moves the consumer only if a frame before was sent. After 32 frames it stops: `EAGAIN`. It remembers how far
    /// it may go, so that descriptors cannot be taken back, but it reads them one by one and within the call, so that
    /// they can be refilled.
    fn flush_copy(&mut self) -> Result<u32> {
        // Descriptors that were not refilled must not be sent.
        let mut stale = self.filled;
        while stale != self.known {
            let address = self.descriptor(stale);
            if address != NOWHERE {
                self.free.push(address);
                self.describe(stale, NOWHERE, 0);
            }
            stale = stale.wrapping_add(1);
        }
        self.publish();
        let mut sent = 0;
        while self.taken != self.filled {
            let answer = self.wake();
            let left = self.filled.wrapping_sub(self.taken);
            let consumer = self.tx.map.word(self.tx.consumer);
            let ahead = consumer.load(Ordering::Acquire).wrapping_sub(self.taken);
            // It may lag behind our count.
            let moved = if ahead > left { 0 } else { ahead };
            match answer {
                Ok(()) => {
                    self.taken = self.known;
                    self.filled = self.known;
                    return Ok(sent + left);
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    self.taken = self.taken.wrapping_add(moved.max(1));
                    sent += moved.saturating_sub(1);
                    break;
                }
                Err(error) if no_room(&error) => {
                    self.taken = self.taken.wrapping_add(moved);
                    sent += moved;
                    if moved == 0 {
                        break;
                    }
                }
                Err(error) => return Err(error).during("send through", &self.interface),
            }
        }
        self.filled = self.taken;
        Ok(sent)
    }

    /// Frames passed to the driver and not yet reported as sent. With [`XdpMode::Copy`] always
    /// 0.
    pub fn outstanding(&mut self) -> u32 {
        if self.mode == XdpMode::Copy {
            return 0;
        }
        self.complete();
        ENTRIES - u32::try_from(self.free.len()).unwrap_or(ENTRIES)
    }

    /// The longest frame that the interface takes and that fits, without its FCS.
    #[must_use]
    pub const fn longest_frame(&self) -> usize {
        self.longest_frame
    }

    /// The interface's name when it was opened.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Takes back the chunks of frames that were sent.
    fn complete(&mut self) {
        let ring = &self.completion;
        let mut at = ring.map.word(ring.consumer).load(Ordering::Relaxed);
        let end = ring.map.word(ring.producer).load(Ordering::Acquire);
        while at != end {
            let place = ring.entries + (at % ENTRIES) as usize * 8;
            // SAFETY: entries before the producer stay as they are until the consumer passes them.
            let bytes = unsafe { ring.map.bytes(place, 8) };
            let address = u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
            // Linux 6.18 also completes descriptors that it passed over; their chunks were never gone.
            if address != NOWHERE {
                self.free.push(address);
            }
            at = at.wrapping_add(1);
        }
        ring.map.word(ring.consumer).store(at, Ordering::Release);
    }

    /// The address in descriptor `index`.
    fn descriptor(&self, index: u32) -> u64 {
        let place = self.tx.entries + (index % ENTRIES) as usize * 16;
        // SAFETY: the kernel only reads descriptors.
        let bytes = unsafe { self.tx.map.bytes(place, 8) };
        u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
    }

    /// Fills in descriptor `index`.
    fn describe(&mut self, index: u32, address: u64, length: u32) {
        let place = self.tx.entries + (index % ENTRIES) as usize * 16;
        // SAFETY: the kernel does not know of this descriptor yet, or (with copies) reads it within send(2) only.
        let bytes = unsafe { self.tx.map.bytes_mut(place, 16) };
        bytes[..8].copy_from_slice(&address.to_ne_bytes());
        bytes[8..12].copy_from_slice(&length.to_ne_bytes());
        bytes[12..].fill(0);
    }

    /// Tells the kernel how far it may go.
    fn publish(&self) {
        let producer = self.tx.map.word(self.tx.producer);
        producer.store(self.known, Ordering::Release);
    }

    fn wake(&self) -> io::Result<()> {
        net::send(&self.socket, &[], SendFlags::DONTWAIT)?;
        Ok(())
    }
}

/// Registers the memory and makes and maps the rings for sending and completion.
fn set_up(socket: BorrowedFd<'_>, memory: &MmapMut, chunk_bytes: u32) -> io::Result<(Ring, Ring)> {
    // The memory lives as long as the socket, see `XdpTx`; the kernel holds its pages besides.
    let registration = XdpUmemReg {
        addr: memory.as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: chunk_bytes,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    set_xdp_umem_reg(socket, registration)?;
    set_xdp_umem_fill_ring_size(socket, FILL_ENTRIES)?;
    set_xdp_umem_completion_ring_size(socket, ENTRIES)?;
    set_xdp_tx_ring_size(socket, ENTRIES)?;
    let offsets = xdp_mmap_offsets(socket)?;
    let bytes = ENTRIES as usize;
    let sending = Ring::map(socket, offsets.tx, XDP_PGOFF_TX_RING, bytes * 16)?;
    let place = XDP_UMEM_PGOFF_COMPLETION_RING;
    let completion = Ring::map(socket, offsets.cr, place, bytes * 8)?;
    Ok((sending, completion))
}

/// Binds to the first queue. The kernel frees the queue of a closed socket a while after `close` (`xp_put_pool` of the
/// kernel defers it to a work queue), and until then it is busy.
fn bind(socket: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> io::Result<()> {
    let flags = match mode {
        XdpMode::ZeroCopy => {
            SocketAddrXdpFlags::XDP_ZEROCOPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
        }
        XdpMode::Copy => SocketAddrXdpFlags::XDP_COPY,
    };
    let address = SocketAddrXdp::new(flags, interface, 0);
    let end = Instant::now() + FREED_WITHIN;
    loop {
        match net::bind(socket, &address) {
            Err(Errno::BUSY) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
            bound => return Ok(bound?),
        }
    }
}
