//! The facts about a machine, and the order in which they are told.

use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::time::Duration;
use std::{fs, thread};

use serde::Serialize;
use wavebed_os::cgroup::Group;
use wavebed_os::confinement::Set;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::tun::Tun;
use wavebed_os::{confinement, socket};

use crate::splitter::{Rules, Settings};
use crate::syn;

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
        Name::Kernel => version(),
        Name::NetworkAdministration => network_administration(),
        Name::Tun => tun(),
        Name::Tproxy => tproxy(),
        Name::Forwarding => forwarding(),
        Name::Bbr => congestion_control(name, "bbr"),
        Name::Cubic => congestion_control(name, "cubic"),
        Name::LeastTimeout => least_timeout(),
        Name::LinearSyn => linear_syn(),
        Name::SocketProgram => socket_program(),
        Name::ControlGroups => control_groups(),
        Name::Splice => pipes(),
        Name::SystemCallFilter => system_call_filter(),
        Name::Landlock => landlock(),
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

/// The oldest kernel that the remedies are meant for: BPF programs for sockets learn their namespace (Linux 5.15).
const OLDEST: (u32, u32) = (5, 15);
const PIPE_BYTES: u64 = 1 << 20;

pub fn version() -> Fact {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let tried = if number(&release).is_some_and(|found| found >= OLDEST) {
        Ok(release)
    } else {
        Err(release)
    };
    let (major, minor) = OLDEST;
    Fact::new(
        Name::Kernel,
        tried,
        &format!("Linux {major}.{minor} or later is tested"),
    )
}

/// The first two numbers of a release.
fn number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|one: char| !one.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub fn network_administration() -> Fact {
    let permitted = confinement::permitted().unwrap_or(Set::empty());
    let known = [
        (Set::NET_ADMIN, "CAP_NET_ADMIN"),
        (Set::NET_RAW, "CAP_NET_RAW"),
        (Set::SYS_ADMIN, "CAP_SYS_ADMIN"),
        (Set::BPF, "CAP_BPF"),
    ];
    let names = known.iter().filter(|(one, _)| permitted.contains(*one));
    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
    let tried = if permitted.contains(Set::NET_ADMIN) {
        Ok(format!("this process has {}", names.join(", ")))
    } else {
        Err("this process lacks it".to_owned())
    };
    Fact::new(Name::NetworkAdministration, tried, "run it as root")
}

pub fn congestion_control(name: Name, wanted: &str) -> Fact {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let tried = fs::read_to_string(file)
        .map_err(|error| format!("{file}: {error}"))
        .and_then(|text| {
            let available = text.trim().to_owned();
            if available.split(' ').any(|one| one == wanted) {
                Ok("is available".to_owned())
            } else {
                Err(format!("the kernel has {available}"))
            }
        });
    Fact::new(name, tried, &format!("modprobe tcp_{wanted}"))
}

pub fn least_timeout() -> Fact {
    // Two ticks of the slowest kernels: less is refused (`TCP_TIMEOUT_MIN`).
    let wanted = Duration::from_millis(20);
    let tried = TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| {
            socket::set_min_rto(&socket, wanted)?;
            socket::min_rto(&socket)
        })
        .map(|found| format!("can be {} ms", found.as_millis()))
        .map_err(|error| error.to_string());
    Fact::new(Name::LeastTimeout, tried, "Linux 6.15 has it")
}

pub fn linear_syn() -> Fact {
    let file = "/proc/sys/net/ipv4/tcp_syn_linear_timeouts";
    let tried = fs::read_to_string(file)
        .map(|text| format!("net.ipv4.tcp_syn_linear_timeouts = {}", text.trim()))
        .map_err(|_| "the kernel has no net.ipv4.tcp_syn_linear_timeouts".to_owned());
    Fact::new(Name::LinearSyn, tried, "Linux 6.5 has it")
}

