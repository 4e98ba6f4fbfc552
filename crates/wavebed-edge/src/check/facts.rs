//! The facts about a machine, and the order in which they are told.

use std::thread;

use serde::Serialize;
use wavebed_os::namespace::NetworkNamespace;

use super::{kernel, network};

/// A feature of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    Kernel,
    NetworkAdministration,
    Tun,
    Tproxy,
    Forwarding,
    Bbr,
    Cubic,
    LeastTimeout,
    LinearSyn,
    SocketProgram,
    ControlGroups,
    Splice,
    SystemCallFilter,
    Landlock,
}

pub const NAMES: [Name; 14] = [
    Name::Kernel,
    Name::NetworkAdministration,
    Name::Tun,
    Name::Tproxy,
    Name::Forwarding,
    Name::Bbr,
    Name::Cubic,
    Name::LeastTimeout,
    Name::LinearSyn,
    Name::SocketProgram,
    Name::ControlGroups,
    Name::Splice,
    Name::SystemCallFilter,
    Name::Landlock,
];

impl Name {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::NetworkAdministration => "CAP_NET_ADMIN",
            Self::Tun => "TUN",
            Self::Tproxy => "TPROXY",
            Self::Forwarding => "IP forwarding",
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
            Self::LeastTimeout => "TCP_RTO_MIN_US",
            Self::LinearSyn => "linear SYN timeouts",
            Self::SocketProgram => "BPF for sockets",
            Self::ControlGroups => "control groups v2",
            Self::Splice => "pipes of 1 MiB",
            Self::SystemCallFilter => "seccomp",
            Self::Landlock => "Landlock",
        }
    }
}

/// Whether the machine has a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    pub name: Name,
    #[serde(rename = "ok")]
    pub holds: bool,
    /// What was found.
    pub found: String,
    /// What would be right, where it does not hold.
    pub remedy: Option<String>,
}

impl Fact {
    pub fn new(name: Name, tried: Result<String, String>, remedy: &str) -> Self {
        let holds = tried.is_ok();
        Self {
            name,
            holds,
            found: tried.unwrap_or_else(|refusal| refusal),
            remedy: (!holds && !remedy.is_empty()).then(|| remedy.to_owned()),
        }
    }
}

/// All facts about this machine.
pub fn all() -> Vec<Fact> {
    NAMES.into_iter().map(find).collect()
}

fn find(name: Name) -> Fact {
    match name {
        Name::Kernel => kernel::version(),
        Name::NetworkAdministration => kernel::network_administration(),
        Name::Tun => network::tun(),
        Name::Tproxy => network::tproxy(),
        Name::Forwarding => network::forwarding(),
        Name::Bbr => kernel::congestion_control(name, "bbr"),
        Name::Cubic => kernel::congestion_control(name, "cubic"),
        Name::LeastTimeout => kernel::least_timeout(),
        Name::LinearSyn => kernel::linear_syn(),
        Name::SocketProgram => network::socket_program(),
        Name::ControlGroups => kernel::control_groups(),
        Name::Splice => kernel::pipes(),
        Name::SystemCallFilter => kernel::system_call_filter(),
        Name::Landlock => kernel::landlock(),
    }
}

/// Tries something on a thread in a network namespace of its own.
pub fn apart<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let work = move || {
        NetworkNamespace::new().map_err(|error| error.to_string())?;
        what()
    };
    let ended = thread::spawn(work).join();
    ended.unwrap_or_else(|_| Err("the trial failed: report it".to_owned()))
}
