//! Test frames: what a specification asks for, and the table of headers that every sender copies from.
//!
//! Lengths here are without the frame check sequence, as a program sees them; `sizes_bytes` of a specification
//! count its 4 bytes, as RFC 2544 does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Deserializer};

/// Bytes of the frame check sequence, which no program sees.
pub const FCS_BYTES: usize = 4;

/// Bytes of a stamp: number (8), time (8), trial (2), each big-endian. It fills the 18 bytes of payload of the smallest
/// Ethernet frame with IPv4 and UDP.
pub const STAMP_BYTES: usize = 18;

/// The longest header: Ethernet 14, VLAN 4, `PPPoE` 8, IPv6 40, UDP 8, and room to a multiple of 8.
pub const HEADER_ROOM: usize = 80;

/// The table has no more rows than this.
pub const MAX_ROWS: usize = 16_384;

/// Frame numbers are below this: nine days at gigabit line rate. A greater one was not written by a sender.
pub const NUMBERS: u64 = 1 << 40;

/// A row of things that flows differ in: `first`, `first + 1`, … `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range<T> {
    /// The first.
    pub first: T,
    /// How many, at least 1.
    pub count: u16,
}

/// The test frames of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameSpec {
    /// Sizes with FCS, repeated in this order: one for RFC 2544, twelve for a 7:4:1 mix.
    pub sizes_bytes: Vec<u16>,
    /// The sending port.
    #[serde(deserialize_with = "mac")]
    pub source_mac: [u8; 6],
    /// The next hop.
    #[serde(deserialize_with = "mac")]
    pub destination_mac: [u8; 6],
    /// VLAN identifier of an 802.1Q tag.
    pub vlan: Option<u16>,
    /// Session of a `PPPoE` header.
    pub pppoe_session: Option<u16>,
    /// Source addresses; both rows are of one family.
    pub sources: Range<IpAddr>,
    /// Destination addresses.
    pub destinations: Range<IpAddr>,
    /// UDP source ports.
    pub source_ports: Range<u16>,
    /// UDP destination ports.
    pub destination_ports: Range<u16>,
    /// Flows: distinct combinations of the above (RFC 4814).
    pub flows: u16,
}

/// One row of the table: a frame's header with all that does not change from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header; what follows is the stamp, then zeros up to `length`.
    pub bytes: [u8; HEADER_ROOM],
    /// Bytes of the header: where the stamp begins.
    pub header_length: usize,
    /// Bytes of the frame without FCS.
    pub length: usize,
    /// With IPv6: the ones' complement sum (not folded, not inverted) of the pseudo header and the UDP header, to which the
    /// sum of the stamp is added; its place is `header_length - 2`. With IPv4 `None`: the checksum is 0 (RFC 768).
    pub checksum: Option<u32>,
}

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number, from 0.
    pub number: u64,
    /// When it left, on the monotonic clock, nanoseconds.
    pub time_ns: u64,
    /// Its trial.
    pub trial: u16,
}

/// A specification that breaks a rule, in one line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SpecError(pub String);

/// The frames of a trial, ready to be written: frame `n` is built from row `n % rows().len()`.
#[derive(Clone, Debug)]
pub struct Frames {
    table: Vec<Header>,
    flows: usize,
    v6: bool,
}

impl Frames {
    /// Builds the table: its rows are the least common multiple of the flows and the sizes, so that row `r` belongs to
    /// flow `r % flows` and has size `r % sizes`.
    ///
    /// Flow `f` takes the combination of addresses and ports that a fixed pseudo-random permutation of all
    /// combinations gives it (RFC 4814, section 4: not in sequence, and the same in every run).
    ///
    /// # Errors
    /// One line that says what of the specification breaks which rule.
    pub fn new(spec: &FrameSpec) -> Result<Self, SpecError> {
        let v6 = check(spec)?;
        let flows = usize::from(spec.flows);
        let sizes = &spec.sizes_bytes;
        let rows = flows / greatest_common_divisor(flows, sizes.len()) * sizes.len();
        if rows > MAX_ROWS {
            return Err(SpecError(format!(
                "flows: {flows} flows and {} sizes only repeat after {rows} frames; the table holds {MAX_ROWS}: \
                 fewer flows, or a multiple of the number of sizes",
                sizes.len()
            )));
        }
        let combinations = combinations(spec);
        let table = (0..rows)
            .map(|row| {
                let place = permuted((row % flows) as u64, combinations);
                header(
                    spec,
                    &Combination::at(spec, place),
                    sizes[row % sizes.len()],
                )
            })
            .collect();
        Ok(Self { table, flows, v6 })
    }

    /// The table. Never empty.
    #[must_use]
    pub fn rows(&self) -> &[Header] {
        &self.table
    }

    /// How many flows there are. Frame `n` belongs to flow `n % flows()`.
    #[must_use]
    pub const fn flows(&self) -> usize {
        self.flows
    }

