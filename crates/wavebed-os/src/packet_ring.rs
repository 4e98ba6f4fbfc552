//! Rings of `AF_PACKET` sockets, shared with the kernel: one to send from, one to receive blocks of frames in, one to
//! receive single frames in at once. Layouts are from `linux/if_packet.h`; see also the kernel's `packet_mmap`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::error::{Context, Result};
use crate::packet_socket::{
    PACKET_COPY_THRESH, PACKET_RX_RING, PACKET_TX_RING, PACKET_VERSION, PacketSocket, Statistics,
    VIRTIO_HEADER_BYTES, no_room, set_option,
};
use crate::poll;

const TPACKET_V2: libc::c_int = 1;
const TPACKET_V3: libc::c_int = 2;
const TP_STATUS_USER: u32 = 1;
const TP_STATUS_COPY: u32 = 1 << 1;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// Status of a free slot: the process may fill it with a frame to send, or the kernel with a received one.
const FREE: u32 = 0;
const TP_STATUS_SEND_REQUEST: u32 = 1;
const TP_STATUS_WRONG_FORMAT: u32 = 4;

/// Where a frame to send begins in its slot: after a `tpacket2_hdr`.
const TX_DATA: usize = 32;
/// Bytes of a slot for a received frame of a normal MTU.
const SLOT_BYTES: u32 = 2048;
/// Bytes of a slot that are not the frame's.
const TX_HEADERS: u32 = 32 + 10;
/// Where `sll_pkttype` is in a `sockaddr_ll`.
const PACKET_TYPE: usize = 10;
/// Bytes of a block of frames: one is handed over when it is full or [`BLOCK_MS`] old. Small, so that almost empty
/// blocks do not fill the ring: 512 of them in 32 MiB last for two seconds at any low rate.
const BLOCK_BYTES: u32 = 1 << 16;
/// See [`BLOCK_BYTES`], milliseconds.
const BLOCK_MS: u32 = 4;
/// The 802.1Q tag's type, when the kernel names none.
const VLAN: u16 = 0x8100;

/// The kind of a frame's destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// This interface's MAC address.
    Us,
    /// All, or a group.
    Many,
    /// Another MAC address.
    Other,
}

impl Addressee {
    const fn new(packet_type: u8) -> Self {
        match packet_type {
            libc::PACKET_HOST => Self::Us,
            libc::PACKET_BROADCAST | libc::PACKET_MULTICAST => Self::Many,
            _ => Self::Other,
        }
    }
}

/// A VLAN tag, which the kernel removes from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Its type: 0x8100, or 0x88a8 of a service tag.
    pub ether_type: u16,
    /// Priority and identifier.
    pub control: u16,
}

/// A ring of frames to send.
#[derive(Debug)]
pub struct TxRing {
    socket: PacketSocket,
    map: Shared,
    slots: u32,
    slot_bytes: u32,
    /// The slot that is filled next, and from which the kernel continues.
    next: u32,
    /// Slots filled since the kernel was last asked to send.
    filled: u32,
}

impl TxRing {
    /// A ring of `slots` slots (a power of two) that hold frames of up to `frame_bytes` bytes.
    ///
    /// # Errors
    /// There is no such interface, the process lacks the permission, or there is no memory.
    ///
    /// # Panics
    /// The ring would have 4 GiB or more.
    pub fn open(interface: &str, frame_bytes: u32, slots: u32) -> Result<Self> {
        // With a virtio header that says so the kernel copies the whole frame into one piece; without it, all
        // beyond the Ethernet header stays in the ring's pages, which a virtual interface copies again.
        let socket = PacketSocket::open(interface)?.with_virtio_header()?;
        let slot_bytes = (TX_HEADERS + frame_bytes).next_power_of_two();
        let map = make_ring(&socket, PACKET_TX_RING, slot_bytes, slots)?;
        Ok(Self {
            socket,
            map,
            slots,
            slot_bytes,
            next: 0,
            filled: 0,
        })
    }

