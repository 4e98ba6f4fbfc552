//! `AF_PACKET` sockets: whole Ethernet frames in and out of one interface, packet(7).
//!
//! The rings over such a socket are in [`crate::packet_ring`].

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{io, mem};

use rustix::net::sockopt::{set_socket_send_buffer_size_force, socket_error};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socket_with};

use crate::error::{Context, Result, check};
use crate::netlink;
use crate::tun::{interface_request, ioctl};

/// Frames of one call of [`PacketSocket::send_batch`].
pub const MAX_BATCH: usize = 64;

/// Bytes of the virtio-net header that [`PacketSocket::with_virtio_header`] puts before each frame.
pub const VIRTIO_HEADER_BYTES: usize = 10;

/// Send buffer, bytes: over a thousand small frames.
pub(crate) const SEND_BUFFER_BYTES: usize = 2 << 20;

pub(crate) const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
pub(crate) const PACKET_COPY_THRESH: libc::c_int = 7;
pub(crate) const PACKET_VERSION: libc::c_int = 10;
pub(crate) const PACKET_TX_RING: libc::c_int = 13;
pub(crate) const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
pub(crate) const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `AF_PACKET`, in the form of an address.
const AF_PACKET: libc::sa_family_t = 17;
/// `ETH_P_ALL`, in the form of a `sockaddr_ll`.
pub(crate) const EVERY_PROTOCOL: u16 = 3_u16.to_be();
/// `BPF_RET | BPF_K`: keep as many bytes as the constant says.
const RETURN_CONSTANT: u16 = 0x06;

/// Counters of a socket since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that came, with those that were dropped.
    pub frames: u32,
    /// Frames dropped because the ring was full.
    pub dropped: u32,
}

/// A raw packet socket of one interface. It receives nothing before [`PacketSocket::receive_incoming`].
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    interface: String,
    index: u32,
    mtu: u32,
}

