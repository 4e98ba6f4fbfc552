//! Opens the two ports of a bridge, and refuses those that the machine needs itself.

use std::io::IoSlice;
use std::net::IpAddr;
use std::{fs, io};

use wavebed_os::ethernet_port::EthernetPort;
use wavebed_os::interface::Interface;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::nft::{Ingress, Silence};

use crate::bridge_file::BridgeFile;
use crate::network::quiet_device;
use crate::problem::{CANNOT, Problem, say};

/// `ENODEV`, `EPERM` and `EAFNOSUPPORT`, the same on every supported architecture.
const NO_DEVICE: i32 = 19;
const NOT_PERMITTED: i32 = 1;
const NO_ETHERNET: i32 = 97;
/// Name of the engine's end of the pair whose other end is a port of the Linux bridge.
const ENGINE_END: &str = "wb0";
/// Kind of a frame for local experiments (IEEE 802), which nobody understands.
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];
const VIRTIO_HEADER_BYTES: usize = 10;
const LEAST_FRAME_BYTES: usize = 60;
/// `RTF_REJECT`: the route says that a destination cannot be reached. The kernel has such a default route by itself.
const REJECTS: u32 = 0x200;

/// The open ports.
pub struct Ports {
    /// The sockets of `a` and `b`.
    pub sockets: [EthernetPort; 2],
    /// Keeps their frames from this machine's own stack, if the kernel can.
    pub ingress: Option<Ingress>,
    /// Keeps the Linux bridge from sending by `b` past the links.
    pub silence: Option<Silence>,
}

impl Ports {
    /// Opens the ports of a bridge in the network namespace of the calling thread.
    ///
    /// # Errors
    /// A port does not exist, cannot be one, or is the machine's way to its network.
    pub fn open(file: &BridgeFile) -> Result<Self, Problem> {
        if let Some(switch) = &file.switch {
            return Self::open_at_switch(file, switch);
        }
        let default_routes = DefaultRoutes::read();
        let netlink = Netlink::route()?;
        let check = |key: &str, name: &str| -> Result<Interface, Problem> {
            let index = interface_index(name).map_err(|error| no_interface(key, name, &error))?;
            let interface = netlink
                .interface(index)
                .map_err(|error| Problem::failed(format!("{key}: {name}: {error}")))?;
            if !file.force && default_routes.use_interface(name) {
                return Err(Problem::wrong(format!(
                    "{key}: {name} has this machine's default route, which would be cut: name another port, or add \
                     --force"
                )));
            }
            check_state(key, &interface)?;
            remark_addresses(name, &netlink.addresses(index).unwrap_or_default());
            Ok(interface)
        };
        let [a, b] = [check("a", &file.a)?, check("b", &file.b)?];
        if a.mtu != b.mtu {
            say(format_args!(
                "{} has an MTU of {}, {} of {}: longer frames are dropped as too_long",
                a.name, a.mtu, b.name, b.mtu
            ));
        }
        // Before the sockets receive: no frame reaches the stack and a socket.
        let table = format!("wavebed-bridge-{}", std::process::id());
        let ingress = Ingress::drop_all(&table, &[&file.a, &file.b])
            .inspect_err(|error| {
                say(format_args!(
                    "{error}: this machine's own stack sees the frames too, and may answer some"
                ));
            })
            .ok();
        let sockets = [open("a", &file.a)?, open("b", &file.b)?];
        Ok(Self {
            sockets,
            ingress,
            silence: None,
        })
    }

    /// Opens the port `b` of the Linux bridge `switch`, and a further port of it, `a`. All that this changes goes with the
    /// descriptors: the pair of `a` with a namespace that only they hold, the tables with their sockets. Then the Linux
    /// bridge sends by `b` as before, since `b` never left it.
    ///
    /// # Errors
    /// A port does not exist, or the kernel lacks nftables for bridges.
    fn open_at_switch(file: &BridgeFile, switch: &str) -> Result<Self, Problem> {
        let netlink = Netlink::route()?;
        let find = |key: &str, name: &str| {
            let index = interface_index(name).map_err(|error| no_interface(key, name, &error))?;
            let found = netlink.interface(index);
            let found =
                found.map_err(|error| Problem::failed(format!("{key}: {name}: {error}")))?;
            Ok::<_, Problem>((index, found))
        };
        let (switch_index, _) = find("switch", switch)?;
        let (_, b) = find("b", &file.b)?;
        if b.master != Some(switch_index) {
            let line = format!("b: {} is no port of {switch}", file.b);
            return Err(Problem::wrong(line));
        }
        if interface_index(&file.a).is_ok() {
            return Err(Problem::wrong(format!(
                "{} is behind a path already: `wavebed ctl` lists it",
                file.b
            )));
        }
        let refused = |error: &io::Error| {
            Problem::cannot(format!("{}: the kernel refuses it: {error}", file.a))
        };
        let machine = NetworkNamespace::current()?;
        let own = NetworkNamespace::new().map_err(|error| {
            Problem::cannot(format!(
                "requires root (CAP_SYS_ADMIN, CAP_NET_ADMIN): {error}"
            ))
        })?;
        let inside = Netlink::route()?;
        inside
            .add_veth_into(ENGINE_END, &file.a, &machine)
            .map_err(|error| refused(&error))?;
        quiet_device(ENGINE_END);
        let near = interface_index(ENGINE_END)?;
        inside
            .set_mtu(near, b.mtu)
            .and_then(|()| inside.set_up(near))
            .map_err(|error| refused(&error))?;
        let near = open("a", ENGINE_END)?;
        machine.enter()?;
        drop(own);
        quiet_device(&file.a);
        let far = interface_index(&file.a)?;
        let table = format!("wavebed-bridge-{}", std::process::id());
        let no_tables = |error: &wavebed_os::Error| {
            Problem::cannot(format!(
                "{error}: this kernel has no nftables for bridges: modprobe -a nf_tables nft_chain_filter"
            ))
        };
        let silence = Silence::of_port(&table, &file.b).map_err(|error| no_tables(&error))?;
        let ingress = Ingress::drop_all(&table, &[&file.b]).map_err(|error| no_tables(&error))?;
        let sockets = [near, open("b", &file.b)?];
        netlink
            .set_mtu(far, b.mtu)
            .and_then(|()| netlink.set_master(far, switch_index))
            .and_then(|()| netlink.set_up(far))
            .map_err(|error| refused(&error))?;
        file.known_by
            .iter()
            .try_for_each(|mac| sockets[0].write(&[IoSlice::new(&introduction(*mac))]))
            .map_err(|error| refused(&error))?;
        Ok(Self {
            sockets,
            ingress: Some(ingress),
            silence: Some(silence),
        })
    }
}