    /// The buffer of the next frame, if there is a free slot. It still has its old content.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.filled == self.slots || self.status(self.next).load(Ordering::Acquire) != FREE {
            return None;
        }
        let room = self.slot_bytes as usize - TX_DATA - VIRTIO_HEADER_BYTES;
        let at = self.at(self.next) + TX_DATA + VIRTIO_HEADER_BYTES;
        // SAFETY: the slot is free and not asked to be sent: the kernel touches nothing but its status.
        Some(unsafe { self.map.bytes_mut(at, room) })
    }

    /// The frame in the slot that [`TxRing::slot`] gave last is complete and `length` bytes long.
    ///
    /// # Panics
    /// There was no slot, or the length does not fit.
    pub fn fill(&mut self, length: usize) {
        assert!(self.filled < self.slots, "a free slot");
        let length = u16::try_from(length).expect("a frame's length");
        let at = self.at(self.next);
        let total = u32::from(length) + TX_HEADERS;
        assert!(total <= self.slot_bytes, "a frame that fits");
        // tp_len counts the virtio header, but not the slot's own.
        self.map.word(at + 4).store(total - 32, Ordering::Relaxed);
        // SAFETY: as in `slot`.
        let header = unsafe { self.map.bytes_mut(at + TX_DATA, VIRTIO_HEADER_BYTES) };
        // flags, gso_type: none. hdr_len: all of it. The kernel reads it in the machine's byte order (virtio_legacy).
        header.fill(0);
        header[2..4].copy_from_slice(&length.to_ne_bytes());
        self.status(self.next)
            .store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        self.filled += 1;
    }

    /// Asks the kernel to send the filled slots, without waiting. Returns how many frames it took, in order; the others
    /// are discarded.
    ///
    /// # Errors
    /// The interface is down or gone, or refuses the first frame that it did not take.
    pub fn flush(&mut self) -> Result<u32> {
        let refusal = send(&self.socket, &[], SendFlags::DONTWAIT).err();
        let refusal = refusal.map(io::Error::from);
        let filled = std::mem::take(&mut self.filled);
        let first = (self.next + self.slots - filled) % self.slots;
        let mut taken = 0;
        let mut malformed = false;
        for slot in (0..filled).map(|n| (first + n) % self.slots) {
            match self.status(slot).load(Ordering::Acquire) {
                status @ (TP_STATUS_SEND_REQUEST | TP_STATUS_WRONG_FORMAT) => {
                    malformed |= status == TP_STATUS_WRONG_FORMAT;
                    // The kernel reads statuses only within send(2), so that this takes the frame back.
                    self.status(slot).store(FREE, Ordering::Release);
                }
                _ => taken += 1,
            }
        }
        self.next = (first + taken) % self.slots;
        match refusal {
            Some(error) if malformed || !no_room(&error) => {
                Err(error).during("send through", self.socket.interface())
            }
            _ => Ok(taken),
        }
    }

    /// The socket below.
    #[must_use]
    pub const fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    fn at(&self, slot: u32) -> usize {
        slot as usize * self.slot_bytes as usize
    }

    fn status(&self, slot: u32) -> &AtomicU32 {
        self.map.word(self.at(slot))
    }
}

/// A frame in a [`BlockRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Its first bytes, without VLAN tag.
    pub bytes: &'a [u8],
    /// Its length without VLAN tag and FCS; a super-packet is one frame.
    pub length: u32,
    /// When it came, nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Its VLAN tag, taken out by the kernel.
    pub vlan: Option<VlanTag>,
}

/// A ring in which the kernel collects incoming frames in blocks: for counting at high rates.
#[derive(Debug)]
pub struct BlockRing {
    socket: PacketSocket,
    map: Shared,
    blocks: u32,
    next: u32,
}

impl BlockRing {
    /// A ring of `bytes` bytes for the first `keep` bytes of every frame that comes in at `interface` from now on.
    ///
    /// # Errors
    /// There is no such interface, the process lacks the permission, or there is no memory.
    pub fn open(interface: &str, bytes: u32, keep: u32) -> Result<Self> {
        let socket = PacketSocket::open(interface)?;
        socket.keep_only(keep)?;
        let blocks = (bytes / BLOCK_BYTES).max(2);
        // tpacket_req3: block size and number, frame size and number, age, private bytes, features.
        let frames = blocks * (BLOCK_BYTES / 2048);
        let request = [BLOCK_BYTES, blocks, 2048, frames, BLOCK_MS, 0, 0];
        socket
            .set(libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V3)
            .and_then(|()| socket.set(libc::SOL_PACKET, PACKET_RX_RING, &request))
            .during("make a ring for", interface)?;
        let length = blocks as usize * BLOCK_BYTES as usize;
        let map = Shared::map(socket.as_fd(), 0, length).during("map the ring of", interface)?;
        socket.receive_incoming()?;
        Ok(Self {
            socket,
            map,
            blocks,
            next: 0,
        })
    }

