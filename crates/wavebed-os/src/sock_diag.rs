//! The TCP sockets of a network namespace with their `TCP_INFO`, by `sock_diag(7)`.
//!
//! A [`SockDiag`] belongs to the network namespace in which it was opened, whichever thread uses it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_bindings::utils::find_attr;
use rustix::net::netlink::SOCK_DIAG;

use crate::error::{Context, Result};
use crate::netlink::{Messages, NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR, Netlink, message_of};

/// The older request: one dump has the sockets of both families.
const TCPDIAG_GETSOCK: u16 = 18;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// As the one byte of a header.
const AF_INET: u8 = 2;
/// As the one byte of a header.
const AF_INET6: u8 = 10;
/// `struct inet_diag_msg`.
const SOCKET_BYTES: usize = 72;
/// Size of a read: some 40 sockets. The kernel allocates as much at a time.
const ANSWER_BYTES: usize = 16 << 10;

/// States of a socket (`net/tcp_states.h`), in lower case as `ss` names them.
const STATES: [(u8, &str); 9] = [
    (1, "established"),
    (2, "syn_sent"),
    (3, "syn_recv"),
    (4, "fin_wait_1"),
    (5, "fin_wait_2"),
    (7, "close"),
    (8, "close_wait"),
    (9, "last_ack"),
    (11, "closing"),
];
/// States of congestion control (`enum tcp_ca_state`).
const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// A TCP socket that neither listens nor is in `TIME_WAIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket<'a> {
    /// Its unique cookie.
    pub cookie: u64,
    /// Local address. An IPv4 connection of an IPv6 socket has IPv4 addresses.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Its state.
    pub state: &'static str,
    /// Its congestion control.
    pub congestion: Option<&'a str>,
    /// Its `TCP_INFO`.
    pub info: TcpInfo,
}

/// `struct tcp_info` (`linux/tcp.h`). `None`: the kernel does not report it, or has no value yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_ca_state`.
    pub ca_state: Option<&'static str>,
    /// `tcpi_snd_cwnd`.
    pub cwnd_segments: Option<u32>,
    /// `tcpi_snd_ssthresh`; none before the first loss.
    pub ssthresh_segments: Option<u32>,
    /// `tcpi_snd_mss`.
    pub mss_bytes: Option<u32>,
    /// `tcpi_rtt`; none before the first measurement.
    pub rtt_us: Option<u32>,
    /// `tcpi_rttvar`; none before the first measurement of the round trip.
    pub rttvar_us: Option<u32>,
    /// `tcpi_min_rtt`; none before the first measurement.
    pub min_rtt_us: Option<u32>,
    /// `tcpi_rto`.
    pub rto_us: Option<u32>,
    /// `tcpi_unacked`.
    pub unacked_segments: Option<u32>,
    /// `tcpi_lost`.
    pub lost_segments: Option<u32>,
    /// `tcpi_total_retrans`.
    pub total_retrans_segments: Option<u32>,
    /// `tcpi_bytes_sent`, retransmissions included.
    pub bytes_sent: Option<u64>,
    /// `tcpi_bytes_retrans`.
    pub bytes_retrans: Option<u64>,
    /// `tcpi_bytes_acked`; SYN counts as one.
    pub bytes_acked: Option<u64>,
    /// `tcpi_bytes_received`.
    pub bytes_received: Option<u64>,
    /// `tcpi_delivery_rate`, as bits; none before the first measurement.
    pub delivery_rate_bps: Option<u64>,
    /// Whether the sending program, not the network, limited `delivery_rate_bps`.
    pub delivery_app_limited: Option<bool>,
    /// `tcpi_pacing_rate`, as bits; none when nothing is paced.
    pub pacing_rate_bps: Option<u64>,
    /// `tcpi_notsent_bytes`.
    pub notsent_bytes: Option<u32>,
    /// `tcpi_busy_time`.
    pub busy_us: Option<u64>,
    /// `tcpi_rwnd_limited`.
    pub rwnd_limited_us: Option<u64>,
    /// `tcpi_sndbuf_limited`.
    pub sndbuf_limited_us: Option<u64>,
}

