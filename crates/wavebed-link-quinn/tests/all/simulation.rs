//! Two QUIC endpoints over a path in virtual time.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{Event, TransportConfig};
use wavebed_link::config::{QueueConfig, StageConfig};
use wavebed_link::pattern::Pattern;
use wavebed_link::queue::Limit;
use wavebed_link::sim::{LinkSpec, PathSpec, Rate, SAMPLE_DOWN, SAMPLE_UP};
use wavebed_link_quinn::{Application, ConnectionId, Context, Download, Simulation, tls};

const LIMIT: Duration = Duration::from_secs(60);
const DELAY_NS: u64 = 10_000_000;

type Downloads = Simulation<Download, Download>;

fn begin(path: &PathSpec, seed: u64, bytes: u64) -> (Downloads, ConnectionId) {
    let mut simulation =
        Simulation::new(path, seed, tls::server_config(), Download::server).expect("a path");
    let id = simulation
        .connect(tls::client_config(), Download::client(bytes))
        .expect("a connection");
    (simulation, id)
}

/// Downloads so much, and returns when the last byte was there.
fn download(path: &PathSpec, seed: u64, bytes: u64) -> (Downloads, Duration) {
    let (mut simulation, id) = begin(path, seed, bytes);
    simulation.run_until(LIMIT, |simulation| simulation.client(id).is_done());
    let client = simulation.client(id);
    assert_eq!((client.failure(), client.received_bytes()), (None, bytes));
    let done = client.done_at().expect("it is done");
    (simulation, done)
}

/// A street at 28 GHz, with losses so that more is drawn than radio blocks.
fn street() -> PathSpec {
    let radio = |text| {
        let pattern = Pattern::parse(text).expect("a pattern");
        LinkSpec::new().radio_of(pattern).expect("of a radio")
    };
    let wire = || LinkSpec::new().delay_ns(DELAY_NS).loss(0.002);
    PathSpec::new(wire(), wire()).then(radio(SAMPLE_DOWN), radio(SAMPLE_UP))
}

fn with_down(down: LinkSpec) -> PathSpec {
    PathSpec::new(down.delay_ns(DELAY_NS), LinkSpec::new().delay_ns(DELAY_NS))
}

fn at_10_mbit(queue: QueueConfig) -> LinkSpec {
    LinkSpec::new().bottleneck(Rate::constant(10_000_000), queue)
}

const fn droptail(packets: u64) -> QueueConfig {
    QueueConfig::Droptail {
        limit: Limit::Packets(packets),
    }
}

#[test]
fn the_seed_alone_decides() {
    let digest = |seed| download(&street(), seed, 3_000_000).0.digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// Run by the test below, in processes of its own.
#[test]
#[ignore = "prints for another test"]
fn shows_a_digest() {
    let (simulation, done) = download(&street(), 3, 3_000_000);
    println!(
        "digest {:016x} at {} ns",
        simulation.digest(),
        done.as_nanos()
    );
}

#[test]
fn every_process_gives_the_same_bytes_and_times() {
    let shown = || {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program)
            .args([
                "--exact",
                "simulation::shows_a_digest",
                "--ignored",
                "--nocapture",
            ])
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let at = text.find("digest ").unwrap_or_else(|| panic!("{text}"));
        text[at..].lines().next().expect("a line").to_owned()
    };
    let first = shown();
    for _ in 0..3 {
        assert_eq!(shown(), first);
    }
}

#[test]
fn a_download_takes_as_long_as_the_link_needs() {
    let (simulation, done) = download(&with_down(at_10_mbit(droptail(100))), 1, 5_000_000);
    let carried = simulation.path().down.counts().delivered.bytes;
    // What was carried at 10 Mbit/s; before it the handshake and the request, and a few gaps after losses.
    let least = Duration::from_nanos(carried * 800);
    assert!(
        (least..least + Duration::from_millis(300)).contains(&done),
        "{done:?}, {least:?}"
    );
    assert!(carried > 5_000_000 && carried < 5_400_000, "{carried}");
}

#[test]
fn nothing_larger_than_the_mtu_is_carried() {
    let path = with_down(LinkSpec::new()).with_mtu(1300);
    let (simulation, _) = download(&path, 1, 1_000_000);
    let [client, server] = simulation.dropped();
    assert!(
        client.too_large > 0 && server.too_large > 0,
        "probes of the MTU"
    );
    let carried = simulation.path().down.counts().offered;
    assert!(carried.bytes <= 1300 * carried.segments);
    assert!(
        carried.bytes > 1250 * (carried.segments - 30),
        "{carried:?}"
    );
}

