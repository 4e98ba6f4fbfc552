//! The laboratory's init: process 1 of its PID namespace. When it ends, the kernel ends everything inside.

mod outside;
mod programs;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde_json::Value;
use wavebed_os::confinement::Set;
use wavebed_os::named_sockets::NamedSockets;
use wavebed_os::namespace::{Child, Forked, Isolation, NetworkNamespace, Notice};
use wavebed_os::nft::Masquerade;
use wavebed_os::process::{ChildState, Signals};
use wavebed_os::{clock, confinement, namespace, poll, process, unix};
use wavebed_path::host_counters::{Sockets, Unreached};

use crate::control::Connection;
use crate::engine::{EngineLink, Request, TEXT};
use crate::lab_file::{LabFile, Rules};
use crate::names::{RESOLVERS, message};
use crate::network::{Host, Network};
use crate::path_engine::Built;
use crate::problem::{FAILED, INTERRUPTED, Problem, say, say_text, write_summary};
use crate::{engine, limits, names, network, path_engine, problem};
use outside::{Outside, Rebindings};
use programs::{Stops, digits};

/// Capabilities that init keeps once the hosts exist: it starts programs in their namespaces, confines some, and
/// signals all.
const NEEDED: Set = Set::SYS_ADMIN
    .union(Set::SYS_CHROOT)
    .union(Set::SETUID)
    .union(Set::SETGID)
    .union(Set::SETPCAP)
    .union(Set::KILL)
    .union(Set::NET_ADMIN)
    .union(Set::DAC_OVERRIDE)
    .union(Set::DAC_READ_SEARCH);

/// The order of addresses of a name in glibc, gai.conf(5).
const ORDER_FILE: &str = "/etc/gai.conf";
/// Libraries ask 127.0.0.1 then, which refuses at once. Questions to the machine's resolver, which is nowhere, would cross the
/// path, and some libraries would wait 5 s for each.
const NO_RESOLVER: &str = "# No resolver is in this laboratory.\n";
/// The policy table of RFC 6724: the unique local addresses of the hosts come after IPv4, as with other libraries. A
/// client of a server on IPv4 alone would else pay a round trip for a refused connection, and UDP has no second try.
const IPV4_FIRST: &str = "\
precedence ::1/128 50
precedence ::/0 40
precedence ::ffff:0:0/96 35
precedence 2002::/16 30
precedence 2001::/32 5
precedence fc00::/7 3
precedence ::/96 1
precedence fec0::/10 1
precedence 3ffe::/16 1
";

/// The parameters of init.
pub struct InitSetup {
    /// The laboratory file.
    pub lab: LabFile,
    /// Its hops, with their stages.
    pub hops: Built,
    /// The machine's network namespace, for NAT.
    pub machine: Option<NetworkNamespace>,
    /// The named sockets of the machine's network namespace.
    pub outside: Option<NamedSockets>,
    /// Socket to the front process.
    pub front: OwnedFd,
    /// User and group outside, if init is in a new user namespace.
    pub outer_user: Option<(u32, u32)>,
    /// Whether the command gets the terminal's foreground.
    pub has_terminal: bool,
}

struct Init {
    lab: LabFile,
    /// How programs are confined.
    rules: Option<Rules>,
    hosts: Vec<Host>,
    /// Of each host, unless it is the machine.
    host_sockets: Vec<Option<Sockets>>,
    front: OwnedFd,
    signals: Signals,
    engine: EngineLink,
    engine_child: Child,
    /// Shared with the engine's process; the table is removed when both have ended.
    _masquerade: Option<Masquerade>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    /// Programs started over a connection.
    runs: BTreeMap<i32, u64>,
    command: Option<i32>,
    stops: Stops,
    /// The host's processor time of the programs that have ended, where the kernel counts it.
    host_cpu_ns: u64,
    outside: Outside,
    rebindings: Rebindings,
    /// With NAT: the machine's ports that the client does not reach.
    unreached: Option<Unreached>,
    /// Hops whose downlink has got another rate while it ran.
    replaced: BTreeSet<String>,
    has_terminal: bool,
    interrupted: bool,
    /// Number of termination signals received.
    asked_to_end: u32,
    /// The wait for the last data, once the command has ended.
    drain: Option<Drain>,
    end: Option<End>,
    /// When the laboratory ends at the latest.
    deadline_ns: Option<u64>,
}

