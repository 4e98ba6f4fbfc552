//! The laboratory file: parsed and checked once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wavebed_link::config::check_bounds;
use wavebed_os::cgroup::memory_limit_bytes;
use wavebed_os::confinement::{Confinement, Set, TEMPORARY, User};
use wavebed_os::{namespace, unix};
use wavebed_path::{Coalesce, HopView, LEAST_PACKET_MEMORY_BYTES, NetworkConfig, is_name};

use crate::limits::programs_ns;
use crate::problem::Problem;
use crate::room;
use crate::timeline::TimelineFile;

/// Largest file. Patterns are separate files.
const MOST_BYTES: u64 = 64 << 20;

/// The supported version.
pub const VERSION: u32 = 1;
/// The largest signed 64-bit integer: TOML and Parquet have no larger ones.
const GREATEST_SEED: u64 = i64::MAX as u64;
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
    /// The hosts and what lies between them.
    pub network: NetworkConfig,
    /// Whether time starts only on a request over the control socket.
    #[serde(default)]
    pub wait: bool,
    /// Programs that run beside the command.
    pub background: Vec<ProcessFile>,
    /// The command; without it the laboratory is driven through its socket.
    pub command: Option<ProcessFile>,
    /// Longest time after the end of the command in which the last data may arrive and be read, nanoseconds.
    #[serde(default)]
    pub drain_ns: u64,
    /// Time from SIGTERM to SIGKILL for the programs at the end, nanoseconds.
    #[serde(default = "programs_ns")]
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
pub fn is_link(link: &str, mut hops: impl Iterator<Item = impl AsRef<str>>) -> bool {
    let hop = link
        .strip_suffix(".down")
        .or_else(|| link.strip_suffix(".up"));
    hop.is_some_and(|hop| hops.any(|name| name.as_ref() == hop))
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
        unix::read_bounded(std::io::stdin(), MOST_BYTES)
    } else {
        unix::open(Path::new(path)).and_then(|file| unix::read_bounded(file, MOST_BYTES))
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
        packet_memory_bytes(self.network.packet_memory_bytes)
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
        if self.wait && self.command.is_some() {
            return Err(
                "wait: a command starts at once: set wait to false, or command to null".to_owned(),
            );
        }
        self.network
            .check()
            .map_err(|line| format!("network: {line}"))?;
        room::check(self.hops(), self.network.mtu)?;
        self.check_sample()?;
        self.check_timeline()?;
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

    fn check_timeline(&self) -> Result<(), String> {
        let has = |link: &str| is_link(link, self.hops().map(|hop| hop.name));
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

    /// The hops of all legs, and the devices of the cell.
    pub fn hops(&self) -> impl Iterator<Item = HopView<'_>> {
        self.network.hops()
    }

    /// The index of a host.
    ///
    /// # Errors
    /// There is no host of this name.
    pub fn host_index(&self, name: &str) -> Result<usize, String> {
        self.network
            .hosts
            .iter()
            .position(|host| host.name == name)
            .ok_or_else(|| {
                let hosts = self.network.hosts.iter();
                let known: Vec<&str> = hosts.map(|host| host.name.as_str()).collect();
                format!("there is no host {name:?}: use one of {}", known.join(", "))
            })
    }
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
    check_bounds(&coalesce).map_err(|error| format!("coalesce: {error}"))
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

/// Environment variables that every program may have, beside those whose names begin with `LC_`. Of the last three
/// depends whether two guests of virtual time do the same.
const HARMLESS: [&str; 8] = [
    "LANG",
    "LANGUAGE",
    "PATH",
    "TERM",
    "TZ",
    "OPENSSL_ia32cap",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
];

/// Name of the user of confined programs.
const ACCOUNT: &str = "wavebed-confined";

/// How confined programs of a laboratory are confined.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfineFile {
    /// Their user and group, which no other process has.
    pub user: u32,
    /// Folders that are empty to them.
    pub hidden: Vec<PathBuf>,
    /// Paths in these folders, or in folders that only their owner can search, that stay readable.
    pub read: Vec<PathBuf>,
}

