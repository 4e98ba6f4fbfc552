//! The hosts of a laboratory: one network namespace each, connected by TUN devices, with addresses and routes.
//!
//! Leg `i` uses `198.18.(base + i).0/30` (RFC 2544) and `fd77:6176:6562:(base + i)::/126`. The host nearer to the
//! server has address 1, the other one address 2. Addresses have full prefixes (/32, /128) and every route is explicit,
//! so that each one carries the host's congestion control.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wavebed_os::error::Context;
use wavebed_os::interface::Route;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::nft::Masquerade;
use wavebed_os::sock_diag::SockDiag;
use wavebed_os::tun::Tun;
use wavebed_path::HostCounters;

use crate::lab_file::{HostFile, LabFile};
use crate::problem::Problem;
use crate::sysctl;

/// Addresses that programs may add to the server: 198.19.0.0/16. Every host has a route to them, except with NAT.
const ADDED_TO_SERVER: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);

/// Prefix of the names of the machine's devices to laboratories.
const MACHINE_DEVICES: &str = "wavebed";

/// Largest third octet of the first address of a laboratory with NAT.
const LAST_BASE: u8 = 248;

/// A running host.
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub network: NetworkNamespace,
    /// Its address.
    pub v4: Ipv4Addr,
    /// Its address.
    pub v6: Ipv6Addr,
}

/// The hosts and the devices between them.
pub struct Network {
    /// The hosts, server first.
    pub hosts: Vec<Host>,
    /// The devices of each leg: nearer to the server, nearer to the client.
    pub legs: Vec<(Tun, Tun)>,
    /// The hosts' counters.
    pub counters: Vec<HostCounters>,
    /// A socket to query the TCP sockets of each host, if they are sampled. The machine's own sockets are not.
    pub sockets: Vec<(String, SockDiag)>,
    /// The masquerading of the laboratory; removed with its owner.
    pub masquerade: Option<Masquerade>,
    /// Lines for standard error.
    pub remarks: Vec<String>,
}

/// One end of a leg.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nearer to the server.
    Near,
    /// Nearer to the client.
    Far,
}

/// The addresses of one end of a leg.
fn addresses(base: u8, leg: usize, end: End) -> (Ipv4Addr, Ipv6Addr) {
    let third = base + u8::try_from(leg).expect("two legs at most");
    let last: u8 = if end == End::Near { 1 } else { 2 };
    let v6 = Ipv6Addr::new(0xfd77, 0x6176, 0x6562, third.into(), 0, 0, 0, last.into());
    (Ipv4Addr::new(198, 18, third, last), v6)
}

/// The leg and end that have a host's main address.
fn home(host: usize) -> (usize, End) {
    if host == 0 {
        (0, End::Near)
    } else {
        (host - 1, End::Far)
    }
}

struct Builder<'a> {
    lab: &'a LabFile,
    base: u8,
    has_v6: bool,
    remarks: Vec<String>,
}

/// Creates the hosts. The calling thread is in the new, empty network namespace that becomes the server; with NAT
/// `machine` is the server's namespace. Afterwards the thread is in one of the hosts.
///
/// # Errors
/// The machine lacks a feature, or refuses a setting.
pub fn build(lab: &LabFile, machine: Option<NetworkNamespace>) -> Result<Network, Problem> {
    let mut builder = Builder {
        lab,
        base: 0,
        has_v6: fs::exists("/proc/sys/net/ipv6").unwrap_or(false),
        remarks: Vec::new(),
    };
    if !builder.has_v6 {
        builder
            .remarks
            .push("this machine has no IPv6: the laboratory has IPv4 only".to_owned());
    }
    let mut masquerade = None;
    let mut hosts = Vec::new();
    let mut counters = Vec::new();
    let mut sockets = Vec::new();
    let mut near_ends = Vec::new();
    let mut far_ends = Vec::new();
    let mut machine = machine;
    for (index, file) in lab.hosts.iter().enumerate() {
        let is_machine = index == 0 && machine.is_some();
        let network = match (index, machine.take()) {
            (0, Some(machine)) => {
                machine.enter()?;
                machine
            }
            _ if lab.sample.is_some() => sysctl::namespace_with_own_sockets()?,
            (0, None) => NetworkNamespace::current()?,
            _ => NetworkNamespace::new()?,
        };
        let devices = if is_machine {
            let (device, table) = builder.join_machine()?;
            masquerade = Some(table);
            vec![(End::Near, device)]
        } else {
            builder.furnish(index, file)?
        };
        let device_names = devices.iter().map(|(_, device)| device.name().to_owned());
        counters.push(
            HostCounters::of_this_thread(&file.name, device_names.collect())
                .during("read the network counters of", &file.name)?,
        );
        for (end, device) in devices {
            match end {
                End::Near => near_ends.push(device),
                End::Far => far_ends.push(device),
            }
        }
        if lab.sample.is_some() && !is_machine {
            sockets.push((file.name.clone(), SockDiag::open()?));
        }
        let (leg, end) = home(index);
        let (v4, v6) = addresses(builder.base, leg, end);
        hosts.push(Host {
            name: file.name.clone(),
            network,
            v4,
            v6,
        });
    }
    let legs: Vec<(Tun, Tun)> = near_ends.into_iter().zip(far_ends).collect();
    if !legs
        .iter()
        .all(|(near, far)| near.has_udp_offload() && far.has_udp_offload())
    {
        let remark = "this kernel splits UDP super-packets before the path (Linux 6.2 does not): UDP is slower";
        builder.remarks.push(remark.to_owned());
    }
    Ok(Network {
        hosts,
        legs,
        counters,
        sockets,
        masquerade,
        remarks: builder.remarks,
    })
}

