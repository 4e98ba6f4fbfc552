//! Checks by trial what this machine supports, with a remedy for each failure.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use wavebed_os::confinement::User;
use wavebed_os::namespace::{Forked, Isolation, Notice, effective_user};
use wavebed_os::tun::Tun;
use wavebed_os::{clock, confinement, namespace, nft, process, sched, tun};

use crate::network;
use crate::problem::{CANNOT, Problem, print};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The check passed.
    Ok,
    /// A feature is missing or limited.
    Warn,
    /// No laboratory can run.
    Fail,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Its result.
    pub status: Verdict,
    /// The finding.
    pub found: String,
    /// The remedy; null if the check passed.
    pub remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: Verdict::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name,
            status: Verdict::Warn,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name,
            status: Verdict::Fail,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn as_text(&self) -> String {
        let mark = match self.status {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let remedy = self
            .remedy
            .as_ref()
            .map_or(String::new(), |remedy| format!("      {remedy}\n"));
        format!("{mark}  {}: {}\n{remedy}", self.name, self.found)
    }
}

/// Runs every check, prints them, and returns the exit status: 0, or 3 if no laboratory can run.
///
/// # Errors
/// They cannot be printed.
pub fn examine(json: bool) -> Result<i32, Problem> {
    let checks = all();
    let can_run = checks.iter().all(|check| check.status != Verdict::Fail);
    let text = if json {
        format!(
            "{}\n",
            serde_json::json!({"can_run": can_run, "checks": checks})
        )
    } else {
        checks.iter().map(Check::as_text).collect()
    };
    print(&text)?;
    Ok(if can_run { 0 } else { CANNOT })
}

/// Confined programs need `mount_setattr`.
const OLDEST_KERNEL: (u32, u32) = (5, 12);
/// UDP segmentation offload of TUN devices.
const KERNEL_WITH_USO: (u32, u32) = (6, 2);
/// Wake-ups with a later p99 affect results: a slot of 60 kHz.
const LATE_NS: u64 = 250_000;
/// Every check.
fn all() -> Vec<Check> {
    let is_root = effective_user().0 == 0;
    // First, while this process has one thread.
    let as_user = try_laboratory(Isolation::UserLaboratory);
    let as_root = is_root.then(|| try_laboratory(Isolation::Laboratory));
    let ours = as_root.as_ref().unwrap_or(&as_user);
    let mut checks = vec![kernel(), tun_device(is_root), namespaces(ours, is_root)];
    if is_root {
        checks.push(user_namespaces(&as_user));
    }
    if let Ok(findings) = ours {
        checks.push(offloads(findings));
        checks.push(own_proc(findings));
        checks.push(settings(findings));
        checks.push(nat(findings, is_root));
        checks.push(rebinding(findings));
        checks.push(browser_sandbox(findings));
    }
    checks.extend([ipv6(), congestion_controls(), throttle()]);
    checks.extend(waking());
    checks
}

fn kernel() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("Linux {release}");
    if version < OLDEST_KERNEL {
        return Check::fail("kernel", found, "use Linux 5.12 or newer");
    }
    if version < KERNEL_WITH_USO {
        let remedy = "from Linux 6.2 on, UDP super-packets cross in one piece, which is faster";
        return Check::warn("kernel", found, remedy);
    }
    Check::ok("kernel", found)
}

