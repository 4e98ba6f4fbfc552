//! Sockets of other programs of this machine, which lead past the path: closed to the programs inside, or watched.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;
use wavebed_os::named_sockets::{NamedSockets, Peers};
use wavebed_os::nft::SourcePorts;
use wavebed_os::{clock, named_sockets, nft};

use super::Init;
use crate::engine::{Request, TEXT};
use crate::network::DEVICE_PREFIX;
use crate::problem::{CANNOT, Problem, say};

/// Time between two looks at the connections of programs, where only those that stand are seen.
const LOOK_NS: u64 = 20_000_000;
/// The same where the kernel notes each connection.
const NOTED_NS: u64 = 500_000_000;

/// The sockets with a name in the file system that programs outside listen at.
pub(super) struct Outside {
    sockets: Option<NamedSockets>,
    /// Whether programs inside reach them.
    are_open: bool,
    /// Whether each is outside, also one that appears while the laboratory runs. With NAT the server's are among them.
    may_appear: bool,
    closed: BTreeSet<PathBuf>,
    /// Those whose connections the kernel notes, each with the time of the last one before the laboratory.
    noted: Vec<(PathBuf, SystemTime)>,
    /// Without such notes, the connections that stand.
    peers: Vec<Peers>,
    /// The first one that a program inside was connected to.
    used: Option<String>,
    look_ns: Option<u64>,
}

impl Outside {
    /// The sockets outside. The sockets of the machine's own namespace are read from `sockets`.
    pub(super) fn new(
        sockets: Option<NamedSockets>,
        are_open: bool,
        has_nat: bool,
        peers: Vec<Peers>,
    ) -> Self {
        let mut outside = Self {
            sockets,
            are_open,
            may_appear: !has_nat,
            closed: BTreeSet::new(),
            noted: Vec::new(),
            peers,
            used: None,
            look_ns: None,
        };
        if are_open && has_nat {
            return outside;
        }
        let mut found = outside.listed();
        found.extend(named_sockets::open_services(&found));
        if !are_open {
            outside.close(found);
        } else if !found.is_empty() {
            let note =
                |path: PathBuf| Some((path.clone(), named_sockets::note_connections(&path).ok()?));
            outside.noted = found.into_iter().filter_map(note).collect();
            let sees = !outside.noted.is_empty() || !outside.peers.is_empty();
            outside.look_ns = sees.then(clock::monotonic_ns);
        }
        outside
    }

    /// Closes those that have appeared. To be called before a program starts.
    pub(super) fn close_new(&mut self) {
        if !self.are_open && self.may_appear {
            self.close(self.listed());
        }
    }

    fn listed(&self) -> BTreeSet<PathBuf> {
        let listed = self.sockets.as_ref().map(NamedSockets::open);
        listed.and_then(Result::ok).unwrap_or_default()
    }

    fn close(&mut self, sockets: BTreeSet<PathBuf>) {
        for path in sockets {
            match named_sockets::close(&path) {
                Ok(()) => {
                    self.closed.insert(path);
                }
                // Programs cannot reach it either, or it has ended.
                Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => {}
                Err(error) => say(format_args!(
                    "{}: a socket outside the laboratory stays in reach of programs: {error}",
                    path.display()
                )),
            }
        }
    }

    /// When the connections of programs are to be looked at.
    pub(super) fn look_due_ns(&self) -> Option<u64> {
        self.look_ns
    }

    /// Looks for a program that has connected to a socket outside, if it is time, and tells of the first one if `aloud`.
    pub(super) fn look(&mut self, aloud: bool) {
        let now_ns = clock::monotonic_ns();
        if self.look_ns.is_some_and(|at| at <= now_ns) {
            self.look_now(aloud);
        }
    }

    /// The same at the end, whatever the time.
    pub(super) fn look_last(&mut self, aloud: bool) {
        if self.look_ns.is_some() {
            self.look_now(aloud);
        }
    }

    fn look_now(&mut self, aloud: bool) {
        let pause_ns = if self.noted.is_empty() {
            LOOK_NS
        } else {
            NOTED_NS
        };
        self.look_ns = Some(clock::monotonic_ns() + pause_ns);
        if let Some(path) = self.connected() {
            let path = path.display().to_string();
            if aloud {
                say(format_args!(
                    "a program connected to {path}, a socket outside the laboratory: what it sends there does not \
                     cross the path"
                ));
            }
            self.used = Some(path);
            self.look_ns = None;
        }
    }