pub fn control_groups() -> Fact {
    let tried = Group::root().and_then(|root| root.own());
    let tried = tried
        .map(|_| "this process is in one".to_owned())
        .map_err(|error| error.to_string());
    Fact::new(
        Name::ControlGroups,
        tried,
        "mount them: mount -t cgroup2 none /sys/fs/cgroup",
    )
}

pub fn pipes() -> Fact {
    let file = "/proc/sys/fs/pipe-max-size";
    let tried = fs::read_to_string(file)
        .map_err(|error| format!("{file}: {error}"))
        .and_then(|text| match text.trim().parse::<u64>() {
            Ok(bytes) if bytes >= PIPE_BYTES => Ok(format!("fs.pipe-max-size = {bytes}")),
            _ => Err(format!("fs.pipe-max-size = {}", text.trim())),
        });
    Fact::new(
        Name::Splice,
        tried,
        &format!("sysctl -w fs.pipe-max-size={PIPE_BYTES}"),
    )
}

pub fn system_call_filter() -> Fact {
    let tried = if confinement::works() {
        Ok("the kernel takes a filter of system calls".to_owned())
    } else {
        Err("the kernel takes no filter of system calls".to_owned())
    };
    Fact::new(
        Name::SystemCallFilter,
        tried,
        "a kernel with CONFIG_SECCOMP_FILTER, on x86-64, AArch64 or RISC-V of 64 bits",
    )
}

pub fn landlock() -> Fact {
    let tried = confinement::version()
        .map(|version| format!("version {version}"))
        .ok_or_else(|| "the kernel has none".to_owned());
    Fact::new(
        Name::Landlock,
        tried,
        "Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK, and `landlock` in the kernel's parameter lsm=",
    )
}

const MTU: u32 = 1500;

pub fn tun() -> Fact {
    let tried = apart(|| {
        let tun = Tun::create("wavebed%d", MTU).map_err(|error| error.to_string())?;
        let udp = if tun.has_udp_offload() {
            " and UDP"
        } else {
            ""
        };
        Ok(format!("with offloads of TCP{udp}"))
    });
    Fact::new(Name::Tun, tried, "load the module: modprobe tun")
}

pub fn tproxy() -> Fact {
    let tried = apart(|| {
        let loopback = interface_index("lo").map_err(|error| error.to_string())?;
        let netlink = Netlink::route().map_err(|error| error.to_string())?;
        netlink
            .set_up(loopback)
            .map_err(|error| error.to_string())?;
        Rules::new(&Settings::default()).apply()
    });
    Fact::new(
        Name::Tproxy,
        tried.map(|()| "nftables takes the splitter's rules".to_owned()),
        "install nftables and iproute2, and the modules nft_tproxy and nft_socket",
    )
}

pub fn forwarding() -> Fact {
    let names = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];
    let is_on = |name: &str| {
        fs::read_to_string(format!("/proc/sys/net/{name}")).is_ok_and(|text| text.trim() != "0")
    };
    let tried = match names.map(is_on) {
        [true, true] => Ok("of IPv4 and IPv6".to_owned()),
        [true, false] => Ok("of IPv4 alone".to_owned()),
        [false, true] => Ok("of IPv6 alone".to_owned()),
        [false, false] => Err("this machine is no router".to_owned()),
    };
    Fact::new(Name::Forwarding, tried, "sysctl -w net.ipv4.ip_forward=1")
}

/// The program runs for no connection here: it is for connections in the trial's namespace.
pub fn socket_program() -> Fact {
    let tried = apart(|| {
        let group = Group::root().map_err(|error| error.to_string())?;
        syn::try_program(group.as_fd()).map_err(|error| error.to_string())
    });
    Fact::new(
        Name::SocketProgram,
        tried.map(|()| "a program for socket operations can be loaded and attached".to_owned()),
        "needs root and CONFIG_CGROUP_BPF",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_by_its_first_two_numbers() {
        assert_eq!(number("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(number("5.4.0+"), Some((5, 4)));
        assert_eq!(number("unknown"), None);
    }
}
