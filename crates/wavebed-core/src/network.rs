//! The hosts of a laboratory: one network namespace each, connected by TUN devices, with addresses and routes.
//!
//! Addresses have full prefixes (/32, /128) and every route is explicit, so that each one carries the host's congestion
//! control. The client's second leg is used by sockets that are bound to its device, as MPTCP's subflows are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::{fs, io};

use wavebed_os::error::Context;
use wavebed_os::interface::Route;
use wavebed_os::named_sockets::Peers;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::nft::Masquerade;
use wavebed_os::sock_diag::SockDiag;
use wavebed_os::tun::Tun;
use wavebed_path::host_counters::{Sockets, Unreached};
use wavebed_path::{HostConfig, HostCounters, Way};

use crate::addresses::{End, LegEnd, Legs, addresses, prefix};
use crate::lab_file::LabFile;
use crate::names;
use crate::names::{Door, RESOLVERS, Resolvers};
use crate::problem::Problem;

/// Addresses that programs may add to the server: 198.19.0.0/16. Every host has a route to them, except with NAT.
const ADDED_TO_SERVER: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);

/// Groups of the devices that lead towards the server and towards the client. No packet leaves by a device of the group
/// through which it came: two hosts with default routes towards each other never pass a packet to and fro.
const GROUP_TO_SERVER: u32 = 198_181;
const GROUP_TO_CLIENT: u32 = 198_182;

/// Multicast and broadcast stay on their host, as no router forwards them. Programs that name a device send by it.
const STAYS: [(IpAddr, u8); 3] = [
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4),
    (IpAddr::V4(Ipv4Addr::BROADCAST), 32),
    (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
];

/// Prefix of the names of the machine's devices to laboratories.
const MACHINE_DEVICES: &str = "wavebed";

/// Name of the first device of a host.
const FIRST_DEVICE: &str = "wb0";

/// Prefix of the names of a host's devices.
pub const DEVICE_PREFIX: &str = "wb";

/// Metric of the routes through the client's second leg to hosts that it reaches through the first one; above the metric of
/// routes without one (0 for IPv4, 1024 for IPv6).
const SECOND_METRIC: u32 = 2048;

/// Largest third octet of the first address of a laboratory with NAT.
const LAST_BASE: u8 = 248;

/// Length of the prefix with which a laboratory with NAT claims its addresses.
const CLAIMED_BITS: u8 = 30;

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
    /// The devices of each leg: nearer to the server, and nearer to the client, one for each device of a cell.
    pub legs: Vec<(Tun, Vec<Tun>)>,
    /// The hosts' counters.
    pub counters: Vec<HostCounters>,
    /// The sockets of each host; none of the machine, whose sockets are not the laboratory's.
    pub host_sockets: Vec<Option<Sockets>>,
    /// The Unix sockets of each host but the machine, if sockets outside are in reach; none where the kernel does not tell
    /// their peers.
    pub peers: Vec<Peers>,
    /// A socket to query the TCP sockets of each host, if they are sampled. The machine's own sockets are not.
    pub sockets: Vec<(String, SockDiag)>,
    /// The masquerading of the laboratory; removed with its owner.
    pub masquerade: Option<Masquerade>,
    /// The resolvers that only the machine reaches, and where programs ask for them; with NAT only.
    pub names: Option<(Resolvers, Vec<Door>)>,
    /// Failed connections of the client, and the machine's ports that it does not reach; with NAT only.
    pub unreached: Option<Unreached>,
    /// Lines for standard error.
    pub remarks: Vec<String>,
}

struct Builder<'a> {
    lab: &'a LabFile,
    base: u8,
    has_v6: bool,
    names: Option<(Resolvers, Vec<Door>)>,
    unreached: Option<Unreached>,
    remarks: Vec<String>,
}

/// Enters the network namespace of a host: the machine's, one with a table of sockets of its own, or a plain one.
fn namespace_of(
    index: usize,
    machine: Option<NetworkNamespace>,
    sampled: bool,
) -> Result<NetworkNamespace, Problem> {
    Ok(match (index, machine) {
        (0, Some(machine)) => {
            machine.enter()?;
            machine
        }
        _ if sampled => namespace_with_own_sockets()?,
        (0, None) => NetworkNamespace::current()?,
        _ => NetworkNamespace::new()?,
    })
}

