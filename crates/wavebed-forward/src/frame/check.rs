//! The rules of a specification, each with its line.

use std::net::{IpAddr, Ipv4Addr};

use super::flow::{address_after, combinations};
use super::header::{VLAN_BYTES, header_length};
use super::mac::mac_text;
use super::{FCS_BYTES, FrameSpec, Range, STAMP_BYTES, SpecError};

/// The longest frame with FCS, without VLAN tag: a jumbo frame of 9000 bytes of MTU.
const MAX_FRAME_BYTES: usize = 9018;

/// Checks every rule; whether the frames are IPv6.
pub(super) fn check(spec: &FrameSpec) -> Result<bool, SpecError> {
    let v6 = spec.sources.first.is_ipv6();
    if v6 != spec.destinations.first.is_ipv6() {
        return wrong("destinations: must be of the family of the sources, IPv4 or IPv6");
    }
    for (key, range) in [
        ("sources", &spec.sources),
        ("destinations", &spec.destinations),
    ] {
        check_addresses(key, range)?;
    }
    for (key, range) in [
        ("source_ports", &spec.source_ports),
        ("destination_ports", &spec.destination_ports),
    ] {
        let last = u32::from(range.first) + u32::from(range.count);
        if range.first == 0 || range.count == 0 || last > 65_536 {
            return wrong(format!(
                "{key}: {} ports from {}: they must be at least one, within 1 to 65535",
                range.count, range.first
            ));
        }
    }
    for (key, mac) in [
        ("source_mac", spec.source_mac),
        ("destination_mac", spec.destination_mac),
    ] {
        if mac[0] & 1 == 1 || mac == [0; 6] {
            return wrong(format!(
                "{key}: {} is not the address of one port",
                mac_text(mac)
            ));
        }
    }
    if let Some(vlan) = spec.vlan
        && !(1..=4094).contains(&vlan)
    {
        return wrong(format!("vlan: {vlan} is not within 1 to 4094"));
    }
    // RFC 2516: session 0 is discovery, 0xffff is reserved.
    if let Some(session @ (0 | 0xffff)) = spec.pppoe_session {
        return wrong(format!("pppoe_session: {session} is not within 1 to 65534"));
    }
    let combinations = combinations(spec);
    if spec.flows == 0 || u64::from(spec.flows) > combinations {
        return wrong(format!(
            "flows: {} flows, but addresses and ports combine to {combinations}: at least 1 and at most so many",
            spec.flows
        ));
    }
    check_sizes(spec, v6)?;
    Ok(v6)
}

fn check_addresses(key: &str, range: &Range<IpAddr>) -> Result<(), SpecError> {
    let first = range.first;
    let last = range
        .count
        .checked_sub(1)
        .and_then(|steps| address_after(first, steps));
    let Some(last) = last else {
        return wrong(format!(
            "{key}: {} addresses from {first}: they must be at least one, and end before the family does",
            range.count
        ));
    };
    for address in [first, last] {
        let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
        if address.is_multicast() || address.is_unspecified() || broadcast {
            return wrong(format!("{key}: {address} is not the address of one host"));
        }
    }
    Ok(())
}

fn check_sizes(spec: &FrameSpec, v6: bool) -> Result<(), SpecError> {
    if spec.sizes_bytes.is_empty() {
        return wrong("sizes_bytes: at least one size is wanted");
    }
    let least = header_length(spec, v6) + STAMP_BYTES + FCS_BYTES;
    let tag = if spec.vlan.is_some() { VLAN_BYTES } else { 0 };
    let most = MAX_FRAME_BYTES + tag;
    for &size in &spec.sizes_bytes {
        if !(least..=most).contains(&usize::from(size)) {
            return wrong(format!(
                "sizes_bytes: {size} bytes with FCS: these headers and the stamp of 18 bytes want {least} to {most}"
            ));
        }
    }
    Ok(())
}

fn wrong<T>(line: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError(line.into()))
}
