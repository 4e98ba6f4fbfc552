//! The bridge file: parsed and checked once.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;
use wavebed_forward::frame::mac_from_text;
use wavebed_link::config::check_bounds;
use wavebed_path::{Address, CellConfig, Coalesce, HopConfig, HopView};

use crate::lab_file::{
    VERSION, check_coalesce, check_name, check_packet_memory, is_link, packet_memory_bytes,
    read_file,
};
use crate::problem::Problem;
use crate::room;
use crate::timeline::TimelineFile;

/// Two ports of this machine and the hops between them, as `docs/development/bridge-file.md` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeFile {
    /// Version of the format.
    pub version: u32,
    /// Name for the control socket.
    pub name: String,
    /// Seed of all random processes.
    pub seed: u64,
    /// Bytes of the largest IP packet that stages expect.
    pub mtu: u32,
    /// The port towards the network: the server's side.
    pub a: String,
    /// The port towards the devices: the client's side.
    pub b: String,
    /// The Linux bridge that `b` is and stays a port of: its other ports are the network. `a` is then the name of a further
    /// port, which the bridge gets while this one runs. Null: `a` and `b` are interfaces by themselves.
    pub switch: Option<String>,
    /// MAC addresses behind `b`, which `switch` shall know there from the start.
    #[serde(deserialize_with = "read_macs")]
    pub known_by: Vec<[u8; 6]>,
    /// Whether a port may be the one of the machine's default route.
    pub force: bool,
    /// What becomes of the traffic when the link engine fails.
    pub on_failure: OnFailure,
    /// Which segments are coalesced.
    pub coalesce: Coalesce,
    /// Memory limit of packets in flight, bytes; null for a quarter of what this process may have.
    packet_memory_bytes: Option<usize>,
    /// Hops, the one nearest to `a` first: with a cell those that its devices share, and others take alone.
    hops: Vec<HopConfig>,
    /// Devices on the side of `b` with hops of their own.
    pub classes: Vec<ClassFile>,
    /// The cell, whose devices are the classes; null for none.
    #[serde(default)]
    pub cell: Option<CellConfig>,
    /// The timeline; null for none.
    pub timeline: Option<TimelineFile>,
    /// Folder of the series.
    pub log_dir: Option<PathBuf>,
    /// Whether the folder of the series gets a packet log of each link too.
    pub packet_log: bool,
    /// Folder of the captures.
    pub pcap_dir: Option<PathBuf>,
    /// File of the summary.
    pub summary_file: Option<PathBuf>,
}

/// Devices with hops of their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassFile {
    /// Their name.
    pub name: String,
    /// Their addresses: MAC, IPv4 or IPv6.
    #[serde(deserialize_with = "read_addresses")]
    pub addresses: Vec<Address>,
    /// Their hops, the one nearest to `a` first.
    pub hops: Vec<HopConfig>,
}

fn read_addresses<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<Address>, D::Error> {
    let texts = Vec::<String>::deserialize(source)?;
    let read = |text: &String| {
        let mac = || mac_from_text(text).map(Address::Mac);
        let address = text.parse().ok().map(Address::Ip).or_else(mac);
        address.ok_or_else(|| {
            serde::de::Error::custom(format_args!(
                "{text:?} is no address: use a MAC, IPv4 or IPv6 address"
            ))
        })
    };
    texts.iter().map(read).collect()
}

fn read_macs<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<[u8; 6]>, D::Error> {
    let texts = Vec::<String>::deserialize(source)?;
    let read = |text: &String| {
        let wrong = || serde::de::Error::custom(format_args!("{text:?} is no MAC address"));
        mac_from_text(text).ok_or_else(wrong)
    };
    texts.iter().map(read).collect()
}

/// What becomes of the traffic when the link engine fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It stops.
    Closed,
    /// It passes without the links.
    Open,
}

impl BridgeFile {
    /// Reads the file at `path` (`-` for standard input) and checks it.
    ///
    /// # Errors
    /// One line with the file and the broken rule.
    pub fn read(path: &str) -> Result<Self, Problem> {
        read_file(path, Self::parse)
    }

