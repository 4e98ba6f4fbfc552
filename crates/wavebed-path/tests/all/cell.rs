//! Directions with a cell, without a device or a clock.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Value, json};
use wavebed_link::Link;
use wavebed_path::cell_account::FileTimes;
use wavebed_path::coalesce::Coalesce;
use wavebed_path::direction::{Direction, InCell, Way};
use wavebed_path::frames::Frames;
use wavebed_path::link_chain::{ClassChain, LinkChain, NamedLink};
use wavebed_path::pool::{PacketMemory, Packets};
use wavebed_path::series::{Address, Classes, Side};
use wavebed_path::{HopSetup, NetworkConfig, Patterns};

use crate::direction::{List, segments, tcp};

const MS: u64 = 1_000_000;

/// A radio of 100 Mbit/s in slots of 0.5 ms that loses a tenth of its blocks.
fn radio(direction: &str) -> Value {
    json!({
        "stage": "radio", "direction": direction, "rate": {"kind": "constant", "rate_bps": 100_000_000}, "bler": 0.1,
        "slots": {"slot_ns": 500_000, "frame": "", "special_symbols": [0, 0, 0], "prepare_ns": 100_000,
                  "decode_ns": 300_000,
                  "harq": {"processes": 8, "feedback_slots": 2, "schedule_slots": 2, "limit": 4,
                           "combining_gain_db": 3.0, "slope_per_db": 2.0}},
        "fallback": null, "queue": {"kind": "droptail", "limit": {"packets": 1000}}, "discard_ns": null,
        "rlc": {"mode": "am", "reassembly_ns": 20_000_000, "poll_ns": 40_000_000, "status_ns": 5_000_000,
                "retransmissions": 32},
        "reordering": {"timer_ns": 100_000_000}, "grants": null, "connection": null, "load": null,
        "aggregation": null, "split": null
    })
}

fn delay(milliseconds: u64) -> Value {
    json!({"stage": "delay", "delay": {"kind": "constant", "delay_ns": milliseconds * MS}})
}

/// Stages of a device: the radio, and a delay of its own on the side of the base station.
fn stages(place: usize) -> (Value, Value) {
    let own = delay(1 + place as u64);
    (json!([own, radio("down")]), json!([radio("up"), own]))
}

fn scheduler() -> Value {
    json!({"policy": "proportional_fair", "units": 17})
}

/// A network of a server, a wired hop, and the radios of these devices: in a cell, or as one hop.
fn network(devices: usize, in_cell: bool) -> NetworkConfig {
    let host = |name: &str| json!({"name": name, "congestion_control": null});
    let name = |place: usize| match (in_cell, place) {
        (true, _) => format!("phone-{place}"),
        (false, _) => "client".to_owned(),
    };
    let mut hosts = vec![host("server")];
    hosts.extend((0..devices).map(|place| host(&name(place))));
    let wire = json!({"name": "wire", "kind": "wired", "down": [delay(2)], "up": [delay(3)]});
    let mut hops = vec![wire];
    let mut cell = Value::Null;
    if in_cell {
        let devices: Vec<Value> = (0..devices)
            .map(|place| {
                let (down, up) = stages(place);
                json!({"host": name(place), "down": down, "up": up})
            })
            .collect();
        cell = json!({"name": "radio", "down": scheduler(), "up": scheduler(), "devices": devices});
    } else {
        let (down, up) = stages(0);
        hops.push(json!({"name": "radio", "kind": "radio", "down": down, "up": up}));
    }
    let legs = json!([{"from": "server", "to": name(0), "hops": hops}]);
    let network = json!({
        "mtu": 1500, "nat": false, "coalesce": {"kind": "slot"}, "packet_memory_bytes": null, "hosts": hosts,
        "legs": legs, "cell": cell,
    });
    let network: NetworkConfig = serde_json::from_value(network).expect("a network");
    network.check().expect("it is right");
    network
}

