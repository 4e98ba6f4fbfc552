//! The connecting host gets another address, or another port from its address translation: the connection goes on soon.

use std::thread;
use std::time::{Duration, Instant};

use crate::tunnel_ends::flow::Flow;
use crate::tunnel_ends::{PATIENCE, Setup};

/// From the moment at which the new path works, on a machine that has time.
const LONGEST_GAP: Duration = Duration::from_millis(300);
/// Threads that a packet passes: of the flow, and of both ends. Each may be as late as the machine was.
pub const THREADS: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Direction {
    /// To the connecting host, which says nothing by itself.
    Down,
    Up,
}

fn flow(setup: &Setup, direction: Direction) -> Flow {
    let (left, right) = (&setup.left, &setup.right);
    match direction {
        Direction::Down => Flow::start(left, right, "10.88.0.2", Duration::from_millis(5)),
        Direction::Up => Flow::start(right, left, "10.88.0.1", Duration::from_millis(20)),
    }
}

/// How many connections each end has had.
fn connections(setup: &Setup) -> [u64; 2] {
    let (left, right) = setup.ends.as_ref().expect("running");
    [left, right].map(|end| end.new_state()["connections"].as_u64().expect("a number"))
}

/// Runs a flow over `change`, which returns when the new path works: it goes on, by the same connection.
///
/// With `longest` the time is judged, and this machine with it.
#[expect(clippy::print_stdout, reason = "the measured gap")]
fn check(
    setup: &Setup,
    direction: Direction,
    longest: Option<Duration>,
    change: impl FnOnce() -> Instant,
) {
    let flow = flow(setup, direction);
    thread::sleep(Duration::from_millis(500));
    let before = connections(setup);
    assert!(before.iter().all(|number| *number > 0), "{before:?}");
    let since = change();
    if let Some(longest) = longest {
        let (gap, late) = flow.gap(since);
        println!("{direction:?}: a gap of {gap:?}, threads up to {late:?} late");
        assert!(gap <= longest + THREADS * late, "{gap:?}, {late:?} late");
    } else {
        flow.goes_on(since, PATIENCE);
    }
    assert_eq!(connections(setup), before, "another connection");
}

/// Gives the connecting host the address with this last byte in place of the one before.
fn change_address(setup: &Setup, last: u8) -> Instant {
    let command = |verb, last| {
        let words = format!("ip address {verb} 192.0.2.{last}/24 dev wire");
        setup.right.command(&words);
    };
    command("del", last - 1);
    command("add", last);
    Instant::now()
}

fn over_a_new_address(direction: Direction, longest: Option<Duration>) {
    let setup = Setup::new();
    setup.must_pass();
    check(&setup, direction, longest, || change_address(&setup, 3));
}

fn over_a_new_port(direction: Direction, longest: Option<Duration>) {
    let (setup, relay) = Setup::with_relay();
    check(&setup, direction, longest, || {
        relay.change_port();
        Instant::now()
    });
}

/// Blockages of several lengths: QUIC's own probes come at times that double.
fn over_blockages_and_new_addresses(
    direction: Direction,
    longest: Option<Duration>,
    blockages_ms: &[u64],
) {
    let setup = Setup::new();
    setup.must_pass();
    for (milliseconds, last) in blockages_ms.iter().zip(3..) {
        check(&setup, direction, longest, || {
            let end = Instant::now() + Duration::from_millis(*milliseconds);
            setup.right.command("ip link set wire down");
            change_address(&setup, last);
            thread::sleep(end.saturating_duration_since(Instant::now()));
            setup.right.command("ip link set wire up");
            Instant::now()
        });
    }
}

#[test]
fn the_connection_goes_on_at_a_new_address() {
    for direction in [Direction::Up, Direction::Down] {
        over_a_new_address(direction, None);
    }
}

#[test]
fn the_connection_goes_on_at_a_new_port() {
    for direction in [Direction::Up, Direction::Down] {
        over_a_new_port(direction, None);
    }
}

#[test]
fn the_connection_goes_on_after_a_blockage_and_at_a_new_address() {
    for direction in [Direction::Up, Direction::Down] {
        over_blockages_and_new_addresses(direction, None, &[1000]);
    }
}

#[test]
#[ignore = "judges times of this machine"]
fn a_new_address_stops_traffic_for_300_ms_at_most() {
    for direction in [Direction::Up, Direction::Down] {
        over_a_new_address(direction, Some(LONGEST_GAP));
    }
}

#[test]
#[ignore = "judges times of this machine"]
fn a_new_port_stops_traffic_for_300_ms_at_most() {
    for direction in [Direction::Up, Direction::Down] {
        over_a_new_port(direction, Some(LONGEST_GAP));
    }
}

#[test]
#[ignore = "judges times of this machine"]
fn a_blockage_with_a_new_address_delays_traffic_by_300_ms_more_at_most() {
    for direction in [Direction::Up, Direction::Down] {
        over_blockages_and_new_addresses(direction, Some(LONGEST_GAP), &[700, 1000, 1300]);
    }
}

#[test]
fn keep_alives_after_a_packet_cost_less_than_a_kilobyte_per_second_and_direction() {
    // UDP and IPv4 around each.
    const HEADERS_BYTES: usize = 28;
    let (_setup, relay) = Setup::with_relay();
    thread::sleep(Duration::from_millis(500));
    let before = relay.passed();
    let start = Instant::now();
    thread::sleep(Duration::from_secs(3));
    let mut after = relay.passed();
    // An end may stand still where others run.
    while after.0.datagrams == before.0.datagrams || after.1.datagrams == before.1.datagrams {
        assert!(start.elapsed() < PATIENCE, "no keep-alives");
        thread::sleep(Duration::from_millis(100));
        after = relay.passed();
    }
    let seconds = start.elapsed().as_secs_f64();
    for (name, before, after) in [("there", before.0, after.0), ("back", before.1, after.1)] {
        let datagrams = after.datagrams - before.datagrams;
        let bytes = after.bytes - before.bytes + datagrams * HEADERS_BYTES;
        let rate = f64::from(u32::try_from(bytes).expect("few")) / seconds;
        println!("{name}: {datagrams} datagrams, {rate:.0} bytes/s");
        assert!(rate < 1000.0, "{rate} bytes/s");
    }
}