    /// The row that frame `n` is built from.
    #[must_use]
    pub fn row(&self, n: u64) -> &Header {
        let rows = self.table.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "within the table")]
        &self.table[(n % rows) as usize]
    }

    /// Bytes of frame `n` without FCS.
    #[must_use]
    pub fn length(&self, n: u64) -> usize {
        self.row(n).length
    }

    /// Bytes of the longest frame without FCS.
    ///
    /// # Panics
    /// Never: the table has rows.
    #[must_use]
    pub fn longest(&self) -> usize {
        let lengths = self.table.iter().map(|row| row.length);
        lengths.max().expect("the table has rows")
    }

    /// Bytes before the stamp: the same in all frames.
    #[must_use]
    pub fn header_length(&self) -> usize {
        self.table[0].header_length
    }

    /// Whether the frames are IPv6.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.v6
    }

    /// Writes frame `n` and returns its length.
    ///
    /// # Panics
    /// If `into` is shorter than the frame.
    pub fn write(&self, n: u64, trial: u16, time_ns: u64, into: &mut [u8]) -> usize {
        let length = self.write_head(n, trial, time_ns, into);
        into[self.header_length() + STAMP_BYTES..length].fill(0);
        length
    }

    /// Writes header and stamp of frame `n` and returns the length of the whole frame. What follows the stamp must be
    /// zero already.
    ///
    /// # Panics
    /// If `into` is shorter than header and stamp.
    pub fn write_head(&self, n: u64, trial: u16, time_ns: u64, into: &mut [u8]) -> usize {
        let row = self.row(n);
        let start = row.header_length;
        into[..start].copy_from_slice(&row.bytes[..start]);
        let stamp = Stamp {
            number: n,
            time_ns,
            trial,
        }
        .to_bytes();
        into[start..start + STAMP_BYTES].copy_from_slice(&stamp);
        if let Some(base) = row.checksum {
            let checksum = finish_checksum(base + sum_words(&stamp));
            into[start - 2..start].copy_from_slice(&checksum.to_be_bytes());
        }
        row.length
    }
}

impl Header {
    /// Bytes of UDP payload: the stamp and the zeros after it.
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        self.length - self.header_length
    }
}

impl Stamp {
    /// As it stands in a frame.
    #[must_use]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.time_ns.to_be_bytes());
        bytes[16..].copy_from_slice(&self.trial.to_be_bytes());
        bytes
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The longest frame with FCS, without VLAN tag: a jumbo frame of 9000 bytes of MTU.
const MAX_FRAME_BYTES: usize = 9018;

/// Checks every rule; whether the frames are IPv6.
fn check(spec: &FrameSpec) -> Result<bool, SpecError> {
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

/// The addresses and ports of a flow.
struct Combination {
    source: IpAddr,
    destination: IpAddr,
    source_port: u16,
    destination_port: u16,
}

impl Combination {
    /// Number `place` of all combinations: a number with four digits, each to the base of its range.
    fn at(spec: &FrameSpec, place: u64) -> Self {
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
fn combinations(spec: &FrameSpec) -> u64 {
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
fn permuted(value: u64, size: u64) -> u64 {
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

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const PPPOE_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_PPPOE: u16 = 0x8864;
/// Version 1, type 1, code 0: session data (RFC 2516).
const PPPOE_VERSION_AND_CODE: u16 = 0x1100;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const UDP: u8 = 17;
/// TTL and hop limit.
const HOPS: u8 = 64;

/// Bytes before the stamp.
const fn header_length(spec: &FrameSpec, v6: bool) -> usize {
    let tag = if spec.vlan.is_some() { VLAN_BYTES } else { 0 };
    let session = if spec.pppoe_session.is_some() {
        PPPOE_BYTES
    } else {
        0
    };
    let ip = if v6 { IPV6_BYTES } else { IPV4_BYTES };
    ETHERNET_BYTES + tag + session + ip + UDP_BYTES
}

/// The row of the table for a flow and a size with FCS.
fn header(spec: &FrameSpec, flow: &Combination, size: u16) -> Header {
    let v6 = flow.source.is_ipv6();
    let header_length = header_length(spec, v6);
    let length = usize::from(size) - FCS_BYTES;
    let udp_length = short(length - header_length + UDP_BYTES);
    let mut bytes = Vec::with_capacity(HEADER_ROOM);
    bytes.extend(spec.destination_mac);
    bytes.extend(spec.source_mac);
    if let Some(vlan) = spec.vlan {
        bytes.extend(words([ETHERTYPE_VLAN, vlan]));
    }
    let ip_kind = if v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    if let Some(session) = spec.pppoe_session {
        let ppp_kind = if v6 { PPP_IPV6 } else { PPP_IPV4 };
        let ppp_length = short(length - bytes.len() - 2 - 6);
        bytes.extend(words([
            ETHERTYPE_PPPOE,
            PPPOE_VERSION_AND_CODE,
            session,
            ppp_length,
            ppp_kind,
        ]));
    } else {
        bytes.extend(words([ip_kind]));
    }
    let pseudo = match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            bytes.extend(ipv4(source, destination, short(length - bytes.len())));
            None
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            bytes.extend(words([0x6000, 0, udp_length]));
            bytes.extend([UDP, HOPS]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            let addresses = sum_words(&source.octets()) + sum_words(&destination.octets());
            Some(addresses + u32::from(udp_length) + u32::from(UDP))
        }
        _ => unreachable!("one family, as checked"),
    };
    let udp = bytes.len();
    bytes.extend(words([
        flow.source_port,
        flow.destination_port,
        udp_length,
        0,
    ]));
    let checksum = pseudo.map(|sum| sum + sum_words(&bytes[udp..]));
    bytes.resize(HEADER_ROOM, 0);
    Header {
        bytes: bytes.try_into().expect("headers fit their room"),
        header_length,
        length,
        checksum,
    }
}

fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, total_length: u16) -> [u8; IPV4_BYTES] {
    let mut bytes = [0; IPV4_BYTES];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&total_length.to_be_bytes());
    bytes[6] = 0x40; // do not fragment
    bytes[8] = HOPS;
    bytes[9] = UDP;
    bytes[12..16].copy_from_slice(&source.octets());
    bytes[16..].copy_from_slice(&destination.octets());
    let checksum = !fold(sum_words(&bytes));
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn words<const N: usize>(words: [u16; N]) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u16::to_be_bytes)
}

fn short(value: usize) -> u16 {
    u16::try_from(value).expect("frames are short")
}

/// The sum of big-endian words (RFC 1071), neither folded nor inverted; an odd last byte counts as a high one.
#[must_use]
pub fn sum_words(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

/// The checksum of a sum: folded and inverted (RFC 1071); 0 is sent as 0xffff (RFC 768, RFC 8200).
#[must_use]
pub fn finish_checksum(sum: u32) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The sum in 16 bits: carries are brought round.
fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded")
}

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
fn mac<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 6], D::Error> {
    let text = String::deserialize(from)?;
    mac_from_text(&text).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is no MAC address: six bytes, as 02:00:00:00:00:01"
        ))
    })
}