/// The links of hops towards the client, or back.
fn chain(hops: Vec<HopSetup>, up: bool) -> LinkChain {
    let link = |name: String, stages| NamedLink {
        name,
        link: Link::new(stages, true),
        points: None,
        log: None,
    };
    let hops = hops.into_iter();
    let mut links: Vec<NamedLink> = hops
        .map(|hop| {
            if up {
                link(format!("{}.up", hop.name), hop.up)
            } else {
                link(format!("{}.down", hop.name), hop.down)
            }
        })
        .collect();
    if up {
        links.reverse();
    }
    LinkChain::new(links, Coalesce::Slot, true)
}

struct Bench {
    direction: Direction,
    inputs: Vec<List>,
    outputs: Vec<List>,
    now_ns: Cell<u64>,
}

impl Bench {
    fn new(devices: usize, in_cell: bool, up: bool) -> Self {
        let network = network(devices, in_cell);
        let mut built = network
            .build(7, &mut Patterns::default())
            .expect("it is built");
        let own = chain(built.legs.remove(0), up);
        let packets = Packets::new(Arc::new(PacketMemory::new(usize::MAX))).expect("memory");
        let mut direction = Direction::new(own, packets);
        if let Some((cell, hops)) = built.cell {
            let classes = hops
                .into_iter()
                .map(|hop| ClassChain::new(hop.name.clone(), chain(vec![hop], up)));
            let addresses: Vec<Vec<Address>> = (0..devices).map(|at| vec![address(at)]).collect();
            let sorted = Classes::new(addresses.iter().map(Vec::as_slice), Side::Destination);
            let at = if up {
                InCell {
                    cell: cell.up,
                    way: Way::Up,
                    name: "cell.up".into(),
                    file_times: FileTimes::default(),
                }
            } else {
                InCell {
                    cell: cell.down,
                    way: Way::Down(sorted),
                    name: "cell.down".into(),
                    file_times: FileTimes::default(),
                }
            };
            let inputs = if up { devices } else { 1 };
            direction = direction.in_cell(at, classes.collect(), inputs);
        }
        let lists = |count| std::iter::repeat_with(List::default).take(count).collect();
        Self {
            direction,
            inputs: lists(if up { devices } else { 1 }),
            outputs: lists(if up { 1 } else { devices }),
            now_ns: Cell::new(0),
        }
    }

    fn turn(&mut self, at_ns: u64) {
        self.now_ns.set(at_ns);
        let now_ns = &self.now_ns;
        let clock = || now_ns.get();
        for (place, input) in self.inputs.iter_mut().enumerate() {
            let output = &mut self.outputs[0];
            while self
                .direction
                .read(place, input, output, &clock)
                .expect("a list")
                .packets
                > 0
            {}
        }
        self.direction.advance_to(&mut self.outputs, &clock);
    }

    /// Turns at every event until nothing is left, or at `until_ns`.
    fn run(&mut self, until_ns: u64) {
        while let Some(at_ns) = self.direction.next_event_ns()
            && at_ns <= until_ns
        {
            self.turn(at_ns.max(self.now_ns.get() + 1));
        }
    }

    /// Every link must account for all of its segments.
    fn accounts(&self) -> Vec<(String, wavebed_link::Counts)> {
        let links = self.direction.links().map(|named| {
            let total = *named.link.counters().total();
            let backlog = named.link.backlog().segments;
            assert_eq!(total.unaccounted_segments(), i128::from(backlog));
            (named.name.clone(), total)
        });
        links.collect()
    }
}

/// The address of a device: the first one has the address of [`tcp`].
fn address(device: usize) -> Address {
    let last = u8::try_from(2 + device).expect("few devices");
    Address::Ip(std::net::Ipv4Addr::new(198, 18, 0, last).into())
}

/// A packet to this device.
fn to(device: usize, sequence: u32) -> Vec<u8> {
    let mut frame = tcp(sequence, 14_480, 1_448);
    // After the virtio-net header: the last byte of the destination; the checksum of the header is nobody's concern here.
    frame[10 + 19] = u8::try_from(2 + device).expect("few devices");
    frame
}