/// A frame from `mac`, which tells a Linux bridge where it is. It is for `mac` itself, so that it goes nowhere.
fn introduction(mac: [u8; 6]) -> [u8; VIRTIO_HEADER_BYTES + LEAST_FRAME_BYTES] {
    let mut frame = [0; VIRTIO_HEADER_BYTES + LEAST_FRAME_BYTES];
    let addresses = VIRTIO_HEADER_BYTES;
    frame[addresses..addresses + 6].copy_from_slice(&mac);
    frame[addresses + 6..addresses + 12].copy_from_slice(&mac);
    frame[addresses + 12..addresses + 14].copy_from_slice(&EXPERIMENTAL);
    frame
}

fn no_interface(key: &str, name: &str, error: &wavebed_os::Error) -> Problem {
    if error.errno() == Some(NO_DEVICE) {
        return Problem::wrong(format!(
            "{key}: there is no interface {name:?}: `ip link` lists them"
        ));
    }
    Problem::failed(format!("{key}: {error}"))
}

fn check_state(key: &str, interface: &Interface) -> Result<(), Problem> {
    let name = &interface.name;
    if interface.master.is_some() {
        return Err(Problem::wrong(format!(
            "{key}: {name} is a port of a bridge or bond of this machine, which forwards its frames too: ip link set \
             {name} nomaster"
        )));
    }
    if !interface.up {
        return Err(Problem {
            status: CANNOT,
            line: format!("{key}: {name} is down: ip link set {name} up"),
        });
    }
    if !interface.carrier {
        say(format_args!("{name} has no carrier now"));
    }
    Ok(())
}

/// Says which addresses of this machine nobody reaches through the port while the bridge runs.
fn remark_addresses(name: &str, addresses: &[(IpAddr, u8)]) {
    let own = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    let own: Vec<String> = addresses
        .iter()
        .filter(|(address, _)| own(address))
        .map(|(address, _)| address.to_string())
        .collect();
    if !own.is_empty() {
        say(format_args!(
            "{name} has addresses of this machine ({}), which do not answer there while the bridge runs",
            own.join(", ")
        ));
    }
}

fn open(key: &str, name: &str) -> Result<EthernetPort, Problem> {
    EthernetPort::open_with_ring(name).map_err(|error| match error.errno() {
        Some(NO_ETHERNET) => Problem::wrong(format!("{key}: {name} is no Ethernet interface")),
        Some(NOT_PERMITTED) => Problem::cannot(format!(
            "a bridge requires root (CAP_NET_RAW, CAP_NET_ADMIN): {error}"
        )),
        _ => error.into(),
    })
}

/// The routes to everywhere, as `/proc/net` lists them.
#[derive(Debug, Default)]
struct DefaultRoutes {
    interfaces: Vec<String>,
}

impl DefaultRoutes {
    fn read() -> Self {
        let text = |name: &str| -> io::Result<String> {
            fs::read_to_string(format!("/proc/thread-self/net/{name}"))
        };
        // Without a table there is no route.
        Self::parse(
            &text("route").unwrap_or_default(),
            &text("ipv6_route").unwrap_or_default(),
        )
    }

    fn parse(v4: &str, v6: &str) -> Self {
        // Interface, destination, gateway, flags, three counters, mask.
        let v4 = v4.lines().skip(1).filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_default =
                fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000");
            is_default.then(|| fields[0].to_owned())
        });
        // Destination, its length; source, its length; next hop, metric, two counters, flags, interface.
        let v6 = v6.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
            let is_default = fields[1] == "00" && flags & REJECTS == 0;
            is_default.then(|| fields.get(9).copied().map(str::to_owned))?
        });
        Self {
            interfaces: v4.chain(v6).collect(),
        }
    }

    fn use_interface(&self, name: &str) -> bool {
        self.interfaces.iter().any(|other| other == name)
    }
}

#[cfg(test)]
mod tests {
    use super::DefaultRoutes;

    #[test]
    fn the_interfaces_of_default_routes_are_known() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                  eth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 wlan0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n\
             fe800000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001 eth2\n"
        );
        let routes = DefaultRoutes::parse(v4, &v6);
        assert!(routes.use_interface("eth0") && routes.use_interface("wlan0"));
        for other in ["eth1", "eth2", "lo"] {
            assert!(!routes.use_interface(other));
        }
        assert!(!DefaultRoutes::parse("", "").use_interface("eth0"));
    }
}