/// Creates the hosts. The calling thread is in the new, empty network namespace that becomes the server; with NAT
/// `machine` is the server's namespace. Afterwards the thread is in one of the hosts.
///
/// # Errors
/// The machine lacks a feature, or refuses a setting.
pub fn build(lab: &LabFile, machine: Option<NetworkNamespace>) -> Result<Network, Problem> {
    let mut builder = Builder::new(lab);
    let mut masquerade = None;
    let mut hosts = Vec::new();
    let mut counters = Vec::new();
    let mut host_sockets = Vec::new();
    let mut peers = Vec::new();
    let mut sockets = Vec::new();
    let mut near_ends = Vec::new();
    let mut far_ends = Vec::new();
    let mut machine = machine;
    for (index, file) in lab.network.hosts.iter().enumerate() {
        let is_machine = index == 0 && machine.is_some();
        let network = namespace_of(index, machine.take(), lab.sample.is_some())?;
        let devices = if is_machine {
            let (device, table) = builder.join_machine()?;
            masquerade = Some(table);
            vec![(
                LegEnd {
                    leg: 0,
                    end: End::Near,
                },
                device,
            )]
        } else {
            builder.furnish(index, file)?
        };
        let (leg, end) = builder.legs().home(index);
        let (v4, v6) = addresses(builder.base, leg, end);
        if lab.network.nat {
            builder.join_to_machine(index, devices[0].1.name(), v4)?;
        }
        let device_names = devices.iter().map(|(_, device)| device.name().to_owned());
        counters.push(
            HostCounters::of_this_thread(&file.name, device_names.collect(), is_machine)
                .during("read the network counters of", &file.name)?,
        );
        peers.extend(
            (lab.network.outside_sockets && !is_machine)
                .then(Peers::of_this_thread)
                .and_then(Result::ok),
        );
        let own = (!is_machine).then(Sockets::of_this_thread).transpose();
        host_sockets.push(own.during("read the sockets of", &file.name)?);
        for (at, device) in devices {
            match at.end {
                End::Near => near_ends.push(device),
                End::Far(_) => far_ends.push(device),
            }
        }
        if lab.sample.is_some() && !is_machine {
            sockets.push((file.name.clone(), SockDiag::open()?));
        }
        if let Some(front) = lab.front.as_ref().filter(|_| !is_machine) {
            names::listen_inside(&lab.name, front.as_fd())?;
        }
        hosts.push(Host {
            name: file.name.clone(),
            network,
            v4,
            v6,
        });
    }
    let mut devices = near_ends.iter().chain(&far_ends);
    if !devices.all(Tun::has_udp_offload) {
        let remark = "this kernel splits UDP super-packets before the path (Linux 6.2 does not): UDP is slower";
        builder.remarks.push(remark.to_owned());
    }
    let mut far_ends = far_ends.into_iter();
    let mut legs: Vec<(Tun, Vec<Tun>)> = near_ends
        .into_iter()
        .map(|near| (near, far_ends.by_ref().take(1).collect()))
        .collect();
    // The further devices of a cell.
    if let Some((_, last)) = legs.last_mut() {
        last.extend(far_ends);
    }
    Ok(Network {
        hosts,
        legs,
        counters,
        host_sockets,
        peers,
        sockets,
        masquerade,
        names: builder.names,
        unreached: builder.unreached,
        remarks: builder.remarks,
    })
}

impl<'a> Builder<'a> {
    fn new(lab: &'a LabFile) -> Self {
        let has_v6 = fs::exists("/proc/sys/net/ipv6").unwrap_or(false);
        let remark = "this machine has no IPv6: the laboratory has IPv4 only";
        Self {
            lab,
            base: 0,
            has_v6,
            names: None,
            unreached: None,
            remarks: Vec::from_iter((!has_v6).then(|| remark.to_owned())),
        }
    }

