//! The little of rtnetlink(7) that a laboratory needs: addresses, routes, interface state and counters.
//!
//! A [`Netlink`] socket belongs to the network namespace in which it was opened, whoever uses it later.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::io::retry_on_intr;
use rustix::net::netdevice::name_to_index;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

use crate::error::{Context, Result};

pub(crate) const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 0x1;
pub(crate) const NLM_F_ACK: u16 = 0x4;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFLA_TXQLEN: u16 = 13;
const IFLA_STATS64: u16 = 23;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 0x02;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
/// `AF_INET` and `AF_INET6`, as the one byte of a header.
pub(crate) const INET: u8 = 2;
pub(crate) const INET6: u8 = 10;
const NESTED: u16 = 0x8000;
pub(crate) const HEADER_BYTES: usize = 16;

/// A netlink message under construction.
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of this type with these flags (`NLM_F_REQUEST` is added) and sequence number.
    pub(crate) fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes }
    }

    /// Appends a fixed part.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.align();
        self
    }

    /// Appends an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).expect("attributes here are short");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.put(value)
    }

    /// Appends an attribute that holds what `fill` appends.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).expect("attributes here are short");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// The finished bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).expect("messages here are short");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// A netlink socket.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
}

/// Where packets for a prefix go.
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

/// What an interface lost, packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceLosses {
    /// Packets that the host sent and that found the device's queue full.
    pub tx_dropped: u64,
    /// Packets that the host sent and that failed.
    pub tx_errors: u64,
    /// Packets that were handed to the host and that it dropped at the device.
    pub rx_dropped: u64,
    /// Packets that were handed to the host and that it found malformed.
    pub rx_errors: u64,
}

impl Netlink {
    /// A socket for routes and interfaces in the network namespace of the calling thread.
    ///
    /// # Errors
    /// What socket(2) answers.
    pub fn route() -> Result<Self> {
        // NETLINK_ROUTE is 0, the default.
        Self::open(None)
    }

    pub(crate) fn open(protocol: Option<Protocol>) -> Result<Self> {
        let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, protocol)
            .during("open", "a netlink socket")?;
        Ok(Self { socket })
    }

    /// Sets interface `index` up.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_up(&self, index: u32) -> io::Result<()> {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_ACK, 1);
        let up = (libc::IFF_UP.cast_unsigned()).to_ne_bytes();
        message.put(&link_header(index, up));
        self.request(message)
    }

    /// Takes the multicast flag from interface `index`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn clear_multicast(&self, index: u32) -> io::Result<()> {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_ACK, 1);
        let mut header = link_header(index, [0; 4]);
        header[12..].copy_from_slice(&libc::IFF_MULTICAST.to_ne_bytes());
        message.put(&header);
        self.request(message)
    }

    /// Sets how many packets interface `index` holds for its reader. Works in a user namespace, where the ioctl
    /// of the same purpose does not.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_queue_length(&self, index: u32, packets: u32) -> io::Result<()> {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_ACK, 1);
        message.put(&link_header(index, [0; 4]));
        message.attribute(IFLA_TXQLEN, &packets.to_ne_bytes());
        self.request(message)
    }

    /// Gives interface `index` an address, without duplicate address detection.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn add_address(&self, index: u32, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let (family, bytes) = octets(address);
        let mut message = Message::new(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1);
        let [a, b, c, d] = index.to_ne_bytes();
        message.put(&[family, prefix_bits, IFA_F_NODAD, 0, a, b, c, d]);
        message
            .attribute(IFA_LOCAL, &bytes)
            .attribute(IFA_ADDRESS, &bytes);
        self.request(message)
    }

    /// Adds a route to the main table.
    ///
    /// # Errors
    /// The kernel's refusal: `EEXIST` if the prefix has a route already, `EINVAL` or `ENOENT` for a congestion
    /// control that this machine does not have.
    pub fn add_route(&self, route: &Route<'_>) -> io::Result<()> {
        let (family, destination) = octets(route.destination);
        let mut message = Message::new(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1);
        message.put(&[
            family,
            route.prefix_bits,
            0,
            0,
            RT_TABLE_MAIN,
            RTPROT_STATIC,
            RT_SCOPE_LINK,
            RTN_UNICAST,
            0,
            0,
            0,
            0,
        ]);
        if route.prefix_bits > 0 {
            message.attribute(RTA_DST, &destination);
        }
        message.attribute(RTA_OIF, &route.interface.to_ne_bytes());
        if let Some(source) = route.source {
            message.attribute(RTA_PREFSRC, &octets(source).1);
        }
        if let Some(name) = route.congestion_control {
            let mut text = name.as_bytes().to_vec();
            text.push(0);
            message.nest(RTA_METRICS, |metrics| {
                metrics.attribute(RTAX_CC_ALGO, &text);
            });
        }
        self.request(message)
    }

    /// Reads what interface `index` lost since it was made.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn losses(&self, index: u32) -> io::Result<InterfaceLosses> {
        let mut message = Message::new(RTM_GETLINK, 0, 1);
        message.put(&link_header(index, [0; 4]));
        self.send(&message.finish())?;
        let mut answer = vec![0; 16_384];
        let length = self.receive(&mut answer)?;
        let answer = &answer[..length];
        if let Some(number) = error_of(answer) {
            return Err(io::Error::from_raw_os_error(number));
        }
        let stats = find_attribute(answer.get(HEADER_BYTES + 16..).unwrap_or(&[]), IFLA_STATS64)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        // struct rtnl_link_stats64: rx_packets, tx_packets, rx_bytes, tx_bytes, then what is read here.
        let word = |index: usize| {
            stats
                .get(index * 8..index * 8 + 8)
                .map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_ne_bytes))
        };
        Ok(InterfaceLosses {
            rx_errors: word(4),
            tx_errors: word(5),
            rx_dropped: word(6),
            tx_dropped: word(7),
        })
    }

    pub(crate) fn request(&self, message: Message) -> io::Result<()> {
        self.send(&message.finish())?;
        self.acknowledged()
    }

    /// Reads one acknowledgement.
    pub(crate) fn acknowledged(&self) -> io::Result<()> {
        let mut answer = [0; 4096];
        let length = self.receive(&mut answer)?;
        match error_of(&answer[..length]) {
            Some(0) => Ok(()),
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.socket, bytes, SendFlags::empty())?;
        Ok(())
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let empty = RecvFlags::empty();
        let received = retry_on_intr(|| rustix::net::recv(&self.socket, &mut *buffer, empty))?;
        Ok(received.0)
    }
}