/// The wait for the last data after the end of the command.
#[derive(Clone, Copy, Debug)]
struct Drain {
    /// The exit status of the command.
    status: i32,
    /// When it ends at the latest.
    ends_ns: u64,
    /// When it looks again.
    look_ns: u64,
    /// Since when nothing is on the way.
    empty_ns: Option<u64>,
}

/// How the laboratory ends.
#[derive(Clone, Copy, Debug)]
struct End {
    status: i32,
    /// The connection that requested it.
    asked_by: Option<u64>,
}

/// Runs init. Returns the exit status.
#[must_use]
pub fn run(setup: InitSetup) -> i32 {
    let answer = prepare(setup).and_then(|mut init| {
        if !init.lab.network.rebind_at_ns.is_empty() && !init.lab.wait {
            init.plan_rebindings_of_running();
            init.rebind_when_due();
        }
        init.start_programs()?;
        init.attend();
        Ok(init.finish())
    });
    answer.unwrap_or_else(|problem| {
        say(&problem);
        problem.status
    })
}

/// Sets up the namespaces, the hosts and the engine.
fn prepare(setup: InitSetup) -> Result<Init, Problem> {
    let InitSetup {
        mut lab,
        hops,
        machine,
        outside,
        front,
        outer_user,
        has_terminal,
    } = setup;
    if let Some((user, group)) = outer_user {
        namespace::map_root(user, group)?;
    }
    process::die_with_parent().map_err(|error| Problem::failed(error.to_string()))?;
    if unix::is_hung_up(&front) {
        return Err(Problem::failed("the front process has ended"));
    }
    let signals = Signals::receive(&[problem::CHLD], &[problem::TTOU])?;
    namespace::make_private().map_err(|error| Problem::no_rights(&error).or_virtual_time())?;
    // Both are refused in some containers without root; programs then see the process ids and the name of the machine.
    let _ = namespace::fresh_proc();
    let _ = namespace::set_hostname("wavebed");
    let network = network::build(&lab, machine)?;
    for remark in &network.remarks {
        say(remark);
    }
    replace_names(&lab, &network);
    let Network {
        hosts,
        legs,
        counters,
        host_sockets,
        peers,
        sockets,
        masquerade,
        names,
        unreached,
        ..
    } = network;
    if let Some((resolvers, doors)) = names
        && let Forked::Child = namespace::fork(Isolation::None, Notice::DescriptorOnly)?
    {
        drop((front, signals, legs, masquerade));
        names::serve(&resolvers, &doors, &hosts[0].network);
    }
    let clients = &hosts[hosts.len() - lab.network.clients()..];
    let addresses: Vec<_> = clients.iter().map(|host| (host.v4, host.v6)).collect();
    let (ours, theirs) = unix::stream_pair()?;
    let engine_child = match namespace::fork(Isolation::None, Notice::DescriptorOnly)? {
        Forked::Child => {
            drop((ours, front, signals, hosts));
            let status = engine::serve(
                || path_engine::start(&lab, hops, legs, counters, addresses, sockets),
                theirs,
            );
            drop(masquerade);
            std::process::exit(status)
        }
        Forked::Parent(child) => child,
    };
    drop((theirs, hops, legs, counters, sockets));
    let engine = EngineLink::new(ours, engine_child.pid).map_err(Problem::failed)?;
    let rules = Rules::take(&mut lab, outer_user.is_none());
    if let Some(Err(error)) = rules.as_ref().map(Rules::add_account) {
        say(format_args!("{error}: confined programs have no account"));
    }
    let outside = Outside::new(outside, lab.network.outside_sockets, lab.network.nat, peers);
    // Programs of the laboratory's root gain all capabilities at exec, unless no_new_privs is set.
    if !confinement::never_gains() {
        let needed = match outer_user {
            Some(_) => NEEDED.union(Set::SETFCAP),
            None => NEEDED,
        };
        confinement::keep(needed).map_err(|error| Problem::failed(error.to_string()))?;
    }
    Ok(Init {
        lab,
        rules,
        hosts,
        host_sockets,
        front,
        signals,
        engine,
        engine_child,
        _masquerade: masquerade,
        connections: BTreeMap::new(),
        next_connection: 0,
        runs: BTreeMap::new(),
        command: None,
        stops: Stops::default(),
        host_cpu_ns: 0,
        outside,
        rebindings: Rebindings::default(),
        unreached,
        replaced: BTreeSet::new(),
        has_terminal,
        interrupted: false,
        asked_to_end: 0,
        drain: None,
        end: None,
        deadline_ns: None,
    })
}

