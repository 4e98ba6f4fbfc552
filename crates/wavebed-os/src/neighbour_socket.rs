//! A raw socket that receives only ARP and neighbour discovery of one interface.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{SendFlags, SocketFlags};

use crate::error::{Context, Result};
use crate::netlink;
use crate::packet_socket::{self, EVERY_PROTOCOL, PACKET_IGNORE_OUTGOING, set_filter, set_option};

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_AUXDATA: libc::c_int = 8;
/// `PACKET_MR_ALLMULTI`
const ALL_MULTICAST: libc::c_ushort = 2;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// From the first MAC address on, without VLAN tag.
    pub bytes: Vec<u8>,
    /// The VLAN of its tag.
    pub vlan: Option<u16>,
}

/// Receives ARP and neighbour discovery, and sends any frame.
#[derive(Debug)]
pub struct NeighbourSocket {
    socket: OwnedFd,
    interface: String,
}

/// One instruction of a classic BPF filter.
const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// ARP; or IPv6 whose next header is ICMPv6, of type 135 (solicitation) or 136 (advertisement). All of them are short.
const FILTER: [libc::sock_filter; 10] = [
    instruction(LOAD_HALF, 0, 0, 12),
    instruction(JUMP_IF_EQUAL, 6, 0, 0x0806),
    instruction(JUMP_IF_EQUAL, 0, 6, 0x86dd),
    instruction(LOAD_BYTE, 0, 0, 20),
    instruction(JUMP_IF_EQUAL, 0, 4, 58),
    instruction(LOAD_BYTE, 0, 0, 54),
    instruction(JUMP_IF_EQUAL, 1, 0, 135),
    instruction(JUMP_IF_EQUAL, 0, 1, 136),
    instruction(RETURN, 0, 0, 2048),
    instruction(RETURN, 0, 0, 0),
];

impl NeighbourSocket {
    /// Opens one. The interface takes all multicast frames while it is open: solicitations go to groups that only
    /// the owner of an address joins.
    ///
    /// # Errors
    /// There is no such interface, or the process lacks the permission (`CAP_NET_RAW`).
    pub fn open(interface: &str) -> Result<Self> {
        let index = netlink::interface_index(interface)?;
        let socket = packet_socket::open(interface, SocketFlags::NONBLOCK)?;
        prepare(socket.as_fd(), index).during("receive from", interface)?;
        Ok(Self {
            socket,
            interface: interface.to_owned(),
        })
    }

    /// The next received frame; `None` if there is none.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(&self) -> Result<Option<Received>> {
        let mut bytes = vec![0_u8; 2048];
        // Space for one aligned control message.
        let mut control = [0_u64; 8];
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: all zeros is a valid message.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        // Its type is another one in musl.
        message.msg_controllen = mem::size_of_val(&control) as _;
        // SAFETY: the message points to buffers that outlive the call, with their lengths.
        let count = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error).during("receive from", &self.interface),
            };
        };
        bytes.truncate(count);
        // SAFETY: the kernel filled the message in, and its control buffer lives.
        let vlan = unsafe { vlan_of(&message) };
        Ok(Some(Received { bytes, vlan }))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        rustix::net::send(&self.socket, frame, SendFlags::empty())
            .map(drop)
            .during("send through", &self.interface)
    }
}

impl AsFd for NeighbourSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn prepare(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    set_filter(socket, &mut FILTER.clone())?;
    set_option(socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
    set_option(socket, libc::SOL_PACKET, PACKET_AUXDATA, &1_i32)?;
    let multicast = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: ALL_MULTICAST,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, PACKET_ADD_MEMBERSHIP, &multicast)?;
    packet_socket::bind(socket, index, EVERY_PROTOCOL)
}

/// The VLAN identifier that the kernel removed from the frame.
///
/// # Safety
/// The message was filled in by recvmsg(2), and its control buffer still lives.
unsafe fn vlan_of(message: &libc::msghdr) -> Option<u16> {
    // SAFETY: as promised by the caller; a control message of this type holds this struct,
    // and all zeros is a valid one.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_PACKET
            || (*header).cmsg_type != PACKET_AUXDATA
        {
            return None;
        }
        let mut data: libc::tpacket_auxdata = mem::zeroed();
        let bytes = mem::size_of_val(&data);
        std::ptr::copy_nonoverlapping(libc::CMSG_DATA(header), (&raw mut data).cast(), bytes);
        (data.tp_status & TP_STATUS_VLAN_VALID != 0).then_some(data.tp_vlan_tci & 0x0fff)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::namespace::{NetworkNamespace, effective_user};
    use crate::netlink::{Netlink, interface_index};

    #[test]
    fn only_address_resolution_is_received_with_its_tag() {
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
            let left = NeighbourSocket::open("left").expect("socket");
            let right = NeighbourSocket::open("right").expect("socket");
            let frame = |tag: &[u8], kind: [u8; 2], next: u8, icmp: u8| {
                let mut frame = vec![0xff; 12];
                frame.extend(tag);
                frame.extend(kind);
                frame.extend([0; 46]);
                frame[tag.len() + 20] = next;
                frame[tag.len() + 54] = icmp;
                frame
            };
            // Until the kernel has seen the carrier it silently drops packets.
            let mut early = frame(&[], [8, 6], 0, 0);
            early[0] = 0xfe;
            let deadline = Instant::now() + Duration::from_secs(60);
            let arrives = std::iter::repeat_with(|| {
                left.send(&early).expect("sent");
                let mut readable = [false];
                let count = crate::poll::wait(&[right.as_fd()], &mut readable, Some(20_000_000));
                count.expect("wait") == 1
            })
            .take_while(|_| Instant::now() < deadline)
            .any(|arrived| arrived);
            assert!(arrives, "the pair carries frames");
            left.send(&frame(&[], [8, 0], 17, 0)).expect("sent");
            left.send(&frame(&[], [0x86, 0xdd], 17, 135)).expect("sent");
            left.send(&frame(&[], [0x86, 0xdd], 58, 134)).expect("sent");
            left.send(&frame(&[], [8, 6], 0, 0)).expect("sent");
            left.send(&frame(&[], [0x86, 0xdd], 58, 135)).expect("sent");
            left.send(&frame(&[0x81, 0, 0x30, 7], [8, 6], 9, 9))
                .expect("sent");
            let mut kinds = Vec::new();
            while kinds.len() < 3 {
                let mut readable = [false];
                let count =
                    crate::poll::wait(&[right.as_fd()], &mut readable, Some(60_000_000_000));
                assert_eq!(count.expect("wait"), 1, "only {kinds:?} came");
                let Some(frame) = right.receive().expect("received") else {
                    continue;
                };
                // Neither the early ones nor those with which the kernel solicits when an interface comes up.
                if frame.bytes[..6] == [0xff; 6] {
                    kinds.push((frame.bytes[12], frame.bytes[54], frame.vlan));
                }
            }
            assert_eq!(kinds, [(8, 0, None), (0x86, 135, None), (8, 9, Some(7))]);
        })
        .join()
        .expect("no panic");
    }
}
