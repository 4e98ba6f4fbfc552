//! Network interfaces over rtnetlink(7): their state, counters, addresses, routes and rules; and veth pairs.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use netlink_bindings::rt_addr::{self, Ifaddrmsg};
use netlink_bindings::rt_link::{self, Ifinfomsg, IterableLinkAttrs, PushLinkAttrs};
use netlink_bindings::rt_route::{self, RtmType, Rtmsg};
use netlink_bindings::rt_rule::{self, FibRuleHdr, FrAct};
use netlink_bindings::traits::Pusher;
use netlink_bindings::utils::{finalize_nested_header, push_nested_header};

use crate::namespace::NetworkNamespace;
use crate::netlink::Netlink;

const RT_TABLE_MAIN: u8 = 254;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_LINK: u8 = 253;
const IFA_F_NODAD: u8 = 2;
/// The last two priorities before the main table: rules of programs without a priority come first.
const INPUT_PRIORITIES: [u32; 2] = [32_764, 32_765];
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_NET_NS_FD: u16 = 28;
/// A Linux bridge takes the least MAC address of its ports: a new port must not change it, since neighbours know it.
const HIGHEST_MAC: [u8; 6] = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff];
/// Longest wait for the kernel's background work on an address: a busy machine takes tens of milliseconds.
const ADDRESS_LIMIT: Duration = Duration::from_secs(10);
const ADDRESS_POLL: Duration = Duration::from_millis(1);

/// The state of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its current name.
    pub name: String,
    /// Its Ethernet address, if it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// The largest packet, bytes.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Number of carrier changes.
    pub carrier_changes: u32,
    /// The index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Whether a BPF program is attached to it.
    pub xdp: bool,
    /// Its counters.
    pub counters: Counters,
}

/// Counters of an interface since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Received packets that were dropped before delivery.
    pub rx_dropped: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Packets missed by the hardware for lack of buffers.
    pub rx_missed: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets dropped instead of sent.
    pub tx_dropped: u64,
    /// Transmit errors.
    pub tx_errors: u64,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// The prefix's address; with `prefix_bits` 0 the default route.
    pub destination: IpAddr,
    /// Length of the prefix, bits.
    pub prefix_bits: u8,
    /// The interface's index.
    pub interface: u32,
    /// Source address for packets that have none yet.
    pub source: Option<IpAddr>,
    /// TCP congestion control of connections over this route (`RTAX_CC_ALGO`).
    pub congestion_control: Option<&'a str>,
}

impl Netlink {
    /// Reads the state of interface `index`.
    ///
    /// # Errors
    /// `ENODEV`: the interface does not exist.
    pub fn interface(&self, index: u32) -> io::Result<Interface> {
        let request = rt_link::Request::new().op_getlink_do(&link(index));
        let mut found = Err(io::ErrorKind::InvalidData.into());
        self.ask(&request, |(header, attributes)| {
            found = understand(&header, &attributes);
        })?;
        found
    }

    /// Reads the counters of interface `index` since its creation.
    ///
    /// # Errors
    /// `ENODEV`: the interface does not exist.
    pub fn counters(&self, index: u32) -> io::Result<Counters> {
        Ok(self.interface(index)?.counters)
    }

