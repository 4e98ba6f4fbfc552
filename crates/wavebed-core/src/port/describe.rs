//! What a port says of its interface.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use serde_json::{Value, json};
use wavebed_forward::frame::mac_text;
use wavebed_forward::receiver::ReceiverKind;
use wavebed_os::{Error, clock};

use super::refusal::{Refusal, cannot_or_failed};
use super::{Answer, Port, bindings};

/// The version of the protocol.
const VERSION: u32 = 2;
/// `ENODEV`.
const GONE: i32 = 19;

impl Port {
    pub(super) fn describe(&self) -> Answer {
        let interface = self.interface()?;
        let features = self
            .ethtool
            .features()
            .map_err(|error| self.asked(&error))?;
        let offloads: BTreeMap<_, _> = features.iter().map(|(name, is)| (name, is.on)).collect();
        let fixed: Vec<_> = features.iter().filter(|(_, is)| is.fixed).collect();
        let fixed: Vec<_> = fixed.into_iter().map(|(name, _)| name).collect();
        let addresses = self.netlink.addresses(self.index).map_err(|error| {
            Refusal::failed(format!("{}: cannot read its addresses: {error}", self.name))
        })?;
        let addresses: Vec<_> = addresses
            .iter()
            .map(|(is, bits)| format!("{is}/{bits}"))
            .collect();
        Ok(json!({
            "version": VERSION,
            "interface": interface.name,
            "index": self.index,
            "mac": mac_text(self.mac()?),
            "mtu": interface.mtu,
            "up": interface.up,
            "carrier": interface.carrier,
            "carrier_changes": interface.carrier_changes,
            "speed_mbps": self.ethtool.speed_mbps().map_err(|error| self.asked(&error))?,
            "driver": self.ethtool.driver().map_err(|error| self.asked(&error))?,
            "addresses": addresses,
            "offloads": offloads,
            "fixed": fixed,
            "machine": machine()?,
            "cores": cores()?,
            "xdp": interface.xdp && !self.has_a_program(),
        }))
    }

    /// Whether the program at the interface is this port's.
    fn has_a_program(&self) -> bool {
        let kind = self.receiver.as_ref().map(|receiver| receiver.kind());
        matches!(
            kind,
            Some(ReceiverKind::XdpNative | ReceiverKind::XdpGeneric)
        )
    }

    pub(super) fn counters(&self) -> Answer {
        let interface = self.interface()?;
        let time_ns = clock::monotonic_ns();
        let is = interface.counters;
        let driver = self
            .ethtool
            .statistics()
            .map_err(|error| self.asked(&error))?;
        Ok(json!({
            "time_ns": time_ns,
            "rx_packets": is.rx_packets,
            "rx_bytes": is.rx_bytes,
            "rx_dropped": is.rx_dropped,
            "rx_errors": is.rx_errors,
            "rx_missed": is.rx_missed,
            "tx_packets": is.tx_packets,
            "tx_bytes": is.tx_bytes,
            "tx_dropped": is.tx_dropped,
            "tx_errors": is.tx_errors,
            "carrier_changes": interface.carrier_changes,
            "up": interface.up,
            "driver": driver,
        }))
    }

    pub(super) fn offload(&self, name: &str, on: bool) -> Answer {
        match self.ethtool.set_feature(name, on) {
            Ok(is) => Ok(json!({ "on": is })),
            Err(error) if error.source.kind() == io::ErrorKind::InvalidInput => {
                Err(Refusal::wrong(format!(
                    "name: {} has no feature {name:?}: see `ethtool -k`",
                    self.name
                )))
            }
            Err(error) => Err(self.asked(&error)),
        }
    }

    pub(super) fn probe(&self) -> Value {
        let held = self.receiver.as_ref().map(|receiver| receiver.kind());
        json!({"senders": bindings::probe_senders(&self.name), "receivers": bindings::probe_receivers(&self.name, held)})
    }

    fn asked(&self, error: &Error) -> Refusal {
        if error.errno() == Some(GONE) {
            Refusal::failed(format!("{}: the interface went away", self.name))
        } else {
            cannot_or_failed(error)
        }
    }
}

/// The same text for as long as this machine has not been started again, and no other machine's.
fn machine() -> Result<String, Refusal> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Refusal::cannot(format!("cannot read {path}: {error}")))?;
    Ok(text.trim().to_owned())
}

/// Processors that are running, whichever of them this process may use.
fn cores() -> Result<usize, Refusal> {
    let text = fs::read_to_string("/proc/stat");
    let text = text.map_err(|error| Refusal::cannot(format!("cannot read /proc/stat: {error}")))?;
    let lines = text.lines();
    let numbered = lines.filter_map(|line| line.strip_prefix("cpu")?.chars().next());
    Ok(numbered.filter(char::is_ascii_digit).count())
}
