//! Address resolution, as bytes: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{finish_checksum, sum_words};

const BROADCAST: [u8; 6] = [0xff; 6];
const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware Ethernet, protocol IPv4, with addresses of 6 and 4 bytes.
const ARP_KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];
/// Bytes without FCS that every Ethernet frame has.
const LEAST_BYTES: usize = 60;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_ADDRESS_OPTION: u8 = 1;
const TARGET_ADDRESS_OPTION: u8 = 2;
/// RFC 4861, 4.4: it answers a solicitation, and replaces what was known.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Somebody asks who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The address that is asked for.
    pub target: IpAddr,
    /// Who asks; unspecified while it makes sure that nobody has its address.
    pub asker: IpAddr,
    /// Where the answer goes.
    pub asker_mac: [u8; 6],
}

/// What a frame of address resolution says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Who has it?
    Question(Question),
    /// This address is there.
    Answer(IpAddr, [u8; 6]),
}

/// Reads a frame without VLAN tag. `None` if it is anything else, or broken.
#[must_use]
pub fn hear(frame: &[u8]) -> Option<Heard> {
    let source_mac: [u8; 6] = frame.get(6..12)?.try_into().ok()?;
    let kind: [u8; 2] = frame.get(12..14)?.try_into().ok()?;
    let packet = &frame[ETHERNET_BYTES..];
    match kind {
        ETHERTYPE_ARP => hear_arp(packet),
        ETHERTYPE_IPV6 => hear_discovery(packet, source_mac),
        _ => None,
    }
}

fn hear_arp(packet: &[u8]) -> Option<Heard> {
    if packet.get(..6)? != ARP_KIND {
        return None;
    }
    let operation: [u8; 2] = packet.get(6..8)?.try_into().ok()?;
    let sender_mac: [u8; 6] = packet.get(8..14)?.try_into().ok()?;
    let sender = ipv4(packet.get(14..18)?)?;
    let target = ipv4(packet.get(24..28)?)?;
    match operation {
        ARP_REPLY => Some(Heard::Answer(sender.into(), sender_mac)),
        // One who asks for its own address announces it.
        ARP_REQUEST if sender != target => Some(Heard::Question(Question {
            target: target.into(),
            asker: sender.into(),
            asker_mac: sender_mac,
        })),
        _ => None,
    }
}

fn hear_discovery(packet: &[u8], source_mac: [u8; 6]) -> Option<Heard> {
    let fixed = packet.get(..40)?;
    let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let message = packet.get(40..40 + length)?;
    let (source, destination) = (ipv6(&fixed[8..24])?, ipv6(&fixed[24..40])?);
    // RFC 4861, 7.1: it has crossed no router, it is whole, and its checksum holds.
    let fresh = fixed[0] >> 4 == 6 && fixed[6] == ICMPV6 && fixed[7] == 255;
    if !fresh || message.len() < 24 || message[1] != 0 {
        return None;
    }
    // A sum over all with a right checksum is all ones, which finishes as 0, sent as 0xffff.
    if finish_checksum(sum(source, destination, message)) != 0xffff {
        return None;
    }
    let target = ipv6(&message[8..24])?;
    if target.is_multicast() {
        return None;
    }
    let option = |kind| options(&message[24..])?.find(|(this, _)| *this == kind);
    let mac = |kind| match option(kind) {
        Some((_, value)) => value.get(..6)?.try_into().ok(),
        None => Some(source_mac),
    };
    match message[0] {
        SOLICITATION => Some(Heard::Question(Question {
            target: target.into(),
            asker: source.into(),
            asker_mac: mac(SOURCE_ADDRESS_OPTION)?,
        })),
        ADVERTISEMENT => Some(Heard::Answer(target.into(), mac(TARGET_ADDRESS_OPTION)?)),
        _ => None,
    }
}

/// The options of a message, kind and value; `None` if one is broken.
fn options(bytes: &[u8]) -> Option<impl Iterator<Item = (u8, &[u8])>> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let [kind, units, ..] = *rest {
        let length = usize::from(units) * 8;
        if length == 0 {
            return None;
        }
        found.push((kind, rest.get(2..length)?));
        rest = &rest[length..];
    }
    Some(found.into_iter())
}

