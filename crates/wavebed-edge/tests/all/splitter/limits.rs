//! Limits on connections and memory.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::splitter::running::{Running, assert_reset, patient, server, wait_until};
use crate::splitter::timeouts::silent_server;

#[test]
fn connections_beyond_the_limit_are_reset_and_others_stay() {
    let (listener, address) = server();
    let running = Running::start(address, "max-connections = 3");
    let clients: Vec<TcpStream> = (0..3).map(|_| running.connect()).collect();
    running.wait_for("connections", 3.0);
    assert_reset(&mut running.connect());
    running.wait_for("refused_total", 1.0);
    let mut servers: Vec<TcpStream> = (0..3)
        .map(|_| patient(listener.accept().expect("accepts").0))
        .collect();
    for client in &clients {
        (&*client).write_all(b"x").expect("sends");
    }
    for server in &mut servers {
        server.read_exact(&mut [0]).expect("arrives");
    }
    drop((clients, servers));
    running.wait_for("connections", 0.0);
    let mut again = running.connect();
    again.write_all(b"y").expect("sends");
    let (server, _) = listener.accept().expect("accepts");
    patient(server).read_exact(&mut [0]).expect("arrives");
}

#[test]
fn one_client_has_a_limit_of_its_own() {
    let (_listener, address) = server();
    let running = Running::start(address, "max-connections-per-client = 2");
    let _clients = [running.connect(), running.connect()];
    running.wait_for("connections", 2.0);
    assert_reset(&mut running.connect());
}

#[test]
fn of_connections_without_an_answer_the_oldest_makes_room() {
    let (_silent, address, _full) = silent_server();
    let running = Running::start(address, "max-connecting-per-client = 2");
    let mut first = running.connect();
    running.wait_for("connecting", 1.0);
    let _second = running.connect();
    running.wait_for("connecting", 2.0);
    let _third = running.connect();
    assert_reset(&mut first);
    running.wait_for("evicted_total", 1.0);
    running.wait_for("connecting", 2.0);
}

#[test]
fn a_flood_towards_a_silent_server_costs_other_connections_nothing() {
    let (_silent, address, _full) = silent_server();
    let flooded = Running::start(address, "max-connecting = 8\nmax-connections = 40");
    let flood: Vec<TcpStream> = (0..200)
        .map(|_| patient(TcpStream::connect(flooded.address).expect("is accepted")))
        .collect();
    wait_until("all were accepted", || {
        flooded.metric("accepted_total") > 199.5
    });
    assert!(flooded.metric("connecting") < 8.5);
    assert!(flooded.metric("refused_total") < 0.5, "none was refused");
    assert!(flooded.metric("evicted_total") > 191.5);
    drop(flood);
}
