//! Socket options of TCP that rustix does not have: transparent proxying, marks, windows and retransmission timers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::error::check;
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

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
}