impl PacketSocket {
    /// A socket that sends past the queueing discipline of `interface`.
    ///
    /// # Errors
    /// There is no such interface, or the process lacks the permission (`CAP_NET_RAW`).
    pub fn open(interface: &str) -> Result<Self> {
        let index = netlink::interface_index(interface)?;
        let socket = open(interface, SocketFlags::empty())?;
        let mtu = mtu(&socket, interface)?;
        let socket = Self {
            socket,
            interface: interface.to_owned(),
            index,
            mtu,
        };
        socket
            .bind(0)
            .and_then(|()| socket.set(libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1))
            .during("bind a packet socket to", interface)?;
        // More than the system's limit needs CAP_NET_ADMIN; without it the system's limit holds.
        let _ = set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES);
        Ok(socket)
    }

    /// Puts a virtio-net header before each frame, in both directions: it describes partial checksums and
    /// super-packets.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn with_virtio_header(self) -> Result<Self> {
        self.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1)
            .during("ask for the virtio header of", &self.interface)?;
        Ok(self)
    }

    /// Keeps only the first `bytes` of each frame that is received; its length is still known.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn keep_only(&self, bytes: u32) -> Result<()> {
        let keep = libc::sock_filter {
            code: RETURN_CONSTANT,
            jt: 0,
            jf: 0,
            k: bytes,
        };
        set_filter(self.as_fd(), &mut [keep])
            .during("attach a filter to a packet socket of", &self.interface)
    }

    /// From now on frames that come in are received; those that this machine sends are not.
    ///
    /// # Errors
    /// The kernel is older than 4.20, or the interface is gone.
    pub fn receive_incoming(&self) -> Result<()> {
        self.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)
            .and_then(|()| self.bind(EVERY_PROTOCOL))
            .during("receive from", &self.interface)
    }

    /// Sends `frames` (at most [`MAX_BATCH`] of them) in order, without waiting. Returns how many the interface took:
    /// fewer, or none, when it has no room now.
    ///
    /// # Errors
    /// The interface is down or gone, or a frame is longer than it takes.
    pub fn send_batch(&self, frames: &[&[u8]]) -> Result<usize> {
        // SAFETY: all zeros is a valid iovec and a valid mmsghdr.
        let mut parts: [libc::iovec; MAX_BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; MAX_BATCH] = unsafe { mem::zeroed() };
        let mut count = 0;
        for ((message, part), frame) in messages.iter_mut().zip(&mut parts).zip(frames) {
            count += 1;
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: `count` messages point to parts, and they to frames; all outlive the call, which only reads the
        // frames.
        let sent = unsafe {
            let first = messages.as_mut_ptr();
            // The type of the flags is another one in musl.
            let flags = libc::MSG_DONTWAIT as _;
            libc::sendmmsg(self.socket.as_raw_fd(), first, count, flags)
        };
        match check(sent) {
            Ok(sent) => Ok(usize::try_from(sent).unwrap_or(0)),
            Err(error) if no_room(&error) => Ok(0),
            Err(error) => Err(error).during("send through", &self.interface),
        }
    }

    /// Frames received and dropped since the last call.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn statistics(&self) -> Result<Statistics> {
        statistics(self.as_fd()).during("count the frames of", &self.interface)
    }

    /// Returns the error of the interface since the last call: it went down (`ENETDOWN`) or was removed.
    ///
    /// # Errors
    /// That, or the interface is gone.
    pub fn fault(&self) -> Result<()> {
        socket_error(&self.socket)
            .flatten()
            .during("use", &self.interface)
    }

    /// The interface's name when it was opened.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The longest frame that the interface takes, without its FCS: its MTU, and a header with one VLAN tag.
    #[must_use]
    pub const fn longest_frame(&self) -> usize {
        self.mtu as usize + 18
    }

    /// Sets a socket option.
    pub(crate) fn set<T>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: &T,
    ) -> io::Result<()> {
        set_option(self.as_fd(), level, name, value)
    }

    /// Binds to the interface and, unless `protocol` is 0, to frames of this protocol (big-endian).
    fn bind(&self, protocol: u16) -> io::Result<()> {
        bind(self.as_fd(), self.index, protocol)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A raw packet socket that receives nothing yet.
pub(crate) fn open(interface: &str, flags: SocketFlags) -> Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .during("open a packet socket for", interface)
}

/// Binds to interface `index` and, unless `protocol` is 0, to frames of this protocol (big-endian).
pub(crate) fn bind(socket: BorrowedFd<'_>, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeros is a valid sockaddr_ll, which is valid for the call and as long as said.
    check(unsafe {
        let mut address: libc::sockaddr_ll = mem::zeroed();
        address.sll_family = AF_PACKET;
        address.sll_protocol = protocol;
        address.sll_ifindex = index.cast_signed();
        let length = size_of::<libc::sockaddr_ll>();
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    })
    .map(drop)
}

/// Sets a socket option.
pub(crate) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: every option set in this crate takes a value of the type passed with it, which outlives the call.
    check(unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, value, size_of::<T>())
    })
    .map(drop)
}

/// Attaches a classic BPF filter.
///
/// # Panics
/// If it is longer than 65 535 instructions.
pub(crate) fn set_filter(
    socket: BorrowedFd<'_>,
    filter: &mut [libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).expect("short"),
        filter: filter.as_mut_ptr(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Frames that a packet socket received and dropped since the last call.
pub(crate) fn statistics(socket: BorrowedFd<'_>) -> io::Result<Statistics> {
    // The third word is there with TPACKET_V3 only: how often the ring was frozen.
    let mut words = [0_u32; 3];
    let mut length = size_of::<[u32; 3]>();
    // SAFETY: `words` and `length` are valid for the call, and `length` is the room in `words`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(Statistics {
        frames: words[0],
        dropped: words[1],
    })
}

