//! Features of the kernel that can be asked for without a change.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use wavebed_os::capabilities::{self, Set};
use wavebed_os::cgroup::Group;
use wavebed_os::{landlock, seccomp, tcp_option};

use super::facts::{Fact, Name};

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
    let permitted = capabilities::permitted().unwrap_or(Set::empty());
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
            tcp_option::set_min_rto(&socket, wanted)?;
            tcp_option::min_rto(&socket)
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
    let tried = if seccomp::works() {
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
    let tried = landlock::version()
        .map(|version| format!("version {version}"))
        .ok_or_else(|| "the kernel has none".to_owned());
    Fact::new(
        Name::Landlock,
        tried,
        "Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK, and `landlock` in the kernel's parameter lsm=",
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
