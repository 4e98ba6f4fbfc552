//! Values of the configuration: times, sizes, prefixes and ports, each read from its notation.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::units;

/// A time, as `10ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl Time {
    /// Nanoseconds.
    #[must_use]
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// A whole number of seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        units::time(&text).map(Self).map_err(Error::custom)
    }
}

/// A size in bytes, as `128kib`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    /// As a length in memory.
    #[must_use]
    pub fn length(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// As a socket option.
    #[must_use]
    pub fn option(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        units::size(&text).map(Self).map_err(Error::custom)
    }
}

/// An address, or a prefix such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its address.
    pub address: IpAddr,
    /// Its length in bits.
    pub bits: u8,
}

impl fmt::Display for Prefix {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.address, self.bits)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let parsed = units::address_and_bits(&text);
        let prefix = parsed.map(|(address, bits)| Self { address, bits });
        prefix.ok_or_else(|| {
            Error::custom(format!(
                "`{text}` is no prefix: write `10.0.0.0/8`, `192.0.2.1` or `fd00::/8`"
            ))
        })
    }
}

/// A port, or a range of ports such as `8000-8100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first one.
    pub first: u16,
    /// The last one.
    pub last: u16,
}

impl Ports {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (0 < first && first <= last).then_some(Self { first, last })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(to, "{}", self.first)
        } else {
            write!(to, "{}-{}", self.first, self.last)
        }
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Ports;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, "a port such as 22, or a range such as \"8000-8100\"")
            }

            fn visit_i64<E: Error>(self, port: i64) -> Result<Ports, E> {
                self.visit_str(&port.to_string())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ports, E> {
                Ports::parse(text).ok_or_else(|| {
                    E::custom(format!(
                        "`{text}` is no port: write 1 to 65535, or a range such as \"8000-8100\""
                    ))
                })
            }
        }
        from.deserialize_any(Reader)
    }
}
