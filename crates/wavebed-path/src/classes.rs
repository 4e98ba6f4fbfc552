//! Classes of a bridge: devices with links of their own, known by their addresses.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use wavebed_packet::VnetHeader;
use wavebed_packet::ip::{Ipv4, Ipv6};

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// Of its Ethernet interface.
    Mac([u8; 6]),
    /// Of its host.
    Ip(IpAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(out),
            Self::Mac([first, rest @ ..]) => {
                write!(out, "{first:02x}")?;
                rest.iter().try_for_each(|byte| write!(out, ":{byte:02x}"))
            }
        }
    }
}

/// Where in a frame the address of a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Frames go to the devices.
    Destination,
    /// Frames come from the devices.
    Source,
}

/// The class of each device: its place in the list of classes.
#[derive(Clone, Debug)]
pub struct Classes {
    by_mac: HashMap<[u8; 6], usize>,
    by_ip: HashMap<IpAddr, usize>,
    side: Side,
}

impl Classes {
    /// The classes of devices with these addresses, for frames in one direction. Of an address in two classes the last
    /// one counts.
    #[must_use]
    pub fn new<'a>(devices: impl IntoIterator<Item = &'a [Address]>, side: Side) -> Self {
        let mut classes = Self {
            by_mac: HashMap::new(),
            by_ip: HashMap::new(),
            side,
        };
        for (class, addresses) in devices.into_iter().enumerate() {
            for address in addresses {
                match *address {
                    Address::Mac(mac) => classes.by_mac.insert(mac, class),
                    Address::Ip(ip) => classes.by_ip.insert(ip, class),
                };
            }
        }
        classes
    }

    /// The class of the device of a packet, `None` if it has none. `bytes` begin with the virtio-net header, and `front`
    /// bytes stand between it and the IP header. The address of the packet counts before that of the frame.
    #[must_use]
    pub fn of(&self, bytes: &[u8], front: u8) -> Option<usize> {
        let frame = bytes.get(VnetHeader::LEN..)?;
        let of_host = || {
            let ip = address_of(frame.get(usize::from(front)..)?, self.side)?;
            self.by_ip.get(&ip).copied()
        };
        let of_interface = || {
            let mac: &[u8; 6] = match self.side {
                Side::Destination => frame.first_chunk()?,
                Side::Source => frame.get(6..)?.first_chunk()?,
            };
            self.by_mac.get(mac).copied()
        };
        let by_ip = (!self.by_ip.is_empty()).then(of_host).flatten();
        by_ip.or_else(|| (!self.by_mac.is_empty()).then(of_interface).flatten())
    }
}

fn address_of(packet: &[u8], side: Side) -> Option<IpAddr> {
    if let Some(ip) = Ipv4::parse(packet) {
        return Some(match side {
            Side::Destination => ip.destination().into(),
            Side::Source => ip.source().into(),
        });
    }
    let ip = Ipv6::parse(packet)?;
    Some(match side {
        Side::Destination => ip.destination().into(),
        Side::Source => ip.source().into(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::{Address, Classes, Side};

    const TV: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const PHONE: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn frame(to: [u8; 6], from: [u8; 6], kind: &[u8], packet: &[u8]) -> Vec<u8> {
        [&[0; 10], &to[..], &from[..], kind, packet].concat()
    }

    fn v4(from: u8, to: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0];
        packet.extend([192, 0, 2, from, 192, 0, 2, to]);
        packet
    }

    #[test]
    fn a_device_is_known_by_either_address_in_either_direction() {
        let ip: IpAddr = Ipv4Addr::new(192, 0, 2, 7).into();
        let devices = [vec![Address::Mac(TV)], vec![Address::Ip(ip)]];
        let classes = |side| Classes::new(devices.iter().map(Vec::as_slice), side);
        let (down, up) = (classes(Side::Destination), classes(Side::Source));
        let plain: &[u8] = &[8, 0];
        let to_tv = frame(TV, PHONE, plain, &v4(1, 2));
        assert_eq!((down.of(&to_tv, 14), up.of(&to_tv, 14)), (Some(0), None));
        let to_host = frame(PHONE, TV, plain, &v4(1, 7));
        assert_eq!(down.of(&to_host, 14), Some(1));
        assert_eq!(up.of(&to_host, 14), Some(0));
        let both = frame(TV, PHONE, &[0x81, 0, 0, 5, 8, 0], &v4(1, 7));
        assert_eq!(down.of(&both, 18), Some(1), "the packet's address counts");
        assert_eq!(down.of(&frame(PHONE, PHONE, plain, &v4(7, 1)), 14), None);
        assert_eq!(down.of(&[0; 12], 14), None);
    }

    #[test]
    fn a_device_may_have_an_address_of_ipv6() {
        let ip: IpAddr = Ipv6Addr::from([0xfd; 16]).into();
        let classes = Classes::new([&[Address::Ip(ip)][..]], Side::Source);
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 59, 64];
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        let found = frame(TV, PHONE, &[0x86, 0xdd], &packet);
        assert_eq!(classes.of(&found, 14), Some(0));
    }
}
