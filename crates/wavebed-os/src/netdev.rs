//! XDP features of a driver, from the generic netlink family `netdev` (Linux 6.3).

use std::io;

use netlink_bindings::netdev::{Request, XdpAct};
use rustix::net::netlink::GENERIC;

use crate::error::{Context, Result};
use crate::netlink::{Netlink, interface_index};

/// Whether `interface` takes frames that a BPF program redirects to it. A veth does while its other end polls: with GRO
/// on, or an XDP program in its driver.
///
/// # Errors
/// There is no such interface, or the kernel is older than 6.3.
pub fn takes_redirected_frames(interface: &str) -> Result<bool> {
    let mut request = Request::new().op_dev_get_do();
    request.encode().push_ifindex(interface_index(interface)?);
    let mut features = Err(io::ErrorKind::InvalidData.into());
    Netlink::open(Some(GENERIC))?
        .ask(&request, |device| {
            features = device.get_xdp_features().map_err(io::Error::from);
        })
        .and(features)
        .map(|features| features & XdpAct::NdoXmit as u64 != 0)
        .during("ask for the XDP features of", interface)
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