/// The size of `T`, in the form of socket calls.
// Every type it is used with has a few bytes.
#[allow(clippy::cast_possible_truncation)]
const fn size_of<T>() -> libc::socklen_t {
    mem::size_of::<T>() as libc::socklen_t
}

/// Whether an interface, or the socket's memory, was only full.
pub(crate) fn no_room(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)
    )
}

/// The MTU of `interface`.
pub(crate) fn mtu(socket: &OwnedFd, interface: &str) -> Result<u32> {
    let mut request = interface_request(interface)?;
    ioctl(socket, libc::SIOCGIFMTU as libc::Ioctl, &mut request)
        .during("read the MTU of", interface)?;
    // SAFETY: SIOCGIFMTU has just filled in this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.cast_unsigned())
}

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_AUXDATA: libc::c_int = 8;
/// `PACKET_MR_ALLMULTI`
const ALL_MULTICAST: libc::c_ushort = 2;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// From the first MAC address on, without VLAN tag.
    pub bytes: Vec<u8>,
    /// The VLAN of its tag.
    pub vlan: Option<u16>,
}

/// Receives ARP and neighbour discovery, and sends any frame.
#[derive(Debug)]
pub struct NeighbourSocket {
    socket: OwnedFd,
    interface: String,
}

/// One instruction of a classic BPF filter.
const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// ARP; or IPv6 whose next header is ICMPv6, of type 135 (solicitation) or 136 (advertisement). All of them are short.
const FILTER: [libc::sock_filter; 10] = [
    instruction(LOAD_HALF, 0, 0, 12),
    instruction(JUMP_IF_EQUAL, 6, 0, 0x0806),
    instruction(JUMP_IF_EQUAL, 0, 6, 0x86dd),
    instruction(LOAD_BYTE, 0, 0, 20),
    instruction(JUMP_IF_EQUAL, 0, 4, 58),
    instruction(LOAD_BYTE, 0, 0, 54),
    instruction(JUMP_IF_EQUAL, 1, 0, 135),
    instruction(JUMP_IF_EQUAL, 0, 1, 136),
    instruction(RETURN, 0, 0, 2048),
    instruction(RETURN, 0, 0, 0),
];

impl NeighbourSocket {
    /// Opens one. The interface takes all multicast frames while it is open: solicitations go to groups that only
    /// the owner of an address joins.
    ///
    /// # Errors
    /// There is no such interface, or the process lacks the permission (`CAP_NET_RAW`).
    pub fn open(interface: &str) -> Result<Self> {
        let index = netlink::interface_index(interface)?;
        let socket = open(interface, SocketFlags::NONBLOCK)?;
        prepare(socket.as_fd(), index).during("receive from", interface)?;
        Ok(Self {
            socket,
            interface: interface.to_owned(),
        })
    }

    /// The next received frame; `None` if there is none.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(&self) -> Result<Option<Received>> {
        let mut bytes = vec![0_u8; 2048];
        // Space for one aligned control message.
        let mut control = [0_u64; 8];
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: all zeros is a valid message.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        // Its type is another one in musl.
        message.msg_controllen = mem::size_of_val(&control) as _;
        // SAFETY: the message points to buffers that outlive the call, with their lengths.
        let count = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error).during("receive from", &self.interface),
            };
        };
        bytes.truncate(count);
        // SAFETY: the kernel filled the message in, and its control buffer lives.
        let vlan = unsafe { vlan_of(&message) };
        Ok(Some(Received { bytes, vlan }))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        rustix::net::send(&self.socket, frame, SendFlags::empty())
            .map(drop)
            .during("send through", &self.interface)
    }
}

impl AsFd for NeighbourSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn prepare(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    set_filter(socket, &mut FILTER.clone())?;
    set_option(socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
    set_option(socket, libc::SOL_PACKET, PACKET_AUXDATA, &1_i32)?;
    let multicast = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: ALL_MULTICAST,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, PACKET_ADD_MEMBERSHIP, &multicast)?;
    bind(socket, index, EVERY_PROTOCOL)
}

