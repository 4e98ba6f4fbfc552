//! A port of a bridge: every frame that comes to an Ethernet interface is read, and any frame can be sent, packet(7).
//!
//! Each frame has a virtio-net header before it, so that super-packets and partial checksums cross as they are. All that
//! the port changes on the interface, its promiscuity, ends with the last descriptor of its socket.

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{retry_on_intr, writev};
use rustix::net::SocketFlags;
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_error,
};

use crate::error::{Context, Result};
use crate::netlink::{self, Netlink};
use crate::packet_ring::{FrameSlots, VlanTag, vlan};
use crate::packet_socket::{
    self, EVERY_PROTOCOL, PACKET_IGNORE_OUTGOING, PACKET_VNET_HDR, VIRTIO_HEADER_BYTES, bind, mtu,
    set_option, statistics,
};
use crate::tun::{interface_request, ioctl};

/// Memory of frames that were received and not read yet, bytes: 10 Gbit/s for 20 ms, a time slice of another program.
const RECEIVE_BYTES: libc::c_int = 32 << 20;
/// Frames that were received and not read yet, in a ring: 32 MiB too, 15 000 of them from 10 Gbit/s for 18 ms.
const RECEIVE_SLOTS: u32 = 16_384;
/// A ring that another process had mapped is free this long after the end of that process, at most.
const UNMAPPED_WITHIN: Duration = Duration::from_millis(50);
/// Memory of frames that the interface has not sent yet, bytes.
const SEND_BYTES: usize = 16 << 20;
/// A VLAN tag goes after the two addresses.
const TAG_AT: usize = VIRTIO_HEADER_BYTES + 12;
const TAG_BYTES: u16 = 4;
const NEEDS_CSUM: u8 = 1;
const ARPHRD_ETHER: u16 = 1;

/// Why a port did not take a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The frame is longer than the port's MTU allows.
    TooLong = 0,
    /// The port's queue, or the socket's memory, was full.
    NoRoom = 1,
    /// The port is down or gone.
    Down = 2,
    /// Any other reason.
    Other = 3,
}

impl Refusal {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::TooLong, Self::NoRoom, Self::Down, Self::Other];

    /// The reason in an error of a write.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => Self::TooLong,
            Some(libc::ENOBUFS | libc::EAGAIN) => Self::NoRoom,
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Self::Down,
            _ => Self::Other,
        }
    }

    /// The name in logs and summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NoRoom => "no_room",
            Self::Down => "port_down",
            Self::Other => "refused",
        }
    }
}

/// A port. It receives from its creation on, and what other programs of this machine send there it does not.
#[derive(Debug)]
pub struct EthernetPort {
    socket: OwnedFd,
    interface: String,
    index: u32,
    mtu: u32,
    netlink: Netlink,
    has_ring: bool,
    unread: AtomicU64,
    unreadable: AtomicU64,
}

impl EthernetPort {
    /// A port on the interface of this name in the network namespace of the calling thread.
    ///
    /// # Errors
    /// There is no such interface, it is none of Ethernet, or the process lacks the permission (`CAP_NET_RAW`, and
    /// `CAP_NET_ADMIN` for large buffers).
    pub fn open(interface: &str) -> Result<Self> {
        Self::open_as(interface, false)
    }

    /// The same, with a ring for the frames that it receives, if the kernel makes one: [`EthernetPort::slots`].
    ///
    /// # Errors
    /// As [`EthernetPort::open`].
    pub fn open_with_ring(interface: &str) -> Result<Self> {
        Self::open_as(interface, true)
    }

    fn open_as(interface: &str, with_ring: bool) -> Result<Self> {
        let index = netlink::interface_index(interface)?;
        let socket = packet_socket::open(interface, SocketFlags::NONBLOCK)?;
        if hardware_type(&socket, interface)? != ARPHRD_ETHER {
            return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
                .during("use as a port of Ethernet", interface);
        }
        let mut port = Self {
            mtu: mtu(&socket, interface)?,
            socket,
            interface: interface.to_owned(),
            index,
            netlink: Netlink::route()?,
            has_ring: false,
            unread: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
        };
        port.set_up(with_ring).during("receive from", interface)?;
        Ok(port)
    }