/// Additional needs of one program.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Needs {
    /// Further paths that it reads.
    read: Vec<PathBuf>,
    /// Folders that it writes to.
    write: Vec<PathBuf>,
    /// Its capabilities in its host's network namespace.
    capabilities: Vec<Capability>,
}

/// A capability that a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Network configuration of its host.
    NetAdmin,
}

/// The confinement of a laboratory's programs.
pub struct Rules {
    file: ConfineFile,
    /// Whether root runs the laboratory, so that other users exist.
    has_users: bool,
    /// Whether the laboratory may have a terminal.
    may_have_terminal: bool,
}

impl Rules {
    /// Takes the rules from the laboratory file, if it has any.
    pub fn take(lab: &mut LabFile, has_users: bool) -> Option<Self> {
        let may_have_terminal = lab.command.is_some() || !lab.background.is_empty();
        lab.confine.take().map(|file| Self {
            file,
            has_users,
            may_have_terminal,
        })
    }

    /// The user of confined programs on the machine, if it is not the laboratory's user.
    #[must_use]
    pub fn other_user(&self) -> Option<u32> {
        self.has_users.then_some(self.file.user)
    }

    /// Gives the user of confined programs a name, a group and a home, in the laboratory's view of the files: ssh, psql
    /// and Java ask for them.
    ///
    /// # Errors
    /// There is no such file, or the process may not mount.
    pub fn add_account(&self) -> wavebed_os::Result<()> {
        let number = self.file.user;
        let lines = [
            (
                "/etc/passwd",
                format!("{ACCOUNT}:x:{number}:{number}::{TEMPORARY}:/bin/sh\n"),
            ),
            ("/etc/group", format!("{ACCOUNT}:x:{number}:\n")),
        ];
        for (path, line) in lines {
            let mut text = std::fs::read_to_string(path).unwrap_or_default();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            namespace::replace_file(path, &(text + &line))?;
        }
        Ok(())
    }

    /// The confinement of a program with these needs.
    #[must_use]
    pub fn confinement(&self, needs: &Needs) -> Confinement {
        let capabilities = needs.capabilities.iter().fold(Set::empty(), |set, each| {
            set.union(match each {
                Capability::NetAdmin => Set::NET_ADMIN,
            })
        });
        Confinement {
            user: if self.has_users {
                User::Other(self.file.user)
            } else {
                User::Renamed(self.file.user)
            },
            hidden: self.file.hidden.clone(),
            read: self.file.read.iter().chain(&needs.read).cloned().collect(),
            write: needs.write.clone(),
            capabilities,
            own_session: self.may_have_terminal,
        }
    }
}

