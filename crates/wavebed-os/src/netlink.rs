//! Netlink sockets (netlink(7)). `netlink-bindings` encodes requests and decodes answers by the kernel's
//! specifications.
//!
//! A [`Netlink`] socket belongs to the network namespace in which it was opened, whichever thread uses it.

use std::io;
use std::os::fd::OwnedFd;

use netlink_bindings::builtin::Nlmsghdr;
use netlink_bindings::netdev::{Request, XdpAct};
use netlink_bindings::nlctrl;
use netlink_bindings::traits::{NetlinkRequest, Protocol as Family};
use rustix::io::retry_on_intr;
use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::GENERIC;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

use crate::error::{Context, Result};

pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
pub(crate) const NLM_F_ACK: u16 = 0x4;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
/// Largest datagram of the kernel.
const ANSWER_BYTES: usize = 32 << 10;

/// A netlink socket.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// A socket for routes and interfaces in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The error of socket(2).
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

    /// Executes `request`.
    pub(crate) fn order(&self, request: &impl NetlinkRequest) -> io::Result<()> {
        self.send(&message(self.kind(request)?, NLM_F_ACK, 1, request))?;
        self.acknowledged()
    }

    /// Calls `see` with each answer to `request`.
    pub(crate) fn ask<R: NetlinkRequest>(
        &self,
        request: &R,
        mut see: impl FnMut(R::ReplyType<'_>),
    ) -> io::Result<()> {
        self.send(&message(self.kind(request)?, 0, 1, request))?;
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            let length = self.receive(&mut answer)?;
            for part in Messages(&answer[..length]) {
                let part = part?;
                match part.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return part.outcome(),
                    _ => see(R::decode_reply(part.body)),
                }
            }
            if request.flags() & NLM_F_DUMP != NLM_F_DUMP {
                return Ok(());
            }
        }
    }

    /// The message type of a request: for generic netlink, the id of the family.
    fn kind(&self, request: &impl NetlinkRequest) -> io::Result<u16> {
        let name = match request.protocol() {
            Family::Raw { request_type, .. } => return Ok(request_type),
            Family::Generic(name) => name,
        };
        let mut request = nlctrl::Request::new().op_getfamily_do();
        request.encode().push_family_name_bytes(name);
        let mut number = Err(io::ErrorKind::InvalidData.into());
        self.ask(&request, |family| {
            number = family.get_family_id().map_err(io::Error::from);
        })?;
        number
    }

    /// Reads one acknowledgement.
    pub(crate) fn acknowledged(&self) -> io::Result<()> {
        let mut answer = [0; 4096];
        let length = self.receive(&mut answer)?;
        match Messages(&answer[..length]).next() {
            Some(Ok(part)) if part.kind == NLMSG_ERROR => part.outcome(),
            _ => Err(io::ErrorKind::InvalidData.into()),
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

/// A request with its header. `flags` are added to the flags of the request.
pub(crate) fn message(
    kind: u16,
    flags: u16,
    sequence: u32,
    request: &impl NetlinkRequest,
) -> Vec<u8> {
    let flags = flags | request.flags();
    message_of(kind, flags, sequence, request.payload())
}

/// A message with its header (`NLM_F_REQUEST` is added).
pub(crate) fn message_of(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = (Nlmsghdr::len() + payload.len()).next_multiple_of(4);
    let header = Nlmsghdr {
        len: u32::try_from(length).expect("messages here are short"),
        r#type: kind,
        flags: flags | NLM_F_REQUEST,
        seq: sequence,
        pid: 0,
    };
    let mut bytes = [header.as_slice(), payload].concat();
    bytes.resize(length, 0);
    bytes
}

/// The messages of a datagram; an error if one is malformed.
pub(crate) struct Messages<'a>(pub &'a [u8]);

/// A message from the kernel.
pub(crate) struct Message<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

impl Message<'_> {
    /// The error of a message of type [`NLMSG_ERROR`].
    pub fn outcome(&self) -> io::Result<()> {
        match self.body.first_chunk().map(|n| i32::from_ne_bytes(*n)) {
            Some(0) => Ok(()),
            Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = io::Result<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let header = Nlmsghdr::new_from_array(*self.0.first_chunk()?);
        let length = usize::try_from(header.len).unwrap_or(usize::MAX);
        let Some(body) = self.0.get(Nlmsghdr::len()..length) else {
            self.0 = &[];
            return Some(Err(io::ErrorKind::InvalidData.into()));
        };
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok(Message {
            kind: header.r#type,
            sequence: header.seq,
            body,
        }))
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
/// `Unsupported` with the remedy, or the error of [`takes_redirected_frames`].
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