    /// Waits for a block until `timeout_ns` has passed. Returns whether there is one.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn wait(&self, timeout_ns: u64) -> Result<bool> {
        if self.ready() {
            return Ok(true);
        }
        poll::wait(&[self.socket.as_fd()], &mut [false], Some(timeout_ns))
            .during("wait for", self.socket.interface())?;
        if self.ready() {
            return Ok(true);
        }
        self.socket.fault().map(|()| false)
    }

    /// Calls `see` with every frame of the next block, if there is one, and releases the block. Returns the number of
    /// frames.
    pub fn read(&mut self, mut see: impl FnMut(Captured<'_>)) -> u32 {
        if !self.ready() {
            return 0;
        }
        let at = self.next as usize * BLOCK_BYTES as usize;
        // SAFETY: the block is ours until its status is given back below.
        let block = unsafe { self.map.bytes(at, BLOCK_BYTES as usize) };
        let count = word(block, 12);
        let mut frame = word(block, 16) as usize;
        for _ in 0..count {
            // tpacket3_hdr: offset of the next, seconds, nanoseconds, kept, length, status, offset of the MAC header.
            let header = &block[frame..];
            let (kept, mac) = (word(header, 12) as usize, half(header, 24) as usize);
            see(Captured {
                bytes: &header[mac..mac + kept],
                length: word(header, 16),
                realtime_ns: time(word(header, 4), word(header, 8)),
                vlan: vlan(word(header, 20), half(header, 32), half(header, 36)),
            });
            frame += word(header, 0) as usize;
        }
        self.map.word(at + 8).store(FREE, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        count
    }

    /// Whether the next block is ours.
    fn ready(&self) -> bool {
        // tpacket_block_desc: version, private offset, status, frames, offset of the first.
        let at = self.next as usize * BLOCK_BYTES as usize;
        self.map.word(at + 8).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// Frames received and dropped since the last call, those in incomplete blocks included.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn statistics(&self) -> Result<Statistics> {
        self.socket.statistics()
    }
}

/// Where a frame of a [`FrameRing`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In its slot.
    Slot,
    /// It is too long for a slot, and was put aside: [`FrameRing::read_aside`].
    Aside,
    /// It was too long for a slot, and there was no room to put it aside: the rest is lost.
    Lost,
}

/// The metadata of a frame in a [`FrameRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When it came, nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Its length without FCS; a super-packet is one frame.
    pub length: u32,
    /// The kind of its destination address.
    pub addressee: Addressee,
    /// Its VLAN tag, taken out by the kernel.
    pub vlan: Option<VlanTag>,
    /// Where it is.
    pub place: Place,
}

/// A ring in which each frame can be read on arrival, modified, and sent.
///
/// Each frame has a virtio-net header of [`VIRTIO_HEADER_BYTES`] before it.
#[derive(Debug)]
pub struct FrameRing {
    socket: PacketSocket,
    slots: FrameSlots,
}

impl FrameRing {
    /// A ring of `slots` slots (a power of two) for frames of a normal MTU; longer ones are put aside.
    ///
    /// # Errors
    /// There is no such interface, the process lacks the permission, or there is no memory.
    ///
    /// # Panics
    /// The ring would have 4 GiB or more.
    pub fn open(interface: &str, slots: u32) -> Result<Self> {
        let socket = PacketSocket::open(interface)?.with_virtio_header()?;
        let room: libc::c_int = 8 << 20;
        socket
            .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room)
            .during("set up a packet socket of", interface)?;
        let slots = FrameSlots::make(socket.as_fd(), slots)
            .and_then(|()| FrameSlots::map(socket.as_fd(), slots))
            .during("make a ring for", interface)?;
        socket.receive_incoming()?;
        Ok(Self { socket, slots })
    }

    /// Reads the first of the frames that were put aside, with its virtio-net header. To be called once for each frame
    /// that is [`Place::Aside`], in order. 0: it is not there.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn read_aside(&self, buffer: &mut [u8]) -> Result<usize> {
        match recv(&self.socket, buffer, RecvFlags::DONTWAIT).map_err(io::Error::from) {
            Ok((count, _)) => Ok(count),
            Err(error) if no_room(&error) => Ok(0),
            Err(error) => Err(error).during("read from", self.socket.interface()),
        }
    }

    /// The socket below: it sends frames with their virtio-net header.
    #[must_use]
    pub const fn socket(&self) -> &PacketSocket {
        &self.socket
    }
}

