//! What a driver can do for XDP, as the generic netlink family `netdev` tells (Linux 6.3).

use std::io;

use rustix::net::netlink::GENERIC;

use crate::error::{Context, Error, Result};
use crate::netlink::{
    HEADER_BYTES, Message, NLMSG_ERROR, Netlink, find_attribute, interface_index,
};

const GENERIC_CONTROL: u16 = 0x10;
const CONTROL_GET_FAMILY: u8 = 3;
const CONTROL_FAMILY_ID: u16 = 1;
const CONTROL_FAMILY_NAME: u16 = 2;
const GENERIC_HEADER_BYTES: usize = 4;
const NETDEV_DEV_GET: u8 = 1;
const NETDEV_INTERFACE: u16 = 1;
const NETDEV_XDP_FEATURES: u16 = 3;
/// The driver takes frames that are redirected to it (`NETDEV_XDP_ACT_NDO_XMIT`).
const TAKES_REDIRECTED: u64 = 4;

/// Whether `interface` takes frames that a BPF program redirects to it. A veth does while its other end polls: with GRO on,
/// or an XDP program in its driver.
///
/// # Errors
/// There is no such interface, or the kernel is older than 6.3 and does not say.
pub fn takes_redirected_frames(interface: &str) -> Result<bool> {
    let index = interface_index(interface)?;
    let netlink = Netlink::open(Some(GENERIC))?;
    let features = family(&netlink)
        .and_then(|family| xdp_features(&netlink, family, index))
        .map_err(|source| Error {
            operation: "ask for the XDP features of",
            object: interface.to_owned(),
            source,
        })?;
    Ok(features & TAKES_REDIRECTED != 0)
}

/// The number of the family `netdev`.
fn family(netlink: &Netlink) -> io::Result<u16> {
    let mut message = Message::new(GENERIC_CONTROL, 0, 1);
    message.put(&[CONTROL_GET_FAMILY, 1, 0, 0]);
    message.attribute(CONTROL_FAMILY_NAME, b"netdev\0");
    let answer = ask(netlink, message)?;
    let id = find_attribute(&answer, CONTROL_FAMILY_ID).and_then(|id| id.try_into().ok());
    id.map(u16::from_ne_bytes).ok_or_else(invalid)
}

fn xdp_features(netlink: &Netlink, family: u16, index: u32) -> io::Result<u64> {
    let mut message = Message::new(family, 0, 2);
    message.put(&[NETDEV_DEV_GET, 1, 0, 0]);
    message.attribute(NETDEV_INTERFACE, &index.to_ne_bytes());
    let answer = ask(netlink, message)?;
    let bits = find_attribute(&answer, NETDEV_XDP_FEATURES).and_then(|bits| bits.try_into().ok());
    bits.map(u64::from_ne_bytes).ok_or_else(invalid)
}

/// The attributes of the answer.
fn ask(netlink: &Netlink, message: Message) -> io::Result<Vec<u8>> {
    netlink.send(&message.finish())?;
    let mut answer = vec![0; 16_384];
    let length = netlink.receive(&mut answer)?;
    answer.truncate(length);
    let kind = answer.get(4..6).ok_or_else(invalid)?;
    let body = answer.get(HEADER_BYTES..).unwrap_or_default();
    if kind == NLMSG_ERROR.to_ne_bytes() {
        let number = body.first_chunk().map_or(0, |n| i32::from_ne_bytes(*n));
        return Err(io::Error::from_raw_os_error(-number));
    }
    Ok(body
        .get(GENERIC_HEADER_BYTES..)
        .unwrap_or_default()
        .to_vec())
}

fn invalid() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Fails unless `interface` takes frames that a BPF program redirects to it.
///
/// # Errors
/// `Unsupported` with the remedy, or that of [`takes_redirected_frames`].
pub fn require_redirected_frames(interface: &str) -> Result<()> {
    if takes_redirected_frames(interface)? {
        return Ok(());
    }
    let remedy = "its driver does not take them; a veth does while GRO is on at its other end";
    Err(io::Error::new(io::ErrorKind::Unsupported, remedy)).during("redirect frames to", interface)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::Ethtool;
    use crate::namespace::{NetworkNamespace, effective_user};

    #[test]
    fn a_veth_takes_redirected_frames_while_its_other_end_polls() {
        std::thread::spawn(|| {
            let Ok(_namespace) = NetworkNamespace::new() else {
                assert_ne!(effective_user().0, 0, "root may");
                return;
            };
            let netlink = Netlink::route().expect("socket");
            netlink.add_veth("left", "right").expect("pair");
            for name in ["left", "right"] {
                let index = interface_index(name).expect("made");
                netlink.set_up(index).expect("up");
            }
            let right = Ethtool::open("right").expect("socket");
            for on in [false, true, false] {
                right.set_feature("rx-gro", on).expect("switched");
                assert_eq!(takes_redirected_frames("left").expect("answer"), on);
            }
            let line = require_redirected_frames("left")
                .expect_err("off")
                .to_string();
            assert!(
                line.contains("cannot redirect frames to left: its driver"),
                "{line}"
            );
            assert!(takes_redirected_frames("nobody0").is_err());
        })
        .join()
        .expect("no panic");
    }
}