    fn set_up(&mut self, with_ring: bool) -> io::Result<()> {
        let on: libc::c_int = 1;
        self.set(PACKET_VNET_HDR, &on)?;
        // VLAN tags are stripped before a socket sees a frame, and come beside it.
        self.set(libc::PACKET_AUXDATA, &on)?;
        self.set(PACKET_IGNORE_OUTGOING, &on)?;
        let fd = self.socket.as_fd();
        // Root of a user namespace may not exceed the machine's limits.
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BYTES)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BYTES))?;
        set_socket_send_buffer_size_force(&self.socket, SEND_BYTES)
            .or_else(|_| set_socket_send_buffer_size(&self.socket, SEND_BYTES))?;
        // A kernel that refuses a ring, or its memory, lets each frame wait at the socket.
        self.has_ring = with_ring && FrameSlots::make(fd, RECEIVE_SLOTS).is_ok();
        bind(fd, self.index, EVERY_PROTOCOL)?;
        let every_address = libc::packet_mreq {
            mr_ifindex: self.index.cast_signed(),
            mr_type: 1, // PACKET_MR_PROMISC
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::PACKET_ADD_MEMBERSHIP, &every_address)
    }

    fn set<T>(&self, name: libc::c_int, value: &T) -> io::Result<()> {
        set_option(self.socket.as_fd(), libc::SOL_PACKET, name, value)
    }

    /// The interface's name when it was opened.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The interface's index.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Whether the interface is there, up or not.
    ///
    /// # Errors
    /// It is gone.
    pub fn check(&self) -> io::Result<()> {
        self.netlink.interface(self.index).map(drop)
    }

    /// The interface's MTU when it was opened: bytes of the largest IP packet.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Frames that came and were not read in time: the socket's memory was full.
    #[must_use]
    pub fn unread_frames(&self) -> u64 {
        let dropped = statistics(self.socket.as_fd()).map_or(0, |counters| counters.dropped);
        let dropped = u64::from(dropped);
        self.unread.fetch_add(dropped, Ordering::Relaxed) + dropped
    }

    /// Counts a frame of the ring that is lost: there was no room at the socket for a frame longer than a slot.
    pub fn count_unread(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames that were lost because no virtio-net header describes them: merged frames of a kind other than TCP and
    /// UDP, or longer than a packet.
    #[must_use]
    pub fn unreadable_frames(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Maps the ring of frames that were received, for the one process that reads them; `None` where the kernel made none.
    ///
    /// # Errors
    /// The kernel's refusal: this process cannot read frames.
    pub fn slots(&self) -> io::Result<Option<FrameSlots>> {
        let map = || FrameSlots::map(self.socket.as_fd(), RECEIVE_SLOTS);
        self.has_ring.then(map).transpose()
    }

    /// Lets frames wait at the socket for [`EthernetPort::read`]. Those in the ring are lost. The process that had mapped
    /// it has ended.
    ///
    /// # Errors
    /// The kernel's refusal: the ring is still mapped.
    pub fn leave_ring(&mut self) -> io::Result<()> {
        let end = Instant::now() + UNMAPPED_WITHIN;
        while self.has_ring {
            match FrameSlots::remove(self.socket.as_fd()) {
                Ok(()) => self.has_ring = false,
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => thread::sleep(UNMAPPED_WITHIN / 50),
            }
        }
        Ok(())
    }

    /// Reads the next frame that waits at the socket, its virtio-net header first and its VLAN tags in it. `None` if there
    /// is none. With a ring only frames longer than a slot wait there.
    ///
    /// # Errors
    /// The interface is gone. One that is down has no frames.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.receive(buffer) {
                Ok(frame) if frame.whole => {
                    return Ok(Some(put_tag(buffer, frame.length, frame.tag)));
                }
                Ok(_) => {
                    self.unreadable.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(None),
                    Some(libc::EINTR) => {}
                    // The kernel could not describe the frame, and has dropped it.
                    Some(libc::EINVAL) => {
                        self.unreadable.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(libc::ENETDOWN) => {
                        self.check()?;
                        return Ok(None);
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// Whether the port still receives into its ring; to be called when a wait ended without a frame.
    ///
    /// # Errors
    /// The interface is gone. One that is down has no frames.
    pub fn check_frames(&self) -> io::Result<()> {
        match socket_error(&self.socket)? {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() == libc::ENETDOWN => self.check(),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends one frame, its virtio-net header first, without waiting.
    ///
    /// # Errors
    /// The frame was not taken: [`Refusal::of`].
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        retry_on_intr(|| writev(&self.socket, parts))?;
        Ok(())
    }

    /// Receives into `buffer`, with room for a tag left at its end.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len() - usize::from(TAG_BYTES),
        };
        let mut beside = Beside([0; 64]);
        // SAFETY: all zeros is a valid msghdr; what it points to outlives the call. The control message that is read
        // is one that the kernel wrote into `beside`, and an auxdata is plain numbers.
        unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut beside).cast();
            // The type of the length is another one in musl.
            message.msg_controllen = mem::size_of::<Beside>() as _;
            let count = libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0);
            if count < 0 {
                return Err(io::Error::last_os_error());
            }
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            let is_auxdata = !first.is_null()
                && (*first).cmsg_level == libc::SOL_PACKET
                && (*first).cmsg_type == libc::PACKET_AUXDATA;
            let tag = is_auxdata.then(|| {
                let data = libc::CMSG_DATA(first);
                let beside = data.cast::<libc::tpacket_auxdata>().read_unaligned();
                vlan(beside.tp_status, beside.tp_vlan_tci, beside.tp_vlan_tpid)
            });
            Ok(Received {
                length: count.cast_unsigned(),
                whole: message.msg_flags & libc::MSG_TRUNC == 0,
                tag: tag.flatten(),
            })
        }
    }
}

