//! What the ends send each other.

use proptest::prelude::*;
use wavebed_edge::tunnel::wire::{
    KEEP_ALIVE, Malformed, Message, PACKET_HEADER_BYTES, PacketHeader, REPORT_BYTES, Report,
    unwrapped, wrapped,
};

fn report() -> impl Strategy<Value = Report> {
    let head = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let counts = (any::<u64>(), any::<u64>(), any::<u32>());
    let delays = (any::<u32>(), any::<u32>(), any::<u32>());
    (head, counts, delays).prop_map(|(head, counts, delays)| Report {
        number: head.0,
        at_us: head.1,
        highest: head.2,
        held_us: head.3,
        packets: counts.0,
        bytes: counts.1,
        delay_min_us: delays.0,
        delay_mean_us: delays.1,
        delay_last_us: delays.2,
        gap_us: counts.2,
    })
}

proptest! {
    #[test]
    fn a_report_reads_as_it_was_written(report in report()) {
        let bytes = report.to_bytes();
        prop_assert_eq!(Message::parse(&bytes), Ok(Message::Report(report)));
        let short = &bytes[..REPORT_BYTES - 1];
        prop_assert_eq!(Message::parse(short), Err(Malformed::Length(REPORT_BYTES - 1)));
        let long = [&bytes[..], &[0]].concat();
        prop_assert_eq!(Message::parse(&long), Err(Malformed::Length(REPORT_BYTES + 1)));
    }

    #[test]
    fn a_packet_reads_as_it_was_written(
        sequence: u32,
        sent_us: u32,
        packet in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let header = PacketHeader { sequence, sent_us };
        let bytes = [&header.to_bytes()[..], &packet].concat();
        prop_assert_eq!(Message::parse(&bytes), Ok(Message::Packet(header, &packet)));
        let short = &bytes[..PACKET_HEADER_BYTES - 1];
        prop_assert!(Message::parse(short).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let known = matches!(bytes.first(), Some(1..=3));
        prop_assert_eq!(
            matches!(Message::parse(&bytes), Err(Malformed::Kind(_))),
            !known
        );
    }

    #[test]
    fn a_wrapped_number_is_found_near_a_known_one(near in (1u64 << 32)..(1 << 50), ahead in -(1i64 << 31)..(1 << 31)) {
        let value = near.checked_add_signed(ahead).expect("far from zero");
        prop_assert_eq!(unwrapped(near, wrapped(value)), value);
    }
}

#[test]
fn numbers_before_zero_are_not_found() {
    assert_eq!(unwrapped(0, u32::MAX), u64::from(u32::MAX));
    assert_eq!(unwrapped(3, 5), 5);
    assert_eq!(unwrapped(5, 3), 3);
}

#[test]
fn a_keep_alive_is_one_byte_with_any_padding() {
    assert_eq!(Message::parse(&[KEEP_ALIVE]), Ok(Message::KeepAlive));
    assert_eq!(Message::parse(&[KEEP_ALIVE; 1369]), Ok(Message::KeepAlive));
}