    /// Creates devices, addresses and routes of a host in the calling thread's namespace.
    fn furnish(&mut self, host: usize, file: &HostConfig) -> Result<Vec<(LegEnd, Tun)>, Problem> {
        defaults(self.has_v6);
        let netlink = Netlink::route()?;
        netlink
            .set_up(interface_index("lo")?)
            .map_err(|error| refused("lo", &error))?;
        let mut devices = Vec::new();
        for at in self.legs().ends_of(host) {
            let device = Tun::create(
                &format!("{DEVICE_PREFIX}{}", devices.len()),
                self.lab.network.mtu,
            )
            .map_err(|error| Problem::from(error).or_virtual_time())?;
            device.leave_to_namespace()?;
            netlink
                .set_up(device.index())
                .map_err(|error| refused(device.name(), &error))?;
            for (address, bits) in self.both(addresses(self.base, at.leg, at.end), 32, 128) {
                netlink
                    .add_address(device.index(), address, bits)
                    .map_err(|error| refused(&address.to_string(), &error))?;
            }
            let group = match at.end {
                End::Near => GROUP_TO_CLIENT,
                End::Far(_) => GROUP_TO_SERVER,
            };
            netlink
                .set_group(device.index(), group)
                .and_then(|()| netlink.return_nothing(device.name(), group, self.has_v6))
                .map_err(|error| refused("a routing rule", &error))?;
            forward_from(device.name());
            devices.push((at, device));
        }
        self.keep_multicast(&netlink, host)?;
        for (at, device) in &devices {
            self.add_routes(&netlink, host, file, *at, device)?;
        }
        if host > 0 && host < self.legs().row {
            forward();
        }
        apply(&file.name, &file.sysctls)?;
        let own = self.legs().ends_of(host);
        self.wait_for_addresses(&netlink, own)?;
        Ok(devices)
    }

    /// Routes multicast and broadcast to the host's own loopback.
    fn keep_multicast(&self, netlink: &Netlink, host: usize) -> Result<(), Problem> {
        let (leg, end) = self.legs().home(host);
        let (v4, v6) = addresses(self.base, leg, end);
        let interface = interface_index("lo")?;
        for (destination, prefix_bits) in STAYS {
            let source = if destination.is_ipv4() {
                IpAddr::V4(v4)
            } else if self.has_v6 {
                IpAddr::V6(v6)
            } else {
                continue;
            };
            let route = Route {
                destination,
                prefix_bits,
                interface,
                source: Some(source),
                congestion_control: None,
            };
            netlink
                .add_route_with_metric(&route, Some(1))
                .map_err(|error| refused(&destination.to_string(), &error))?;
        }
        Ok(())
    }

    /// Waits until the host of `netlink` accepts packets to its addresses at these ends of legs.
    fn wait_for_addresses(
        &self,
        netlink: &Netlink,
        ends: impl IntoIterator<Item = LegEnd>,
    ) -> Result<(), Problem> {
        for at in ends {
            for (address, _) in self.both(addresses(self.base, at.leg, at.end), 32, 128) {
                netlink
                    .wait_until_local(address)
                    .map_err(|error| refused(&address.to_string(), &error))?;
            }
        }
        Ok(())
    }

    /// The routes through `device`: every leg in its direction, and the default route: towards the server, on the server
    /// towards the client. Through a second leg the client also has, with a metric, every route of the first one.
    fn add_routes(
        &self,
        netlink: &Netlink,
        host: usize,
        file: &HostConfig,
        at: LegEnd,
        device: &Tun,
    ) -> Result<(), Problem> {
        let legs = self.legs();
        let is_far = matches!(at.end, End::Far(_));
        let is_second = at.leg == legs.row && is_far;
        let (source_leg, source_end) = if is_second {
            (at.leg, at.end)
        } else {
            legs.home(host)
        };
        let sources = addresses(self.base, source_leg, source_end);
        let prefixes = |leg| self.both_of(leg);
        let mut wanted: Vec<_> = legs
            .reached(host, at)
            .into_iter()
            .flat_map(prefixes)
            .collect();
        let mut when_bound: Vec<_> = legs.reached_when_bound(at).flat_map(prefixes).collect();
        let list = if is_second {
            &mut when_bound
        } else {
            &mut wanted
        };
        if !self.lab.network.nat && is_far {
            list.push((ADDED_TO_SERVER.0.into(), ADDED_TO_SERVER.1));
        }
        if is_far || (host == 0 && at.leg == 0) {
            list.extend(self.both((Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED), 0, 0));
        }
        let wanted = wanted.into_iter().map(|each| (each, None));
        let when_bound = when_bound
            .into_iter()
            .map(|each| (each, Some(SECOND_METRIC)));
        for ((destination, prefix_bits), metric) in wanted.chain(when_bound) {
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
                .add_route_with_metric(&route, metric)
                .map_err(|error| route_refused(file, &error))?;
        }
        Ok(())
    }

    fn legs(&self) -> Legs {
        Legs {
            row: self.lab.network.row().len(),
            has_second: self.lab.network.second_leg().is_some(),
            has_cell: self.lab.network.cell.is_some(),
        }
    }