const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
/// More fragments, and the fragment's offset.
const FRAGMENT: u16 = 0x3fff;

/// What a received frame is, if it may be a test frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it says of itself.
    pub stamp: Stamp,
    /// Where the stamp begins.
    pub header_length: usize,
    /// Bytes of payload by the UDP header: what [`Header::payload_length`] said when it left.
    pub payload_length: usize,
    /// Whether it is IPv6.
    pub v6: bool,
}

/// Reads a frame that came in: `bytes` may be cut short after the stamp.
///
/// A test frame is Ethernet, at most one VLAN tag, at most one `PPPoE` session header, IPv4 without options that is no
/// fragment, or IPv6 without extension headers, UDP with at least 18 bytes of payload, and a number below
/// [`NUMBERS`]. Addresses, ports, TTL, tag and session may have changed on the way.
/// Everything else is foreign: `None`.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Seen> {
    let mut at = 12;
    let mut kind = word(bytes, at)?;
    at += 2;
    if matches!(kind, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN) {
        kind = word(bytes, at + 2)?;
        at += VLAN_BYTES;
    }
    if kind == ETHERTYPE_PPPOE {
        kind = match (word(bytes, at)?, word(bytes, at + 6)?) {
            (PPPOE_VERSION_AND_CODE, PPP_IPV4) => ETHERTYPE_IPV4,
            (PPPOE_VERSION_AND_CODE, PPP_IPV6) => ETHERTYPE_IPV6,
            _ => return None,
        };
        at += PPPOE_BYTES;
    }
    let v6 = kind == ETHERTYPE_IPV6;
    at += match kind {
        ETHERTYPE_IPV4 => {
            let plain = *bytes.get(at)? == 0x45 && *bytes.get(at + 9)? == UDP;
            let whole = word(bytes, at + 6)? & FRAGMENT == 0;
            (plain && whole).then_some(IPV4_BYTES)?
        }
        ETHERTYPE_IPV6 => {
            let plain = bytes.get(at)? >> 4 == 6 && *bytes.get(at + 6)? == UDP;
            plain.then_some(IPV6_BYTES)?
        }
        _ => return None,
    };
    let udp_length = usize::from(word(bytes, at + 4)?);
    let header_length = at + UDP_BYTES;
    let stamp = bytes.get(header_length..header_length + STAMP_BYTES)?;
    let number = u64::from_be_bytes(stamp[..8].try_into().ok()?);
    if udp_length < UDP_BYTES + STAMP_BYTES || number >= NUMBERS {
        return None;
    }
    Some(Seen {
        stamp: Stamp {
            number,
            time_ns: u64::from_be_bytes(stamp[8..16].try_into().ok()?),
            trial: u16::from_be_bytes(stamp[16..].try_into().ok()?),
        },
        header_length,
        payload_length: udp_length - UDP_BYTES,
        v6,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
