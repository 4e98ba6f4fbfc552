//! How connections end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::splitter::running::{
    COPIES, Running, assert_reset, pair, patient, reset, rest, server, wait_until,
};

static CHUNK: [u8; 65_536] = [7; 65_536];

#[test]
fn after_the_clients_end_of_stream_the_server_still_answers() {
    for copy in COPIES {
        let (running, mut client, mut server) = pair(&format!("copy = \"{copy}\""));
        client.write_all(b"question").expect("sends");
        client.shutdown(Shutdown::Write).expect("ends");
        assert_eq!(rest(&mut server).expect("an end"), b"question");
        assert!(running.metric("half_closed") > 0.5);
        server.write_all(b"a late answer").expect("sends");
        drop(server);
        assert_eq!(rest(&mut client).expect("an end"), b"a late answer");
        running.wait_for("completed_total", 1.0);
    }
}

#[test]
fn after_the_servers_end_of_stream_the_client_still_sends() {
    for copy in COPIES {
        let (running, mut client, mut server) = pair(&format!("copy = \"{copy}\""));
        server.write_all(b"a greeting").expect("sends");
        server.shutdown(Shutdown::Write).expect("ends");
        assert_eq!(rest(&mut client).expect("an end"), b"a greeting");
        client.write_all(b"more").expect("sends");
        drop(client);
        assert_eq!(rest(&mut server).expect("an end"), b"more");
        running.wait_for("completed_total", 1.0);
    }
}

#[test]
fn both_may_end_at_once() {
    for copy in COPIES {
        let (running, mut client, mut server) = pair(&format!("copy = \"{copy}\""));
        client.write_all(&[1; 10_000]).expect("sends");
        server.write_all(&CHUNK[..20_000]).expect("sends");
        client.shutdown(Shutdown::Write).expect("ends");
        server.shutdown(Shutdown::Write).expect("ends");
        assert_eq!(rest(&mut client).expect("an end").len(), 20_000);
        assert_eq!(rest(&mut server).expect("an end").len(), 10_000);
        running.wait_for("completed_total", 1.0);
        assert!(running.metric("connections") < 0.5);
    }
}

#[test]
fn a_reset_by_the_client_reaches_the_server() {
    let (running, client, mut server) = pair("");
    reset(client);
    assert_reset(&mut server);
    running.wait_for("client_resets_total", 1.0);
}

#[test]
fn a_reset_by_the_server_reaches_the_client() {
    let (running, mut client, server) = pair("");
    reset(server);
    assert_reset(&mut client);
    running.wait_for("server_resets_total", 1.0);
}

#[test]
fn a_reset_passes_a_direction_that_is_full() {
    let (running, mut client, server) = pair("");
    server.set_nonblocking(true).expect("is set");
    wait_until("the client's side is full", || {
        while (&server).write(&CHUNK).is_ok() {}
        running.metric("buffered_bytes") > 0.0 && (&server).write(&[7]).is_err()
    });
    reset(server);
    running.wait_for("server_resets_total", 1.0);
    // Bytes that had arrived may be read first.
    assert_reset(&mut client);
}

#[test]
fn a_server_that_refuses_resets_the_client() {
    let (listener, address) = server();
    drop(listener);
    let running = Running::start(address, "");
    // The splitter has accepted before it asks the server: early accept.
    let mut client = patient(TcpStream::connect(running.address).expect("is accepted"));
    assert_reset(&mut client);
    running.wait_for("failed_total", 1.0);
}

#[test]
fn a_client_that_gives_up_early_leaves_nothing() {
    let (listener, address) = server();
    let running = Running::start(address, "");
    for _ in 0..50 {
        reset(running.connect());
    }
    drop(listener);
    wait_until("no connection is left", || {
        running.metric("accepted_total") > 49.5 && running.metric("connections") < 0.5
    });
}

#[test]
fn bytes_sent_before_the_server_answers_arrive() {
    let (listener, address) = server();
    let running = Running::start(address, "");
    let mut client = running.connect();
    client.write_all(b"at once").expect("sends");
    client.shutdown(Shutdown::Write).expect("ends");
    let (server, _) = listener.accept().expect("accepts");
    let mut text = String::new();
    patient(server).read_to_string(&mut text).expect("an end");
    assert_eq!(text, "at once");
}