impl Builder<'_> {
    /// Creates devices, addresses and routes of a host in the calling thread's namespace.
    fn furnish(&mut self, host: usize, file: &HostFile) -> Result<Vec<(End, Tun)>, Problem> {
        sysctl::defaults(self.has_v6);
        let netlink = Netlink::route()?;
        netlink
            .set_up(interface_index("lo")?)
            .map_err(|error| refused("lo", &error))?;
        let toward_server = (host > 0).then(|| (host - 1, End::Far));
        let toward_client = (host < self.lab.legs.len()).then_some((host, End::Near));
        let mut devices = Vec::new();
        for (leg, end) in toward_server.into_iter().chain(toward_client) {
            let device = Tun::create(&format!("wb{}", devices.len()), self.lab.mtu)?;
            device.leave_to_namespace()?;
            netlink
                .set_up(device.index())
                .map_err(|error| refused(device.name(), &error))?;
            for (address, bits) in self.both(addresses(self.base, leg, end), 32, 128) {
                netlink
                    .add_address(device.index(), address, bits)
                    .map_err(|error| refused(&address.to_string(), &error))?;
            }
            devices.push((end, device));
        }
        for (end, device) in &devices {
            self.add_routes(&netlink, host, file, *end, device)?;
        }
        if devices.len() > 1 {
            sysctl::forward();
        }
        sysctl::apply(&file.name, &file.sysctls)?;
        Ok(devices)
    }

    /// The routes through `device`: every leg in its direction.
    fn add_routes(
        &self,
        netlink: &Netlink,
        host: usize,
        file: &HostFile,
        end: End,
        device: &Tun,
    ) -> Result<(), Problem> {
        let legs = match end {
            End::Far => 0..host,
            End::Near => host..self.lab.legs.len(),
        };
        let (home_hop, home_end) = home(host);
        let sources = addresses(self.base, home_hop, home_end);
        let mut wanted = Vec::new();
        for leg in legs {
            wanted.extend(self.both(prefix(self.base, leg), 30, 126));
        }
        if self.lab.nat && end == End::Far {
            wanted.extend(self.both((Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED), 0, 0));
        }
        if !self.lab.nat && end == End::Far {
            wanted.push((ADDED_TO_SERVER.0.into(), ADDED_TO_SERVER.1));
        }
        for (destination, prefix_bits) in wanted {
            let source = if destination.is_ipv4() {
                IpAddr::V4(sources.0)
            } else {
                IpAddr::V6(sources.1)
            };
            let route = Route {
                destination,
                prefix_bits,
                interface: device.index(),
                source: Some(source),
                congestion_control: file.congestion_control.as_deref(),
            };
            netlink
                .add_route(&route)
                .map_err(|error| route_refused(file, &error))?;
        }
        Ok(())
    }

    /// Creates a device to the laboratory in the machine's namespace, and a table that masquerades the laboratory.
    fn join_machine(&mut self) -> Result<(Tun, Masquerade), Problem> {
        let netlink = Netlink::route()?;
        let device = Tun::create(&format!("{MACHINE_DEVICES}%d"), self.lab.mtu)?;
        let name = device.name().to_owned();
        sysctl::quiet_device(&name);
        netlink
            .set_up(device.index())
            .map_err(|error| refused(&name, &error))?;
        self.base = claim(&netlink, &device)?;
        for leg in 0..self.lab.legs.len() {
            for (destination, prefix_bits) in self.both(prefix(self.base, leg), 30, 126) {
                if leg > 0 || destination.is_ipv6() {
                    let route = through(&device, destination, prefix_bits);
                    netlink
                        .add_route(&route)
                        .map_err(|error| refused(&destination.to_string(), &error))?;
                }
            }
        }
        for (address, bits) in self.both(addresses(self.base, 0, End::Near), 32, 128) {
            netlink
                .add_address(device.index(), address, bits)
                .map_err(|error| refused(&address.to_string(), &error))?;
        }
        let table = Masquerade::new(&name, device.index(), MACHINE_DEVICES)?;
        if let Some(remark) = sysctl::forwarding_remark(self.has_v6) {
            self.remarks.push(remark);
        }
        Ok((device, table))
    }

    fn both(&self, pair: (Ipv4Addr, Ipv6Addr), v4_bits: u8, v6_bits: u8) -> Vec<(IpAddr, u8)> {
        let mut list = vec![(IpAddr::V4(pair.0), v4_bits)];
        if self.has_v6 {
            list.push((IpAddr::V6(pair.1), v6_bits));
        }
        list
    }
}

