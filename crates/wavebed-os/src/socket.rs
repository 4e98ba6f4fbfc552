//! Socket options of TCP that rustix does not have, and UDP sockets for measurement.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use std::{io, mem};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::clock;
use crate::error::{Context, Result, check};
use crate::packet_socket::set_option;
use crate::sock_diag::TcpInfo;

/// `TCP_RTO_MIN_US` of `linux/tcp.h` (Linux 6.15).
const TCP_RTO_MIN_US: libc::c_int = 45;
/// `IPV6_TRANSPARENT` of `linux/in6.h`.
const IPV6_TRANSPARENT: libc::c_int = 75;
/// Room for `struct tcp_info` of later kernels.
const INFO_BYTES: libc::socklen_t = 512;
/// `SK_MEMINFO_VARS` of `linux/sock_diag.h`.
const MEMORY_VALUES: libc::socklen_t = 9;
const INT_BYTES: libc::socklen_t = 4;

/// Lets the socket bind and accept on addresses that are not the machine's own (`IP_TRANSPARENT`, ip(7)).
///
/// # Errors
/// The process lacks `CAP_NET_ADMIN`.
pub fn set_transparent(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    if is_ipv6 {
        set(socket, libc::SOL_IPV6, IPV6_TRANSPARENT, 1)
    } else {
        set(socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1)
    }
}

/// Marks the socket's packets for routing and netfilter (`SO_MARK`).
///
/// # Errors
/// The process lacks `CAP_NET_ADMIN`.
pub fn set_mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
}

/// Limits the bytes that wait unsent in the socket (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_unsent_limit(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Limits the receive window that the socket advertises (`TCP_WINDOW_CLAMP`). The kernel raises small values to half of
/// its least receive buffer, and widens the clamp when it grows the receive buffer.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// The limit of the receive window that the socket advertises, bytes.
///
/// # Errors
/// The error of getsockopt(2).
pub fn window_clamp(socket: impl AsFd) -> io::Result<u32> {
    get(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP).map(i32::cast_unsigned)
}

/// Sets the shortest retransmission timeout (`TCP_RTO_MIN_US`). The kernel rounds it up to its ticks.
///
/// # Errors
/// The kernel is older than Linux 6.15, or the time is longer than the longest retransmission timeout.
pub fn set_min_rto(socket: impl AsFd, time: Duration) -> io::Result<()> {
    let us = i32::try_from(time.as_micros()).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, TCP_RTO_MIN_US, us)
}

/// The shortest retransmission timeout (`TCP_RTO_MIN_US`).
///
/// # Errors
/// The kernel is older than Linux 6.15.
pub fn min_rto(socket: impl AsFd) -> io::Result<Duration> {
    let us = get(socket, libc::IPPROTO_TCP, TCP_RTO_MIN_US)?;
    Ok(Duration::from_micros(u64::from(us.cast_unsigned())))
}

/// Limits the retransmissions of a SYN, or of the SYN-ACKs of a listening socket (`TCP_SYNCNT`).
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_syn_retries(socket: impl AsFd, retries: u8) -> io::Result<()> {
    set(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_SYNCNT,
        i32::from(retries),
    )
}

/// Memory of received data that nobody has read, bytes: the data itself and the kernel's overhead (`SO_MEMINFO`).
///
/// # Errors
/// The error of getsockopt(2).
pub fn receive_memory(socket: impl AsFd) -> io::Result<u32> {
    let mut values = [0_u32; MEMORY_VALUES as usize];
    let mut length = MEMORY_VALUES * INT_BYTES;
    // SAFETY: the kernel writes at most `length` bytes to `values` and keeps no pointer.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    // SK_MEMINFO_RMEM_ALLOC is the first one.
    Ok(values[0])
}

/// The socket's `TCP_INFO`.
///
/// # Errors
/// The error of getsockopt(2).
pub fn info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; INFO_BYTES as usize];
    let mut length = INFO_BYTES;
    // SAFETY: the kernel writes at most `length` bytes to `bytes` and keeps no pointer.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(TcpInfo::read(&bytes[..length as usize]))
}

fn set(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is one int, valid for the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            INT_BYTES,
        )
    })
    .map(drop)
}

fn get(socket: impl AsFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut length = INT_BYTES;
    // SAFETY: the kernel writes at most one int to `value` and keeps no pointer.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    })?;
    Ok(value)
}

// UDP sockets for measurement: datagrams come in batches with the kernel's time of arrival (socket(7),
// `SO_TIMESTAMPNS`), and many of one size leave in one call (udp(7), `UDP_SEGMENT`).

