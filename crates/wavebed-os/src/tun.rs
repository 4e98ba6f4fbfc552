//! TUN devices with the virtio-net header and all offloads: super-packets are not segmented.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::{Context, Error, Result, check};
use crate::interface::Counters;
use crate::netlink::{self, Netlink};

/// The control device of TUN devices.
pub const DEVICE: &str = "/dev/net/tun";

/// Bytes of the virtio-net header before each packet, in both directions.
pub const VNET_HEADER_BYTES: usize = 10;

/// Transmit queue length of the device; packets beyond it are dropped and counted in `tx_dropped`.
pub const TX_QUEUE_PACKETS: u32 = 10_000;

const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;
/// `IFF_TUN | IFF_NO_PI | IFF_VNET_HDR`, as the 16 bits of a request.
const TUN_FLAGS: libc::c_short = 0x0001 | 0x1000 | 0x4000;
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
/// Of the guest kernel of virtual time alone (`kernel/7.2.patch`).
const TUNSETTIMED: libc::Ioctl = 0x4004_54f0;

/// A TUN device that exists as long as this value (but see [`Tun::leave_to_namespace`]).
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    mtu: u32,
    index: u32,
    udp_offload: bool,
    netlink: Netlink,
}

impl Tun {
    /// Makes the device `name` in the network namespace of the calling thread (`%d` in the name stands for the
    /// first free number). It is down, has no address, has
    /// `mtu` bytes of MTU, a long transmit queue and no multicast flag; reads and writes do not block.
    ///
    /// Without UDP segmentation offload (Linux before 6.2) the device is made without it, see
    /// [`Tun::has_udp_offload`].
    ///
    /// # Errors
    /// `/dev/net/tun` is missing or not accessible, the name is taken or too long (15 bytes), or the caller may not change the namespace.
    pub fn create(name: &str, mtu: u32) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(DEVICE)
            .during("open", DEVICE)?;
        let mut request = interface_request(name)?;
        request.ifr_ifru.ifru_flags = TUN_FLAGS;
        ioctl(&file, TUNSETIFF, &mut request).during("make the TUN device", name)?;
        let name = &interface_name(&request);
        let mut header_bytes: libc::c_int = 10;
        ioctl(&file, TUNSETVNETHDRSZ, &mut header_bytes).during("set the header size of", name)?;
        let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        let udp_offload = set_offload(&file, tcp | TUN_F_USO4 | TUN_F_USO6).is_ok();
        if !udp_offload {
            set_offload(&file, tcp).during("turn offloads on for", name)?;
        }
        let tun = Self {
            file,
            name: name.clone(),
            mtu,
            index: netlink::interface_index(name)?,
            udp_offload,
            netlink: Netlink::route()?,
        };
        tun.tune()?;
        Ok(tun)
    }

    /// Sets MTU and queue length, and clears the multicast flag.
    fn tune(&self) -> Result<()> {
        self.netlink
            .set_mtu(self.index, self.mtu)
            .during("set the MTU of", &self.name)?;
        self.netlink
            .set_queue_length(self.index, TX_QUEUE_PACKETS)
            .during("set the queue length of", &self.name)?;
        self.netlink
            .clear_multicast(self.index)
            .during("set the flags of", &self.name)
    }

    /// Keeps the device until its network namespace ends, instead of until this value is dropped. Removing a device
    /// blocks the caller for about 25 ms; a namespace is removed in the background.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn leave_to_namespace(&self) -> Result<()> {
        // SAFETY: TUNSETPERSIST takes a number, not a pointer.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETPERSIST, 1 as libc::c_ulong) })
            .map(drop)
            .during("keep", &self.name)
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index in its network namespace.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Losses of the interface since its creation: `tx_dropped` counts packets that were not read in time.
    /// Works from any network namespace.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn losses(&self) -> io::Result<Counters> {
        self.netlink.counters(self.index)
    }

    /// The MTU at its creation, bytes.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Whether UDP super-packets (USO) pass in both directions. False on kernels before 6.2.
    #[must_use]
    pub const fn has_udp_offload(&self) -> bool {
        self.udp_offload
    }

    /// Reads the next packet, its virtio-net header first. `None` if there is none.
    ///
    /// # Errors
    /// The error of read(2), apart from `EAGAIN`.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buf) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// From now on, each read and write is of whole packets, each after a [`Timed`]. Returns whether the kernel can do that:
    /// the guest kernel of virtual time can.
    #[must_use]
    pub fn become_timed(&self) -> bool {
        let mut on: libc::c_int = 1;
        ioctl(&self.file, TUNSETTIMED, &mut on).is_ok()
    }

    /// Writes one packet to the host, its virtio-net header first, and returns the bytes written.
    ///
    /// # Errors
    /// The error of writev(2): `EINVAL` for a header that the kernel refuses, `EIO` while the device is down.
    pub fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match (&self.file).write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer,
            }
        }
    }
}

/// What stands before each packet that is read from a timed device, or written to it: `struct tun_timed` of the guest kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When the packet was sent, or is to be received, on the monotonic clock.
    pub at_ns: u64,
    /// Of the packet, with its virtio-net header.
    pub bytes: u32,
}

impl Timed {
    /// Its bytes.
    pub const LEN: usize = 16;

    /// As the kernel reads it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.at_ns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes
    }

    /// The first one of `bytes`, and the packet after it; `None` if they are no whole packet.
    #[must_use]
    pub fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (at_ns, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (_, rest) = rest.split_at_checked(4)?;
        let timed = Self {
            at_ns: u64::from_ne_bytes(*at_ns),
            bytes: u32::from_ne_bytes(*length),
        };
        let packet = rest.get(..usize::try_from(timed.bytes).ok()?)?;
        Some((timed, packet))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// An empty request about the interface `name`.
pub(crate) fn interface_request(name: &str) -> Result<libc::ifreq> {
    let invalid = || Error {
        operation: "use as an interface name",
        object: format!("{name:?}"),
        source: io::Error::from_raw_os_error(libc::EINVAL),
    };
    let bytes = CString::new(name).map_err(|_| invalid())?;
    let bytes = bytes.as_bytes_with_nul();
    // SAFETY: all zeros is a valid ifreq: numbers and arrays of numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if bytes.len() > request.ifr_name.len() || bytes.len() == 1 {
        return Err(invalid());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    Ok(request)
}

/// The name in a request, up to its zero.
fn interface_name(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|byte| byte.to_ne_bytes()[0]);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn set_offload(file: &File, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number, not a pointer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, libc::c_ulong::from(flags)) })
        .map(drop)
}

/// An ioctl whose argument is a pointer to `argument`.
pub(crate) fn ioctl<T>(fd: &impl AsRawFd, number: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: every number that this crate uses with it takes a pointer to the type passed with it, and keeps none.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(argument)) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_and_its_packet_are_read_as_they_are_written() {
        let timed = Timed {
            at_ns: 1 << 40,
            bytes: 3,
        };
        let mut bytes = timed.to_bytes().to_vec();
        bytes.extend([7, 8, 9, 10]);
        assert_eq!(Timed::split(&bytes), Some((timed, &[7, 8, 9][..])));
        assert_eq!(Timed::split(&bytes[..18]), None);
        assert_eq!(Timed::split(&[]), None);
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        assert!(interface_request("sixteen-bytes-xx").is_err());
        assert!(interface_request("").is_err());
        assert!(interface_request("a\0b").is_err());
        assert!(interface_request("fifteen-bytes-x").is_ok());
    }
}