/// The frame that says to whoever asked: the target is at `mac`. With `vlan` it has a tag.
#[must_use]
pub fn answer(question: &Question, mac: [u8; 6], vlan: Option<u16>) -> Vec<u8> {
    match (question.target, question.asker) {
        (IpAddr::V4(target), IpAddr::V4(asker)) => {
            let mut frame = ethernet(question.asker_mac, mac, vlan, ETHERTYPE_ARP);
            arp(
                &mut frame,
                ARP_REPLY,
                (mac, target),
                (question.asker_mac, asker),
            );
            frame
        }
        (IpAddr::V6(target), IpAddr::V6(asker)) => {
            // RFC 4861, 7.2.4: who has no address yet is answered by way of all.
            let (to, to_mac, flags) = if asker.is_unspecified() {
                (ALL_NODES, group_mac(ALL_NODES), OVERRIDE)
            } else {
                (asker, question.asker_mac, SOLICITED | OVERRIDE)
            };
            let message = message(ADVERTISEMENT, flags, target, TARGET_ADDRESS_OPTION, mac);
            let mut frame = ethernet(to_mac, mac, vlan, ETHERTYPE_IPV6);
            discovery(&mut frame, target, to, message);
            frame
        }
        _ => unreachable!("a question is of one family"),
    }
}

/// The frame with which `source` at `mac` asks who has `target`; `None` if they are of different families.
#[must_use]
pub fn ask(target: IpAddr, source: IpAddr, mac: [u8; 6], vlan: Option<u16>) -> Option<Vec<u8>> {
    match (target, source) {
        (IpAddr::V4(target), IpAddr::V4(source)) => {
            let mut frame = ethernet(BROADCAST, mac, vlan, ETHERTYPE_ARP);
            arp(&mut frame, ARP_REQUEST, (mac, source), ([0; 6], target));
            Some(frame)
        }
        (IpAddr::V6(target), IpAddr::V6(source)) => {
            let group = solicited(target);
            let message = message(SOLICITATION, 0, target, SOURCE_ADDRESS_OPTION, mac);
            let mut frame = ethernet(group_mac(group), mac, vlan, ETHERTYPE_IPV6);
            discovery(&mut frame, source, group, message);
            Some(frame)
        }
        _ => None,
    }
}

