//! Connections over the loopback, through a relay that counts.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quinn::{ClientConfig, Connection, ConnectionId};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep, timeout};

use super::super::key::PrivateKey;
use super::super::path_mtu::{PathMtu, SizeTest};
use super::super::settings::Settings;
use super::{Connections, bind, largest_packet};
use crate::tunnel::wire::KEEP_ALIVE;

const SILENCE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

fn key() -> PrivateKey {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("wavebed-transport-{}-{number}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let key = PrivateKey::create(&file).expect("made");
    fs::remove_file(&file).expect("removed");
    key
}

fn settings(kind: &str, at: SocketAddr, peer: &PrivateKey) -> Settings {
    let peer = peer.public();
    let text = format!(
        "kind = \"{kind}\"\nat = \"{at}\"\nkey = \"key\"\npeer = \"{peer}\"\naddress = \"10.88.0.1/30\"\n"
    );
    toml::from_str(&text).expect("valid")
}

/// Bytes that passed a relay.
#[derive(Default)]
struct Passed {
    there: AtomicUsize,
    back: AtomicUsize,
}

/// What a relay does.
#[derive(Clone, Copy)]
struct Link {
    /// In each direction.
    delay: Duration,
    /// Larger datagrams are lost.
    most_bytes: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            most_bytes: usize::MAX,
        }
    }
}

/// Starts a relay to `to` and returns its address.
async fn relay(to: SocketAddr, passed: Arc<Passed>, link: Link) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let socket = Arc::new(socket);
    let at = socket.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut client = None;
        let mut datagram = [0; 2000];
        while let Ok((bytes, from)) = socket.recv_from(&mut datagram).await {
            let (target, counter) = if from == to {
                (client, &passed.back)
            } else {
                client = Some(from);
                (Some(to), &passed.there)
            };
            counter.fetch_add(bytes, Ordering::Relaxed);
            if let Some(target) = target.filter(|_| bytes <= link.most_bytes) {
                let (socket, datagram) = (Arc::clone(&socket), datagram[..bytes].to_vec());
                tokio::spawn(async move {
                    sleep(link.delay).await;
                    let _ = socket.send_to(&datagram, target).await;
                });
            }
        }
    });
    at
}

/// Connects with the right keys and a configuration that `change` has changed.
async fn connect(
    patience: Duration,
    change: impl FnOnce(&mut ClientConfig),
) -> (Option<Connection>, Arc<Passed>) {
    let (made, passed, _) = connect_over(Link::default(), [1360; 2], patience, change).await;
    (made, passed)
}

/// The same over a link, with the MTU of the device at the listening end and of the other one; the listening end too.
async fn connect_over(
    link: Link,
    mtu: [u32; 2],
    patience: Duration,
    change: impl FnOnce(&mut ClientConfig),
) -> (Option<Connection>, Arc<Passed>, Connections) {
    let settings = |index: usize, kind, at, peer| Settings {
        mtu: mtu[index],
        ..settings(kind, at, peer)
    };
    let (here, there) = (key(), key());
    let any = "127.0.0.1:0".parse().expect("an address");
    let listener = bind(&settings(0, "listen", any, &here), &there).expect("bound");
    let listener = listener.start().expect("started");
    let to = listener.endpoint.local_addr().expect("an address");
    let passed = Arc::new(Passed::default());
    let at = relay(to, Arc::clone(&passed), link).await;
    let mut own = bind(&settings(1, "connect", at, &there), &here).expect("bound");
    change(own.client.as_mut().expect("it connects"));
    let mut own = own.start().expect("started");
    let made = timeout(patience, own.new.recv()).await.ok().flatten();
    (made, passed, listener)
}

#[tokio::test]
async fn the_right_key_connects() {
    let (made, passed) = connect(PATIENCE, |_| {}).await;
    assert!(made.is_some());
    assert!(passed.back.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn a_connection_takes_packets_of_the_devices_mtu_up_to_what_the_other_end_receives() {
    for (mtu, expected) in [
        ([1360, 1280], 1280),
        ([9000, 9000], 9000),
        // The other end receives what an Ethernet carries.
        ([1280, 9000], 1425),
    ] {
        let (made, _, _listener) = connect_over(Link::default(), mtu, PATIENCE, |_| {}).await;
        let connection = made.expect("connected");
        assert_eq!(largest_packet(&connection), Some(expected), "{mtu:?}");
    }
}

#[tokio::test]
async fn a_search_over_a_round_trip_of_100_ms_ends_with_what_the_path_carries() {
    let link = Link {
        delay: Duration::from_millis(50),
        most_bytes: 1272,
    };
    let (made, _, _listener) = connect_over(link, [1360; 2], PATIENCE, |_| {}).await;
    let connection = made.expect("connected");
    let mut path = PathMtu::new(1360);
    let mut test = SizeTest::default();
    let start = Instant::now();
    // The clock of the search: where the machine takes the processor away, nothing is answered either.
    let (mut turn, mut now_ns) = (start, 0);
    test.start(0);
    let mut limits = Vec::new();
    while start.elapsed() < PATIENCE && (limits.is_empty() || path.is_searching()) {
        let took = turn.elapsed().min(Duration::from_millis(20));
        turn = Instant::now();
        now_ns += u64::try_from(took.as_nanos()).expect("short");
        if test.take(now_ns) && path.is_full() {
            let bytes = connection.max_datagram_size().expect("datagrams");
            let _ = connection.send_datagram(vec![KEEP_ALIVE; bytes].into());
            let _ = connection.send_datagram(vec![KEEP_ALIVE].into());
        }
        let limit = largest_packet(&connection).expect("datagrams");
        path.observe(limit, now_ns, || {
            (
                connection.stats().path.sent_plpmtud_probes,
                connection.rtt(),
            )
        });
        let limit = path.state().path_mtu;
        if limit < 1360 && limits.last() != Some(&limit) {
            println!("{limit} after {:?}", start.elapsed());
            limits.push(limit);
        }
        sleep(Duration::from_millis(5)).await;
    }
    println!("ended after {:?}", start.elapsed());
    assert_eq!(limits, [1153, 1204]);
}

#[tokio::test]
async fn the_right_keys_without_the_code_in_the_connection_id_get_no_answer() {
    for bytes in [8, 20] {
        let (made, passed) = connect(SILENCE, |config| {
            config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&[7; 20][..bytes])));
        })
        .await;
        assert!(made.is_none());
        assert!(passed.there.load(Ordering::Relaxed) > 0);
        assert_eq!(passed.back.load(Ordering::Relaxed), 0, "{bytes} bytes");
    }
}