/// Sends packets in both arrangements, and returns when each was written, with its bytes.
fn times(in_cell: bool, up: bool) -> Vec<(u64, Vec<u8>)> {
    let mut bench = Bench::new(1, in_cell, up);
    let mut written = Vec::new();
    for round in 0..200u32 {
        bench.inputs[0].incoming.push_back(to(0, round * 14_480));
        bench.turn(bench.now_ns.get().max(u64::from(round) * MS));
        bench.run(u64::from(round + 1) * MS - 1);
        let now_ns = bench.now_ns.get();
        written.extend(
            bench.outputs[0]
                .written
                .drain(..)
                .map(|bytes| (now_ns, bytes)),
        );
    }
    while let Some(at_ns) = bench.direction.next_event_ns() {
        bench.turn(at_ns.max(bench.now_ns.get() + 1));
        let now_ns = bench.now_ns.get();
        written.extend(
            bench.outputs[0]
                .written
                .drain(..)
                .map(|bytes| (now_ns, bytes)),
        );
    }
    bench.accounts();
    assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
    written
}

#[test]
fn a_cell_of_one_device_is_its_hop() {
    for up in [false, true] {
        let (alone, of_cell) = (times(false, up), times(true, up));
        assert!(alone.len() > 200, "{}", alone.len());
        assert_eq!(alone, of_cell);
    }
}

#[test]
fn each_packet_goes_to_its_device_and_none_is_lost_between_links() {
    let mut bench = Bench::new(3, true, false);
    for round in 0..60 {
        for device in 0..3 {
            bench.inputs[0]
                .incoming
                .push_back(to(device, round * 14_480));
        }
        bench.turn(bench.now_ns.get().max(u64::from(round) * 2 * MS));
        bench.run(u64::from(round + 1) * 2 * MS - 1);
    }
    bench.run(u64::MAX);
    for (device, output) in bench.outputs.iter().enumerate() {
        let last = u8::try_from(2 + device).expect("few devices");
        assert!(output.written.iter().all(|frame| frame[10 + 19] == last));
        let count: usize = output
            .written
            .iter()
            .map(|frame| segments(frame).len())
            .sum();
        assert_eq!(count, 60 * 10, "device {device}");
    }
    let accounts = bench.accounts();
    let names: Vec<&str> = accounts.iter().map(|(name, _)| name.as_str()).collect();
    let devices = [
        "radio.phone-0.down",
        "radio.phone-1.down",
        "radio.phone-2.down",
    ];
    assert_eq!(names[0], "wire.down");
    assert_eq!(names[1..], devices);
    assert_eq!(accounts[0].1.delivered.segments, 3 * 600);
    assert!(bench.direction.is_empty());
}

#[test]
fn what_devices_send_leaves_in_the_order_of_time() {
    let mut bench = Bench::new(3, true, true);
    for round in 0..60 {
        for device in 0..3 {
            let frame = to(device, round * 14_480);
            bench.inputs[device].incoming.push_back(frame);
        }
        bench.turn(bench.now_ns.get().max(u64::from(round) * 2 * MS));
        bench.run(u64::from(round + 1) * 2 * MS - 1);
    }
    bench.run(u64::MAX);
    let accounts = bench.accounts();
    let names: Vec<&str> = accounts.iter().map(|(name, _)| name.as_str()).collect();
    let devices = ["radio.phone-0.up", "radio.phone-1.up", "radio.phone-2.up"];
    assert_eq!(names[..3], devices);
    assert_eq!(names[3], "wire.up");
    assert!(
        accounts[..3]
            .iter()
            .all(|(_, total)| total.delivered.segments == 600)
    );
    assert_eq!(accounts[3].1.delivered.segments, 3 * 600);
    let transits = bench.direction.transits();
    assert_eq!(transits.len(), 3);
    assert!(transits.iter().all(|(_, transit)| transit.segments == 600));
}

#[test]
fn a_packet_to_no_device_goes_to_the_first_and_one_that_is_none_is_malformed() {
    let mut bench = Bench::new(2, true, false);
    bench.inputs[0].incoming.push_back(to(77, 0));
    bench.inputs[0].incoming.push_back(vec![0; 30]);
    bench.turn(0);
    bench.run(u64::MAX);
    assert!(!bench.outputs[0].written.is_empty());
    assert!(bench.outputs[1].written.is_empty());
    let accounts = bench.accounts();
    let malformed = wavebed_link::Reason::Malformed as usize;
    assert_eq!(accounts[0].1.dropped[malformed].segments, 1);
}

