//! The laboratory file: parsed and checked once.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wavebed_os::foreign;
use wavebed_os::memory_limit::memory_limit_bytes;
use wavebed_path::{Coalesce, LegConfig};

use crate::confine::ConfineFile;
use crate::limits;
use crate::names::Way;
use crate::problem::Problem;
use crate::room;
use crate::timeline::TimelineFile;

/// Largest file. Patterns are separate files.
const MOST_BYTES: u64 = 64 << 20;

/// The supported version.
pub const VERSION: u32 = 1;
/// The smallest MTU with IPv6 (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;
/// The largest signed 64-bit integer: TOML and Parquet have no larger ones.
const GREATEST_SEED: u64 = i64::MAX as u64;
/// The largest IPv4 packet.
const GREATEST_MTU: u32 = 65_535;

/// The least memory for packets in flight: a few packets in each direction, and free blocks kept for reuse.
const LEAST_PACKET_MEMORY_BYTES: usize = 16 << 20;

/// How long a wire segment may wait to be coalesced: at most a radio frame.
const COALESCE_NS: std::ops::RangeInclusive<u64> = 1..=10_000_000;

/// Time between two samples: a millisecond to an hour.
const SAMPLE_NS: std::ops::RangeInclusive<u64> = 1_000_000..=3_600_000_000_000;

/// A whole laboratory, as `docs/development/laboratory-file.md` describes it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a key of the file with a meaning of its own"
)]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabFile {
    /// Version of the format.
    pub version: u32,
    /// Name for the control socket.
    pub name: String,
    /// Seed of all random processes.
    pub seed: u64,
    /// MTU of every leg, bytes.
    pub mtu: u32,
    /// Whether this machine replaces the server.
    pub nat: bool,
    /// Whether programs reach sockets of the machine's programs by their names in the file system.
    #[serde(default)]
    pub outside_sockets: bool,
    /// Which way questions for names take with NAT.
    #[serde(default)]
    pub names: Way,
    /// Whether time starts only on a request over the control socket.
    #[serde(default)]
    pub wait: bool,
    /// Which segments are coalesced.
    pub coalesce: Coalesce,
    /// Memory limit of packets in flight, bytes; null for a quarter of what this process may have.
    #[serde(default)]
    packet_memory_bytes: Option<usize>,
    /// When the client's flows get other source ports, nanoseconds after time zero, in order.
    #[serde(default)]
    pub rebind_at_ns: Vec<u64>,
    /// Hosts, server first, client last.
    pub hosts: Vec<HostFile>,
    /// Leg `i` connects host `i` and host `i + 1`.
    pub legs: Vec<LegConfig>,
    /// A second leg between the last two hosts, such as a second radio of the client.
    #[serde(default)]
    pub second_leg: Option<LegConfig>,
    /// Programs that run beside the command.
    pub background: Vec<ProcessFile>,
    /// The command; without it the laboratory is driven through its socket.
    pub command: Option<ProcessFile>,
    /// Longest time after the end of the command in which the last data may arrive and be read, nanoseconds.
    #[serde(default)]
    pub drain_ns: u64,
    /// Time from SIGTERM to SIGKILL for the programs at the end, nanoseconds.
    #[serde(default = "limits::programs_ns")]
    pub grace_ns: u64,
    /// How programs are confined; without it none can be confined.
    #[serde(default)]
    pub confine: Option<ConfineFile>,
    /// Sampling intervals of connections and processors; null for no samples.
    #[serde(default)]
    pub sample: Option<SampleFile>,
    /// The timeline; null for none.
    #[serde(default)]
    pub timeline: Option<TimelineFile>,
    /// Folder of the series.
    pub log_dir: Option<PathBuf>,
    /// Whether the folder of the series gets a packet log of each link too.
    #[serde(default)]
    pub packet_log: bool,
    /// Folder of the captures.
    pub pcap_dir: Option<PathBuf>,
    /// File of the summary.
    pub summary_file: Option<PathBuf>,
    /// Maps of the scenes, for displays.
    #[serde(default)]
    pub maps: Vec<MapFile>,
    /// Socket to the front process, which serves the listeners of the hosts; none in the file.
    #[serde(skip)]
    pub front: Option<OwnedFd>,
}

