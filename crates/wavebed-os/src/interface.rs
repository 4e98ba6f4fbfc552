//! What rtnetlink(7) tells of a network interface: its state, its counters, its addresses; and veth pairs.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{
    HEADER_BYTES, INET, INET6, Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLMSG_ERROR, Netlink,
    RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, find_attribute,
};

const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP: u16 = 0x300;
const RTM_GETADDR: u16 = 22;
const LINK_HEADER_BYTES: usize = 16;
const ADDRESS_HEADER_BYTES: usize = 8;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// The state of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name now.
    pub name: String,
    /// Its Ethernet address, if it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// The largest packet, bytes.
    pub mtu: u32,
    /// Whether it was set up.
    pub up: bool,
    /// Whether there is somebody at the other end.
    pub carrier: bool,
    /// How often that changed.
    pub carrier_changes: u32,
    /// Whether a BPF program is attached to it.
    pub xdp: bool,
    /// What went through it.
    pub counters: Counters,
}

/// What went through an interface since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that came in and were dropped before anybody saw them.
    pub rx_dropped: u64,
    /// Packets that came in broken.
    pub rx_errors: u64,
    /// Packets that the hardware had no room for.
    pub rx_missed: u64,
    /// Packets that went out.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets that should have gone out and were dropped.
    pub tx_dropped: u64,
    /// Packets that could not go out.
    pub tx_errors: u64,
}

impl Netlink {
    /// Reads the state of interface `index`.
    ///
    /// # Errors
    /// `ENODEV`: there is no such interface (any more).
    pub fn interface(&self, index: u32) -> io::Result<Interface> {
        let mut message = Message::new(RTM_GETLINK, 0, 1);
        message.put(&link_header(index));
        self.send(&message.finish())?;
        let mut answer = vec![0; 32_768];
        let length = self.receive(&mut answer)?;
        let answer = &answer[..length];
        if let Some(error) = refusal(answer) {
            return Err(error);
        }
        understand(answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// Reads the addresses of interface `index`, each with the length of its prefix.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn addresses(&self, index: u32) -> io::Result<Vec<(IpAddr, u8)>> {
        let mut message = Message::new(RTM_GETADDR, NLM_F_DUMP, 1);
        message.put(&[0; ADDRESS_HEADER_BYTES]);
        self.send(&message.finish())?;
        let mut found = Vec::new();
        let mut answer = vec![0; 65_536];
        loop {
            let length = self.receive(&mut answer)?;
            for message in Messages(&answer[..length]) {
                match kind_of(message) {
                    Some(RTM_NEWADDR) => found.extend(address(message, index)),
                    Some(NLMSG_ERROR) => {
                        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
                        return Err(refusal(message).unwrap_or_else(invalid));
                    }
                    Some(NLMSG_DONE) | None => return Ok(found),
                    Some(_) => {}
                }
            }
        }
    }

    /// Makes two interfaces that are joined back to back.
    ///
    /// # Errors
    /// The kernel's refusal: `EEXIST` if a name is taken, `EPERM`.
    pub fn add_veth(&self, name: &str, peer: &str) -> io::Result<()> {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1);
        message.put(&link_header(0));
        message.attribute(IFLA_IFNAME, &text(name));
        message.nest(IFLA_LINKINFO, |information| {
            information.attribute(IFLA_INFO_KIND, b"veth\0");
            information.nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |other| {
                    other.put(&link_header(0));
                    other.attribute(IFLA_IFNAME, &text(peer));
                });
            });
        });
        self.request(message)
    }

    /// Sets the largest packet of interface `index`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_ACK, 1);
        message.put(&link_header(index));
        message.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        self.request(message)
    }
}

/// The messages of a datagram.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_ne_bytes(self.0.get(..4)?.try_into().ok()?);
        let length = usize::try_from(length).ok()?;
        if length < HEADER_BYTES {
            return None;
        }
        let message = self.0.get(..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    }
}