/// Datagrams of one call of [`TimedUdp::receive`].
pub const MAX_BATCH: usize = 64;
/// The longest datagram that is received whole; of a longer one the rest is cut off.
pub const MOST_BYTES: usize = 2048;
/// Segments of one call of [`TimedUdp::send`] at most: they fit into one packet of 64 KiB.
pub const MOST_SEGMENTS: usize = 40;

const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
const UDP_SEGMENT: libc::c_int = 103;
const TIMESTAMP_BYTES: usize = 64;

/// Received datagrams and their times.
pub struct Batch {
    bytes: Vec<[u8; MOST_BYTES]>,
    lengths: [usize; MAX_BATCH],
    times_ns: [u64; MAX_BATCH],
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            bytes: vec![[0; MOST_BYTES]; MAX_BATCH],
            lengths: [0; MAX_BATCH],
            times_ns: [0; MAX_BATCH],
            count: 0,
        }
    }
}

impl Batch {
    /// The datagrams of the last [`TimedUdp::receive`], each with its arrival, nanoseconds of `CLOCK_MONOTONIC`.
    pub fn datagrams(&self) -> impl Iterator<Item = (&[u8], u64)> {
        (0..self.count).map(|at| (&self.bytes[at][..self.lengths[at]], self.times_ns[at]))
    }
}

/// Room for the control messages of a datagram, aligned as they are.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; TIMESTAMP_BYTES]);

/// A UDP socket that never waits.
#[derive(Debug)]
pub struct TimedUdp {
    socket: UdpSocket,
    segment_bytes: usize,
    splits: bool,
}

impl TimedUdp {
    /// A socket bound to `address`, which sends data in segments of `segment_bytes`.
    ///
    /// # Errors
    /// The address is in use or none of this host, or the kernel has no time stamps.
    pub fn bind(address: SocketAddr, segment_bytes: u16) -> Result<Self> {
        let socket = UdpSocket::bind(address).during("open the UDP port", address.to_string())?;
        socket
            .set_nonblocking(true)
            .and_then(|()| set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1))
            .during("set up the UDP port", address.to_string())?;
        // More than the system's limit needs CAP_NET_ADMIN; without it the system's limit holds.
        if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err() {
            let _ = set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
        }
        Ok(Self {
            socket,
            segment_bytes: segment_bytes.into(),
            splits: false,
        })
    }

    /// From now on datagrams of `peer` only are received, and data goes to it.
    ///
    /// # Errors
    /// There is no route to it.
    pub fn connect(&mut self, peer: SocketAddr) -> Result<()> {
        self.socket
            .connect(peer)
            .during("reach", peer.to_string())?;
        let bytes = libc::c_int::try_from(self.segment_bytes).unwrap_or(libc::c_int::MAX);
        // Kernels before 4.18 send datagrams singly.
        self.splits = set_option(self.socket.as_fd(), libc::SOL_UDP, UDP_SEGMENT, &bytes).is_ok();
        Ok(())
    }

    /// The next datagram and its sender, before [`TimedUdp::connect`].
    ///
    /// # Errors
    /// As recv(2); `WouldBlock` if there is none.
    pub fn receive_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.recv_from(bytes)
    }

    /// Sends `data` to the peer, in segments if it is longer than one. Returns whether the system took it.
    ///
    /// # Errors
    /// As send(2), apart from a full buffer and a peer that does not listen yet.
    ///
    /// # Panics
    /// If there are more than [`MOST_SEGMENTS`].
    pub fn send(&mut self, data: &[u8]) -> io::Result<bool> {
        assert!(data.len() <= MOST_SEGMENTS * self.segment_bytes, "a batch");
        if self.splits || data.len() <= self.segment_bytes {
            match self.socket.send(data) {
                Ok(_) => return Ok(true),
                Err(error) if is_passing(&error) => return Ok(false),
                // The interface computes no checksums: the kernel splits nothing there.
                Err(error) if self.splits && error.raw_os_error() == Some(libc::EIO) => {
                    let none: libc::c_int = 0;
                    set_option(self.socket.as_fd(), libc::SOL_UDP, UDP_SEGMENT, &none)?;
                    self.splits = false;
                }
                Err(error) => return Err(error),
            }
        }
        for segment in data.chunks(self.segment_bytes) {
            match self.socket.send(segment) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Fills `batch` with the datagrams that are there; returns how many.
    ///
    /// # Errors
    /// As recvmmsg(2); no datagram, and a peer that does not listen yet, are none.
    pub fn receive(&self, batch: &mut Batch) -> io::Result<usize> {
        batch.count = 0;
        // SAFETY: all zeros is a valid iovec and a valid mmsghdr.
        let mut parts: [libc::iovec; MAX_BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; MAX_BATCH] = unsafe { mem::zeroed() };
        let mut controls = [Control([0; TIMESTAMP_BYTES]); MAX_BATCH];
        for (((message, part), control), bytes) in messages
            .iter_mut()
            .zip(&mut parts)
            .zip(&mut controls)
            .zip(&mut batch.bytes)
        {
            part.iov_base = bytes.as_mut_ptr().cast();
            part.iov_len = MOST_BYTES;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = TIMESTAMP_BYTES as _;
        }
        let most = libc::c_uint::try_from(messages.len()).unwrap_or(1);
        // SAFETY: every message points to a part and a control buffer of its own with the length said, and each part
        // to one buffer; all outlive the call.
        let received = check(unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                most,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        });
        let count = match received {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(error) if is_passing(&error) => 0,
            Err(error) => return Err(error),
        };
        let (now_ns, offset_ns) = (clock::monotonic_ns(), clock::realtime_offset_ns());
        for (at, message) in messages.iter().enumerate().take(count) {
            batch.lengths[at] = (message.msg_len as usize).min(MOST_BYTES);
            batch.times_ns[at] = arrival_unix_ns(&message.msg_hdr)
                .map_or(now_ns, |unix_ns| unix_ns.saturating_sub(offset_ns));
        }
        batch.count = count;
        Ok(count)
    }
}