/// The map of a hop's scene. Displays read it; only the name of the hop is read here.
#[derive(Debug, Deserialize)]
pub struct MapFile {
    /// The hop.
    pub hop: String,
    /// The rest of it.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}

/// A host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Its name.
    pub name: String,
    /// TCP congestion control of its connections; the machine's default without.
    pub congestion_control: Option<String>,
    /// Settings of its network namespace.
    pub sysctls: BTreeMap<String, String>,
}

/// The samplers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleFile {
    /// Time between two samples of the TCP connections, nanoseconds.
    pub flows_ns: u64,
    /// Time between two samples of the processors, nanoseconds.
    pub cpu_ns: u64,
}

/// A program on a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessFile {
    /// The host's name.
    pub host: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether it is confined; otherwise it runs as the laboratory's user.
    #[serde(default)]
    pub confined: bool,
}

/// Whether `link` is one of these hops' links.
pub fn is_link<'a>(link: &str, mut hops: impl Iterator<Item = &'a str>) -> bool {
    let hop = link
        .strip_suffix(".down")
        .or_else(|| link.strip_suffix(".up"));
    hop.is_some_and(|hop| hops.any(|name| name == hop))
}

/// Reads the file at `path` (`-` for standard input) by `parse`.
///
/// # Errors
/// One line with the file and the broken rule.
pub fn read_file<T>(
    path: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Problem> {
    let at = |line: String| Problem::wrong(format!("{path}: {line}"));
    let text = if path == "-" {
        foreign::read_bounded(std::io::stdin(), MOST_BYTES)
    } else {
        foreign::open(Path::new(path)).and_then(|file| foreign::read_bounded(file, MOST_BYTES))
    };
    let text = text.map_err(at)?;
    parse(&text).map_err(at)
}

impl LabFile {
    /// Reads the file at `path` (`-` for standard input) and checks it.
    ///
    /// # Errors
    /// One line with the file and the broken rule.
    pub fn read(path: &str) -> Result<Self, Problem> {
        read_file(path, Self::parse)
    }

    /// Reads a file's text and checks it.
    ///
    /// # Errors
    /// One line with the broken rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lab: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        lab.check()?;
        Ok(lab)
    }

    /// Memory limit of packets in flight, bytes. The default is a quarter of what this process may have: the programs
    /// in the laboratory, the kernel's buffers and the rest of the machine need memory too.
    #[must_use]
    pub fn packet_memory_bytes(&self) -> usize {
        packet_memory_bytes(self.packet_memory_bytes)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "version: {} is not supported: use {VERSION}",
                self.version
            ));
        }
        check_name("name", &self.name)?;
        if self.seed > GREATEST_SEED {
            return Err(format!("seed: {} is above {GREATEST_SEED}", self.seed));
        }
        if !(LEAST_MTU..=GREATEST_MTU).contains(&self.mtu) {
            return Err(format!(
                "mtu: {} is outside {LEAST_MTU} to {GREATEST_MTU}",
                self.mtu
            ));
        }
        check_coalesce(self.coalesce)?;
        check_packet_memory(self.packet_memory_bytes)?;
        if self.wait && self.command.is_some() {
            return Err(
                "wait: a command starts at once: set wait to false, or command to null".to_owned(),
            );
        }
        if self.packet_log && self.log_dir.is_none() {
            return Err("packet_log: requires log_dir".to_owned());
        }
        self.check_rebindings()?;
        self.check_sample()?;
        self.check_hosts()?;
        self.check_hops()?;
        let background = self
            .background
            .iter()
            .map(|process| ("background", process));
        for (key, process) in
            background.chain(self.command.iter().map(|process| ("command", process)))
        {
            self.check_process(key, process)?;
        }
        Ok(())
    }

    fn check_sample(&self) -> Result<(), String> {
        let Some(sample) = &self.sample else {
            return Ok(());
        };
        if self.log_dir.is_none() {
            return Err("sample: requires log_dir".to_owned());
        }
        for (key, value) in [("flows_ns", sample.flows_ns), ("cpu_ns", sample.cpu_ns)] {
            if !SAMPLE_NS.contains(&value) {
                return Err(format!(
                    "sample: {key}: {value} is outside {} to {}",
                    SAMPLE_NS.start(),
                    SAMPLE_NS.end()
                ));
            }
        }
        Ok(())
    }

    fn check_rebindings(&self) -> Result<(), String> {
        if self.nat && !self.rebind_at_ns.is_empty() {
            return Err(
                "rebind_at_ns: with nat the server is this machine, whose connections stay: set it to []".to_owned(),
            );
        }
        if !self.rebind_at_ns.is_sorted_by(|one, next| one < next) {
            return Err("rebind_at_ns: must rise".to_owned());
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), String> {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        if !(2..=3).contains(&names.len())
            || names[0] != "server"
            || names[names.len() - 1] != "client"
        {
            return Err(
                "hosts: must be two or three, the first named server, the last named client"
                    .to_owned(),
            );
        }
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        if distinct.len() != names.len() {
            return Err("hosts: names must be distinct".to_owned());
        }
        for host in &self.hosts {
            check_name("hosts: name", &host.name)?;
            for key in host.sysctls.keys() {
                check_sysctl(&host.name, key)?;
            }
        }
        let server = &self.hosts[0];
        if self.nat && (server.congestion_control.is_some() || !server.sysctls.is_empty()) {
            return Err(
                "hosts: with nat the server is this machine, whose settings are not changed: set \
                        its congestion_control to null and its sysctls to {}"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_hops(&self) -> Result<(), String> {
        if self.legs.len() + 1 != self.hosts.len() {
            return Err(format!(
                "legs: {} hosts require {} legs, not {}",
                self.hosts.len(),
                self.hosts.len() - 1,
                self.legs.len()
            ));
        }
        let mut names = BTreeSet::new();
        if self.nat && self.second_leg.is_some() {
            return Err("second_leg: cannot be used with nat: set it to null".to_owned());
        }
        for (index, leg) in self.all_legs().enumerate() {
            if leg.hops.is_empty() {
                let place = if index < self.legs.len() {
                    format!("legs[{index}]")
                } else {
                    "second_leg".to_owned()
                };
                return Err(format!("{place}: hops: must have at least one hop"));
            }
            for hop in &leg.hops {
                check_name("hops: name", &hop.name)?;
                if !names.insert(&hop.name) {
                    return Err(format!(
                        "hops: names must be distinct: {:?} occurs twice",
                        hop.name
                    ));
                }
            }
        }
        room::check(self.all_legs(), self.mtu)?;
        let has = |link: &str| is_link(link, names.iter().map(|name| name.as_str()));
        self.timeline
            .as_ref()
            .map_or(Ok(()), |file| file.check(has))
    }

    fn check_process(&self, key: &str, process: &ProcessFile) -> Result<(), String> {
        self.host_index(&process.host)
            .map_err(|line| format!("{key}: host: {line}"))?;
        if process.argv.first().is_none_or(String::is_empty) {
            return Err(format!("{key}: argv: must name a program"));
        }
        if process.confined && self.confine.is_none() {
            return Err(format!("{key}: confined: requires the key confine"));
        }
        if process.argv.iter().any(|argument| argument.contains('\0')) {
            return Err(format!("{key}: argv: an argument contains a zero byte"));
        }
        Ok(())
    }

    /// All legs: those of the row, then the second one to the client.
    pub fn all_legs(&self) -> impl Iterator<Item = &LegConfig> {
        self.legs.iter().chain(&self.second_leg)
    }

    /// The index of a host.
    ///
    /// # Errors
    /// There is no host of this name.
    pub fn host_index(&self, name: &str) -> Result<usize, String> {
        self.hosts
            .iter()
            .position(|host| host.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
                format!("there is no host {name:?}: use one of {}", known.join(", "))
            })
    }
}

/// Whether `name` is valid in socket names, host names and file names.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    first && name.len() <= 32 && name.bytes().all(fits)
}

/// The memory limit that was given, or a quarter of what this process may have in whole steps of the least; not less than the
/// least, bytes. Two guests differ by some pages where the machine does not let them choose the addresses of their kernel.
#[must_use]
pub fn packet_memory_bytes(given: Option<usize>) -> usize {
    let quarter = || {
        let bytes = usize::try_from(memory_limit_bytes() / 4).unwrap_or(usize::MAX);
        bytes - bytes % LEAST_PACKET_MEMORY_BYTES
    };
    given.unwrap_or_else(quarter).max(LEAST_PACKET_MEMORY_BYTES)
}

/// Checks the window of coalescing.
///
/// # Errors
/// It is too long or zero.
pub fn check_coalesce(coalesce: Coalesce) -> Result<(), String> {
    match coalesce {
        Coalesce::Time { time_ns } if !COALESCE_NS.contains(&time_ns) => Err(format!(
            "coalesce: time_ns: {time_ns} is outside {} to {}",
            COALESCE_NS.start(),
            COALESCE_NS.end()
        )),
        _ => Ok(()),
    }
}

/// Checks the memory limit of packets in flight.
///
/// # Errors
/// It is too little.
pub fn check_packet_memory(bytes: Option<usize>) -> Result<(), String> {
    match bytes {
        Some(bytes) if bytes < LEAST_PACKET_MEMORY_BYTES => Err(format!(
            "packet_memory_bytes: {bytes} is less than {LEAST_PACKET_MEMORY_BYTES}"
        )),
        _ => Ok(()),
    }
}

/// Checks a name that goes into the names of sockets and files.
///
/// # Errors
/// It is no [name](is_name).
pub fn check_name(key: &str, name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    Err(format!(
        "{key}: {name:?} is not a valid name: use 1 to 32 letters, digits, '-', '_', '.', beginning with a letter or digit"
    ))
}

fn check_sysctl(host: &str, key: &str) -> Result<(), String> {
    let fits = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if key.starts_with("net.") && key.split('.').all(fits) {
        return Ok(());
    }
    Err(format!(
        "hosts: {host}: sysctls: {key:?} is not a setting of a network namespace: use one that begins with net."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_few_pages_more_or_less_do_not_move_the_limit_of_memory() {
        assert_eq!(packet_memory_bytes(None) % LEAST_PACKET_MEMORY_BYTES, 0);
        let given = LEAST_PACKET_MEMORY_BYTES + 1;
        assert_eq!(packet_memory_bytes(Some(given)), given);
    }

    fn example() -> Value {
        serde_json::json!({
            "version": 1, "name": "k3f9", "seed": 1, "mtu": 1500, "nat": false,
            "coalesce": {"kind": "time", "time_ns": 125_000},
            "hosts": [
                {"name": "server", "congestion_control": "cubic", "sysctls": {"net.ipv4.tcp_rmem": "4096 1 2"}},
                {"name": "client", "congestion_control": null, "sysctls": {}}
            ],
            "legs": [{"hops": [{"name": "radio", "kind": "radio", "down": [], "up": []}]}],
            "background": [{"host": "server", "argv": ["iperf3", "-s"]}],
            "command": {"host": "client", "argv": ["true"]},
            "log_dir": null, "pcap_dir": null, "summary_file": null
        })
    }

    fn refusal(change: impl FnOnce(&mut Value)) -> String {
        let mut value = example();
        change(&mut value);
        match serde_json::from_value::<LabFile>(value) {
            Ok(lab) => lab.check().expect_err("must be refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_documented_example_is_read() {
        let lab: LabFile = serde_json::from_value(example()).expect("parses");
        lab.check().expect("is right");
        assert_eq!(lab.host_index("client"), Ok(1));
    }

    #[test]
    fn each_broken_rule_is_named() {
        type Case = (fn(&mut Value), &'static str);
        let cases: [Case; 28] = [
            (
                |v| v["coalesce"]["time_ns"] = 0.into(),
                "coalesce: time_ns: 0 is outside 1 to 10000000",
            ),
            (
                |v| v["seed"] = u64::MAX.into(),
                "seed: 18446744073709551615",
            ),
            (|v| v["version"] = 2.into(), "version: 2"),
            (|v| v["extra"] = 2.into(), "unknown field `extra`"),
            (|v| v["name"] = "a/b".into(), "name: \"a/b\""),
            (|v| v["name"] = "".into(), "name: \"\""),
            (|v| v["mtu"] = 1000.into(), "mtu: 1000"),
            (
                |v| v["packet_memory_bytes"] = 1000.into(),
                "packet_memory_bytes: 1000",
            ),
            (
                |v| v["coalesce"] = serde_json::json!({"kind": "never"}),
                "never",
            ),
            (
                |v| v["hosts"][0]["name"] = "client".into(),
                "first named server",
            ),
            (|v| v["hosts"] = serde_json::json!([]), "two or three"),
            (
                |v| v["hosts"][1]["sysctls"]["kernel.panic"] = "1".into(),
                "kernel.panic",
            ),
            (
                |v| v["hosts"][1]["sysctls"]["net.ipv4/../../x"] = "1".into(),
                "net.ipv4/../../x",
            ),
            (
                |v| v["hosts"][1]["speed"] = 1.into(),
                "unknown field `speed`",
            ),
            (
                |v| v["wait"] = true.into(),
                "wait: a command starts at once",
            ),
            (
                |v| v["sample"] = serde_json::json!({"flows_ns": 10_000_000, "cpu_ns": 1_000_000}),
                "sample: requires log_dir",
            ),
            (
                |v| {
                    v["log_dir"] = "/tmp".into();
                    v["sample"] = serde_json::json!({"flows_ns": 0, "cpu_ns": 100_000_000});
                },
                "sample: flows_ns: 0",
            ),
            (
                |v| v["packet_log"] = true.into(),
                "packet_log: requires log_dir",
            ),
            (
                |v| v["nat"] = true.into(),
                "with nat the server is this machine",
            ),
            (
                |v| v["rebind_at_ns"] = serde_json::json!([5, 5]),
                "rebind_at_ns: must rise",
            ),
            (|v| v["names"] = "never".into(), "unknown variant `never`"),
            (
                |v| v["legs"] = serde_json::json!([]),
                "require 1 legs, not 0",
            ),
            (
                |v| v["legs"][0]["hops"] = serde_json::json!([]),
                "at least one",
            ),
            (
                |v| v["second_leg"] = serde_json::json!({"hops": []}),
                "second_leg: hops: must have at least one",
            ),
            (
                |v| v["second_leg"] = v["legs"][0].clone(),
                "\"radio\" occurs twice",
            ),
            (
                |v| v["command"]["host"] = "edge".into(),
                "there is no host \"edge\"",
            ),
            (
                |v| v["command"]["argv"] = serde_json::json!([]),
                "must name a program",
            ),
            (|v| v["legs"][0]["hops"][0]["kind"] = "wet".into(), "wet"),
        ];
        for (change, words) in cases {
            let line = refusal(change);
            assert!(line.contains(words), "{line:?} lacks {words:?}");
            assert!(!line.contains('\n'));
        }
    }
}