/// Makes the hosts' names resolvable inside. An error is not fatal: addresses still work.
fn replace_names(lab: &LabFile, network: &Network) {
    let own = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let text = network::hosts_file(lab, network.hosts[0].v4.octets()[2], &own);
    if let Err(error) = namespace::replace_file("/etc/hosts", &text) {
        say(format_args!(
            "{error}: host names do not resolve inside the laboratory: use addresses"
        ));
    }
    // Without it, programs that have no other library still get IPv6 first.
    if fs::exists(ORDER_FILE).unwrap_or(false) {
        let _ = namespace::replace_file(ORDER_FILE, IPV4_FIRST);
    }
    if let Some((resolvers, _)) = &network.names {
        if let Err(error) = namespace::replace_file(RESOLVERS, resolvers.file()) {
            say(format_args!(
                "{error}: programs cannot ask the machine's resolver: make the file {RESOLVERS}"
            ));
        }
    } else if !lab.network.nat {
        let _ = namespace::replace_file(RESOLVERS, NO_RESOLVER);
    }
}

impl Init {
    /// Serves all descriptors until the laboratory is to end.
    fn attend(&mut self) {
        while self.end.is_none() {
            let next_ns = self
                .deadline_ns
                .into_iter()
                .chain(self.sample_due_ns())
                .chain(self.rebinding_due_ns())
                .chain(self.drain.map(|drain| drain.look_ns))
                .chain(self.outside.look_due_ns())
                .min();
            let timeout_ns = next_ns.map(|at| at.saturating_sub(clock::monotonic_ns()));
            let Some((readable, order)) = self.wait(timeout_ns) else {
                return;
            };
            if readable[0] {
                self.reap();
            }
            if readable[1] && self.end.is_none() {
                self.hear_front();
            }
            if readable[2] && self.end.is_none() {
                self.engine_ended();
            }
            for (index, id) in order.iter().enumerate() {
                if readable[3 + index] && self.end.is_none() {
                    self.hear_connection(*id);
                }
            }
            if self.end.is_none() {
                self.rebind_when_due();
                self.send_samples();
                self.outside.look(self.command.is_some());
                self.look_at_drain();
            }
            if self.end.is_none()
                && self
                    .deadline_ns
                    .is_some_and(|at| clock::monotonic_ns() >= at)
            {
                self.end_with(128 + problem::TERM);
            }
        }
    }

    /// Waits for signals, the front process, the engine and the connections, in this order.
    fn wait(&self, timeout_ns: Option<u64>) -> Option<(Vec<bool>, Vec<u64>)> {
        let mut fds = vec![
            self.signals.as_fd(),
            self.front.as_fd(),
            self.engine_child.pidfd.as_fd(),
        ];
        let order: Vec<u64> = self.connections.keys().copied().collect();
        fds.extend(self.connections.values().map(AsFd::as_fd));
        let mut readable = vec![false; fds.len()];
        poll::wait(&fds, &mut readable, timeout_ns).ok()?;
        Some((readable, order))
    }

    fn end_with(&mut self, status: i32) {
        let status = if self.interrupted {
            INTERRUPTED
        } else {
            status
        };
        self.end.get_or_insert(End {
            status,
            asked_by: None,
        });
    }

    fn hear_front(&mut self) {
        let mut buffer = [0; 8];
        let mut descriptors = Vec::new();
        match unix::receive(self.front.as_fd(), &mut buffer, &mut descriptors) {
            Ok(count) if count > 0 => {}
            // The front process has ended; no process reads a status.
            _ => std::process::exit(FAILED),
        }
        match buffer[0] {
            message::SIGNAL => self.pass_on(i32::from(buffer[1])),
            message::CONNECTION => {
                if let Some(descriptor) = descriptors.pop() {
                    let connection = Connection::new(UnixStream::from(descriptor));
                    self.connections.insert(self.next_connection, connection);
                    self.next_connection += 1;
                }
            }
            kind => self.command_goes_on(kind == message::FOREGROUND),
        }
    }