/// An Ethernet frame to this device, virtio-net header first.
fn frame_to(device: usize) -> Vec<u8> {
    let packet = to(device, 0);
    let (header, ip) = packet.split_at(10);
    let mut header = header.to_vec();
    for place in [2, 6] {
        // Lengths and offsets count the Ethernet header too.
        let value = u16::from_le_bytes([header[place], header[place + 1]]) + 14;
        header[place..place + 2].copy_from_slice(&value.to_le_bytes());
    }
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    [&header, &ethernet[..], ip].concat()
}

#[test]
fn devices_of_a_bridge_share_hops_and_a_cell_and_others_take_the_hops_alone() {
    for up in [false, true] {
        let mut bench = Bench::new(2, true, up);
        let side = if up { Side::Source } else { Side::Destination };
        let addresses: Vec<Vec<Address>> = (0..2).map(|at| vec![address(at)]).collect();
        let classes = Classes::new(addresses.iter().map(Vec::as_slice), side);
        bench.direction.frames = Some(Frames::new(Some(classes)));
        let way = if up { Way::UpPorts } else { Way::DownPorts };
        bench.direction.cell.as_mut().expect("a cell").way = way;
        bench.inputs.truncate(1);
        bench.outputs.truncate(1);
        for device in [0, 40, 1] {
            let mut frame = frame_to(device);
            if up {
                let (source, destination) = (10 + 14 + 15, 10 + 14 + 19);
                frame.swap(source, destination);
            }
            bench.inputs[0].incoming.push_back(frame);
        }
        bench.turn(0);
        bench.run(u64::MAX);
        let accounts = bench.accounts();
        let delivered: Vec<(&str, u64)> = accounts
            .iter()
            .map(|(name, total)| (name.as_str(), total.delivered.segments))
            .collect();
        let expected = if up {
            [
                ("radio.phone-0.up", 10),
                ("radio.phone-1.up", 10),
                ("wire.up", 30),
            ]
        } else {
            [
                ("wire.down", 30),
                ("radio.phone-0.down", 10),
                ("radio.phone-1.down", 10),
            ]
        };
        assert_eq!(delivered, expected);
        let of_no_device = bench.direction.chain.account.devices;
        assert_eq!(
            (of_no_device.segments_read, of_no_device.segments_written),
            (10, 10)
        );
        let frames = bench.direction.frames.as_ref().expect("a bridge");
        let account = frames.account("a-b", bench.direction.chains());
        assert_eq!(
            (account.received_frames, account.delivered_frames),
            (30, 30)
        );
        assert_eq!(account.unaccounted(), 0);
    }
}

#[test]
fn a_network_with_a_cell_names_what_is_wrong() {
    let broken = |change: &dyn Fn(&mut NetworkConfig)| {
        let mut network = network(2, true);
        change(&mut network);
        network.check().expect_err("is refused")
    };
    let said = broken(&|network| network.hosts.swap(1, 2));
    assert!(said.starts_with("hosts: with a cell"), "{said}");
    let said = broken(&|network| {
        let leg = network.legs[0].clone();
        network.legs.push(leg);
    });
    assert!(said.contains("no second leg"), "{said}");
    let said = broken(&|network| {
        let cell = network.cell.as_mut().expect("a cell");
        cell.devices[1].down.pop();
    });
    assert_eq!(
        said,
        "cell: devices: phone-1: down: has 0 stages radio: use exactly one"
    );
    let said = broken(&|network| network.legs[0].hops[0].name = "radio".into());
    assert!(said.contains("\"radio\" occurs twice"), "{said}");
    let mut network = network(2, true);
    network.cell.as_mut().expect("a cell").down.control_units = 17;
    let built = network.build(1, &mut Patterns::default());
    let said = built.err().expect("is refused").to_string();
    assert!(said.starts_with("radio.down: control_units"), "{said}");
}