impl AsFd for TimedUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether the same call may succeed a moment later.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::ENOBUFS
                | libc::EINTR
                | libc::ECONNREFUSED
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::EPERM
        )
    )
}

/// The kernel's time stamp of a received message.
fn arrival_unix_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: recvmmsg filled in `message` and its control buffer, which is alive; the macros stay inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_TIMESTAMPNS
            {
                let time =
                    std::ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::timespec>());
                return Some(
                    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned(),
                );
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::poll;

    #[test]
    fn an_accepted_socket_has_the_timers_and_limits_of_the_listening_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        set_min_rto(&listener, Duration::from_millis(8)).expect("Linux 6.15");
        set_syn_retries(&listener, 3).expect("is set");
        set_unsent_limit(&listener, 1 << 17).expect("is set");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (far, _) = listener.accept().expect("accepts");
        assert_eq!(min_rto(&far).expect("is read"), Duration::from_millis(8));
        assert_eq!(
            get(&far, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).expect("is read"),
            1 << 17
        );
        assert!(info(&near).expect("is read").rtt_us > Some(0));
    }

    #[test]
    fn a_window_clamp_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        set_window_clamp(&near, 50_000).expect("is set");
        assert_eq!(window_clamp(&near).expect("is read"), 50_000);
    }

    fn pair(segment_bytes: u16) -> (TimedUdp, TimedUdp) {
        let any = "127.0.0.1:0".parse().expect("an address");
        let (mut one, mut other) = (
            TimedUdp::bind(any, segment_bytes).expect("a port"),
            TimedUdp::bind(any, segment_bytes).expect("a port"),
        );
        let (first, second) = (
            one.socket.local_addr().expect("bound"),
            other.socket.local_addr().expect("bound"),
        );
        one.connect(second).expect("loopback");
        other.connect(first).expect("loopback");
        (one, other)
    }

    #[test]
    fn segments_arrive_singly_with_the_time_of_their_arrival() {
        let (mut one, other) = pair(100);
        let before_ns = clock::monotonic_ns();
        assert!(one.send(&[7; 250]).expect("sent"));
        let mut batch = Batch::default();
        let mut lengths = Vec::new();
        while lengths.len() < 3 {
            assert_eq!(
                poll::wait(&[other.as_fd()], &mut [false], Some(60_000_000_000)).expect("wait"),
                1
            );
            other.receive(&mut batch).expect("received");
            let after_ns = clock::monotonic_ns();
            for (bytes, at_ns) in batch.datagrams() {
                // The offset between the clocks is read with an error of microseconds.
                assert!((before_ns - 100_000..=after_ns + 100_000).contains(&at_ns));
                assert!(bytes.iter().all(|byte| *byte == 7));
                lengths.push(bytes.len());
            }
        }
        assert_eq!(lengths, [100, 100, 50]);
    }

    #[test]
    fn an_empty_socket_gives_no_datagrams() {
        let (one, _other) = pair(100);
        let mut batch = Batch::default();
        assert_eq!(one.receive(&mut batch).expect("nothing"), 0);
        assert_eq!(batch.datagrams().count(), 0);
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let (one, _other) = pair(100);
        let address = one.socket.local_addr().expect("bound");
        let error = TimedUdp::bind(address, 100).expect_err("in use");
        assert_eq!(error.errno(), Some(libc::EADDRINUSE));
    }
}
