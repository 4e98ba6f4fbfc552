//! An emulated device that forwards in the driver, by a BPF program.
//!
//! An interface takes what is redirected to it only if its driver can; a veth only while its peer polls (see
//! [`crate::live_frames`]).

use wavebed_os::bpf::{Link, XdpMode};
use wavebed_os::error::{Context, Error};
use wavebed_os::netlink::{Netlink, interface_index};

use crate::bpf::forward::{self, Way};

/// One of its two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<'a> {
    /// The interface's name.
    pub interface: &'a str,
    /// Destination MAC address of frames that leave there.
    pub next_mac: [u8; 6],
}

/// Forwards IPv4 and IPv6 between two interfaces, both ways, until it is dropped: one is taken from the TTL, and frames whose
/// TTL is spent are dropped without an answer. What is sent to a group, neighbour discovery and all other protocols are left
/// to the kernel.
#[derive(Debug)]
pub struct XdpDevice {
    _links: [Link; 2],
}

impl XdpDevice {
    /// Begins to forward between interfaces of the calling thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, another program is attached, or the driver has no hook.
    pub fn attach(one: Side<'_>, other: Side<'_>) -> wavebed_os::Result<Self> {
        let netlink = Netlink::route()?;
        let (to_one, to_other) = (way(&netlink, one)?, way(&netlink, other)?);
        let attach = |way: &Way, from: &Way| {
            Link::attach_xdp(&forward::load(way)?, from.interface, XdpMode::Native)
        };
        Ok(Self {
            _links: [attach(&to_other, &to_one)?, attach(&to_one, &to_other)?],
        })
    }
}

fn way(netlink: &Netlink, side: Side<'_>) -> wavebed_os::Result<Way> {
    let index = interface_index(side.interface)?;
    let found = netlink
        .interface(index)
        .during("look at the interface", side.interface)?;
    let mac = found.mac.ok_or_else(|| Error {
        operation: "forward Ethernet frames through",
        object: side.interface.to_owned(),
        source: std::io::Error::from(std::io::ErrorKind::Unsupported),
    })?;
    Ok(Way {
        interface: index,
        mac,
        next_mac: side.next_mac,
    })
}