    /// Reads the addresses of interface `index`, each with the length of its prefix.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn addresses(&self, index: u32) -> io::Result<Vec<(IpAddr, u8)>> {
        let request = rt_addr::Request::new().op_getaddr_dump(&Ifaddrmsg::new());
        let mut found = Vec::new();
        self.ask(&request, |(header, attributes)| {
            let address = attributes.get_local().or_else(|_| attributes.get_address());
            if header.ifa_index == index
                && let Ok(address) = address
            {
                found.push((address, header.ifa_prefixlen));
            }
        })?;
        Ok(found)
    }

    /// Creates a veth pair.
    ///
    /// # Errors
    /// The kernel's refusal: `EEXIST` if a name is taken, `EPERM`.
    pub fn add_veth(&self, name: &str, peer: &str) -> io::Result<()> {
        self.add_veth_between(name, peer, None)
    }

    /// Creates a veth pair whose end `peer`, to be a port of a Linux bridge, is in the namespace `at`. The pair goes when
    /// either namespace does.
    ///
    /// # Errors
    /// The kernel's refusal: `EEXIST` if a name is taken, `EPERM`.
    pub fn add_veth_into(&self, name: &str, peer: &str, at: &NetworkNamespace) -> io::Result<()> {
        self.add_veth_between(name, peer, Some(at))
    }

    fn add_veth_between(
        &self,
        name: &str,
        peer: &str,
        at: Option<&NetworkNamespace>,
    ) -> io::Result<()> {
        let mut request = rt_link::Request::new()
            .set_create()
            .set_excl()
            .op_newlink_do(&link(0));
        let attributes = request.encode().push_ifname_bytes(name.as_bytes());
        let mut information = attributes.nested_linkinfo().push_kind(c"veth");
        // The specification has no attributes of a veth.
        let bytes = information.as_vec_mut();
        let data = push_nested_header(bytes, IFLA_INFO_DATA);
        let other = push_nested_header(bytes, VETH_INFO_PEER);
        bytes.extend(link(0).as_slice());
        PushLinkAttrs::new(&mut *bytes).push_ifname_bytes(peer.as_bytes());
        if let Some(namespace) = at {
            PushLinkAttrs::new(&mut *bytes).push_address(&HIGHEST_MAC);
            // The specification has no such attribute either.
            let descriptor = namespace.as_fd().as_raw_fd();
            let attribute = push_nested_header(bytes, IFLA_NET_NS_FD);
            bytes.extend(descriptor.to_ne_bytes());
            finalize_nested_header(bytes, attribute);
        }
        finalize_nested_header(bytes, other);
        finalize_nested_header(bytes, data);
        drop(information);
        self.order(&request)
    }

    /// Sets interface `index` up.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_up(&self, index: u32) -> io::Result<()> {
        self.set_flag(index, libc::IFF_UP, true)
    }

    /// Clears the multicast flag of interface `index`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn clear_multicast(&self, index: u32) -> io::Result<()> {
        self.set_flag(index, libc::IFF_MULTICAST, false)
    }

    fn set_flag(&self, index: u32, flag: i32, on: bool) -> io::Result<()> {
        let flag = flag.cast_unsigned();
        let header = Ifinfomsg {
            ifi_flags: if on { flag } else { 0 },
            ifi_change: flag,
            ..link(index)
        };
        self.order(&rt_link::Request::new().op_newlink_do(&header))
    }

    /// Sets the largest packet of interface `index`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        let mut request = rt_link::Request::new().op_newlink_do(&link(index));
        request.encode().push_mtu(mtu);
        self.order(&request)
    }

    /// Sets the transmit queue length of interface `index`. Works in a user namespace, unlike the ioctl.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_queue_length(&self, index: u32, packets: u32) -> io::Result<()> {
        let mut request = rt_link::Request::new().op_newlink_do(&link(index));
        request.encode().push_txqlen(packets);
        self.order(&request)
    }

    /// Makes interface `index` a port of the Linux bridge `bridge`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_master(&self, index: u32, bridge: u32) -> io::Result<()> {
        let mut request = rt_link::Request::new().op_newlink_do(&link(index));
        request.encode().push_master(bridge);
        self.order(&request)
    }

    /// Puts interface `index` into a group of interfaces.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_group(&self, index: u32, group: u32) -> io::Result<()> {
        let mut request = rt_link::Request::new().op_newlink_do(&link(index));
        request.encode().push_group(group);
        self.order(&request)
    }

    /// Gives interface `index` an address, without duplicate address detection.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn add_address(&self, index: u32, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let header = Ifaddrmsg {
            ifa_family: family(address),
            ifa_prefixlen: prefix_bits,
            ifa_flags: IFA_F_NODAD,
            ifa_index: index,
            ..Ifaddrmsg::new()
        };
        let mut request = rt_addr::Request::new()
            .set_create()
            .set_excl()
            .op_newaddr_do(&header);
        request.encode().push_local(address).push_address(address);
        self.order(&request)
    }

    /// Waits until the host of this socket accepts packets to its own `address`, whose interface is up. The kernel adds
    /// the local route of an IPv6 address in the background, also without duplicate address detection.
    ///
    /// # Errors
    /// The kernel's refusal; `TimedOut` if there is no such route after ten seconds.
    pub fn wait_until_local(&self, address: IpAddr) -> io::Result<()> {
        let end = Instant::now() + ADDRESS_LIMIT;
        while !self.is_local(address)? {
            if Instant::now() >= end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(ADDRESS_POLL);
        }
        Ok(())
    }

    /// Whether packets to `address` are for the host of this socket.
    fn is_local(&self, address: IpAddr) -> io::Result<bool> {
        let header = Rtmsg {
            rtm_family: family(address),
            rtm_dst_len: if address.is_ipv4() { 32 } else { 128 },
            ..Rtmsg::new()
        };
        let mut request = rt_route::Request::new().op_getroute_do(&header);
        request.encode().push_dst(address);
        let mut found = false;
        self.ask(&request, |(header, _)| {
            found = header.rtm_type == RtmType::Local as u8;
        })?;
        Ok(found)
    }

    /// Adds a route to the main table.
    ///
    /// # Errors
    /// The kernel's refusal: `EEXIST` if the prefix has a route already, `EINVAL` or `ENOENT` for a congestion
    /// control that this machine does not have.
    pub fn add_route(&self, route: &Route<'_>) -> io::Result<()> {
        self.add_route_with_metric(route, None)
    }

    /// Adds a route with a metric to the main table, or to the local one for IPv6 multicast. Of several routes to a prefix
    /// the one with the least metric is taken. The metric is 0 for IPv4 and 1024 for IPv6 by default.
    ///
    /// # Errors
    /// As [`Self::add_route`]; `EEXIST` if the prefix has a route with this metric already.
    pub fn add_route_with_metric(&self, route: &Route<'_>, metric: Option<u32>) -> io::Result<()> {
        // The kernel has a route for it there on every interface, and refuses others through the loopback.
        let is_multicast6 = route.destination.is_ipv6() && route.destination.is_multicast();
        let (table, kind) = if is_multicast6 {
            (RT_TABLE_LOCAL, RtmType::Local)
        } else {
            (RT_TABLE_MAIN, RtmType::Unicast)
        };
        let header = Rtmsg {
            rtm_family: family(route.destination),
            rtm_dst_len: route.prefix_bits,
            rtm_table: table,
            rtm_protocol: RTPROT_STATIC,
            rtm_scope: RT_SCOPE_LINK,
            rtm_type: kind as u8,
            ..Rtmsg::new()
        };
        let mut request = rt_route::Request::new()
            .set_create()
            .set_excl()
            .op_newroute_do(&header);
        let mut attributes = request.encode().push_oif(route.interface);
        if route.prefix_bits > 0 {
            attributes = attributes.push_dst(route.destination);
        }
        if let Some(source) = route.source {
            attributes = attributes.push_prefsrc(source);
        }
        if let Some(metric) = metric {
            attributes = attributes.push_priority(metric);
        }
        if let Some(name) = route.congestion_control {
            let metrics = attributes.nested_metrics();
            attributes = metrics.push_cc_algo_bytes(name.as_bytes()).end_nested();
        }
        drop(attributes);
        self.order(&request)
    }

    /// Keeps packets that arrive through interface `name` from leaving through an interface of `group`: such a packet, and
    /// one without a route, gets the ICMP error "network unreachable". IPv4 needs forwarding on the interface for the
    /// error.
    ///
    /// # Errors
    /// The kernel's refusal: `EOPNOTSUPP` without routing rules.
    pub fn return_nothing(&self, name: &str, group: u32, with_v6: bool) -> io::Result<()> {
        let families: &[u8] = if with_v6 { &[INET, INET6] } else { &[INET] };
        for &family in families {
            let header = |action: FrAct, table| FibRuleHdr {
                family,
                table,
                action: action as u8,
                ..FibRuleHdr::new()
            };
            let lookup = header(FrAct::ToTbl, RT_TABLE_MAIN);
            let refuse = header(FrAct::Unreachable, 0);
            for (header, priority) in [lookup, refuse].iter().zip(INPUT_PRIORITIES) {
                let mut request = rt_rule::Request::new()
                    .set_create()
                    .set_excl()
                    .op_newrule_do(header);
                let attributes = request.encode().push_iifname_bytes(name.as_bytes());
                let attributes = attributes.push_priority(priority);
                if priority == INPUT_PRIORITIES[0] {
                    drop(attributes.push_suppress_ifgroup(group));
                } else {
                    drop(attributes);
                }
                self.order(&request)?;
            }
        }
        Ok(())
    }
}

