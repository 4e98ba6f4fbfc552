//! Limits of time.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

use crate::splitter::running::{Running, assert_reset, pair, patient, rest, wait_until};

#[test]
fn an_idle_connection_is_reset_on_both_sides() {
    let (running, mut client, mut server) = pair("idle = \"200ms\"");
    assert_reset(&mut client);
    assert_reset(&mut server);
    running.wait_for("idle_resets_total", 1.0);
}

#[test]
fn a_connection_that_carries_data_is_not_idle() {
    let (_running, mut client, mut server) = pair("idle = \"5s\"");
    for _ in 0..8 {
        client.write_all(b"x").expect("sends");
        server.read_exact(&mut [0]).expect("arrives");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(client);
    assert_eq!(rest(&mut server).expect("an end"), b"");
}

#[test]
fn a_half_closed_connection_has_a_limit_of_its_own() {
    let (running, mut client, mut server) = pair("half-closed = \"200ms\"\nidle = \"10min\"");
    client.shutdown(Shutdown::Write).expect("ends");
    assert_eq!(rest(&mut server).expect("an end"), b"");
    assert_reset(&mut client);
    running.wait_for("idle_resets_total", 1.0);
}

/// A server that answers no SYN: its queue of connections is full, and nobody accepts.
pub fn silent_server() -> (OwnedFd, SocketAddr, Vec<TcpStream>) {
    let silent = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&silent, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    listen(&silent, 0).expect("listens");
    let address = SocketAddr::try_from(getsockname(&silent).expect("bound")).expect("IPv4");
    // One connection more than the queue's length fits.
    let full = vec![TcpStream::connect(address).expect("connects")];
    (silent, address, full)
}

#[test]
fn a_server_that_does_not_answer_in_time_resets_the_client() {
    let (_silent, address, _full) = silent_server();
    let running = Running::start(address, "handshake = \"300ms\"");
    let mut client = patient(TcpStream::connect(running.address).expect("is accepted"));
    wait_until("it waits", || running.metric("accepted_total") > 0.5);
    assert_reset(&mut client);
    running.wait_for("failed_total", 1.0);
}