impl AsFd for EthernetPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for one control message.
#[repr(C, align(8))]
struct Beside([u8; 64]);

/// A frame in a buffer, virtio-net header first.
struct Received {
    length: usize,
    whole: bool,
    /// The outer VLAN tag, which is not in the buffer.
    tag: Option<VlanTag>,
}

/// Puts the outer VLAN tag back into a frame. `length` and the returned length are bytes, virtio-net header included.
///
/// # Panics
/// There is no room for it.
pub fn put_tag(buffer: &mut [u8], length: usize, tag: Option<VlanTag>) -> usize {
    let Some(tag) = tag else {
        return length;
    };
    if length < TAG_AT {
        return length;
    }
    let tag_bytes = usize::from(TAG_BYTES);
    buffer.copy_within(TAG_AT..length, TAG_AT + tag_bytes);
    buffer[TAG_AT..TAG_AT + 2].copy_from_slice(&tag.ether_type.to_be_bytes());
    buffer[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&tag.control.to_be_bytes());
    // virtio_net_hdr: flags, segmentation type, header length, segment size, checksum start, checksum offset.
    move_by_tag(buffer, 2, buffer[2..4] != [0, 0]);
    move_by_tag(buffer, 6, buffer[0] & NEEDS_CSUM != 0);
    length + tag_bytes
}

/// Adds the bytes of a tag to the field at `at`, if it counts.
fn move_by_tag(header: &mut [u8], at: usize, counts: bool) {
    if counts {
        let value = u16::from_ne_bytes([header[at], header[at + 1]]);
        let moved = value.saturating_add(TAG_BYTES);
        header[at..at + 2].copy_from_slice(&moved.to_ne_bytes());
    }
}

/// The hardware type of `interface` (`ARPHRD_…`).
fn hardware_type(socket: &OwnedFd, interface: &str) -> Result<u16> {
    let mut request = interface_request(interface)?;
    ioctl(socket, libc::SIOCGIFHWADDR as libc::Ioctl, &mut request)
        .during("read the type of", interface)?;
    // SAFETY: SIOCGIFHWADDR has just filled in this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripped_tag_is_put_back() {
        let mut buffer = vec![0; 40];
        buffer[0] = NEEDS_CSUM;
        buffer[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        buffer[10..22].fill(7);
        buffer[22..28].copy_from_slice(&[8, 0, 0x45, 1, 2, 3]);
        assert_eq!(put_tag(&mut buffer, 28, None), 28);
        let tag = VlanTag {
            ether_type: 0x88a8,
            control: 0x6005,
        };
        assert_eq!(put_tag(&mut buffer, 28, Some(tag)), 32);
        assert_eq!(buffer[2..4], [0, 0], "no header length was given");
        assert_eq!(buffer[6..8], 38_u16.to_ne_bytes());
        assert_eq!(
            buffer[20..32],
            [7, 7, 0x88, 0xa8, 0x60, 5, 8, 0, 0x45, 1, 2, 3]
        );
    }

    #[test]
    fn the_loopback_is_no_port_and_an_unknown_name_is_refused() {
        assert!(EthernetPort::open("no-such-port").is_err());
        let refused = EthernetPort::open("lo").expect_err("no Ethernet");
        // Without the permission the socket is refused first.
        assert!(matches!(
            refused.errno(),
            Some(libc::EAFNOSUPPORT | libc::EPERM)
        ));
    }

    #[test]
    fn every_refusal_has_its_number_and_a_name() {
        for (number, refusal) in (0_u8..).zip(Refusal::ALL) {
            assert_eq!(refusal as u8, number);
        }
        let of = |number| Refusal::of(&io::Error::from_raw_os_error(number)).name();
        assert_eq!(of(libc::EMSGSIZE), "too_long");
        assert_eq!(of(libc::ENOBUFS), "no_room");
        assert_eq!(of(libc::ENETDOWN), "port_down");
        assert_eq!(of(libc::EINVAL), "refused");
    }
}