#[test]
fn corrupted_datagrams_are_lost_and_copies_do_no_harm() {
    let down = LinkSpec::new()
        .stage(StageConfig::Corrupt { probability: 0.02 })
        .stage(StageConfig::Duplicate { probability: 0.02 });
    let (simulation, _) = download(&with_down(down), 1, 1_000_000);
    let counts = simulation.path().down.counts();
    assert!(counts.duplicated.segments > 5);
    // Some of these had a flip in the version of IP, which the link drops; a copy may be corrupt too.
    let [client, _] = simulation.dropped();
    assert!(client.corrupted > 5);
    assert!(client.corrupted <= counts.corrupted.segments + counts.duplicated.segments);
}

#[test]
fn marks_arrive() {
    let queue = QueueConfig::Codel {
        limit: Limit::Packets(1000),
        target_ns: 5_000_000,
        interval_ns: 100_000_000,
        ecn: true,
        ce_threshold_ns: None,
    };
    let (simulation, _) = download(&with_down(at_10_mbit(queue)), 1, 3_000_000);
    let counts = simulation.path().down.counts();
    assert!(counts.marked.segments > 0);
    assert_eq!(counts.dropped_total().segments, 0);
    let (_, sender) = simulation.servers().next().expect("a connection");
    assert!(sender.stats().path.congestion_events > 0);
}

#[test]
fn connections_share_the_link() {
    let (mut simulation, one) = begin(&with_down(at_10_mbit(droptail(100))), 1, 2_000_000);
    let two = simulation
        .connect(tls::client_config(), Download::client(2_000_000))
        .expect("a connection");
    simulation.run_until(LIMIT, |simulation| {
        simulation.client(one).is_done() && simulation.client(two).is_done()
    });
    assert_eq!(simulation.servers().count(), 2);
    assert!(
        simulation.now() > Duration::from_millis(3200),
        "{:?}",
        simulation.now()
    );
    assert!(
        simulation.client(one).done_at().is_some() && simulation.client(two).done_at().is_some()
    );
}

#[test]
fn a_dead_link_ends_the_connection() {
    let mut transport = TransportConfig::default();
    let idle = Duration::from_secs(5).try_into().expect("a time");
    transport.max_idle_timeout(Some(idle));
    let mut config = tls::client_config();
    config.transport_config(Arc::new(transport));
    let path = with_down(LinkSpec::new().loss(1.0));
    let mut simulation: Downloads =
        Simulation::new(&path, 1, tls::server_config(), Download::server).expect("a path");
    let id = simulation
        .connect(config, Download::client(1000))
        .expect("a connection");
    assert!(simulation.run_until(LIMIT, |simulation| simulation.client(id).is_done()));
    assert_eq!(simulation.client(id).failure(), Some("timed out"));
    assert_eq!(simulation.now(), Duration::from_secs(5));
}

#[test]
fn timers_have_the_resolution_that_was_chosen() {
    let mut transport = TransportConfig::default();
    let idle = Duration::from_millis(3500).try_into().expect("a time");
    transport.max_idle_timeout(Some(idle));
    let mut config = tls::client_config();
    config.transport_config(Arc::new(transport));
    let path = with_down(LinkSpec::new().loss(1.0));
    let mut simulation: Downloads =
        Simulation::new(&path, 1, tls::server_config(), Download::server)
            .expect("a path")
            .with_timer_resolution(Duration::from_secs(1));
    let id = simulation
        .connect(config, Download::client(1000))
        .expect("a connection");
    simulation.run_until(LIMIT, |simulation| simulation.client(id).is_done());
    assert_eq!(simulation.now(), Duration::from_secs(4));
}

/// Closes the connection at a time.
#[derive(Default)]
struct Closer {
    woken: Option<Duration>,
    lost: bool,
}

impl Application for Closer {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected if context.connection.side().is_client() => {
                context.wake_at(Duration::from_millis(500));
            }
            Event::ConnectionLost { .. } => self.lost = true,
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.woken = Some(context.now());
        context.close(0, b"enough");
    }
}

#[test]
fn an_application_is_woken_when_it_asked_for() {
    let path = with_down(LinkSpec::new());
    let mut simulation =
        Simulation::new(&path, 1, tls::server_config(), Closer::default).expect("a path");
    let id = simulation
        .connect(tls::client_config(), Closer::default())
        .expect("a connection");
    let closed = simulation.run_until(LIMIT, |simulation| {
        simulation
            .servers()
            .next()
            .is_some_and(|(server, _)| server.lost)
    });
    assert!(closed);
    assert_eq!(
        simulation.client(id).woken,
        Some(Duration::from_millis(500))
    );
    assert_eq!(
        simulation.now(),
        Duration::from_nanos(500_000_000 + DELAY_NS)
    );
}
