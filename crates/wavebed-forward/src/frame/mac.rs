//! MAC addresses as text.

use serde::{Deserialize, Deserializer};

/// A MAC address as people write it.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Reads a MAC address as people write it: six bytes in hexadecimal with colons.
#[must_use]
pub fn mac_from_text(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|part| {
        let plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(part, 16).ok().filter(|_| plain)
    });
    let mut mac = [0; 6];
    for byte in &mut mac {
        *byte = bytes.next()??;
    }
    bytes.next().is_none().then_some(mac)
}

/// For serde.
pub(super) fn mac<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 6], D::Error> {
    let text = String::deserialize(from)?;
    mac_from_text(&text).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is no MAC address: six bytes, as 02:00:00:00:00:01"
        ))
    })
}