impl Deref for FrameRing {
    type Target = FrameSlots;

    fn deref(&self) -> &FrameSlots {
        &self.slots
    }
}

impl DerefMut for FrameRing {
    fn deref_mut(&mut self) -> &mut FrameSlots {
        &mut self.slots
    }
}

/// The mapped slots of a ring of single frames. A frame that is longer than a slot waits at the socket.
#[derive(Debug)]
pub struct FrameSlots {
    map: Shared,
    slots: u32,
    next: u32,
}

impl FrameSlots {
    /// Lets the kernel put frames into `slots` slots (a power of two) from now on. Frames that wait at the socket are
    /// lost.
    pub(crate) fn make(socket: BorrowedFd<'_>, slots: u32) -> io::Result<()> {
        set_option(socket, libc::SOL_PACKET, PACKET_COPY_THRESH, &1)?;
        set_ring(socket, PACKET_RX_RING, SLOT_BYTES, slots)
    }

    /// Maps the slots of [`FrameSlots::make`] for this process, the only one that does so.
    pub(crate) fn map(socket: BorrowedFd<'_>, slots: u32) -> io::Result<Self> {
        let length = slots as usize * SLOT_BYTES as usize;
        Ok(Self {
            map: Shared::map(socket, 0, length)?,
            slots,
            next: 0,
        })
    }

    /// Lets frames wait at the socket again; those in slots are lost. No process may have them mapped.
    pub(crate) fn remove(socket: BorrowedFd<'_>) -> io::Result<()> {
        set_option(socket, libc::SOL_PACKET, PACKET_RX_RING, &[0_u32; 4])
    }

    /// The frame `ahead` places after the first that was not released yet, if it is there.
    #[must_use]
    pub fn arrived(&self, ahead: u32) -> Option<Arrived> {
        let at = self.at(ahead)?;
        let status = self.map.word(at).load(Ordering::Acquire);
        if status & TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours until it is released. 32: tpacket2_hdr, then a sockaddr_ll.
        let header = unsafe { self.map.bytes(at, 32 + PACKET_TYPE + 1) };
        let (length, kept) = (word(header, 4), word(header, 8));
        Some(Arrived {
            realtime_ns: time(word(header, 16), word(header, 20)),
            length,
            addressee: Addressee::new(header[32 + PACKET_TYPE]),
            vlan: vlan(status, half(header, 24), half(header, 26)),
            place: match status & TP_STATUS_COPY {
                0 if kept < length => Place::Lost,
                0 => Place::Slot,
                _ => Place::Aside,
            },
        })
    }

    /// The virtio-net header and the frame `ahead` places after the first.
    ///
    /// # Panics
    /// No such frame has arrived.
    #[must_use]
    pub fn bytes(&self, ahead: u32) -> &[u8] {
        let (at, length) = self.place(ahead);
        // SAFETY: `place` has seen that the slot is ours; it is until it is released, which borrows `self` alone.
        unsafe { self.map.bytes(at, length) }
    }

    /// The same, to be changed.
    ///
    /// # Panics
    /// No such frame has arrived.
    pub fn bytes_mut(&mut self, ahead: u32) -> &mut [u8] {
        let (at, length) = self.place(ahead);
        // SAFETY: as above.
        unsafe { self.map.bytes_mut(at, length) }
    }

    /// Gives the first `count` slots back to the kernel.
    ///
    /// # Panics
    /// There are fewer slots.
    pub fn release(&mut self, count: u32) {
        assert!(count <= self.slots, "no more than the ring holds");
        for _ in 0..count {
            let at = self.next as usize * SLOT_BYTES as usize;
            self.map.word(at).store(FREE, Ordering::Release);
            self.next = (self.next + 1) % self.slots;
        }
    }