fn tun_device(is_root: bool) -> Check {
    let name = "tun device";
    match OpenOptions::new().read(true).write(true).open(tun::DEVICE) {
        Ok(_) => Check::ok(name, format!("{} is accessible", tun::DEVICE)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_root => Check::fail(
            name,
            format!("{}: {error}", tun::DEVICE),
            format!(
                "run as root, or allow all users to open it, which is safe: sudo chmod 666 {}",
                tun::DEVICE
            ),
        ),
        Err(error) => Check::fail(
            name,
            format!("{}: {error}", tun::DEVICE),
            "load the module: modprobe tun; in a container: --device /dev/net/tun",
        ),
    }
}

fn namespaces(trial: &Result<Findings, String>, is_root: bool) -> Check {
    let name = "namespaces";
    let how = if is_root {
        "as root"
    } else {
        "in a user namespace"
    };
    let refusal = match trial {
        Err(error)
        | Ok(Findings {
            rights: Err(error), ..
        }) => error,
        Ok(Findings {
            tun: Err(error), ..
        }) => {
            return Check::fail(name, format!("{how}: {error}"), "see the tun device above");
        }
        Ok(_) => return Check::ok(name, format!("a laboratory can be made {how}")),
    };
    Check::fail(name, format!("{how}: {refusal}"), restriction())
}

fn user_namespaces(trial: &Result<Findings, String>) -> Check {
    let name = "namespaces without root";
    if let Err(refusal)
    | Ok(
        Findings {
            rights: Err(refusal),
            ..
        }
        | Findings {
            tun: Err(refusal), ..
        },
    ) = trial
    {
        return Check::warn(name, refusal.clone(), restriction());
    }
    // The trial ran as root; other users also need access to the device.
    let mode = fs::metadata(tun::DEVICE).map_or(0, |about| about.permissions().mode());
    if mode & 0o6 != 0o6 {
        let found = format!("possible, but only root may open {}", tun::DEVICE);
        let remedy = format!("allow all users, which is safe: chmod 666 {}", tun::DEVICE);
        return Check::warn(name, found, remedy);
    }
    Check::ok(name, "a laboratory can be made in a user namespace")
}

fn offloads(findings: &Findings) -> Check {
    let name = "offloads";
    match findings.tun {
        Ok(true) => Check::ok(name, "checksum, TCP and UDP segmentation"),
        Ok(false) => Check::warn(
            name,
            "checksum and TCP segmentation, not UDP",
            "from Linux 6.2 on, UDP super-packets cross in one piece, which is faster",
        ),
        Err(ref error) => Check::fail(name, error.clone(), "see the tun device above"),
    }
}

fn own_proc(findings: &Findings) -> Check {
    match &findings.proc {
        Ok(()) => Check::ok("own /proc", "processes inside see each other only"),
        Err(error) => Check::warn(
            "own /proc",
            error.clone(),
            "ps inside shows the machine's processes; run as root to change that",
        ),
    }
}

fn settings(findings: &Findings) -> Check {
    let name = "settings of hosts";
    match &findings.settings {
        Ok(()) => Check::ok(name, "can be written"),
        Err(error) => Check::fail(
            name,
            format!("/proc/sys/net: {error}"),
            "in a container, start it with --security-opt unmask=ALL (Podman) or systempaths=unconfined (Docker)",
        ),
    }
}

fn nat(findings: &Findings, is_root: bool) -> Check {
    let name = "nat";
    match &findings.nft {
        Ok(()) if is_root => Check::ok(name, "nftables can masquerade"),
        Ok(()) => Check::warn(
            name,
            "nftables can masquerade, but only for root",
            "run with sudo where you need --nat",
        ),
        Err(error) => Check::warn(
            name,
            format!("nftables: {error}"),
            "only --nat needs it: modprobe -a nf_tables nft_masq nft_chain_nat (Linux 5.12 or newer)",
        ),
    }
}

fn rebinding(findings: &Findings) -> Check {
    let name = "rebind";
    match &findings.rebind {
        Ok(()) => Check::ok(name, "nftables can change the ports of flows"),
        Err(error) => Check::warn(
            name,
            format!("nftables: {error}"),
            "only --rebind-at and ctl rebind=now need it: \
             modprobe -a nf_tables nft_nat nft_ct nft_chain_nat nf_conntrack_netlink (Linux 5.12 or newer)",
        ),
    }
}

fn browser_sandbox(findings: &Findings) -> Check {
    let name = "browser sandbox";
    match &findings.sandbox {
        Ok(()) => Check::ok(name, "pages are in Chromium's own sandbox"),
        Err(error) => Check::warn(
            name,
            format!("no user namespace for a confined browser: {error}"),
            "browsers run without their own sandbox, and trials say so: allow user namespaces to users who are not root",
        ),
    }
}

fn ipv6() -> Check {
    if Path::new("/proc/sys/net/ipv6").exists() {
        Check::ok("ipv6", "there")
    } else {
        Check::warn(
            "ipv6",
            "not in this kernel",
            "laboratories have IPv4 only: boot without ipv6.disable=1",
        )
    }
}

/// The default of the guest's kernel.
const CONTROL_IN_VIRTUAL_TIME: &str = "cubic";

fn congestion_controls() -> Check {
    let name = "congestion control";
    let known = network::congestion_controls();
    let missing: Vec<&str> = ["cubic", "bbr"]
        .into_iter()
        .filter(|wanted| !known.iter().any(|one| one == wanted))
        .collect();
    let mut found = known.join(", ");
    let default = network::default_congestion_control();
    if default != CONTROL_IN_VIRTUAL_TIME {
        // A namespace may not have another default: CUBIC is restricted where it is not the machine's.
        let _ = write!(
            found,
            " (default {default}; in virtual time {CONTROL_IN_VIRTUAL_TIME})"
        );
    }
    if missing.is_empty() {
        return Check::ok(name, found);
    }
    let modules: Vec<String> = missing.iter().map(|name| format!("tcp_{name}")).collect();
    Check::warn(
        name,
        found,
        format!(
            "for {}: modprobe -a {}",
            missing.join(" and "),
            modules.join(" ")
        ),
    )
}

fn throttle() -> Check {
    if sched::throttle_is_on() {
        Check::ok("real-time throttle", "on")
    } else {
        Check::warn(
            "real-time throttle",
            "off: SCHED_FIFO is not used, so that the machine cannot starve",
            "sysctl kernel.sched_rt_runtime_us=950000",
        )
    }
}

/// The scheduler of an engine's thread, and the lateness of its wake-ups.
fn waking() -> Vec<Check> {
    let measured = std::thread::spawn(|| {
        let granted = sched::prepare_thread(sched::Options::default());
        let mut late: Vec<u64> = (0..300)
            .map(|_| {
                let due = clock::monotonic_ns() + 500_000;
                clock::sleep_until(due);
                clock::monotonic_ns().saturating_sub(due)
            })
            .collect();
        late.sort_unstable();
        (
            granted.fifo_priority,
            granted.refused.clone(),
            late[150],
            late[297],
        )
    });
    let Ok((priority, refused, p50, p99)) = measured.join() else {
        return Vec::new();
    };
    let scheduler = match (priority, refused) {
        (Some(priority), _) => Check::ok("scheduler", format!("SCHED_FIFO {priority}")),
        (None, reason) => Check::warn(
            "scheduler",
            reason.unwrap_or_else(|| "SCHED_OTHER".to_owned()),
            "beside busy processes, packets leave up to a millisecond late: run as root, or give the user \
             rtprio 1 in /etc/security/limits.conf",
        ),
    };
    let microseconds = |ns: u64| format!("{}.{:03} us", ns / 1000, ns % 1000);
    let found = format!(
        "wake-ups are late by {} (median), {} (p99)",
        microseconds(p50),
        microseconds(p99)
    );
    let timer = if p99 <= LATE_NS {
        Check::ok("timer", found)
    } else {
        Check::warn(
            "timer",
            found,
            "stop other work on this machine, or use fewer laboratories at once",
        )
    };
    vec![scheduler, timer]
}

/// An arbitrary user id without an account.
const NOBODYS: u32 = 63_719;

/// The child's findings. Errors are the system's messages.
#[derive(Debug, Serialize, Deserialize)]
struct Findings {
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
fn try_laboratory(isolation: Isolation) -> Result<Findings, String> {
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
    let rights = map.and_then(|()| namespace::make_private());
    Findings {
        rights: rights.map_err(|error| error.to_string()),
        proc: namespace::fresh_proc().map_err(|error| error.to_string()),
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
fn restriction() -> &'static str {
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
