//! What a prober reads from its standard input: one JSON object.

use std::io;
use std::net::SocketAddr;

use serde::Deserialize;

use crate::packet::{LEAST_BYTES, Phase, Role};

/// Most bytes of a datagram's payload: an IPv6 packet of 1500 bytes.
const MOST_PAYLOAD_BYTES: u16 = 1452;
const MOST_TRAIN: u8 = 40;

/// The settings of a prober; both ends have the same, apart from `role` and `address`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The end of the path.
    pub role: Role,
    /// The server's address and port, at both ends.
    pub address: SocketAddr,
    /// A random number that all datagrams of this recording carry.
    pub token: u64,
    /// When the schedule begins, on the system's clock.
    pub start_unix_ns: u64,
    /// How long it lasts.
    pub duration_ns: u64,
    /// Phases at the beginning, once.
    pub opening: Vec<Phase>,
    /// Phases repeated from then on.
    pub cycle: Vec<Phase>,
    /// Interval of the single probes of a light phase.
    pub probe_ns: u64,
    /// Interval of the trains of a light phase.
    pub train_ns: u64,
    /// Packets of a train.
    pub train_packets: u8,
    /// Payload of a full packet.
    pub payload_bytes: u16,
    /// The queueing delay that heavy load keeps.
    pub queue_ns: u64,
    /// The queueing delay at which a filling phase stops to grow.
    pub fill_ns: u64,
    /// The most that heavy load sends, or `None`.
    pub most_bps: Option<u64>,
}

impl Config {
    /// Reads and checks one.
    ///
    /// # Errors
    /// It is no JSON of this form, or a value is out of its range.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let config: Self =
            serde_json::from_str(text).map_err(|error| Problem(format!("settings: {error}")))?;
        let lengths = config.opening.iter().chain(&config.cycle);
        let fault = if config.cycle.is_empty() || lengths.clone().any(|phase| phase.length_ns == 0)
        {
            Some("cycle: has no phase, or one without a length")
        } else if config.probe_ns == 0 || config.train_ns < config.probe_ns {
            Some("train_ns: is less than probe_ns, or both are 0")
        } else if !(2..=MOST_TRAIN).contains(&config.train_packets) {
            Some("train_packets: is not from 2 to 40")
        } else if !(LEAST_BYTES..=MOST_PAYLOAD_BYTES).contains(&config.payload_bytes) {
            Some("payload_bytes: is not from 64 to 1452")
        } else if config.queue_ns == 0 || config.fill_ns < config.queue_ns {
            Some("fill_ns: is less than queue_ns, or both are 0")
        } else if config.most_bps == Some(0) {
            Some("most_bps: is 0")
        } else {
            None
        };
        fault.map_or(Ok(config), |line| Err(Problem(format!("settings: {line}"))))
    }
}

/// A prober cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

impl From<wavebed_os::Error> for Problem {
    fn from(error: wavebed_os::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: &str, to: &str) -> String {
        let good = r#"{"role": "client", "address": "127.0.0.1:9", "token": 7, "start_unix_ns": 0, "duration_ns": 9,
            "opening": [], "cycle": [{"kind": "light", "length_ns": 5}], "probe_ns": 20, "train_ns": 100,
            "train_packets": 10, "payload_bytes": 1372, "queue_ns": 60, "fill_ns": 2000, "most_bps": null}"#;
        assert!(good.contains(change));
        good.replace(change, to)
    }

    #[test]
    fn good_settings_are_read() {
        let config = Config::read(&text("7", "7")).expect("good");
        assert_eq!((config.role, config.token), (Role::Client, 7));
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        for (change, to, key) in [
            (r#"{"kind": "light", "length_ns": 5}"#, "", "cycle"),
            (r#""length_ns": 5"#, r#""length_ns": 0"#, "cycle"),
            (r#""train_ns": 100"#, r#""train_ns": 10"#, "train_ns"),
            (
                r#""train_packets": 10"#,
                r#""train_packets": 1"#,
                "train_packets",
            ),
            (
                r#""payload_bytes": 1372"#,
                r#""payload_bytes": 20"#,
                "payload_bytes",
            ),
            (r#""fill_ns": 2000"#, r#""fill_ns": 20"#, "fill_ns"),
            (r#""most_bps": null"#, r#""most_bps": 0"#, "most_bps"),
            (r#""role": "client""#, r#""role": "phone""#, "phone"),
        ] {
            let problem = Config::read(&text(change, to)).expect_err(key);
            assert!(problem.0.contains(key), "{key}: {problem}");
        }
    }
}