    /// Creates a device to the laboratory in the machine's namespace, and a table that masquerades the laboratory.
    fn join_machine(&mut self) -> Result<(Tun, Masquerade), Problem> {
        let netlink = Netlink::route()?;
        let device = Tun::create(&format!("{MACHINE_DEVICES}%d"), self.lab.network.mtu)?;
        let name = device.name().to_owned();
        quiet_device(&name);
        netlink
            .set_up(device.index())
            .map_err(|error| refused(&name, &error))?;
        self.base = claim(&netlink, &device)?;
        for leg in 0..self.lab.network.row().len() {
            for (destination, prefix_bits) in self.both_of(leg) {
                // The first /30 is claimed already.
                if leg > 0 || prefix_bits != CLAIMED_BITS {
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
        let own = LegEnd {
            leg: 0,
            end: End::Near,
        };
        self.wait_for_addresses(&netlink, [own])?;
        // The machine may be a host of another laboratory, which forwards nothing by itself.
        if interface_index(FIRST_DEVICE).is_ok() {
            forward();
        }
        let table = Masquerade::new(&name, device.index(), MACHINE_DEVICES)?;
        if let Some(remark) = forwarding_remark(self.has_v6) {
            self.remarks.push(remark);
        }
        Ok((device, table))
    }

    /// The server's address.
    fn server(&self) -> Ipv4Addr {
        addresses(self.base, 0, End::Near).0
    }

    /// With NAT: lets a host ask the machine's resolver, and reads which programs of the machine the client reaches. The
    /// calling thread is in the host's namespace.
    fn join_to_machine(&mut self, host: usize, device: &str, v4: Ipv4Addr) -> Result<(), Problem> {
        let is_machine = host == 0;
        let server = self.server();
        if is_machine {
            let own = fs::read_to_string(RESOLVERS).unwrap_or_default();
            let resolvers = Resolvers::read(&own, self.lab.network.names, server);
            self.names = resolvers.map(|resolvers| (resolvers, Vec::new()));
            self.unreached = Unreached::of_this_machine().ok();
        }
        if let Some((_, doors)) = &mut self.names
            && (is_machine || self.lab.network.names == Way::Beside)
        {
            doors.push(Door::open(device, server, v4)?);
        }
        let is_client = host >= self.legs().row;
        if let Some(unreached) = &mut self.unreached
            && is_client
        {
            let counted = unreached.count_here();
            counted.during("read the connections of", "the client")?;
        }
        Ok(())
    }

    /// The prefixes of a leg.
    fn both_of(&self, leg: usize) -> Vec<(IpAddr, u8)> {
        let (v4_bits, v6_bits) = self.legs().prefix_bits(leg);
        self.both(prefix(self.base, leg), v4_bits, v6_bits)
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
        match netlink.add_route(&through(device, destination.into(), CLAIMED_BITS)) {
            Ok(()) => return Ok(base),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(&destination.to_string(), &error)),
        }
    }
    Err(Problem::cannot(
        "no free address in 198.18.0.0 to 198.18.251.255: stop another laboratory with nat",
    ))
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

fn route_refused(file: &HostConfig, error: &io::Error) -> Problem {
    let Some(name) = &file.congestion_control else {
        return refused("a route", error);
    };
    let known = congestion_controls();
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
    let legs = Legs {
        row: lab.network.row().len(),
        has_second: lab.network.second_leg().is_some(),
        has_cell: lab.network.cell.is_some(),
    };
    for (index, host) in lab.network.hosts.iter().enumerate() {
        let (leg, end) = legs.home(index);
        let (v4, v6) = addresses(base, leg, end);
        let _ = write!(text, "{v4} {}\n{v6} {}\n", host.name, host.name);
    }
    text.push_str(machines_own);
    text
}

/// Defaults of every host; the laboratory file may override them. Buffers: 10 Gbit/s over 80 ms are 100 MB in flight,
/// and the kernel needs up to twice that for its own structures; the defaults stopped one flow at 366 Mbit/s.
const DEFAULTS: [(&str, &str); 8] = [
    ("net.ipv4.tcp_rmem", "4096 131072 536870912"),
    ("net.ipv4.tcp_wmem", "4096 16384 536870912"),
    // A connection must not start from the metrics of an earlier one.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // Every packet to nowhere is answered, as far as the kernel does it: a second limit stays (docs/development/traps.md).
    ("net.ipv4.icmp_ratemask", "0"),
    ("net.core.somaxconn", "4096"),
    // Web servers without root listen on port 80.
    ("net.ipv4.ip_unprivileged_port_start", "0"),
];

/// No packets from the IPv6 stack itself: they would use up indices of packet-indexed patterns.
const QUIET_V6: [(&str, &str); 5] = [
    ("disable_ipv6", "0"),
    ("accept_ra", "0"),
    ("accept_dad", "0"),
    ("router_solicitations", "0"),
    // 1: no link-local address.
    ("addr_gen_mode", "1"),
];

fn path(key: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(key.replace('.', "/"))
}

fn set(key: &str, value: &str) -> io::Result<()> {
    fs::write(path(key), value)
}

/// Writes the settings of every host. Settings that the kernel lacks are skipped.
pub fn defaults(has_v6: bool) {
    for (key, value) in DEFAULTS {
        let _ = set(key, value);
    }
    // Every group may ping; a user namespace has group 0 only.
    if set("net.ipv4.ping_group_range", "0 2147483647").is_err() {
        let _ = set("net.ipv4.ping_group_range", "0 0");
    }
    if has_v6 {
        let _ = set("net.ipv6.conf.all.disable_ipv6", "0");
        let _ = set("net.ipv6.icmp.ratemask", "\n");
        quiet_device("default");
    }
}

/// Buckets of a host's own table of TCP connections.
const OWN_SOCKETS: &str = "1024";

/// Creates a network namespace with its own table of TCP connections (Linux 6.1) and moves the calling thread into it.
/// By default all namespaces share one table, and a query for the connections of one namespace scans all its buckets:
/// 200 µs for 262144 buckets, against 8 µs for these. Limits that would shrink with the table are kept. Older kernels
/// use the shared table.
///
/// # Errors
/// The process may not create namespaces.
pub fn namespace_with_own_sockets() -> wavebed_os::Result<NetworkNamespace> {
    // The size is a setting of the namespace that the new one is created from; no other namespace changes.
    NetworkNamespace::new()?;
    let limits = [
        "net.ipv4.tcp_max_syn_backlog",
        "net.ipv4.tcp_max_tw_buckets",
    ];
    let limits = limits.map(|key| (key, fs::read_to_string(path(key))));
    let _ = set("net.ipv4.tcp_child_ehash_entries", OWN_SOCKETS);
    let namespace = NetworkNamespace::new()?;
    for (key, value) in limits {
        if let Ok(value) = value {
            let _ = set(key, value.trim());
        }
    }
    Ok(namespace)
}

/// Lets the host forward packets. Call it after its devices have lost their multicast flag: the IPv6 stack of a
/// forwarding host joins groups on every device that has it, and reports that to its neighbours.
pub fn forward() {
    let _ = set("net.ipv4.ip_forward", "1");
    let _ = set("net.ipv6.conf.all.forwarding", "1");
}

/// Lets the host answer packets from one device that it has no route for, and forward others: its containers are behind
/// it.
pub fn forward_from(device: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{device}/forwarding"), "1");
}

/// Stops the packets of the IPv6 stack on one device.
pub fn quiet_device(device: &str) {
    for (key, value) in QUIET_V6 {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{key}"), value);
    }
}

/// Writes a host's own settings.
///
/// # Errors
/// A setting is unknown, or the kernel refuses it.
pub fn apply(host: &str, settings: &BTreeMap<String, String>) -> Result<(), Problem> {
    for (key, value) in settings {
        set(key, value).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "a network namespace has no such setting".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    "it belongs to the whole machine: leave it out".to_owned()
                }
                io::ErrorKind::InvalidInput => format!("the kernel refuses the value {value:?}"),
                _ => format!("the value {value:?} cannot be set: {error}"),
            };
            Problem::wrong(format!("hosts: {host}: sysctls: {key}: {reason}"))
        })?;
    }
    Ok(())
}