fn kind_of(message: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?))
}

/// The error of an error message.
fn refusal(message: &[u8]) -> Option<io::Error> {
    if kind_of(message)? != NLMSG_ERROR {
        return None;
    }
    let number = i32::from_ne_bytes(
        message
            .get(HEADER_BYTES..HEADER_BYTES + 4)?
            .try_into()
            .ok()?,
    );
    Some(io::Error::from_raw_os_error(-number))
}

fn understand(message: &[u8]) -> Option<Interface> {
    if kind_of(message)? != RTM_NEWLINK {
        return None;
    }
    let header = message.get(HEADER_BYTES..HEADER_BYTES + LINK_HEADER_BYTES)?;
    let flags = u32::from_ne_bytes(header[8..12].try_into().ok()?);
    let attributes = &message[HEADER_BYTES + LINK_HEADER_BYTES..];
    let number = |kind| {
        let bytes = find_attribute(attributes, kind)?.get(..4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let byte = |kind| find_attribute(attributes, kind)?.first().copied();
    let name = find_attribute(attributes, IFLA_IFNAME)?.split(|byte| *byte == 0);
    let attached = find_attribute(attributes, IFLA_XDP)
        .and_then(|xdp| find_attribute(xdp, IFLA_XDP_ATTACHED)?.first().copied());
    Some(Interface {
        name: String::from_utf8_lossy(name.into_iter().next()?).into_owned(),
        mac: find_attribute(attributes, IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()),
        mtu: number(IFLA_MTU)?,
        up: flags & libc::IFF_UP.cast_unsigned() != 0,
        carrier: byte(IFLA_CARRIER)? == 1,
        carrier_changes: number(IFLA_CARRIER_CHANGES).unwrap_or(0),
        xdp: attached.is_some_and(|mode| mode != 0),
        counters: counters(find_attribute(attributes, IFLA_STATS64)?)?,
    })
}

/// From struct `rtnl_link_stats64`.
fn counters(bytes: &[u8]) -> Option<Counters> {
    let number = |place: usize| {
        let bytes = bytes.get(place * 8..place * 8 + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    Some(Counters {
        rx_packets: number(0)?,
        tx_packets: number(1)?,
        rx_bytes: number(2)?,
        tx_bytes: number(3)?,
        rx_errors: number(4)?,
        tx_errors: number(5)?,
        rx_dropped: number(6)?,
        tx_dropped: number(7)?,
        rx_missed: number(15)?,
    })
}

/// The address that a message tells of, if it is one of interface `index`.
fn address(message: &[u8], index: u32) -> Option<(IpAddr, u8)> {
    let header = message.get(HEADER_BYTES..HEADER_BYTES + ADDRESS_HEADER_BYTES)?;
    if header[4..8] != index.to_ne_bytes() {
        return None;
    }
    let attributes = &message[HEADER_BYTES + ADDRESS_HEADER_BYTES..];
    let bytes = find_attribute(attributes, IFA_LOCAL)
        .or_else(|| find_attribute(attributes, IFA_ADDRESS))?;
    let address = match header[0] {
        INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    Some((address, header[1]))
}

/// struct ifinfomsg that changes no flag.
fn link_header(index: u32) -> [u8; LINK_HEADER_BYTES] {
    let mut header = [0; LINK_HEADER_BYTES];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::NetworkNamespace;
    use crate::netlink::interface_index;

    #[test]
    fn the_loopback_has_a_state_and_addresses() {
        let netlink = Netlink::route().expect("socket");
        let index = interface_index("lo").expect("lo");
        let interface = netlink.interface(index).expect("state");
        assert_eq!(interface.name, "lo");
        assert_eq!(interface.mac, Some([0; 6]));
        assert!(!interface.xdp);
        if interface.up {
            let addresses = netlink.addresses(index).expect("addresses");
            assert!(addresses.contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
        }
        let error = netlink.interface(index + 10_000).expect_err("none");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
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
