//! What others on the path can do.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::Setup;

#[test]
fn a_stranger_gets_no_more_bytes_than_it_sends() {
    let setup = Setup::new();
    setup.must_pass();
    let (sent, received) = setup.right.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("set");
        let (mut sent, mut received) = (0, 0);
        for number in 0..120u32 {
            // Long and short headers, this version of QUIC and others, of many sizes.
            let bytes = 20 + (number as usize * 97) % 1400;
            let mut datagram = vec![0; bytes];
            for (place, byte) in (0u32..).zip(&mut datagram) {
                *byte = (number * 31 + place * 7).to_le_bytes()[0];
            }
            datagram[0] = [0xc0, 0x40, 0xe3, 0xf0][number as usize % 4];
            let version = [1u32, 0x0a0a_0a0a, 0][number as usize % 3];
            datagram[1..5].copy_from_slice(&version.to_be_bytes());
            datagram[5] = 8;
            socket.send_to(&datagram, "192.0.2.1:4433").expect("sent");
            sent += bytes;
            let mut answer = [0; 2000];
            while let Ok((bytes, _)) = socket.recv_from(&mut answer) {
                received += bytes;
            }
        }
        (sent, received)
    });
    assert!(received < sent, "{received} bytes for {sent}");
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