    fn pass_on(&mut self, signal: i32) {
        let Some(pid) = self.command else {
            if [problem::INT, problem::TERM, problem::HUP, problem::QUIT].contains(&signal) {
                self.end_with(128 + signal);
            }
            return;
        };
        if let Some(drain) = self.drain {
            self.end_with(drain.status);
            return;
        }
        self.interrupted |= signal == problem::INT;
        self.asked_to_end += u32::from(signal == problem::INT || signal == problem::TERM);
        let _ = process::kill(-pid, signal);
        let grace_ns = if self.asked_to_end > 1 {
            limits::COMMAND_AGAIN_NS
        } else if signal == problem::TERM || signal == problem::HUP {
            limits::COMMAND_NS
        } else {
            return;
        };
        let deadline_ns = clock::monotonic_ns() + grace_ns;
        self.deadline_ns = Some(
            self.deadline_ns
                .map_or(deadline_ns, |at| at.min(deadline_ns)),
        );
    }

    fn command_goes_on(&self, foreground: bool) {
        if let Some(pid) = self.command {
            if foreground {
                let _ = process::give(std::io::stdin().as_fd(), pid);
            }
            let _ = process::kill(-pid, problem::CONT);
        }
    }

    fn engine_ended(&mut self) {
        let how = process::wait_for(self.engine_child.pid);
        let code = how.map_or(FAILED, ChildState::exit_code);
        match self.engine.fault() {
            Some(line) => say(line),
            None => say(format_args!(
                "the link engine ended unexpectedly (status {code})"
            )),
        }
        std::process::exit(FAILED);
    }

    /// Ends every program, stops the engine, writes the summary. Returns the exit status.
    fn finish(mut self) -> i32 {
        let end = self.end.unwrap_or(End {
            status: FAILED,
            asked_by: None,
        });
        self.outside.look_last(self.command.is_some());
        let stops = self.stops.all(clock::monotonic_ns());
        // Before the machine's programs that the laboratory started end.
        self.say_unreached();
        self.end_programs();
        let host_cpu_ns = self.host_cpu_ns();
        let mut summary = self.engine.ask(&Request::Stop);
        if let Ok(value) = &mut summary {
            programs::add(value, &stops);
            self.outside.add(value);
            if let Some(time_ns) = host_cpu_ns {
                value["host_cpu_ns"] = time_ns.into();
            }
            if !self.rebindings.done_ns.is_empty() {
                value["rebound_at_ns"] = self.rebindings.done_ns.clone().into();
            }
        }
        let mut status = end.status;
        match &mut summary {
            Ok(value) => {
                let text = value.as_object_mut().and_then(|object| object.remove(TEXT));
                // The file first: printing may fail or block.
                let written = self.write_summary(value);
                if self.command.is_some() {
                    say_text(text.as_ref().and_then(Value::as_str).unwrap_or_default());
                }
                if let Err(line) = written {
                    say(line);
                    status = if status == 0 { FAILED } else { status };
                }
                if let Some(time_ns) = host_cpu_ns {
                    value["host_cpu_ns"] = digits(time_ns);
                }
            }
            Err(line) => {
                say(line);
                status = if status == 0 { FAILED } else { status };
            }
        }
        if let Some(connection) = end.asked_by.and_then(|id| self.connections.get_mut(&id)) {
            connection.answer(&match summary {
                Ok(value) => serde_json::json!({"ok": true, "summary": value}),
                Err(line) => serde_json::json!({"error": line}),
            });
        }
        status
    }

    /// Says which programs of the machine the client cannot reach, if connections of it have failed.
    fn say_unreached(&self) {
        let ports = self
            .unreached
            .as_ref()
            .and_then(|unreached| unreached.ports().ok());
        let ports: Vec<String> = ports.iter().flatten().map(u16::to_string).collect();
        if !ports.is_empty() {
            say(format_args!(
                "nat: connections of the client failed; on this machine's 127.0.0.1 alone listen ports {}: let the \
                 program listen on 0.0.0.0, and connect to server",
                ports.join(", ")
            ));
        }
    }

    fn write_summary(&self, summary: &Value) -> Result<(), String> {
        let file = &self.lab;
        write_summary(file.summary_file.as_deref(), &file.name, file.seed, summary)
    }
}
