//! The checks, one function each.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use wavebed_os::namespace::{Isolation, effective_user};
use wavebed_os::sched;
use wavebed_os::{clock, tun};

use super::Check;
use super::probe::{Findings, restriction, try_laboratory};
use crate::sysctl;

/// Confined programs need `mount_setattr`.
const OLDEST_KERNEL: (u32, u32) = (5, 12);
/// UDP segmentation offload of TUN devices.
const KERNEL_WITH_USO: (u32, u32) = (6, 2);
/// Wake-ups with a later p99 affect results: a slot of 60 kHz.
const LATE_NS: u64 = 250_000;
/// Every check.
pub fn all() -> Vec<Check> {
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

fn congestion_controls() -> Check {
    let name = "congestion control";
    let known = sysctl::congestion_controls();
    let missing: Vec<&str> = ["cubic", "bbr"]
        .into_iter()
        .filter(|wanted| !known.iter().any(|one| one == wanted))
        .collect();
    let found = known.join(", ");
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
