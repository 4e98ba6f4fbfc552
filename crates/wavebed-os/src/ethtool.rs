//! `ethtool` information of an interface: features (offloads), driver, speed and the driver's counters.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::{Context, Error, Result};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const GET_LINK: u32 = 0x4c;
const SET_STATISTICS: u32 = 1;
const SET_FEATURE_NAMES: u32 = 4;
/// Bytes of a name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;
/// Bytes of struct `ethtool_drvinfo`.
const DRIVER_BYTES: usize = 196;
/// Bytes of struct `ethtool_link_settings` without its masks.
const LINK_BYTES: usize = 48;
/// Offset of the number of words in each of its three masks.
const LINK_WORDS_AT: usize = 15;
const UNKNOWN_SPEED: u32 = u32::MAX;
/// More names than any driver has; longer answers are rejected.
const MOST_NAMES: usize = 1 << 16;

/// A feature of an interface: an offload, mostly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Whether it is on.
    pub on: bool,
    /// Whether it cannot be changed.
    pub fixed: bool,
}

/// A connection to the driver of one interface, in the network namespace of the creating thread.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    interface: String,
}

#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    /// The rest of struct ifreq.
    rest: [u8; 16],
}

impl Ethtool {
    /// For interface `interface`.
    ///
    /// # Errors
    /// The name is too long, or socket(2) fails.
    pub fn open(interface: &str) -> Result<Self> {
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
            return Err(Error {
                operation: "find the interface",
                object: interface.to_owned(),
                source: io::Error::from(io::ErrorKind::InvalidInput),
            });
        }
        let kind = SocketType::DGRAM;
        let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
            .during("open a socket to ask for", interface)?;
        Ok(Self {
            socket,
            interface: interface.to_owned(),
        })
    }

    /// All features by the kernel's names.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn features(&self) -> Result<BTreeMap<String, Feature>> {
        let names = self.names(SET_FEATURE_NAMES)?;
        let blocks = self.feature_blocks(names.len())?;
        let all = names.into_iter().enumerate();
        Ok(all
            .filter(|(_, name)| !name.is_empty())
            .map(|(place, name)| (name, blocks[place / 32].feature(place % 32)))
            .collect())
    }

    /// Switches a feature, and returns its state afterwards: the kernel may keep the old one.
    ///
    /// # Errors
    /// There is no such feature (`InvalidInput`), or the process lacks the permission.
    ///
    /// # Panics
    /// Never: there are few features.
    pub fn set_feature(&self, name: &str, on: bool) -> Result<bool> {
        let names = self.names(SET_FEATURE_NAMES)?;
        let Some(place) = names.iter().position(|other| other == name) else {
            return Err(self.error("find a feature of", io::ErrorKind::InvalidInput.into()));
        };
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0_u32; 2 + 2 * blocks];
        words[0] = SET_FEATURES;
        words[1] = u32::try_from(blocks).expect("few");
        let bit = 1 << (place % 32);
        words[2 + 2 * (place / 32)] = bit;
        words[3 + 2 * (place / 32)] = if on { bit } else { 0 };
        self.ask("set a feature of", bytes_of(&mut words))?;
        let blocks = self.feature_blocks(names.len())?;
        Ok(blocks[place / 32].feature(place % 32).on)
    }

    /// The driver's name, if known.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn driver(&self) -> Result<Option<String>> {
        let mut words = vec![0_u32; DRIVER_BYTES / 4];
        words[0] = GET_DRIVER;
        let bytes = bytes_of(&mut words);
        if !self.try_ask("ask for the driver of", bytes)? {
            return Ok(None);
        }
        Ok(Some(text(&bytes[4..36])).filter(|name| !name.is_empty()))
    }

    /// The speed of the link in Mbit/s, if it is known.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn speed_mbps(&self) -> Result<Option<u32>> {
        // A first request without space for masks returns, negated, the number of words of each mask.
        let mut words = vec![0_u32; LINK_BYTES / 4];
        words[0] = GET_LINK;
        let bytes = bytes_of(&mut words);
        if !self.try_ask("ask for the link of", bytes)? {
            return Ok(None);
        }
        let count = bytes[LINK_WORDS_AT].wrapping_neg();
        if !(1..=127).contains(&count) {
            return Ok(None);
        }
        let mut words = vec![0_u32; LINK_BYTES / 4 + 3 * usize::from(count)];
        words[0] = GET_LINK;
        bytes_of(&mut words)[LINK_WORDS_AT] = count;
        if !self.try_ask("ask for the link of", bytes_of(&mut words))? {
            return Ok(None);
        }
        Ok(Some(words[1]).filter(|speed| *speed != UNKNOWN_SPEED && *speed != 0))
    }

    /// The driver's counters; empty if it has none.
    ///
    /// # Errors
    /// There is no such interface.
    ///
    /// # Panics
    /// Never: there are few counters.
    pub fn statistics(&self) -> Result<BTreeMap<String, u64>> {
        let names = self.names(SET_STATISTICS)?;
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut words = vec![0_u32; 2 + 2 * names.len()];
        words[0] = GET_STATISTICS;
        words[1] = u32::try_from(names.len()).expect("few");
        let bytes = bytes_of(&mut words);
        self.ask("ask for the counters of", bytes)?;
        let values = bytes[8..].as_chunks::<8>().0.iter();
        let values = values.map(|value| u64::from_ne_bytes(*value));
        Ok(names
            .into_iter()
            .map(|name| name.trim().to_owned())
            .zip(values)
            .filter(|(name, _)| !name.is_empty())
            .collect())
    }

    /// The names of a set, in order; none if there is no such set.
    fn names(&self, set: u32) -> Result<Vec<String>> {
        let mut words = [0_u32; 6];
        words[0] = GET_SET_SIZES;
        // The mask is a u64 behind two u32.
        bytes_of(&mut words)[8..16].copy_from_slice(&(1_u64 << set).to_ne_bytes());
        if !self.try_ask("ask for the names of", bytes_of(&mut words))? {
            return Ok(Vec::new());
        }
        let known = words[2] != 0 || words[3] != 0;
        let count = if known { words[4] as usize } else { 0 };
        if count == 0 || count > MOST_NAMES {
            return Ok(Vec::new());
        }
        let mut words = vec![0_u32; 3 + count * NAME_BYTES / 4];
        words[0] = GET_STRINGS;
        words[1] = set;
        words[2] = u32::try_from(count).expect("few");
        let bytes = bytes_of(&mut words);
        self.ask("ask for the names of", bytes)?;
        let names = bytes[12..].as_chunks::<NAME_BYTES>().0.iter();
        Ok(names.map(|name| text(name)).collect())
    }

    fn feature_blocks(&self, names: usize) -> Result<Vec<Block>> {
        let count = names.div_ceil(32);
        let mut words = vec![0_u32; 2 + 4 * count];
        words[0] = GET_FEATURES;
        words[1] = u32::try_from(count).expect("few");
        self.ask("ask for the features of", bytes_of(&mut words))?;
        let blocks = words[2..].as_chunks::<4>().0.iter();
        Ok(blocks
            .map(|&[available, _requested, active, never_changed]| Block {
                available,
                active,
                never_changed,
            })
            .collect())
    }

    /// False if the driver does not support this request.
    fn try_ask(&self, operation: &'static str, data: &mut [u8]) -> Result<bool> {
        match self.ask(operation, data) {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn ask(&self, operation: &'static str, data: &mut [u8]) -> Result<()> {
        let mut request = Request {
            name: [0; libc::IFNAMSIZ],
            data: data.as_mut_ptr().cast(),
            rest: [0; 16],
        };
        request.name[..self.interface.len()].copy_from_slice(self.interface.as_bytes());
        const { assert!(mem::size_of::<Request>() == mem::size_of::<libc::ifreq>()) };
        // SAFETY: the request has the layout of struct ifreq; its data outlives the call and is as long as the command
        // in its first word, and the count behind it, say.
        let answer = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if answer < 0 {
            return Err(Error::last(operation, &self.interface));
        }
        Ok(())
    }

    fn error(&self, operation: &'static str, source: io::Error) -> Error {
        Error {
            operation,
            object: self.interface.clone(),
            source,
        }
    }
}

/// 32 features.
struct Block {
    available: u32,
    active: u32,
    never_changed: u32,
}

impl Block {
    fn feature(&self, place: usize) -> Feature {
        let bit = 1 << place;
        Feature {
            on: self.active & bit != 0,
            fixed: self.available & bit == 0 || self.never_changed & bit != 0,
        }
    }
}

/// Words as the bytes that the kernel reads and writes.
fn bytes_of(words: &mut [u32]) -> &mut [u8] {
    let length = mem::size_of_val(words);
    // SAFETY: the bytes of integers are bytes, and any bytes are integers; the borrow goes on.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), length) }
}

/// The bytes before the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{NetworkNamespace, effective_user};
    use crate::netlink::Netlink;

    #[test]
    fn the_loopback_has_features_and_no_speed() {
        let lo = Ethtool::open("lo").expect("socket");
        let features = lo.features().expect("features");
        let expected = Feature {
            on: true,
            fixed: true,
        };
        assert_eq!(features.get("loopback"), Some(&expected));
        assert!(features.contains_key("tx-udp-segmentation"));
        assert_eq!(lo.speed_mbps().expect("answer"), None);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let nobody = Ethtool::open("nobody0").expect("socket");
        assert_eq!(
            nobody.features().expect_err("none").errno(),
            Some(libc::ENODEV)
        );
        assert!(Ethtool::open("a-name-that-is-too-long").is_err());
    }

    #[test]
    fn a_feature_of_a_veth_is_switched_and_its_driver_counts() {
        std::thread::spawn(|| {
            let Ok(_namespace) = NetworkNamespace::new() else {
                assert_ne!(effective_user().0, 0, "root may");
                return;
            };
            let netlink = Netlink::route().expect("socket");
            netlink.add_veth("left", "right").expect("pair");
            let left = Ethtool::open("left").expect("socket");
            assert_eq!(left.driver().expect("answer").as_deref(), Some("veth"));
            assert_eq!(left.speed_mbps().expect("answer"), Some(10_000));
            for on in [false, true, false] {
                let is = left.set_feature("tx-udp-segmentation", on);
                assert_eq!(is.expect("switched"), on);
                assert_eq!(left.features().expect("read")["tx-udp-segmentation"].on, on);
            }
            let none = left.set_feature("no-such-feature", true);
            assert_eq!(
                none.expect_err("none").source.kind(),
                io::ErrorKind::InvalidInput
            );
            let statistics = left.statistics().expect("counters");
            assert!(statistics.contains_key("peer_ifindex"), "{statistics:?}");
        })
        .join()
        .expect("no panic");
    }
}
