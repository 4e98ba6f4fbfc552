//! The addresses and ports of each flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::FrameSpec;

/// The addresses and ports of a flow.
pub(super) struct Combination {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

impl Combination {
    /// Number `place` of all combinations: a number with four digits, each to the base of its range.
    pub(super) fn at(spec: &FrameSpec, place: u64) -> Self {
        let mut rest = place;
        let mut digit = |base: u16| {
            let digit = rest % u64::from(base);
            rest /= u64::from(base);
            u16::try_from(digit).expect("below its base")
        };
        let source_port = spec.source_ports.first + digit(spec.source_ports.count);
        let destination_port = spec.destination_ports.first + digit(spec.destination_ports.count);
        let destination = digit(spec.destinations.count);
        let source = digit(spec.sources.count);
        Self {
            source: address_after(spec.sources.first, source).expect("checked"),
            destination: address_after(spec.destinations.first, destination).expect("checked"),
            source_port,
            destination_port,
        }
    }
}

/// How many there are.
pub(super) fn combinations(spec: &FrameSpec) -> u64 {
    [
        spec.sources.count,
        spec.destinations.count,
        spec.source_ports.count,
        spec.destination_ports.count,
    ]
    .into_iter()
    .map(u64::from)
    .product()
}

/// The address `steps` after `first`, if there is one.
#[must_use]
pub fn address_after(first: IpAddr, steps: u16) -> Option<IpAddr> {
    match first {
        IpAddr::V4(first) => {
            let address = u32::from(first).checked_add(u32::from(steps))?;
            Some(Ipv4Addr::from(address).into())
        }
        IpAddr::V6(first) => {
            let address = u128::from(first).checked_add(u128::from(steps))?;
            Some(Ipv6Addr::from(address).into())
        }
    }
}

/// Where a fixed pseudo-random permutation of `0..size` takes `value`.
///
/// A Feistel network of four rounds permutes the least even power of two that holds `size`; results outside are
/// permuted again until they are inside (cycle walking), which keeps it a permutation.
pub(super) fn permuted(value: u64, size: u64) -> u64 {
    let bits = (u64::BITS - (size - 1).leading_zeros()).max(2).div_ceil(2);
    let mask = (1_u64 << bits) - 1;
    let mut value = value;
    loop {
        let (mut left, mut right) = (value >> bits, value & mask);
        for round in 1..=4_u64 {
            (left, right) = (right, left ^ (mixed(right ^ round << 32) & mask));
        }
        value = left << bits | right;
        if value < size {
            return value;
        }
    }
}

/// The finisher of `SplitMix64` (Steele, Lea, Flood 2014).
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