fn understand(header: &Ifinfomsg, attributes: &IterableLinkAttrs<'_>) -> io::Result<Interface> {
    let counted = attributes.get_stats64()?;
    let attached = attributes.get_xdp().and_then(|xdp| xdp.get_attached());
    Ok(Interface {
        name: attributes.get_ifname()?.to_string_lossy().into_owned(),
        mac: attributes
            .get_address()
            .ok()
            .and_then(|mac| mac.try_into().ok()),
        mtu: attributes.get_mtu()?,
        up: header.ifi_flags & libc::IFF_UP.cast_unsigned() != 0,
        carrier: attributes.get_carrier()? == 1,
        carrier_changes: attributes.get_carrier_changes().unwrap_or(0),
        master: attributes.get_master().ok(),
        xdp: attached.is_ok_and(|mode| mode != 0),
        counters: Counters {
            rx_packets: counted.rx_packets,
            rx_bytes: counted.rx_bytes,
            rx_dropped: counted.rx_dropped,
            rx_errors: counted.rx_errors,
            rx_missed: counted.rx_missed_errors,
            tx_packets: counted.tx_packets,
            tx_bytes: counted.tx_bytes,
            tx_dropped: counted.tx_dropped,
            tx_errors: counted.tx_errors,
        },
    })
}