impl TcpInfo {
    /// Reads the structure, which is shorter on older kernels.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let byte = |at: usize| bytes.get(at).copied();
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        // A rate of all ones is no limit.
        let rate = |at: usize| {
            long(at)
                .filter(|rate| *rate != u64::MAX)
                .map(|rate| rate.saturating_mul(8))
        };
        let rtt_us = word(68).filter(|rtt| *rtt > 0);
        let delivery_rate_bps = rate(160).filter(|rate| *rate > 0);
        Self {
            ca_state: byte(1).and_then(|state| CA_STATES.get(usize::from(state)).copied()),
            cwnd_segments: word(80),
            ssthresh_segments: word(76).filter(|ssthresh| *ssthresh < 0x7fff_ffff),
            mss_bytes: word(16),
            rtt_us,
            rttvar_us: word(72).filter(|_| rtt_us.is_some()),
            min_rtt_us: word(148).filter(|rtt| *rtt != u32::MAX),
            rto_us: word(8),
            unacked_segments: word(24),
            lost_segments: word(32),
            total_retrans_segments: word(100),
            bytes_sent: long(200),
            bytes_retrans: long(208),
            bytes_acked: long(120),
            bytes_received: long(128),
            delivery_rate_bps,
            delivery_app_limited: byte(7)
                .filter(|_| delivery_rate_bps.is_some())
                .map(|bits| bits & 1 == 1),
            pacing_rate_bps: rate(104),
            notsent_bytes: word(144),
            busy_us: long(168),
            rwnd_limited_us: long(176),
            sndbuf_limited_us: long(184),
        }
    }
}

/// A socket to query the sockets of a network namespace.
#[derive(Debug)]
pub struct SockDiag {
    netlink: Netlink,
    answer: Vec<u8>,
    sequence: u32,
}

impl SockDiag {
    /// Opens one for the network namespace of the calling thread, and tests it with one query.
    ///
    /// # Errors
    /// The error of socket(2), or that this kernel has no `tcp_diag`.
    pub fn open() -> Result<Self> {
        let mut diag = Self {
            netlink: Netlink::open(Some(SOCK_DIAG))?,
            answer: vec![0; ANSWER_BYTES],
            sequence: 0,
        };
        diag.tcp_sockets(|_| ())
            .during("list", "TCP sockets (modprobe tcp_diag)")?;
        Ok(diag)
    }

    /// Calls `each` with every TCP socket, of IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn tcp_sockets(&mut self, mut each: impl FnMut(&TcpSocket<'_>)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.netlink.send(&question(self.sequence))?;
        loop {
            let length = self.netlink.receive(&mut self.answer)?;
            if read_answer(&self.answer[..length], self.sequence, &mut each)? {
                return Ok(());
            }
        }
    }
}

/// Requests all TCP sockets in [`STATES`]: `struct inet_diag_req`.
fn question(sequence: u32) -> Vec<u8> {
    let extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    let states: u32 = STATES.iter().map(|(state, _)| 1_u32 << state).sum();
    let mut body = [0; 60];
    body[3] = extensions;
    // Between any addresses: struct inet_diag_sockid is empty.
    body[52..56].copy_from_slice(&states.to_ne_bytes());
    message_of(TCPDIAG_GETSOCK, NLM_F_DUMP, sequence, &body)
}

/// Calls `each` with every socket of a datagram from the kernel. True when it was the last one. Skips malformed answers
/// and answers to earlier requests.
///
/// # Errors
/// The kernel's refusal.
pub fn read_answer(
    bytes: &[u8],
    sequence: u32,
    each: &mut impl FnMut(&TcpSocket<'_>),
) -> io::Result<bool> {
    read_dump(bytes, sequence, TCPDIAG_GETSOCK, &mut |body| {
        if let Some(socket) = read_socket(body) {
            each(&socket);
        }
    })
}

/// Calls `each` with the body of every message of a kind in a datagram from the kernel. True when it was the last one.
pub(crate) fn read_dump(
    bytes: &[u8],
    sequence: u32,
    kind: u16,
    each: &mut impl FnMut(&[u8]),
) -> io::Result<bool> {
    for message in Messages(bytes) {
        let message = message?;
        match message.kind {
            _ if message.sequence != sequence => {}
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return message.outcome().map(|()| true),
            found if found == kind => each(message.body),
            _ => {}
        }
    }
    Ok(false)
}

/// A socket with its `TCP_INFO`; sockets being opened or closed have none.
fn read_socket(body: &[u8]) -> Option<TcpSocket<'_>> {
    let (head, attributes) = body.split_first_chunk::<SOCKET_BYTES>()?;
    let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (_, state) = STATES.iter().find(|(state, _)| *state == head[1])?;
    let congestion = find_attr(attributes, INET_DIAG_CONG).and_then(|name| {
        let end = name.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&name[..end]).ok()
    });
    Some(TcpSocket {
        cookie: u64::from_ne_bytes(*head[44..].first_chunk()?),
        local: SocketAddr::new(address(head[0], *head[8..].first_chunk()?)?, port(4)),
        remote: SocketAddr::new(address(head[0], *head[24..].first_chunk()?)?, port(6)),
        state,
        congestion,
        info: TcpInfo::read(find_attr(attributes, INET_DIAG_INFO)?),
    })
}