    fn connected(&mut self) -> Option<PathBuf> {
        let is_newer = |(path, before): &&(PathBuf, SystemTime)| {
            fs::metadata(path)
                .and_then(|now| now.accessed())
                .is_ok_and(|at| at > *before)
        };
        if !self.noted.is_empty() {
            return self
                .noted
                .iter()
                .find(is_newer)
                .map(|(path, _)| path.clone());
        }
        let (mut own, mut others) = (HashSet::new(), Vec::new());
        for peers in &mut self.peers {
            peers.list(&mut own, &mut others).ok()?;
        }
        let mut foreign = others.into_iter().filter(|inode| !own.contains(inode));
        foreign.find_map(|inode| self.sockets.as_ref()?.name_of(inode))
    }

    /// Adds to a summary what is known of sockets outside, and to its evidence where no packet crossed the path.
    pub(super) fn add(&self, summary: &mut Value) {
        let reason = match (&self.used, self.closed.len()) {
            (Some(path), _) => format!("; a program connected to {path}, a socket outside"),
            (None, 0) => String::new(),
            (None, count) => {
                format!("; sockets of programs outside that were closed to them: {count}")
            }
        };
        let names: Vec<String> = self
            .closed
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        summary["outside_sockets"] = serde_json::json!({
            "open": self.are_open, "closed": names, "used": self.used,
        });
        let checks = summary.get_mut("checks").and_then(Value::as_array_mut);
        let silent = checks
            .into_iter()
            .flatten()
            .find(|check| check["code"] == "traffic" && check["holds"] == false);
        let Some(check) = silent else {
            return;
        };
        let evidence = check["evidence"].as_str().unwrap_or_default().to_owned();
        let whole = format!("{evidence}{reason}");
        check["evidence"] = whole.clone().into();
        if let Some(Value::String(text)) = summary.get_mut(TEXT) {
            *text = text.replace(&evidence, &whole);
        }
    }
}

// Rebinding of the client's NAT: its flows get other source ports, as after a restart of a carrier's NAT.
//
// There is no NAT, and no tracking of connections, before the first event: until then packets are as without one.

/// Source ports after the events, in turn: below those that Linux gives by itself (32768 to 60999).
const PORTS: [(u16, u16); 2] = [(10_000, 20_999), (21_000, 31_999)];

/// The events.
#[derive(Default)]
pub(super) struct Rebindings {
    /// When further ones are due.
    due_ns: VecDeque<u64>,
    /// When those until now were, since time zero.
    pub done_ns: Vec<u64>,
    /// Time zero.
    zero_ns: u64,
    table: Option<SourcePorts>,
}

impl Init {
    /// Plans the events of the laboratory file, once time has begun at `zero_ns`.
    pub(super) fn plan_rebindings(&mut self, zero_ns: u64) {
        self.rebindings.zero_ns = zero_ns;
        let times_ns = self.lab.network.rebind_at_ns.iter();
        self.rebindings.due_ns = times_ns.map(|at| zero_ns.saturating_add(*at)).collect();
    }

    /// Plans them where time began at once.
    pub(super) fn plan_rebindings_of_running(&mut self) {
        if let Ok(shown) = self.engine.ask(&Request::Show)
            && let Some(zero_ns) = shown["zero_ns"].as_u64()
        {
            self.plan_rebindings(zero_ns);
        }
    }

    /// When the next event is due.
    pub(super) fn rebinding_due_ns(&self) -> Option<u64> {
        self.rebindings.due_ns.front().copied()
    }

    /// Makes the events that are due.
    pub(super) fn rebind_when_due(&mut self) {
        while self
            .rebinding_due_ns()
            .is_some_and(|at| at <= clock::monotonic_ns())
        {
            self.rebindings.due_ns.pop_front();
            if let Err(line) = self.rebind() {
                // A trial without its event would be another trial.
                say(format_args!("rebind: {line}"));
                self.end_with(CANNOT);
            }
        }
    }

    /// Gives the client's flows other source ports.
    pub(super) fn rebind(&mut self) -> Result<(), String> {
        if self.lab.network.nat {
            return Err(
                "with nat the server is this machine, whose connections stay: leave nat out"
                    .to_owned(),
            );
        }
        self.hosts[0]
            .network
            .enter()
            .map_err(|error| error.to_string())?;
        let count = self.rebindings.done_ns.len();
        // The old table first: of two, the older one would choose the port.
        self.rebindings.table = None;
        let table = SourcePorts::new(
            &format!("rebind-{count}"),
            DEVICE_PREFIX,
            PORTS[count % PORTS.len()],
        );
        let done = table.and_then(|table| nft::forget_connections().map(|()| table));
        let table = done.map_err(|error| Problem::from(error).line)?;
        self.rebindings.table = Some(table);
        let now_ns = clock::monotonic_ns().saturating_sub(self.rebindings.zero_ns);
        self.rebindings.done_ns.push(now_ns);
        Ok(())
    }
}
