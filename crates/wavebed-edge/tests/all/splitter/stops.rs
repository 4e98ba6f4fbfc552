//! The end of the splitter.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::splitter::running::{assert_reset, is_refusing, pair, rest, wait_until};

#[test]
fn a_request_to_stop_lets_connections_end() {
    let (mut running, mut client, mut server) = pair("drain = \"10min\"");
    running.request_stop();
    wait_until("new connections are refused", || {
        is_refusing(running.address)
    });
    client.write_all(b"still here").expect("sends");
    server.read_exact(&mut [0; 10]).expect("arrives");
    drop(client);
    assert_eq!(rest(&mut server).expect("an end"), b"");
    drop(server);
    let ended = running.wait();
    assert_eq!((ended.cut, ended.totals.completed), (0, 1));
}

#[test]
fn connections_that_outlast_the_drain_are_reset() {
    let (mut running, mut client, mut server) = pair("drain = \"200ms\"");
    running.request_stop();
    assert_reset(&mut client);
    assert_reset(&mut server);
    assert_eq!(running.wait().cut, 1);
}

#[test]
fn a_second_request_ends_at_once() {
    let (mut running, mut client, mut server) = pair("drain = \"10min\"");
    running.request_stop();
    wait_until("the first one is taken", || is_refusing(running.address));
    running.request_stop();
    assert_reset(&mut client);
    assert_reset(&mut server);
    assert_eq!(running.wait().cut, 1);
}

#[test]
fn metrics_are_prometheus_text_and_json() {
    let (running, mut client, mut server) = pair("");
    client.write_all(&[1; 1234]).expect("sends");
    server.read_exact(&mut [0; 1234]).expect("arrives");
    running.wait_for("up_bytes_total", 1234.0);
    let text = running.page("/metrics");
    assert!(
        text.contains("# TYPE wavebed_splitter_up_bytes_total counter\n"),
        "{text}"
    );
    assert!(
        text.contains("\nwavebed_splitter_up_bytes_total 1234\n"),
        "{text}"
    );
    let flows: serde_json::Value =
        serde_json::from_str(&running.page("/flows.json")).expect("JSON");
    let flow = &flows["flows"][0];
    assert_eq!(flow["up_bytes"], 1234);
    assert!(flow["client_leg"]["rtt_us"].as_u64() > Some(0), "{flow}");
    let ended = running.end();
    assert_eq!(ended.totals.up_bytes, 1234);
}

#[test]
fn strangers_that_hold_connections_keep_no_reader_of_metrics_out() {
    let (running, _client, _server) = pair("");
    let requests = [
        "",
        "GET /metrics HT",
        "GET /metrics HTTP/1.1\r\nX: ",
        // A whole request, whose answer nobody reads.
        "GET /flows.json HTTP/1.1\r\n\r\n",
    ];
    for request in requests {
        let strangers: Vec<_> = (0..40)
            .map(|_| {
                let mut stranger = TcpStream::connect(running.metrics).expect("connects");
                // The splitter may have closed it already.
                let _ = stranger.write_all(request.as_bytes());
                stranger
            })
            .collect();
        let text = running.page("/metrics");
        assert!(text.contains("wavebed_splitter_up_bytes_total"), "{text}");
        drop(strangers);
    }
    running.end();
}

#[test]
fn a_request_for_metrics_that_drips_ends_in_time() {
    let (running, _client, _server) = pair("");
    let mut stranger = TcpStream::connect(running.metrics).expect("connects");
    let begun = Instant::now();
    while stranger.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it stays open");
        thread::sleep(Duration::from_millis(50));
    }
    running.end();
}
