//! Times and sizes as configuration files write them: `10ms`, `128kib`.

use std::net::IpAddr;
use std::time::Duration;

/// A time: `500us`, `10ms`, `2s`, `5min` or `2h`.
///
/// # Errors
/// What would be right.
pub fn time(text: &str) -> Result<Duration, String> {
    let right = || format!("`{text}` is no time: write `500us`, `10ms`, `2s`, `5min` or `2h`");
    let (number, unit) = number_and_unit(text).ok_or_else(right)?;
    let unit_us = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(right()),
    };
    let us = number.checked_mul(unit_us).ok_or_else(right)?;
    Ok(Duration::from_micros(us))
}

/// A size in bytes: `1500b`, `64kb`, `1mb` (powers of 1000), `64kib`, `1mib` (powers of 1024).
///
/// # Errors
/// What would be right.
pub fn size(text: &str) -> Result<u64, String> {
    let right = || format!("`{text}` is no size: write `1500b`, `64kb`, `64kib`, `1mb` or `1mib`");
    let (number, unit) = number_and_unit(text).ok_or_else(right)?;
    let unit_bytes = match unit {
        "b" => 1,
        "kb" => 1_000,
        "kib" => 1 << 10,
        "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        _ => return Err(right()),
    };
    number.checked_mul(unit_bytes).ok_or_else(right)
}

/// An address with the length of its prefix in bits, `10.0.0.0/8`; an address alone is a prefix of its whole length.
#[must_use]
pub fn address_and_bits(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|one: char| !one.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_need_a_unit() {
        assert_eq!(time("8ms"), Ok(Duration::from_millis(8)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(size("128kib"), Ok(131_072));
        assert_eq!(size("2mb"), Ok(2_000_000));
        for wrong in [
            "",
            "8",
            "ms",
            "-1s",
            "1.5s",
            "8 ms",
            "99999999999999999999s",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_is_no_longer_than_its_address() {
        let read = |text| address_and_bits(text).map(|(address, bits)| (address.to_string(), bits));
        assert_eq!(read("10.0.0.0/8"), Some(("10.0.0.0".to_owned(), 8)));
        assert_eq!(read("192.0.2.1"), Some(("192.0.2.1".to_owned(), 32)));
        assert_eq!(read("fd00::1"), Some(("fd00::1".to_owned(), 128)));
        for wrong in ["10.0.0.0/33", "fd00::/129", "10.0.0.0/", "10.0.0/8", ""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
