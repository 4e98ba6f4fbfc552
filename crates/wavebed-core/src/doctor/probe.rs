//! A trial laboratory without hosts: a child creates the namespaces, a device and a table, reports, and ends.

use std::fs;
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use wavebed_os::confinement::{self, User};
use wavebed_os::namespace::{self, Forked, Isolation, Notice};
use wavebed_os::tun::Tun;
use wavebed_os::{mount, nft, process};

/// An arbitrary user id without an account.
const NOBODYS: u32 = 63_719;

/// The child's findings. Errors are the system's messages.
#[derive(Debug, Serialize, Deserialize)]
pub struct Findings {
    /// Whether the needed privileges exist inside.
    pub rights: Result<(), String>,
    /// Whether a new `/proc` can be mounted.
    pub proc: Result<(), String>,
    /// Whether the settings of the hosts, which are in the network namespace, can be written.
    pub settings: Result<(), String>,
    /// Whether a TUN device could be created, and whether with UDP segmentation offload.
    pub tun: Result<bool, String>,
    /// Whether the kernel can masquerade.
    pub nft: Result<(), String>,
    /// Whether the kernel can give flows other source ports.
    pub rebind: Result<(), String>,
    /// Whether a confined browser may create the namespaces of its sandbox.
    pub sandbox: Result<(), String>,
}

/// Tries to set up a laboratory with this isolation.
///
/// # Errors
/// The namespaces could not be created.
pub fn try_laboratory(isolation: Isolation) -> Result<Findings, String> {
    let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let (user, group) = namespace::effective_user();
    match namespace::fork(isolation, Notice::Signal).map_err(|error| error.source.to_string())? {
        Forked::Child => {
            drop(reader);
            let outer = (isolation == Isolation::UserLaboratory).then_some((user, group));
            let text = serde_json::to_vec(&look_around(outer)).unwrap_or_default();
            std::process::exit(i32::from((&writer).write_all(&text).is_err()))
        }
        Forked::Parent(child) => {
            drop(writer);
            let mut text = String::new();
            let read = reader.read_to_string(&mut text);
            let _ = process::wait_for(child.pid);
            read.map_err(|error| error.to_string())?;
            serde_json::from_str(&text).map_err(|_| "the trial process ended early".to_owned())
        }
    }
}

fn look_around(outer: Option<(u32, u32)>) -> Findings {
    let map = outer.map_or(Ok(()), |(user, group)| namespace::map_root(user, group));
    let rights = map.and_then(|()| mount::make_private());
    Findings {
        rights: rights.map_err(|error| error.to_string()),
        proc: mount::fresh_proc().map_err(|error| error.to_string()),
        settings: fs::OpenOptions::new()
            .write(true)
            .open("/proc/sys/net/ipv4/tcp_no_metrics_save")
            .map(drop)
            .map_err(|error| error.to_string()),
        tun: Tun::create("wb0", 1500)
            .map(|tun| tun.has_udp_offload())
            .map_err(|error| error.to_string()),
        nft: nft::try_masquerade().map_err(|error| error.to_string()),
        rebind: nft::try_source_ports().map_err(|error| error.to_string()),
        // Last: it cannot be undone.
        sandbox: confinement::try_sandbox(if outer.is_some() {
            User::Renamed(NOBODYS)
        } else {
            User::Other(NOBODYS)
        })
        .map_err(|error| error.to_string()),
    }
}

/// The settings that forbid user namespaces, and the remedy for each.
#[must_use]
pub fn restriction() -> &'static str {
    let is = |key: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/{key}")).is_ok_and(|text| text.trim() == value)
    };
    if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "run as root, or let AppArmor allow it: `wavebed doctor` says what to type"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "run as root, or allow it: sysctl kernel.unprivileged_userns_clone=1"
    } else if is("user/max_user_namespaces", "0") {
        "run as root, or allow it: sysctl user.max_user_namespaces=10000"
    } else {
        "run as root; in a container, run it as another user, with --security-opt unmask=ALL (Podman), or seccomp=unconfined, \
         systempaths=unconfined and apparmor=unconfined (Docker)"
    }
}
