//! The configuration of an end, TOML.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::key::PublicKey;
use crate::configuration;
use crate::tunnel::law::RateLimits;
use crate::tunnel::queue::HostAddress;
use crate::units;

/// What IPv6 needs (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;
const MOST_MTU: u32 = 9000;
const MBIT: f64 = 1e6;
const MOST_MBIT: f64 = 100_000.0;
const MOST_TARGET_QUEUE_MS: f64 = 100.0;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Waits for the other end: the host with a fixed address, before the radio.
    Listen,
    /// Connects to it: the router behind the radio.
    Connect,
}

/// The law that sets the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LawName {
    /// This project's.
    #[default]
    Delivery,
    /// The law of cake-autorate.
    Autorate,
}

/// The keys of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Which end.
    pub kind: Kind,
    /// Where to listen, or the address to connect to.
    pub at: String,
    /// File of the own key.
    pub key: PathBuf,
    /// The other end's public key.
    pub peer: PublicKey,
    /// The TUN device's name.
    #[serde(default = "default_device")]
    pub device: String,
    /// Its address, with the length of its prefix.
    pub address: Prefix,
    /// Prefixes behind the other end.
    #[serde(default)]
    pub routes: Vec<Prefix>,
    /// The device's MTU, bytes.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// The law.
    #[serde(default)]
    pub law: LawName,
    /// The rate before the first reports, Mbit/s.
    #[serde(default = "default_start")]
    pub start_mbit: f64,
    /// The least rate, Mbit/s.
    #[serde(default = "default_floor")]
    pub floor_mbit: f64,
    /// The greatest rate, Mbit/s.
    #[serde(default = "default_most")]
    pub most_mbit: f64,
    /// The queue that may stand in a link whose rate varies, milliseconds; of the law `delivery`.
    #[serde(default = "default_target_queue")]
    pub target_queue_ms: f64,
    /// The address that identifies a host that shares the link; without it the destination at the listening
    /// end, the source at the other.
    pub hosts: Option<HostAddress>,
    /// User and group to become after the start; only root becomes another.
    #[serde(default = "default_user")]
    pub user_id: u32,
}

fn default_device() -> String {
    "wbt0".to_owned()
}

const fn default_mtu() -> u32 {
    1360
}

const fn default_start() -> f64 {
    20.0
}

const fn default_floor() -> f64 {
    0.5
}

const fn default_most() -> f64 {
    2000.0
}

const fn default_target_queue() -> f64 {
    5.0
}

const fn default_user() -> u32 {
    65_534
}

/// An address and the length of its prefix: `10.0.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Bits of the prefix.
    pub bits: u8,
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // An address alone is refused: the prefix of a link is hardly one address.
        let parsed = text.contains('/').then(|| units::address_and_bits(&text));
        let prefix = parsed.flatten();
        let prefix = prefix.map(|(address, bits)| Self { address, bits });
        prefix.ok_or_else(|| {
            format!("`{text}` is not an address with a prefix: write one as 10.88.0.1/30")
        })
    }
}

impl Settings {
    /// Reads the configuration of `file`.
    ///
    /// # Errors
    /// One line: file, line, key, rule.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = configuration::read(file)?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let line = configuration::line(text, &error).unwrap_or(1);
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            format!("line {line}: {message}")
        })?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        if !(LEAST_MTU..=MOST_MTU).contains(&self.mtu) {
            return Err(format!(
                "mtu: {} is not between {LEAST_MTU} and {MOST_MTU}",
                self.mtu
            ));
        }
        let rates = [
            ("floor-mbit", self.floor_mbit, 0.1, self.most_mbit),
            (
                "start-mbit",
                self.start_mbit,
                self.floor_mbit,
                self.most_mbit,
            ),
            ("most-mbit", self.most_mbit, 0.1, MOST_MBIT),
        ];
        for (key, value, least, most) in rates {
            if !(least..=most).contains(&value) {
                return Err(format!(
                    "{key}: {value} is not between {least} and {most} (Mbit/s)"
                ));
            }
        }
        if !(0.0..=MOST_TARGET_QUEUE_MS).contains(&self.target_queue_ms) {
            return Err(format!(
                "target-queue-ms: {} is not between 0 and {MOST_TARGET_QUEUE_MS} (ms)",
                self.target_queue_ms
            ));
        }
        Ok(())
    }

    /// The queue that may stand in the link, nanoseconds.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: 0 to 100 ms"
    )]
    pub fn target_queue_ns(&self) -> u64 {
        (self.target_queue_ms * 1e6) as u64
    }

    /// The limits of the rate.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: 0.1 to 100,000 Mbit/s"
    )]
    pub fn limits(&self) -> RateLimits {
        let bps = |mbit: f64| (mbit * MBIT) as u64;
        RateLimits {
            floor_bps: bps(self.floor_mbit),
            start_bps: bps(self.start_mbit),
            most_bps: bps(self.most_mbit),
        }
    }

    /// The address that `at` names.
    ///
    /// # Errors
    /// It names none.
    pub fn socket_address(&self) -> Result<SocketAddr, String> {
        let found = self
            .at
            .to_socket_addrs()
            .ok()
            .and_then(|mut all| all.next());
        found.ok_or_else(|| {
            format!(
                "at: `{}` is no address and port: write one as 203.0.113.5:4433",
                self.at
            )
        })
    }

    /// The address that identifies a host that shares the link.
    #[must_use]
    pub fn host_address(&self) -> HostAddress {
        self.hosts.unwrap_or(match self.kind {
            Kind::Listen => HostAddress::Destination,
            Kind::Connect => HostAddress::Source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::law::DeliveryLaw;

    fn text(more: &str) -> String {
        let peer = "ab".repeat(32);
        format!(
            "kind = \"connect\"\nat = \"192.0.2.1:4433\"\nkey = \"k\"\npeer = \"{peer}\"\n\
             address = \"10.0.0.2/30\"\n{more}"
        )
    }

    #[test]
    fn a_configuration_of_five_lines_has_defaults_for_the_rest() {
        let settings = Settings::parse(&text("")).expect("valid");
        assert_eq!((settings.mtu, settings.device.as_str()), (1360, "wbt0"));
        assert_eq!(settings.host_address(), HostAddress::Source);
        assert_eq!(settings.limits().start_bps, 20_000_000);
        assert_eq!(settings.target_queue_ns(), DeliveryLaw::TARGET_QUEUE_NS);
        assert_eq!(
            settings.socket_address(),
            Ok("192.0.2.1:4433".parse().expect("an address"))
        );
    }

    #[test]
    fn errors_name_line_key_and_rule() {
        let error = |more| Settings::parse(&text(more)).expect_err("invalid");
        let unknown = error("mtv = 1");
        assert!(
            unknown.starts_with("line 6: unknown field `mtv`"),
            "{unknown}"
        );
        assert_eq!(error("mtu = 100"), "mtu: 100 is not between 1280 and 9000");
        assert!(error("start-mbit = 0.2").starts_with("start-mbit: 0.2 is not between 0.5"));
        assert!(error("start-mbit = nan").starts_with("start-mbit: NaN"));
        assert_eq!(
            error("target-queue-ms = -1.0"),
            "target-queue-ms: -1 is not between 0 and 100 (ms)"
        );
        assert!(error("routes = [\"10.0.0.0/33\"]").contains("write one as 10.88.0.1/30"));
        assert!(error("law = \"cubic\"").contains("expected `delivery` or `autorate`"));
    }
}
