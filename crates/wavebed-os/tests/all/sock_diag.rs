//! Malformed answers of `sock_diag`.

use proptest::collection::vec;
use proptest::prelude::*;
use wavebed_os::sock_diag::{TcpInfo, read_answer};

const DONE: u16 = 3;
const SOCKET: u16 = 18;
const INFO: u16 = 2;
const CONGESTION: u16 = 4;

fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(2_u16.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(4 + value.len())
        .unwrap()
        .to_ne_bytes()
        .to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A socket from 198.18.0.1:80 to 198.18.0.2:40000 with the smoothed round trip 1234 µs.
fn socket() -> Vec<u8> {
    let mut head = vec![0; 72];
    head[0] = 2;
    head[1] = 1;
    head[4..6].copy_from_slice(&80_u16.to_be_bytes());
    head[6..8].copy_from_slice(&40_000_u16.to_be_bytes());
    head[8..12].copy_from_slice(&[198, 18, 0, 1]);
    head[24..28].copy_from_slice(&[198, 18, 0, 2]);
    head[44..52].copy_from_slice(&77_u64.to_ne_bytes());
    let mut info = vec![0; 248];
    info[68..72].copy_from_slice(&1234_u32.to_ne_bytes());
    head.extend(attribute(CONGESTION, b"cubic\0"));
    head.extend(attribute(INFO, &info));
    head
}

fn sockets_in(bytes: &[u8], sequence: u32) -> (usize, std::io::Result<bool>) {
    let mut count = 0;
    let done = read_answer(bytes, sequence, &mut |_| count += 1);
    (count, done)
}

#[test]
fn a_socket_is_read_field_by_field() {
    let mut bytes = message(SOCKET, 9, &socket());
    bytes.extend(message(DONE, 9, &[0; 4]));
    let mut seen = 0;
    let done = read_answer(&bytes, 9, &mut |socket| {
        seen += 1;
        assert_eq!(socket.local.to_string(), "198.18.0.1:80");
        assert_eq!(socket.remote.to_string(), "198.18.0.2:40000");
        assert_eq!((socket.cookie, socket.state), (77, "established"));
        assert_eq!(socket.congestion, Some("cubic"));
        assert_eq!(socket.info.rtt_us, Some(1234));
    });
    assert_eq!((seen, done.unwrap()), (1, true));
}

#[test]
fn answers_to_earlier_requests_are_skipped() {
    let mut bytes = message(DONE, 8, &[0; 4]);
    bytes.extend(message(SOCKET, 8, &socket()));
    bytes.extend(message(SOCKET, 9, &socket()));
    let (count, done) = sockets_in(&bytes, 9);
    assert_eq!((count, done.unwrap()), (1, false));
}

#[test]
fn a_refusal_is_an_error() {
    let bytes = message(2, 9, &(-2_i32).to_ne_bytes());
    assert_eq!(sockets_in(&bytes, 9).1.unwrap_err().raw_os_error(), Some(2));
}

#[test]
fn sockets_that_listen_or_have_no_info_are_left_out() {
    let mut listening = socket();
    listening[1] = 10;
    assert_eq!(sockets_in(&message(SOCKET, 9, &listening), 9).0, 0);
    assert_eq!(sockets_in(&message(SOCKET, 9, &socket()[..72]), 9).0, 0);
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..600), sequence in any::<u32>()) {
        let _ = sockets_in(&bytes, sequence);
        let _ = TcpInfo::read(&bytes);
    }

    #[test]
    fn random_bodies_do_no_harm(bodies in vec((0..24_u16, vec(any::<u8>(), 0..400)), 0..4)) {
        let bytes: Vec<u8> = bodies.iter().flat_map(|(kind, body)| message(*kind, 1, body)).collect();
        let _ = sockets_in(&bytes, 1);
    }

    #[test]
    fn a_good_answer_with_flipped_bytes_or_cut_short_does_no_harm(
        flips in vec((0..800_usize, any::<u8>()), 1..12),
        cut in 0..800_usize,
    ) {
        let mut bytes = message(SOCKET, 1, &socket());
        bytes.extend(message(SOCKET, 1, &socket()));
        bytes.extend(message(DONE, 1, &[0; 4]));
        for (at, value) in flips {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let _ = sockets_in(&bytes[..cut.min(bytes.len())], 1);
    }
}