/// The index of interface `name` in the network namespace of the calling thread.
///
/// # Errors
/// There is no such interface.
pub fn interface_index(name: &str) -> Result<u32> {
    // Not if_nametoindex(3): where it gets no socket, it says that there is no such interface.
    let kind = SocketType::DGRAM;
    socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .and_then(|socket| name_to_index(socket, name))
        .during("find the interface", name)
}

/// struct ifinfomsg that changes the flags in `flags` to set.
fn link_header(index: u32, flags: [u8; 4]) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags);
    header[12..16].copy_from_slice(&flags);
    header
}

/// The family and bytes of an address.
pub(crate) fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (INET6, v6.octets().to_vec()),
    }
}

/// The error number of an error message (0 for an acknowledgement); `None` for any other message.
fn error_of(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind != NLMSG_ERROR {
        return None;
    }
    let number = answer.get(HEADER_BYTES..HEADER_BYTES + mem::size_of::<i32>())?;
    Some(-i32::from_ne_bytes(number.try_into().ok()?))
}

/// The value of the first attribute of this kind.
pub(crate) fn find_attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    while bytes.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let this = u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff;
        if length < 4 || length > bytes.len() {
            return None;
        }
        if this == kind {
            return Some(&bytes[4..length]);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let mut message = Message::new(1, 2, 3);
        message.nest(8, |inner| {
            inner.attribute(16, b"bbr\0x");
        });
        let bytes = message.finish();
        assert_eq!(bytes.len(), HEADER_BYTES + 4 + 4 + 8);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().expect("four")), 32);
        let nested = find_attribute(&bytes[HEADER_BYTES..], 8).expect("nested");
        assert_eq!(find_attribute(nested, 16), Some(&b"bbr\0x"[..]));
    }

    #[test]
    fn the_loopback_has_counters() {
        let netlink = Netlink::route().expect("socket");
        let index = interface_index("lo").expect("lo");
        netlink.losses(index).expect("counters");
        assert!(netlink.losses(index + 10_000).is_err());
    }
}