/// The congestion controls available on this machine.
#[must_use]
pub fn congestion_controls() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The congestion control of programs that choose none; empty where the kernel does not tell.
#[must_use]
pub fn default_congestion_control() -> String {
    let text = fs::read_to_string(path("net.ipv4.tcp_congestion_control"));
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The remark if this machine does not forward packets.
#[must_use]
pub fn forwarding_remark(has_v6: bool) -> Option<String> {
    let off = |key: &str| fs::read_to_string(path(key)).is_ok_and(|text| text.trim() == "0");
    let mut keys = Vec::new();
    if off("net.ipv4.ip_forward") {
        keys.push("net.ipv4.ip_forward=1");
    }
    if has_v6 && off("net.ipv6.conf.all.forwarding") {
        keys.push("net.ipv6.conf.all.forwarding=1");
    }
    if keys.is_empty() {
        return None;
    }
    Some(format!(
        "nat: the client reaches this machine only: to reach other networks, run: sysctl {}",
        keys.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::{Value, json};

    use super::*;

    fn lab(names: &[&str]) -> LabFile {
        let leg = |[start, end]: [&str; 2], name: &str| json!({"from": start, "to": end, "hops": [{"name": name, "kind": "wired", "down": [], "up": []}]});
        let hosts: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "congestion_control": null, "sysctls": {}}))
            .collect();
        let mut legs: Vec<Value> = names
            .windows(2)
            .map(|ends| leg([ends[0], ends[1]], ends[1]))
            .collect();
        let last = [names[names.len() - 2], names[names.len() - 1]];
        legs.push(leg(last, "second"));
        let file = json!({
            "version": 1, "name": "a", "seed": 1,
            "network": {"mtu": 1500, "nat": false, "coalesce": {"kind": "slot"}, "hosts": hosts, "legs": legs},
            "background": [], "command": null, "log_dir": null, "pcap_dir": null, "summary_file": null
        });
        LabFile::parse(&file.to_string()).expect("a laboratory")
    }

    /// Device and source address of the route that `ip route get` finds in the namespace of this thread.
    fn route_to(words: &str) -> (String, String) {
        let output = Command::new("ip")
            .args(["route", "get"])
            .args(words.split(' '))
            .output()
            .expect("ip starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let after = |word: &str| {
            let mut words = text.split_whitespace().skip_while(|each| *each != word);
            words.nth(1).unwrap_or_default().to_owned()
        };
        (after("dev"), after("src"))
    }

    fn check_routes(network: &Network) {
        let row = network.hosts.len() - 1;
        let client = (
            addresses(0, row - 1, End::Far(0)),
            addresses(0, row, End::Far(0)),
        );
        let is = |words: &str, device: &str, source: &dyn ToString| {
            let wanted = (device.to_owned(), source.to_string());
            assert_eq!(route_to(words), wanted, "{words}");
        };
        let server = &network.hosts[0];
        network.hosts[row].network.enter().expect("the client");
        for destination in [server.v4, Ipv4Addr::new(198, 19, 1, 1)] {
            is(&destination.to_string(), "wb0", &client.0.0);
            is(&format!("{destination} oif wb1"), "wb1", &client.1.0);
        }
        is("192.0.2.1", "wb0", &client.0.0);
        is("192.0.2.1 oif wb1", "wb1", &client.1.0);
        is("224.0.0.251", "lo", &client.0.0);
        let from_path = "192.0.2.1 from 192.0.2.9 iif wb0";
        is(from_path, "", &"");
        if network.remarks.is_empty() {
            is("2001:db8::1", "wb0", &client.0.1);
            is(&server.v6.to_string(), "wb0", &client.0.1);
            is(&format!("{} oif wb1", server.v6), "wb1", &client.1.1);
        }
        server.network.enter().expect("the server");
        is(&client.0.0.to_string(), "wb0", &server.v4);
        is("192.0.2.1", "wb0", &server.v4);
        is(from_path, "", &"");
        let own = if row == 1 { "wb1" } else { "wb0" };
        is(&client.1.0.to_string(), own, &server.v4);
        let last = &network.hosts[row - 1];
        last.network.enter().expect("the host before the client");
        is(&client.1.0.to_string(), &format!("wb{row}"), &last.v4);
    }

    #[test]
    fn the_second_leg_is_for_sockets_that_are_bound_to_it() {
        std::thread::spawn(|| {
            if NetworkNamespace::new().is_err() {
                assert_ne!(wavebed_os::namespace::effective_user().0, 0, "root may");
                return;
            }
            for names in [vec!["server", "client"], vec!["server", "edge", "client"]] {
                NetworkNamespace::new().expect("namespace");
                let network = build(&lab(&names), None).expect("hosts");
                assert_eq!(network.legs.len(), names.len());
                check_routes(&network);
            }
        })
        .join()
        .expect("no panic");
    }
}
