//! Every byte arrives, in order, and few wait at a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use crate::splitter::running::{COPIES, Running, pair, patient, read, server, wait_until};

static CHUNK: [u8; 65_536] = [5; 65_536];

/// A prime, so that the repetition meets every boundary of a buffer.
const PATTERN_BYTES: usize = 1_000_003;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// What every sender sends, each from a place of its own.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 1;
    (0..PATTERN_BYTES)
        .map(|_| random(&mut state).to_le_bytes()[0])
        .collect()
});

/// Where byte number `position` of a sender stands in the pattern.
fn place(position: usize, seed: u64) -> usize {
    (position + usize::try_from(seed).expect("small") * 7919) % PATTERN_BYTES
}

/// Sends `total` bytes in chunks of random sizes, and ends.
fn send(stream: &TcpStream, total: usize, seed: u64) {
    try_send(stream, total, seed).expect("sends");
}

fn try_send(stream: &TcpStream, total: usize, seed: u64) -> io::Result<()> {
    let mut state = seed + 1;
    let mut sent = 0;
    while sent < total {
        let at = place(sent, seed);
        let size = usize::try_from(random(&mut state) % 200_000).expect("small") + 1;
        let size = size.min(total - sent).min(PATTERN_BYTES - at);
        (&*stream).write_all(&PATTERN[at..at + size])?;
        sent += size;
    }
    stream.shutdown(Shutdown::Write)
}

/// Receives to the end in chunks of random sizes, compares every byte, and returns how many came.
fn receive(stream: &TcpStream, seed: u64) -> io::Result<usize> {
    let mut state = seed + 2;
    let mut buffer = vec![0; 300_000];
    let mut received = 0;
    loop {
        let size = usize::try_from(random(&mut state) % 300_000).expect("small") + 1;
        let count = read(stream, &mut buffer[..size])?;
        if count == 0 {
            return Ok(received);
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let at = place(received, seed);
            let size = rest.len().min(PATTERN_BYTES - at);
            assert!(
                rest[..size] == PATTERN[at..at + size],
                "wrong bytes near {received}"
            );
            rest = &rest[size..];
            received += size;
        }
    }
}

#[test]
fn fifty_megabytes_pass_both_ways_at_once() {
    const TOTAL: usize = 25_000_000;
    for copy in COPIES {
        let (running, client, server) = pair(&format!("copy = \"{copy}\""));
        thread::scope(|scope| {
            scope.spawn(|| send(&client, TOTAL, 11));
            scope.spawn(|| send(&server, TOTAL, 22));
            let down = scope.spawn(|| receive(&client, 22).expect("an end"));
            let up = scope.spawn(|| receive(&server, 11).expect("an end"));
            assert_eq!(down.join().expect("compares"), TOTAL, "{copy}");
            assert_eq!(up.join().expect("compares"), TOTAL, "{copy}");
        });
        running.wait_for("completed_total", 1.0);
        assert!(running.metric("buffered_bytes") < 0.5, "{copy}");
    }
}

/// What arrives is the beginning of what was sent, and no transfer of a sender that was reset looks whole.
#[test]
fn transfers_whose_ends_are_killed_arrive_whole_or_fail() {
    const TOTAL: usize = 4_000_000;
    for copy in COPIES {
        let (mut whole, mut failed) = (0, 0);
        for round in 1..=30_u64 {
            let (_running, client, server) = pair(&format!("copy = \"{copy}\""));
            let mut state = round * 7919;
            let after = Duration::from_micros(random(&mut state) % 6000);
            let victim = [&client, &server][usize::try_from(round % 2).expect("small")];
            let received = thread::scope(|scope| {
                // A sender that is killed fails.
                scope.spawn(|| try_send(&server, TOTAL, 44));
                let received = scope.spawn(|| receive(&client, 44));
                thread::sleep(after);
                kill(victim);
                received.join().expect("compares")
            });
            match received {
                Ok(bytes) => {
                    assert_eq!(bytes, TOTAL, "{copy}: an end of stream in round {round}");
                    whole += 1;
                }
                Err(_) => failed += 1,
            }
        }
        assert_eq!(whole + failed, 30);
        assert!(failed > 0, "{copy}: the kills came too late");
    }
}

/// Resets a connection while other threads use it: as the death of its host with bytes unread.
fn kill(stream: &TcpStream) {
    rustix::net::connect_unspec(stream).expect("is reset");
}

#[test]
fn a_client_that_does_not_read_stops_the_server_and_loses_nothing() {
    const TOTAL: usize = 40_000_000;
    for copy in COPIES {
        let keys =
            format!("copy = \"{copy}\"\nbuffer = \"256kib\"\nserver-receive-buffer = \"256kib\"");
        let (running, client, server) = pair(&keys);
        thread::scope(|scope| {
            scope.spawn(|| send(&server, TOTAL, 33));
            let stalled = || running.metric("down_stalled_seconds_total");
            wait_until("the direction stalls", || stalled() > 0.2);
            // The sender may be late, so that the buffer is not full yet.
            wait_until("stalls go on and no byte comes", || {
                let held = running.metric("buffered_bytes");
                assert!(held <= f64::from(256 << 10), "{copy}: {held} bytes");
                let before = stalled();
                thread::sleep(Duration::from_millis(100));
                stalled() > before && (running.metric("buffered_bytes") - held).abs() < 0.5
            });
            assert_eq!(receive(&client, 33).expect("an end"), TOTAL, "{copy}");
        });
    }
}

#[test]
fn stalled_connections_share_the_memory() {
    const CONNECTIONS: usize = 100;
    for copy in COPIES {
        let (listener, address) = server();
        let keys = format!("copy = \"{copy}\"\nmemory = \"2mib\"");
        let running = Running::start(address, &keys);
        let mut ends = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = running.connect();
            let (server, _) = listener.accept().expect("accepts");
            server.set_nonblocking(true).expect("is set");
            ends.push((client, server));
        }
        let mut held = -1.0;
        wait_until("all are full", || {
            for (_, server) in &ends {
                while (&*server).write(&CHUNK).is_ok() {}
            }
            thread::sleep(Duration::from_millis(20));
            let before = std::mem::replace(&mut held, running.metric("buffered_bytes"));
            held > 0.0 && (held - before).abs() < 0.5
        });
        let least = 8.0 * 1024.0 * 100.0;
        assert!(held <= f64::from(2 << 20) + least, "{copy}: {held} bytes");
        // A newcomer gets its part of it.
        let mut client = running.connect();
        let (server, _) = listener.accept().expect("accepts");
        let mut server = patient(server);
        client.write_all(&CHUNK).expect("sends");
        server.read_exact(&mut vec![0; 65_536]).expect("arrives");
        server.write_all(&CHUNK).expect("sends");
        client.read_exact(&mut vec![0; 65_536]).expect("arrives");
    }
}

#[test]
fn an_idle_connection_has_no_buffer() {
    let (running, mut client, mut server) = pair("");
    client.write_all(b"some").expect("sends");
    server.read_exact(&mut [0; 4]).expect("arrives");
    running.wait_for("up_bytes_total", 4.0);
    assert!(running.metric("buffer_room_bytes") < 0.5);
}
