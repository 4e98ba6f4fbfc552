//! `AF_PACKET` sockets: whole Ethernet frames in and out of one interface, packet(7).
//!
//! The rings over such a socket are in [`crate::packet_ring`].

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::{set_socket_send_buffer_size_force, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

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
