//! Messages of turmoil over emulated links.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream, UdpSocket};
use wavebed_link::config::QueueConfig;
use wavebed_link::pattern::Pattern;
use wavebed_link::queue::Limit;
use wavebed_link::sim::{Fate, LinkSpec, Packet, PathSpec, Rate, SAMPLE_DOWN, SAMPLE_UP, SimLink};
use wavebed_link_turmoil::Links;

const TICK: Duration = Duration::from_millis(1);

fn builder() -> turmoil::Builder {
    let mut builder = turmoil::Builder::new();
    builder
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(300))
        .udp_capacity(10_000)
        .tcp_capacity(10_000);
    builder
}

/// 12 Mbit/s, a packet of 1500 bytes each millisecond, and 10 ms each way.
fn constant() -> PathSpec {
    let queue = QueueConfig::Droptail {
        limit: Limit::Packets(1000),
    };
    let down = LinkSpec::new().bottleneck(Rate::constant(12_000_000), queue);
    PathSpec::new(
        down.delay_ns(10_000_000),
        LinkSpec::new().delay_ns(10_000_000),
    )
}

/// How long it takes from the first write of the server until the client has `bytes` bytes.
fn download(path: &PathSpec, seed: u64, bytes: usize) -> Duration {
    let times = Rc::new(RefCell::new((Duration::ZERO, Duration::ZERO)));
    let mut sim = builder().build();
    let begun = Rc::clone(&times);
    sim.host("server", move || {
        let begun = Rc::clone(&begun);
        async move {
            let listener = TcpListener::bind("0.0.0.0:80").await?;
            let (mut stream, _) = listener.accept().await?;
            begun.borrow_mut().0 = turmoil::sim_elapsed().expect("in a simulation");
            stream.write_all(&vec![1; bytes]).await?;
            Ok(())
        }
    });
    let ended = Rc::clone(&times);
    sim.client("client", async move {
        let mut stream = TcpStream::connect("server:80").await?;
        let mut body = Vec::new();
        stream.read_to_end(&mut body).await?;
        assert_eq!(body, vec![1; bytes]);
        ended.borrow_mut().1 = turmoil::sim_elapsed().expect("in a simulation");
        Ok(())
    });
    let mut links = Links::new();
    links
        .connect(&sim, "server", "client", path, seed)
        .expect("a path");
    links.run(&mut sim).expect("the client ends");
    let (begun, ended) = times.take();
    ended.checked_sub(begun).expect("it ends later")
}

#[test]
fn a_transfer_takes_the_time_of_its_packets() {
    // 100 packets of 1500 bytes, and the FIN of 40.
    let took = download(&constant(), 1, 100 * 1460);
    let exact = Duration::from_micros(110_027);
    assert!((exact..=exact + 2 * TICK).contains(&took), "{took:?}");
}

#[test]
fn a_lost_segment_comes_later() {
    let down = LinkSpec::new().delay_ns(10_000_000).loss(0.3);
    let lossy = PathSpec::new(down, LinkSpec::new());
    let took = download(&lossy, 1, 1_000_000);
    // Some of 685 packets are lost three times in a row, and hardly one ten times.
    assert!(
        (3 * Links::RETRANSMISSION..10 * Links::RETRANSMISSION).contains(&took),
        "{took:?}"
    );
}

#[test]
fn the_seed_alone_decides() {
    let radio = |text| LinkSpec::new().radio_of(Pattern::parse(text).expect("a pattern"));
    let down = radio(SAMPLE_DOWN)
        .expect("its header names the radio")
        .loss(0.01);
    let path = PathSpec::new(down, radio(SAMPLE_UP).expect("its header names the radio"));
    let runs: Vec<_> = [1, 1, 2]
        .map(|seed| download(&path, seed, 3_000_000))
        .into();
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

/// Numbers of the datagrams of 1200 bytes that arrive, one sent each tick.
fn datagrams(path: &PathSpec, count: u32) -> Vec<u32> {
    let received = Rc::new(RefCell::new(Vec::new()));
    let mut sim = builder().build();
    sim.host("server", move || async move {
        let socket = UdpSocket::bind("0.0.0.0:80").await?;
        for number in 0..count {
            let mut datagram = vec![0; 1200];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&datagram, "client:90").await?;
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    });
    let into = Rc::clone(&received);
    sim.client("client", async move {
        let socket = UdpSocket::bind("0.0.0.0:90").await?;
        let mut datagram = vec![0; 2000];
        let second = Duration::from_secs(1);
        while let Ok(taken) = tokio::time::timeout(second, socket.recv_from(&mut datagram)).await {
            assert_eq!(taken?.0, 1200);
            let number = datagram[..4].try_into().expect("four bytes");
            into.borrow_mut().push(u32::from_be_bytes(number));
        }
        Ok(())
    });
    let mut links = Links::new();
    links
        .connect(&sim, "server", "client", path, 7)
        .expect("a path");
    links.run(&mut sim).expect("the client ends");
    received.take()
}

#[test]
fn datagrams_are_lost_as_the_link_loses_them() {
    let down = LinkSpec::new().loss(0.2);
    let mut link = SimLink::new(&down, 7).expect("a link");
    let mut expected = Vec::new();
    for number in 0..500 {
        link.send(0, Packet::new(1228), number);
        while let Some(departure) = link.poll(0) {
            if departure.fate == Fate::Delivered {
                expected.push(departure.content);
            }
        }
    }
    assert!((350..450).contains(&expected.len()), "{}", expected.len());
    let path = PathSpec::new(down, LinkSpec::new());
    assert_eq!(datagrams(&path, 500), expected);
}

#[test]
fn hosts_without_a_link_are_left_to_turmoil() {
    let mut sim = builder()
        .min_message_latency(TICK)
        .max_message_latency(TICK)
        .build();
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(b"near").await?;
        Ok(())
    });
    sim.host("far", || async { Ok(()) });
    sim.client("client", async {
        let mut text = String::new();
        TcpStream::connect("server:80")
            .await?
            .read_to_string(&mut text)
            .await?;
        assert_eq!(text, "near");
        assert!(turmoil::elapsed() < 20 * TICK);
        Ok(())
    });
    let mut links = Links::new();
    links
        .connect(&sim, "far", "client", &constant(), 1)
        .expect("a path");
    links.run(&mut sim).expect("the client ends");
}
