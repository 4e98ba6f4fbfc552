//! What others on the path can do.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::tunnel_ends::host::Host;
use crate::tunnel_ends::relay::{RELAY, Relay};
use crate::tunnel_ends::{PATIENCE, Setup};

/// An answer that does not come in this time does not come.
const SILENCE: Duration = Duration::from_secs(1);

const LISTENING: &str = "192.0.2.1:4433";

/// Sends `datagrams` from a new address of `host`; bytes sent, and bytes of the answers.
fn send(host: &Host, to: &str, datagrams: Vec<Vec<u8>>) -> (usize, usize) {
    send_and_wait(host, to, datagrams, SILENCE)
}

/// The same; the first answer may take as long as `patience`.
fn send_and_wait(
    host: &Host,
    to: &str,
    datagrams: Vec<Vec<u8>>,
    patience: Duration,
) -> (usize, usize) {
    let to = to.to_owned();
    host.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let limit = |time| socket.set_read_timeout(Some(time)).expect("set");
        let (mut sent, mut received) = (0, 0);
        let mut answer = [0; 2000];
        limit(Duration::from_millis(5));
        for datagram in &datagrams {
            socket.send_to(datagram, &to).expect("sent");
            sent += datagram.len();
            while let Ok((bytes, _)) = socket.recv_from(&mut answer) {
                received += bytes;
            }
        }
        limit(if received == 0 { patience } else { SILENCE });
        while let Ok((bytes, _)) = socket.recv_from(&mut answer) {
            received += bytes;
            limit(SILENCE);
        }
        (sent, received)
    })
}

/// Arbitrary bytes behind the header of a first packet, of this version of QUIC and others, with short and long
/// connection IDs; each fourth one has a short header.
fn arbitrary(number: u32) -> Vec<u8> {
    let place = number as usize;
    let bytes: usize = [1200, 1420, 60][place % 3];
    let version = [1u32, 0x0a0a_0a0a, 0, 0x6b33_43cf][place / 3 % 4];
    let id_bytes = [8, 4, 20, 0, 255][place % 5];
    let mut datagram = vec![[0xc0, 0xe3, 0xf0, 0x40][place % 4]];
    datagram.extend(version.to_be_bytes());
    datagram.push(id_bytes);
    datagram.extend((0..id_bytes).map(|byte| byte ^ number.to_le_bytes()[0]));
    // An ID of the sender with 8 bytes, no token, and a length that is right.
    datagram.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    let rest = bytes.saturating_sub(datagram.len() + 2);
    let rest = u16::try_from(rest).expect("small");
    datagram.extend((0x4000 | rest).to_be_bytes());
    datagram.resize(bytes, 0x55);
    datagram
}

#[test]
fn a_stranger_gets_no_answer() {
    let setup = Setup::new();
    setup.must_pass();
    let (sent, received) = send(&setup.right, LISTENING, (0..240).map(arbitrary).collect());
    assert!(sent > 100_000);
    assert_eq!(received, 0);
    setup.must_pass();
}

#[test]
fn a_stranger_gets_no_answer_of_the_connecting_end() {
    let (setup, relay) = Setup::with_relay();
    let client = relay.client().expect("it has sent");
    let mut datagrams: Vec<_> = (0..240).map(arbitrary).collect();
    datagrams.extend(relay.first());
    let (_, received) = send(&setup.left, &client.to_string(), datagrams);
    assert_eq!(received, 0);
    setup.must_pass();
}

#[test]
fn a_wrong_key_gets_no_answer() {
    let mut setup = Setup::new();
    setup.must_pass();
    let (left, right) = setup.ends.take().expect("running");
    drop(right);
    let relay = Relay::start(&setup.left);
    let left_key = setup.folder.key("left.key");
    setup.folder.key("wrong.key");
    let start = |key| {
        setup
            .folder
            .configure_at("right.toml", "connect", RELAY, key, &left_key);
        setup.start_right()
    };
    let wrong = start("wrong.key");
    let end = Instant::now() + PATIENCE;
    while relay.passed().0.datagrams == 0 {
        assert!(Instant::now() < end, "it did not try");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(2 * SILENCE);
    assert_eq!(relay.passed().1.bytes, 0);
    drop(wrong);
    let right = start("right.key");
    setup.ends = Some((left, right));
    setup.must_pass();
    assert!(relay.passed().1.bytes > 0);
}

#[test]
fn recorded_packets_get_no_more_bytes_than_are_sent() {
    let (setup, relay) = Setup::with_relay();
    let first = relay.first();
    assert!(first[0].len() >= 1200, "a first packet");
    let again = vec![first[0].clone()];
    let (sent, received) = send_and_wait(&setup.right, LISTENING, again, PATIENCE);
    println!("the first packet again: {received} bytes for {sent}");
    assert!(received > 0, "the replay is as the packet was");
    assert!(received < sent / 4, "{received} bytes for {sent}");
    for datagram in first {
        let (sent, received) = send(&setup.right, LISTENING, vec![datagram; 3]);
        assert!(received < sent, "{received} bytes for {sent}");
    }
    setup.must_pass();
}

/// Passes datagrams on between the first stranger and `to`, each twice, the second one later.
fn repeat(relay: &UdpSocket, to: SocketAddr) {
    let mut other = None;
    let mut last: Option<(Vec<u8>, SocketAddr)> = None;
    let mut datagram = [0; 2000];
    while let Ok((bytes, from)) = relay.recv_from(&mut datagram) {
        let target = if from == to { other } else { Some(to) };
        if from != to {
            other = Some(from);
        }
        let Some(target) = target else { continue };
        let now = (datagram[..bytes].to_vec(), target);
        let _ = relay.send_to(&now.0, target);
        if let Some((before, target)) = last.replace(now) {
            let _ = relay.send_to(&before, target);
        }
    }
}

#[test]
fn a_repeated_datagram_is_no_second_packet() {
    let mut setup = Setup::new();
    setup.must_pass();
    let (left, right) = setup.ends.take().expect("running");
    drop(right);
    let relay = setup.left.run(|| {
        let relay = UdpSocket::bind("192.0.2.1:4434").expect("a socket");
        // The thread ends with the silence after the test.
        relay
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        relay
    });
    thread::spawn(move || repeat(&relay, "192.0.2.1:4433".parse().expect("an address")));
    let left_key = setup.folder.key("left.key");
    setup.folder.configure_at(
        "right.toml",
        "connect",
        "192.0.2.1:4434",
        "right.key",
        &left_key,
    );
    let right = setup.start_right();
    setup.ends = Some((left, right));
    setup.must_pass();
    let output = setup.right.run(|| {
        Command::new("ping")
            .args(["-c", "10", "-i", "0.1", "-W", "5", "10.88.0.1"])
            .output()
            .expect("ping")
    });
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("DUP"), "{text}");
}
