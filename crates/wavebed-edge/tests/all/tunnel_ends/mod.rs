//! Two ends of the tunnel on two hosts in network namespaces. Root is needed.

mod address_changes;
mod end;
mod flow;
mod host;
mod narrow_path;
mod relay;
mod strangers;
mod super_packets;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use end::{End, Folder};
use host::{Host, pair};
use relay::{RELAY, Relay};

/// How long what must happen may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(40);

/// Two hosts, and an end on each.
struct Setup {
    left: Host,
    right: Host,
    folder: Folder,
    ends: Option<(End, End)>,
}

impl Setup {
    /// Ends whose keys fit each other.
    fn new() -> Self {
        Self::between(pair())
    }

    /// The same on these hosts.
    fn between((left, right): (Host, Host)) -> Self {
        let folder = Folder::new();
        let (left_key, right_key) = (folder.key("left.key"), folder.key("right.key"));
        folder.configure("left.toml", "listen", "left.key", &right_key);
        folder.configure("right.toml", "connect", "right.key", &left_key);
        let mut setup = Self {
            left,
            right,
            folder,
            ends: None,
        };
        let ends = (setup.start_left(), setup.start_right());
        setup.ends = Some(ends);
        setup
    }

    /// Ends whose datagrams pass a relay, and the tunnel works.
    fn with_relay() -> (Self, Relay) {
        let mut setup = Self::new();
        let (left, right) = setup.ends.take().expect("running");
        drop(right);
        let relay = Relay::start(&setup.left);
        let left_key = setup.folder.key("left.key");
        setup
            .folder
            .configure_at("right.toml", "connect", RELAY, "right.key", &left_key);
        setup.ends = Some((left, setup.start_right()));
        setup.must_pass();
        (setup, relay)
    }

    fn start_left(&self) -> End {
        End::start(&self.left, &self.folder.0.join("left.toml"))
    }

    fn start_right(&self) -> End {
        End::start(&self.right, &self.folder.0.join("right.toml"))
    }

    /// Whether a ping from the right passes within the time.
    fn passes(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if self.right.succeeds("ping -c 1 -W 1 10.88.0.1") {
                return true;
            }
        }
        false
    }

    fn must_pass(&self) {
        assert!(self.passes(PATIENCE), "no ping passes the tunnel");
    }
}

/// Bytes that depend on their place.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|place| (place.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect()
}

/// Sends `bytes` from one host to the other over TCP; what arrived.
fn transfer(from: &Host, to: &Host, address: &'static str, bytes: usize) -> Vec<u8> {
    let listener = to.run(move || TcpListener::bind((address, 5000)).expect("a socket"));
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("all of it");
        got
    });
    from.run(move || {
        let mut stream = TcpStream::connect((address, 5000)).expect("connected");
        stream.set_write_timeout(Some(PATIENCE)).expect("set");
        stream.write_all(&content(bytes)).expect("sent");
    });
    reader.join().expect("read")
}

#[test]
fn packets_pass_in_both_directions_whole() {
    let setup = Setup::new();
    setup.must_pass();
    let bytes = 3_000_000;
    let up = transfer(&setup.right, &setup.left, "10.88.0.1", bytes);
    let down = transfer(&setup.left, &setup.right, "10.88.0.2", bytes);
    assert!(up == content(bytes) && down == content(bytes));
    assert!(
        setup
            .right
            .succeeds("ping -c 1 -W 40 -M do -s 1332 10.88.0.1"),
        "a packet of the device's MTU, 1360 bytes, passes"
    );
}

#[test]
fn a_wrong_key_gets_no_connection() {
    let mut setup = Setup::new();
    setup.must_pass();
    setup.ends = None;
    let (left_key, wrong) = (setup.folder.key("left.key"), "wrong.key");
    setup.folder.key(wrong);
    setup
        .folder
        .configure("right.toml", "connect", wrong, &left_key);
    setup.ends = Some((setup.start_left(), setup.start_right()));
    assert!(!setup.passes(Duration::from_secs(4)));
    // The same ends with the right key, so that nothing else kept the packets.
    setup
        .folder
        .configure("right.toml", "connect", "right.key", &left_key);
    setup.ends = None;
    setup.ends = Some((setup.start_left(), setup.start_right()));
    setup.must_pass();
}

#[test]
fn a_listener_with_a_wrong_key_gets_no_packets() {
    let mut setup = Setup::new();
    setup.must_pass();
    setup.ends = None;
    let right_key = setup.folder.key("right.key");
    setup.folder.key("wrong.key");
    setup
        .folder
        .configure("left.toml", "listen", "wrong.key", &right_key);
    setup.ends = Some((setup.start_left(), setup.start_right()));
    assert!(!setup.passes(Duration::from_secs(4)));
}

#[test]
fn the_tunnel_comes_back_when_either_end_was_restarted() {
    let mut setup = Setup::new();
    setup.must_pass();
    let (left, right) = setup.ends.take().expect("running");
    drop(left);
    let left = setup.start_left();
    setup.ends = Some((left, right));
    setup.must_pass();
    let (left, right) = setup.ends.take().expect("running");
    drop(right);
    let right = setup.start_right();
    setup.ends = Some((left, right));
    setup.must_pass();
}

#[test]
fn an_end_has_no_rights_after_its_start() {
    let setup = Setup::new();
    setup.must_pass();
    let (left, right) = setup.ends.as_ref().expect("running");
    for end in [left, right] {
        let file = format!("/proc/{}/status", end.0.id());
        let status = std::fs::read_to_string(file).expect("it runs");
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            let words = line.expect("the kernel tells").split_whitespace();
            words.skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(field("Uid:"), vec!["65534"; 4]);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{set}");
        }
        assert_eq!(field("NoNewPrivs:"), ["1"]);
        assert_eq!(field("Seccomp:"), ["2"], "a filter of system calls");
    }
}

#[test]
fn a_signal_ends_an_end_and_its_device() {
    let mut setup = Setup::new();
    setup.must_pass();
    let (left, mut right) = setup.ends.take().expect("running");
    setup.right.command(&format!("kill -TERM {}", right.0.id()));
    let status = right.0.wait().expect("it ended");
    assert!(status.success(), "{status}");
    assert!(!setup.right.succeeds("ip link show wbt0"));
    drop(left);
}