/// The variables of `all` that a confined program has, and the folders that it may write to.
#[must_use]
pub fn environment(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = all
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| HARMLESS.contains(&key.as_str()) || key.starts_with("LC_"))
        .collect();
    for key in ["HOME", "TMPDIR"] {
        variables.insert(key.to_owned(), TEMPORARY.to_owned());
    }
    variables
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
            "version": 1, "name": "k3f9", "seed": 1,
            "network": {
                "mtu": 1500, "nat": false, "coalesce": {"kind": "time", "time_ns": 125_000},
                "hosts": [
                    {"name": "server", "congestion_control": "cubic", "sysctls": {"net.ipv4.tcp_rmem": "4096 1 2"}},
                    {"name": "client", "congestion_control": null, "sysctls": {}}
                ],
                "legs": [{"from": "server", "to": "client", "hops": [{"name": "radio", "kind": "radio", "down": [], "up": []}]}],
            },
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
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn each_broken_rule_is_named() {
        type Case = (fn(&mut Value), &'static str);
        let cases: [Case; 27] = [
            (
                |v| v["network"]["coalesce"]["time_ns"] = 0.into(),
                "network: coalesce.time_ns: use at least 1",
            ),
            (
                |v| v["seed"] = u64::MAX.into(),
                "seed: 18446744073709551615",
            ),
            (|v| v["version"] = 2.into(), "version: 2"),
            (|v| v["extra"] = 2.into(), "unknown field `extra`"),
            (|v| v["name"] = "a/b".into(), "name: \"a/b\""),
            (|v| v["name"] = "".into(), "name: \"\""),
            (
                |v| v["network"]["mtu"] = 1000.into(),
                "network: mtu: use at least 1280",
            ),
            (
                |v| v["network"]["packet_memory_bytes"] = 1000.into(),
                "network: packet_memory_bytes: use at least 16777216",
            ),
            (
                |v| v["network"]["coalesce"] = serde_json::json!({"kind": "never"}),
                "never",
            ),
            (
                |v| v["network"]["hosts"][0]["name"] = "client".into(),
                "first named server",
            ),
            (
                |v| v["network"]["hosts"] = serde_json::json!([]),
                "two or three",
            ),
            (
                |v| v["network"]["hosts"][1]["sysctls"]["kernel.panic"] = "1".into(),
                "kernel.panic",
            ),
            (
                |v| v["network"]["hosts"][1]["sysctls"]["net.ipv4/../../x"] = "1".into(),
                "net.ipv4/../../x",
            ),
            (
                |v| v["network"]["hosts"][1]["speed"] = 1.into(),
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
                |v| v["network"]["nat"] = true.into(),
                "with nat the server is this machine",
            ),
            (
                |v| v["network"]["rebind_at_ns"] = serde_json::json!([5, 5]),
                "rebind_at_ns: must rise",
            ),
            (
                |v| v["network"]["names"] = "never".into(),
                "unknown variant `never`",
            ),
            (
                |v| v["network"]["legs"] = serde_json::json!([]),
                "require 1 legs, and may have one more, not 0",
            ),
            (
                |v| v["network"]["legs"][0]["hops"] = serde_json::json!([]),
                "network: legs[0].hops: use at least 1 of them",
            ),
            (
                |v| {
                    let leg = v["network"]["legs"][0].clone();
                    v["network"]["legs"] = serde_json::json!([leg, leg]);
                },
                "\"radio\" occurs twice",
            ),
            (
                |v| v["network"]["legs"][0]["from"] = "client".into(),
                "legs[0]: leads from client to client",
            ),
            (
                |v| v["command"]["host"] = "edge".into(),
                "there is no host \"edge\"",
            ),
            (
                |v| v["command"]["argv"] = serde_json::json!([]),
                "must name a program",
            ),
            (
                |v| v["network"]["legs"][0]["hops"][0]["kind"] = "wet".into(),
                "wet",
            ),
        ];
        for (change, words) in cases {
            let line = refusal(change);
            assert!(line.contains(words), "{line:?} lacks {words:?}");
            assert!(!line.contains('\n'));
        }
    }

    #[test]
    fn only_harmless_variables_are_passed_on() {
        let given = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/root"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LD_PRELOAD", "x.so"),
            ("http_proxy", "http://x"),
        ];
        let known = environment(
            given
                .map(|(key, value)| (key.into(), value.into()))
                .into_iter(),
        );
        let known: Vec<(&str, &str)> = known
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            known,
            [
                ("HOME", "/tmp"),
                ("LC_ALL", "C"),
                ("PATH", "/bin"),
                ("TMPDIR", "/tmp")
            ]
        );
    }

    #[test]
    fn a_program_has_no_capability_that_it_does_not_name() {
        let rules = Rules {
            file: ConfineFile {
                user: 65_000,
                hidden: Vec::new(),
                read: vec!["/opt/one".into()],
            },
            has_users: true,
            may_have_terminal: false,
        };
        let plain = rules.confinement(&Needs::default());
        assert_eq!(plain.capabilities, Set::empty());
        assert_eq!(plain.user, User::Other(65_000));
        let text = r#"{"capabilities": ["net_admin"], "read": ["/opt/two"]}"#;
        let needs: Needs = serde_json::from_str(text).expect("needs");
        let more = rules.confinement(&needs);
        assert_eq!(more.capabilities, Set::NET_ADMIN);
        assert_eq!(more.read, [PathBuf::from("/opt/one"), "/opt/two".into()]);
        assert!(serde_json::from_str::<Needs>(r#"{"capabilities": ["sys_admin"]}"#).is_err());
    }
}