/// The VLAN identifier that the kernel removed from the frame.
///
/// # Safety
/// The message was filled in by recvmsg(2), and its control buffer still lives.
unsafe fn vlan_of(message: &libc::msghdr) -> Option<u16> {
    // SAFETY: as promised by the caller; a control message of this type holds this struct,
    // and all zeros is a valid one.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_PACKET
            || (*header).cmsg_type != PACKET_AUXDATA
        {
            return None;
        }
        let mut data: libc::tpacket_auxdata = mem::zeroed();
        let bytes = mem::size_of_val(&data);
        std::ptr::copy_nonoverlapping(libc::CMSG_DATA(header), (&raw mut data).cast(), bytes);
        (data.tp_status & TP_STATUS_VLAN_VALID != 0).then_some(data.tp_vlan_tci & 0x0fff)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::namespace::{NetworkNamespace, effective_user};
    use crate::netlink::{Netlink, interface_index};

    #[test]
    fn only_address_resolution_is_received_with_its_tag() {
        std::thread::spawn(|| {
            let Ok(_namespace) = NetworkNamespace::new() else {
                assert_ne!(effective_user().0, 0, "root may");
                return;
            };
            let netlink = Netlink::route().expect("socket");
            netlink.add_veth("left", "right").expect("pair");
            for name in ["left", "right"] {
                let index = interface_index(name).expect("made");
                netlink.set_up(index).expect("up");
            }
            let left = NeighbourSocket::open("left").expect("socket");
            let right = NeighbourSocket::open("right").expect("socket");
            let frame = |tag: &[u8], kind: [u8; 2], next: u8, icmp: u8| {
                let mut frame = vec![0xff; 12];
                frame.extend(tag);
                frame.extend(kind);
                frame.extend([0; 46]);
                frame[tag.len() + 20] = next;
                frame[tag.len() + 54] = icmp;
                frame
            };
            // Until the kernel has seen the carrier it silently drops packets.
            let mut early = frame(&[], [8, 6], 0, 0);
            early[0] = 0xfe;
            let deadline = Instant::now() + Duration::from_secs(60);
            let arrives = std::iter::repeat_with(|| {
                left.send(&early).expect("sent");
                let mut readable = [false];
                let count = crate::poll::wait(&[right.as_fd()], &mut readable, Some(20_000_000));
                count.expect("wait") == 1
            })
            .take_while(|_| Instant::now() < deadline)
            .any(|arrived| arrived);
            assert!(arrives, "the pair carries frames");
            left.send(&frame(&[], [8, 0], 17, 0)).expect("sent");
            left.send(&frame(&[], [0x86, 0xdd], 17, 135)).expect("sent");
            left.send(&frame(&[], [0x86, 0xdd], 58, 134)).expect("sent");
            left.send(&frame(&[], [8, 6], 0, 0)).expect("sent");
            left.send(&frame(&[], [0x86, 0xdd], 58, 135)).expect("sent");
            left.send(&frame(&[0x81, 0, 0x30, 7], [8, 6], 9, 9))
                .expect("sent");
            let mut kinds = Vec::new();
            while kinds.len() < 3 {
                let mut readable = [false];
                let count =
                    crate::poll::wait(&[right.as_fd()], &mut readable, Some(60_000_000_000));
                assert_eq!(count.expect("wait"), 1, "only {kinds:?} came");
                let Some(frame) = right.receive().expect("received") else {
                    continue;
                };
                // Neither the early ones nor those with which the kernel solicits when an interface comes up.
                if frame.bytes[..6] == [0xff; 6] {
                    kinds.push((frame.bytes[12], frame.bytes[54], frame.vlan));
                }
            }
            assert_eq!(kinds, [(8, 0, None), (0x86, 135, None), (8, 9, Some(7))]);
        })
        .join()
        .expect("no panic");
    }
}