fn ethernet(to: [u8; 6], from: [u8; 6], vlan: Option<u16>, kind: [u8; 2]) -> Vec<u8> {
    let mut frame = [to, from].concat();
    if let Some(vlan) = vlan {
        frame.extend([0x81, 0x00]);
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(kind);
    frame
}

fn arp(
    frame: &mut Vec<u8>,
    operation: [u8; 2],
    sender: ([u8; 6], Ipv4Addr),
    target: ([u8; 6], Ipv4Addr),
) {
    frame.extend(ARP_KIND);
    frame.extend(operation);
    for (mac, address) in [sender, target] {
        frame.extend(mac);
        frame.extend(address.octets());
    }
    frame.resize(frame.len().max(LEAST_BYTES), 0);
}

/// A solicitation or advertisement, without checksum.
fn message(kind: u8, flags: u8, target: Ipv6Addr, option: u8, mac: [u8; 6]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    message.extend([option, 1]);
    message.extend(mac);
    message
}

fn discovery(frame: &mut Vec<u8>, from: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) {
    let checksum = finish_checksum(sum(from, to, &message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    frame.extend([0x60, 0, 0, 0, 0]);
    frame.push(u8::try_from(message.len()).expect("32 bytes"));
    frame.extend([ICMPV6, 255]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    frame.extend(message);
}

/// The sum over the pseudo header (RFC 8200, 8.1) and the message.
fn sum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u32 {
    let length = u32::try_from(message.len()).expect("within a packet");
    sum_words(&from.octets())
        + sum_words(&to.octets())
        + length
        + u32::from(ICMPV6)
        + sum_words(message)
}

/// The group that the owner of an address listens to (RFC 4291, 2.7.1).
fn solicited(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// RFC 2464, section 7.
fn group_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    Some(<[u8; 4]>::try_from(bytes).ok()?.into())
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    Some(<[u8; 16]>::try_from(bytes).ok()?.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINE: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];

    #[test]
    fn an_arp_request_is_these_bytes() {
        let frame = ask(
            "198.18.0.1".parse().unwrap(),
            "198.18.0.2".parse().unwrap(),
            MINE,
            None,
        );
        let mut expected = vec![0xff; 6];
        expected.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        expected.extend([2, 0, 0, 0, 0, 1, 198, 18, 0, 2]);
        expected.extend([0, 0, 0, 0, 0, 0, 198, 18, 0, 1]);
        expected.resize(60, 0);
        assert_eq!(frame, Some(expected));
    }

    #[test]
    fn a_solicitation_is_these_bytes() {
        let frame = ask(
            "2001:2::12:3456".parse().unwrap(),
            "2001:2::2".parse().unwrap(),
            MINE,
            Some(7),
        );
        let mut expected = vec![0x33, 0x33, 0xff, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 1];
        expected.extend([0x81, 0, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
        expected.extend([0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        expected.extend([
            0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x12, 0x34, 0x56,
        ]);
        // The checksum by hand: 2001 + 2 + 2 + ff02 + 1 + ff12 + 3456 + 20 + 3a + 8700 + 2001 + 2 + 12 + 3456 + 101 + 200 + 1
        // = 33137, with the carry 313a, inverted cec5.
        let frame = frame.unwrap();
        assert_eq!(frame[..58], expected);
        assert_eq!(frame[58..66], [135, 0, 0xce, 0xc5, 0, 0, 0, 0]);
        assert_eq!(
            frame[66..82],
            "2001:2::12:3456".parse::<Ipv6Addr>().unwrap().octets()
        );
        assert_eq!(frame[82..], [1, 1, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn who_has_no_address_yet_is_answered_by_way_of_all() {
        let question = Question {
            target: "2001:2::1".parse().unwrap(),
            asker: Ipv6Addr::UNSPECIFIED.into(),
            asker_mac: THEIRS,
        };
        let frame = answer(&question, MINE, None);
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(frame[38..54], ALL_NODES.octets());
        assert_eq!(frame[58], OVERRIDE);
    }

    #[test]
    fn an_announcement_is_no_question() {
        let address = "198.18.0.1".parse().unwrap();
        assert_eq!(hear(&ask(address, address, MINE, None).unwrap()), None);
    }

    #[test]
    fn families_do_not_mix() {
        let (v4, v6) = ("198.18.0.1".parse().unwrap(), "::1".parse().unwrap());
        assert_eq!(ask(v4, v6, MINE, None), None);
    }

    fn address() -> impl Strategy<Value = [IpAddr; 2]> {
        prop_oneof![
            any::<[u32; 2]>().prop_map(|pair| pair.map(|bits| Ipv4Addr::from(bits).into())),
            any::<[u128; 2]>().prop_map(|pair| pair.map(|bits| Ipv6Addr::from(bits >> 1).into())),
        ]
    }

    proptest! {
        #[test]
        fn a_question_is_heard_and_so_is_its_answer([target, asker] in address(), mine: [u8; 6], theirs: [u8; 6]) {
            prop_assume!(target != asker && !target.is_multicast());
            let question = Question { target, asker, asker_mac: mine };
            let frame = ask(target, asker, mine, None).unwrap();
            prop_assert!(frame.len() >= LEAST_BYTES);
            prop_assert_eq!(hear(&frame), Some(Heard::Question(question)));
            let reply = answer(&question, theirs, None);
            prop_assert_eq!(hear(&reply), Some(Heard::Answer(target, theirs)));
            prop_assert_eq!(&reply[..6], &mine);
        }

        #[test]
        fn a_flipped_bit_of_a_solicitation_is_noticed(bit in 14 * 8..86 * 8_usize, mine: [u8; 6]) {
            // Version, traffic class and flow label are outside the checksum; the hop limit is checked.
            prop_assume!(!(14 * 8 + 4..18 * 8).contains(&bit));
            let (target, asker) = ("2001:2::1".parse().unwrap(), "2001:2::2".parse().unwrap());
            let mut frame = ask(target, asker, mine, None).unwrap();
            frame[bit / 8] ^= 1 << (7 - bit % 8);
            prop_assert_eq!(hear(&frame), None);
        }

        #[test]
        fn hearing_takes_whatever_comes(mut bytes in prop::collection::vec(any::<u8>(), 0..120), v6: bool) {
            if bytes.len() > 14 {
                bytes[12..14].copy_from_slice(if v6 { &ETHERTYPE_IPV6 } else { &ETHERTYPE_ARP });
            }
            let _ = hear(&bytes);
        }
    }
}