fn address(family: u8, bytes: [u8; 16]) -> Option<IpAddr> {
    match family {
        AF_INET => {
            let [a, b, c, d, ..] = bytes;
            Some(Ipv4Addr::new(a, b, c, d).into())
        }
        AF_INET6 => Some(Ipv6Addr::from(bytes).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_this_process_has_two_sockets_with_byte_counts() {
        let listener = TcpListener::bind("[::]:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let mut near = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let (mut far, _) = listener.accept().expect("accepts");
        io::Write::write_all(&mut near, &[1; 5000]).expect("sends");
        io::Read::read_exact(&mut far, &mut [0; 5000]).expect("receives");
        let near_end = near.local_addr().expect("bound");
        let mut found = Vec::new();
        let mut diag = SockDiag::open().expect("tcp_diag");
        diag.tcp_sockets(|socket| {
            assert_ne!(socket.local.port(), 0, "no listener: {socket:?}");
            if socket.local.port() == port && socket.remote.port() == near_end.port() {
                assert!(socket.local.is_ipv4(), "an IPv4 connection: {socket:?}");
                assert_eq!(socket.info.bytes_received, Some(5000));
                found.push("far");
            } else if socket.local == near_end {
                assert_eq!(socket.info.bytes_sent, Some(5000));
                assert!(socket.info.rtt_us > Some(0));
                assert!(socket.congestion.is_some_and(|name| !name.is_empty()));
                assert_eq!(
                    (socket.state, socket.info.ca_state),
                    ("established", Some("open"))
                );
                found.push("near");
            }
        })
        .expect("lists");
        found.sort_unstable();
        assert_eq!(found, ["far", "near"]);
    }

    #[test]
    fn both_families_are_listed() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("a port");
            let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
            let near_end = near.local_addr().expect("bound");
            let mut diag = SockDiag::open().expect("tcp_diag");
            let mut found = 0;
            diag.tcp_sockets(|socket| found += u32::from(socket.local == near_end))
                .expect("lists");
            assert_eq!(found, 1, "{near_end}");
        }
    }

    #[test]
    fn more_sockets_than_one_answer_holds_are_all_listed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let end = listener.local_addr().expect("bound");
        let all: Vec<TcpStream> = (0..100)
            .map(|_| TcpStream::connect(end).expect("connects"))
            .collect();
        let mut diag = SockDiag::open().expect("tcp_diag");
        let mut found = 0;
        diag.tcp_sockets(|socket| found += usize::from(socket.remote == end))
            .expect("lists");
        assert_eq!(found, all.len());
    }

    #[test]
    fn unknown_values_are_missing() {
        let mut bytes = vec![0; 248];
        bytes[76..80].copy_from_slice(&0x7fff_ffff_u32.to_ne_bytes());
        bytes[72..76].copy_from_slice(&250_000_u32.to_ne_bytes());
        bytes[104..112].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let info = TcpInfo::read(&bytes);
        assert_eq!(info.ssthresh_segments, None);
        assert_eq!(
            (info.rtt_us, info.rttvar_us, info.min_rtt_us),
            (None, None, None)
        );
        assert_eq!(info.pacing_rate_bps, None);
        assert_eq!(
            (info.delivery_rate_bps, info.delivery_app_limited),
            (None, None)
        );
        assert_eq!(info.bytes_sent, Some(0));
        let old = TcpInfo::read(&bytes[..104]);
        assert_eq!((old.cwnd_segments, old.bytes_acked), (Some(0), None));
    }
}