/// Names an interface and changes none of its flags.
fn link(index: u32) -> Ifinfomsg {
    Ifinfomsg {
        ifi_index: index.cast_signed(),
        ..Ifinfomsg::new()
    }
}

/// `AF_INET`, as the one byte of a header.
const INET: u8 = 2;
/// `AF_INET6`, as the one byte of a header.
const INET6: u8 = 10;

const fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => INET,
        IpAddr::V6(_) => INET6,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::netlink::interface_index;

    #[test]
    fn the_loopback_has_a_state_and_addresses() {
        let netlink = Netlink::route().expect("socket");
        let index = interface_index("lo").expect("lo");
        let interface = netlink.interface(index).expect("state");
        assert_eq!(interface.name, "lo");
        assert_eq!(interface.mac, Some([0; 6]));
        assert_eq!(interface.master, None);
        assert!(!interface.xdp);
        if interface.up {
            let addresses = netlink.addresses(index).expect("addresses");
            assert!(addresses.contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
        }
        let error = netlink.interface(index + 10_000).expect_err("none");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn an_address_is_waited_for_until_the_host_accepts_its_packets() {
        std::thread::spawn(|| {
            if NetworkNamespace::new().is_err() {
                assert_ne!(crate::namespace::effective_user().0, 0, "root may");
                return;
            }
            let netlink = Netlink::route().expect("socket");
            netlink.add_veth("left", "right").expect("pair");
            let [left, right] = ["left", "right"].map(|name| interface_index(name).expect("made"));
            netlink.set_up(left).expect("up");
            netlink.set_up(right).expect("up");
            for number in 1..=50 {
                let addresses: [IpAddr; 2] = [
                    Ipv4Addr::new(198, 18, 0, number).into(),
                    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into(),
                ];
                for (address, bits) in addresses.into_iter().zip([32, 128]) {
                    netlink.add_address(left, address, bits).expect("address");
                    netlink.wait_until_local(address).expect("local");
                    assert!(netlink.is_local(address).expect("route"));
                }
            }
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_veth_pair_comes_up_when_both_ends_do() {
        std::thread::spawn(|| {
            let Ok(_namespace) = NetworkNamespace::new() else {
                assert_ne!(crate::namespace::effective_user().0, 0, "root may");
                return;
            };
            let netlink = Netlink::route().expect("socket");
            netlink.add_veth("left", "right").expect("pair");
            assert!(netlink.add_veth("left", "other").is_err());
            let [left, right] = ["left", "right"].map(|name| interface_index(name).expect("made"));
            netlink.set_mtu(left, 9000).expect("mtu");
            netlink.set_up(left).expect("up");
            let half = netlink.interface(left).expect("state");
            assert!(half.up && !half.carrier);
            assert_eq!(half.mtu, 9000);
            netlink.set_up(right).expect("up");
            let whole = netlink.interface(left).expect("state");
            assert!(whole.carrier && whole.carrier_changes > half.carrier_changes);
            assert_eq!(
                netlink
                    .addresses(left)
                    .expect("addresses")
                    .iter()
                    .filter(|a| a.0.is_ipv4())
                    .count(),
                0
            );
        })
        .join()
        .expect("no panic");
    }
}