    /// The hops of all devices, and the hops of each class.
    pub fn legs(&self) -> impl Iterator<Item = &[HopConfig]> {
        let own = std::iter::once(self.hops.as_slice());
        own.chain(self.classes.iter().map(|class| class.hops.as_slice()))
    }

    /// All hops; hops of classes come last.
    pub fn all_hops(&self) -> impl Iterator<Item = &HopConfig> {
        let of_classes = self.classes.iter().flat_map(|class| &class.hops);
        self.hops.iter().chain(of_classes)
    }

    /// The same, and the classes in the cell.
    pub fn views(&self) -> impl Iterator<Item = HopView<'_>> {
        let classes = self.cell.iter().flat_map(CellConfig::hops);
        self.all_hops().map(HopConfig::view).chain(classes)
    }

    /// The place of a class among the devices of the cell.
    pub fn place_in_cell(&self, class: &str) -> Option<usize> {
        let devices = &self.cell.as_ref()?.devices;
        devices.iter().position(|device| device.host == class)
    }

    /// Memory limit of packets in flight, bytes.
    #[must_use]
    pub fn packet_memory_bytes(&self) -> usize {
        packet_memory_bytes(self.packet_memory_bytes)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "version: {} is not supported: use {VERSION}",
                self.version
            ));
        }
        check_name("name", &self.name)?;
        check_coalesce(self.coalesce)?;
        check_packet_memory(self.packet_memory_bytes)?;
        if self.a == self.b {
            return Err(format!("b: {:?} is also a: name another port", self.b));
        }
        if self.switch.is_none() && !self.known_by.is_empty() {
            return Err("known_by: requires switch".to_owned());
        }
        if self.packet_log && self.log_dir.is_none() {
            return Err("packet_log: requires log_dir".to_owned());
        }
        let has_none =
            |class: &ClassFile| class.hops.is_empty() && self.place_in_cell(&class.name).is_none();
        if self.hops.is_empty() || self.classes.iter().any(has_none) {
            return Err("hops: must have at least one hop".to_owned());
        }
        let mut names = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for class in &self.classes {
            check_name("classes: name", &class.name)?;
            if !names.insert(&class.name) {
                return Err(format!(
                    "classes: names must be distinct: {:?} occurs twice",
                    class.name
                ));
            }
            if let Some(address) = class.addresses.iter().find(|each| !addresses.insert(*each)) {
                return Err(format!("classes: {address} is in two classes"));
            }
        }
        if let Some(cell) = &self.cell {
            check_bounds(cell).map_err(|error| format!("cell: {error}"))?;
            let devices = cell.devices.iter().map(|device| &device.host);
            if !devices.eq(self.classes.iter().map(|class| &class.name)) {
                return Err("cell: devices: host: use the names of all classes, in order".into());
            }
            cell.check()?;
        }
        let mut names = BTreeSet::new();
        for hop in self.all_hops() {
            check_name("hops: name", &hop.name)?;
        }
        for hop in self.views() {
            if !names.insert(hop.name.clone()) {
                return Err(format!(
                    "hops: names must be distinct: {:?} occurs twice",
                    hop.name
                ));
            }
        }
        room::check(self.views(), self.mtu)?;
        let has = |link: &str| is_link(link, names.iter());
        self.timeline
            .as_ref()
            .map_or(Ok(()), |file| file.check(has))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn example() -> Value {
        json!({
            "version": 1, "name": "k3f9", "seed": 1, "mtu": 1500, "a": "eth1", "b": "eth2", "switch": null, "known_by": [], "force": false,
            "on_failure": "closed", "coalesce": {"kind": "time", "time_ns": 125_000},
            "packet_memory_bytes": null,
            "hops": [{"name": "radio", "kind": "radio", "down": [], "up": []}],
            "classes": [{
                "name": "tv", "addresses": ["02:00:00:00:00:01", "192.0.2.7", "fd00::7"],
                "hops": [{"name": "tv.radio", "kind": "radio", "down": [], "up": []}],
            }],
            "timeline": null, "log_dir": null, "packet_log": false, "pcap_dir": null, "summary_file": null
        })
    }

    #[test]
    fn the_documented_example_is_read() {
        let file = BridgeFile::parse(&example().to_string()).expect("is right");
        assert_eq!((file.a.as_str(), file.b.as_str()), ("eth1", "eth2"));
        assert_eq!(file.on_failure, OnFailure::Closed);
        assert_eq!(file.legs().count(), 2);
        assert_eq!(file.classes[0].addresses.len(), 3);
    }

    fn timeline(link: &str, duration_ns: u64) -> Value {
        let stretches = [("home", 0), ("lift", 10)];
        let stretches = stretches.map(|(name, at)| json!({"name": name, "start_ns": at}));
        json!({
            "duration_ns": duration_ns, "loop": false, "stretches": stretches,
            "patterns": [{"link": link, "file": "x.csv"}],
        })
    }

    #[test]
    fn a_timeline_belongs_to_links_of_the_bridge() {
        let mut value = example();
        for link in ["radio.down", "tv.radio.up"] {
            value["timeline"] = timeline(link, 11);
            assert!(BridgeFile::parse(&value.to_string()).is_ok());
        }
    }

    #[test]
    fn each_broken_rule_is_named() {
        type Case = (fn(&mut Value), &'static str);
        let cases: [Case; 17] = [
            (|v| v["version"] = 2.into(), "version: 2"),
            (|v| v["name"] = "a/b".into(), "name: \"a/b\""),
            (|v| v["b"] = "eth1".into(), "b: \"eth1\" is also a"),
            (|v| v["on_failure"] = "half".into(), "half"),
            (|v| v["hops"] = json!([]), "hops: must have"),
            (
                |v| {
                    v["cell"] = json!({"name": "cell", "down": {"policy": "round_robin", "units": 9},
                                       "up": {"policy": "round_robin", "units": 9}, "devices": []});
                },
                "cell: devices: use at least 1",
            ),
            (
                |v| {
                    let scheduler = json!({"policy": "round_robin", "units": 9});
                    let device = json!({"host": "phone", "down": [], "up": []});
                    v["cell"] = json!({"name": "cell", "down": scheduler, "up": scheduler, "devices": [device]});
                },
                "cell: devices: host: use the names of all classes, in order",
            ),
            (
                |v| v["hops"] = json!([v["hops"][0], v["hops"][0]]),
                "\"radio\" occurs twice",
            ),
            (
                |v| v["classes"][0]["addresses"][1] = "192.0.2".into(),
                "\"192.0.2\" is no address",
            ),
            (
                |v| v["classes"][0]["addresses"][1] = "02:00:00:00:00:01".into(),
                "02:00:00:00:00:01 is in two classes",
            ),
            (
                |v| v["classes"][0]["hops"][0]["name"] = "radio".into(),
                "\"radio\" occurs twice",
            ),
            (|v| v["packet_log"] = true.into(), "requires log_dir"),
            (
                |v| v["known_by"] = json!(["02:00:00:00:00:01"]),
                "known_by: requires switch",
            ),
            (
                |v| v["known_by"] = json!(["fd00::7"]),
                "\"fd00::7\" is no MAC address",
            ),
            (
                |v| v["timeline"] = timeline("tv.radio.up", 10),
                "timeline: duration_ns: must be after",
            ),
            (
                |v| v["timeline"] = timeline("wire.down", 11),
                "timeline: patterns: there is no link \"wire.down\"",
            ),
            (|v| v["speed"] = 1.into(), "unknown field `speed`"),
        ];
        for (change, words) in cases {
            let mut value = example();
            change(&mut value);
            let line = BridgeFile::parse(&value.to_string()).expect_err("must be refused");
            assert!(line.contains(words), "{line:?} lacks {words:?}");
        }
    }
}