    /// How many slots there are.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    fn at(&self, ahead: u32) -> Option<usize> {
        let slot = (self.next + ahead) % self.slots;
        (ahead < self.slots).then_some(slot as usize * SLOT_BYTES as usize)
    }

    /// Where header and frame are, and how many bytes.
    fn place(&self, ahead: u32) -> (usize, usize) {
        assert!(self.arrived(ahead).is_some(), "a frame that has arrived");
        let at = self.at(ahead).expect("within the ring");
        // SAFETY: the slot is ours, as just seen.
        let header = unsafe { self.map.bytes(at, 32) };
        let (kept, mac) = (word(header, 8) as usize, half(header, 12) as usize);
        (at + mac - VIRTIO_HEADER_BYTES, kept + VIRTIO_HEADER_BYTES)
    }
}

/// Makes a ring of single slots and maps it.
fn make_ring(
    socket: &PacketSocket,
    which: libc::c_int,
    slot_bytes: u32,
    slots: u32,
) -> Result<Shared> {
    let length = slots as usize * slot_bytes as usize;
    set_ring(socket.as_fd(), which, slot_bytes, slots)
        .and_then(|()| Shared::map(socket.as_fd(), 0, length))
        .during("make a ring for", socket.interface())
}

/// Makes a ring of single slots.
fn set_ring(
    socket: BorrowedFd<'_>,
    which: libc::c_int,
    slot_bytes: u32,
    slots: u32,
) -> io::Result<()> {
    assert!(slots.is_power_of_two(), "a power of two");
    let total = slot_bytes.checked_mul(slots).expect("a ring below 4 GiB");
    // Both powers of two, so that slots follow each other without gaps.
    let block_bytes = total.min(slot_bytes.max(1 << 16));
    // tpacket_req: block size and number, frame size and number.
    let request = [block_bytes, total / block_bytes, slot_bytes, slots];
    set_option(socket, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)
        .and_then(|()| set_option(socket, libc::SOL_PACKET, which, &request))
}

/// The tag that the kernel took out of a frame, as it stands beside it.
pub(crate) fn vlan(status: u32, control: u16, ether_type: u16) -> Option<VlanTag> {
    (status & TP_STATUS_VLAN_VALID != 0).then_some(VlanTag {
        ether_type: if status & TP_STATUS_VLAN_TPID_VALID == 0 {
            VLAN
        } else {
            ether_type
        },
        control,
    })
}

fn time(seconds: u32, nanoseconds: u32) -> u64 {
    u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// A shared mapping.
///
/// Words in the mapping itself define the ownership of its bytes, so that every access except to a word is unsafe.
#[derive(Debug)]
pub(crate) struct Shared(MmapRaw);

impl Shared {
    /// Maps `length` bytes of `socket` at `offset`.
    pub(crate) fn map(socket: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        let map = options
            .offset(offset)
            .len(length)
            .populate()
            .map_raw(&socket)?;
        Ok(Self(map))
    }

    /// The word at byte `at`.
    ///
    /// # Panics
    /// It does not lie within the mapping, or not on a multiple of four.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at + 4 <= self.0.len(),
            "a word of the mapping"
        );
        // SAFETY: within the mapping and aligned (the mapping begins at a page); both sides touch it as a whole.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
    }

    /// The `length` bytes from `at` on.
    ///
    /// # Safety
    /// The kernel does not write to them while the answer lives.
    ///
    /// # Panics
    /// They do not lie within the mapping.
    pub(crate) unsafe fn bytes(&self, at: usize, length: usize) -> &[u8] {
        assert!(
            at <= self.0.len() && length <= self.0.len() - at,
            "bytes of the mapping"
        );
        // SAFETY: within the mapping, initialised by the kernel, and quiet, as the caller promises.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr().add(at), length) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// The kernel neither reads nor writes them while the answer lives.
    ///
    /// # Panics
    /// They do not lie within the mapping.
    pub(crate) unsafe fn bytes_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        assert!(
            at <= self.0.len() && length <= self.0.len() - at,
            "bytes of the mapping"
        );
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().add(at), length) }
    }
}
