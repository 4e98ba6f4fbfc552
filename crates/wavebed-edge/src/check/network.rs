//! Features of the network: each is tried in a network namespace of its own.

use std::fs;
use std::os::fd::AsFd as _;

use wavebed_os::cgroup::Group;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::tun::Tun;

use super::facts::{Fact, Name, apart};
use crate::splitter::{Rules, Settings};
use crate::syn;

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

/// The program runs for no connection: it is for those of the namespace of the trial.
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