/// Finds prefixes that no other laboratory uses on this machine: the kernel lets each route be added once.
fn claim(netlink: &Netlink, device: &Tun) -> Result<u8, Problem> {
    for base in (0..=LAST_BASE).step_by(4) {
        let (destination, _) = prefix(base, 0);
        match netlink.add_route(&through(device, destination.into(), 30)) {
            Ok(()) => return Ok(base),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(&destination.to_string(), &error)),
        }
    }
    Err(Problem::cannot(
        "no free address in 198.18.0.0 to 198.18.251.255: stop another laboratory with nat",
    ))
}

fn prefix(base: u8, leg: usize) -> (Ipv4Addr, Ipv6Addr) {
    let (v4, v6) = addresses(base, leg, End::Near);
    (
        Ipv4Addr::from_bits(v4.to_bits() & !3),
        Ipv6Addr::from_bits(v6.to_bits() & !3),
    )
}

fn through(device: &Tun, destination: IpAddr, prefix_bits: u8) -> Route<'static> {
    Route {
        destination,
        prefix_bits,
        interface: device.index(),
        source: None,
        congestion_control: None,
    }
}

fn refused(object: &str, error: &io::Error) -> Problem {
    Problem::cannot(format!("the kernel refuses {object}: {error}"))
}

fn route_refused(file: &HostFile, error: &io::Error) -> Problem {
    let Some(name) = &file.congestion_control else {
        return refused("a route", error);
    };
    let known = sysctl::congestion_controls();
    if known.iter().any(|other| other == name) {
        return refused(&format!("a route with congestion control {name}"), error);
    }
    Problem::cannot(format!(
        "hosts: {}: congestion_control: {name:?} is not available on this machine: use one of {}, or load its module (modprobe tcp_{name})",
        file.name,
        known.join(", ")
    ))
}

/// The content of `/etc/hosts` inside: the laboratory's names first, then the machine's own lines.
#[must_use]
pub fn hosts_file(lab: &LabFile, base: u8, machines_own: &str) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    for (index, host) in lab.hosts.iter().enumerate() {
        let (leg, end) = home(index);
        let (v4, v6) = addresses(base, leg, end);
        let _ = write!(text, "{v4} {}\n{v6} {}\n", host.name, host.name);
    }
    text.push_str(machines_own);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_leg_have_one_prefix() {
        let (near, near6) = addresses(4, 1, End::Near);
        let (far, far6) = addresses(4, 1, End::Far);
        assert_eq!(
            (near.to_string(), far.to_string()),
            ("198.18.5.1".to_owned(), "198.18.5.2".to_owned())
        );
        let (v4, v6) = prefix(4, 1);
        assert_eq!(v4.to_bits(), near.to_bits() & !3);
        assert_eq!(v4.to_bits(), far.to_bits() & !3);
        assert_eq!(
            (v6.to_bits(), v6.to_bits()),
            (near6.to_bits() & !3, far6.to_bits() & !3)
        );
    }
}
