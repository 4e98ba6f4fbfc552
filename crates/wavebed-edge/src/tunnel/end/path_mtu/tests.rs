use super::*;

const MS: u64 = 1_000_000;
const RTT: Duration = Duration::from_millis(20);

/// IPv4 of `bytes`, with DF or without.
fn packet(bytes: usize, dont_fragment: bool) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(bytes).expect("short").to_be_bytes());
    packet.extend([0, 0, if dont_fragment { 0x40 } else { 0 }, 0, 63, 17, 0, 0]);
    packet.extend([10, 0, 0, 2, 198, 51, 100, 7]);
    packet.resize(bytes, 0);
    packet
}

fn is_answered(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Dropped(Some(_)))
}

/// A path on which a search found 1204 bytes.
fn narrow() -> PathMtu {
    let mut path = PathMtu::new(1360);
    path.observe(1153, 0, || (0, RTT));
    path.observe(1204, 50 * MS, || (5, RTT));
    path.observe(1204, 450 * MS, || (5, RTT));
    assert!(!path.is_searching());
    path
}

#[test]
fn packets_up_to_the_devices_mtu_fit_before_anything_else_is_known() {
    let mut path = PathMtu::new(1360);
    path.observe(1387, 0, || unreachable!("nothing to look at"));
    assert_eq!(path.state().path_mtu, 1360);
    let largest = packet(1360, true);
    assert_eq!(path.judge(largest.clone(), 0), Verdict::Fits(largest));
}

#[test]
fn large_packets_wait_while_quic_searches_and_are_judged_by_what_it_found() {
    let mut path = PathMtu::new(1360);
    path.observe(1153, 0, || (0, RTT));
    assert_eq!(path.judge(packet(1200, true), 0), Verdict::Held);
    assert_eq!(path.judge(packet(1360, true), 0), Verdict::Held);
    assert!(path.released().is_empty());
    for step in 1..10 {
        path.observe(1153, step * 300 * MS, || (step, RTT));
        assert!(path.is_searching() && path.released().is_empty());
    }
    path.observe(1204, 3_000 * MS, || (10, RTT));
    let waited = path.released();
    assert_eq!(waited.len(), 2);
    let [first, second] = waited.try_into().expect("two");
    assert_eq!(path.judge(first.clone(), 0), Verdict::Fits(first));
    assert_eq!(path.judge(second, 0), Verdict::Held, "it still searches");
    path.observe(1204, 3_399 * MS, || (10, RTT));
    assert!(path.is_searching());
    path.observe(1204, 3_400 * MS, || (10, RTT));
    assert!(!path.is_searching());
    let [last] = path.released().try_into().expect("one");
    assert!(is_answered(&path.judge(last, 3_400 * MS)));
    assert_eq!(path.state().too_large, 1);
}

#[test]
fn a_search_over_a_long_path_may_take_longer() {
    let mut path = PathMtu::new(1360);
    let rtt = Duration::from_millis(600);
    path.observe(1153, 0, || (0, rtt));
    path.observe(1153, 2_399 * MS, || (0, rtt));
    assert!(path.is_searching());
    path.observe(1153, 2_400 * MS, || (0, rtt));
    assert!(!path.is_searching());
}

#[test]
fn a_packet_without_df_is_fragmented_and_one_with_it_is_answered() {
    let mut path = narrow();
    let Verdict::Fragments(parts) = path.judge(packet(1360, false), 0) else {
        panic!("not fragmented");
    };
    assert!(parts.len() == 2 && parts.iter().all(|part| part.len() <= 1204));
    assert!(is_answered(&path.judge(packet(1205, true), 0)));
    let state = path.state();
    assert_eq!((state.fragmented, state.too_large), (1, 1));
    assert_eq!(state.path_mtu, 1204);
}

#[test]
fn packets_beyond_the_limit_of_answers_are_dropped_and_counted() {
    let mut path = narrow();
    let answered = (0..200).filter(|_| is_answered(&path.judge(packet(1360, true), 0)));
    assert_eq!(answered.count(), 50);
    assert_eq!(path.state().too_large, 200);
}

#[test]
fn packets_beyond_those_that_may_wait_are_dropped_and_counted() {
    let mut path = PathMtu::new(1360);
    path.observe(1153, 0, || (0, RTT));
    let held = (0..600).filter(|_| path.judge(packet(1360, true), 0) == Verdict::Held);
    assert_eq!(held.count(), MOST_HELD);
    assert_eq!(path.state().too_large, 88);
}

#[test]
fn a_path_that_carries_more_again_gets_larger_packets() {
    let mut path = narrow();
    path.observe(1400, 60_000 * MS, || (9, RTT));
    assert!(path.is_full());
    let largest = packet(1360, true);
    assert_eq!(path.judge(largest.clone(), 0), Verdict::Fits(largest));
}
