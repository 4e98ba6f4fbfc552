//! The radio-aware window.

use std::io::{Read, Write};
use std::thread;

use proptest::prelude::*;
use wavebed_edge::splitter::{Sample, WindowLaw};

use crate::running::{pair, wait_until};

static CHUNK: [u8; 65_536] = [7; 65_536];

const FLOOR: u32 = 14_600;

proptest! {
    /// Within its bounds, and as long as what the radio delivers in the wired round trip and the queue's time.
    #[test]
    fn a_window_holds_a_round_trip_and_the_queue(
        rate_bps in 0_u64..100_000_000_000,
        rtt_us in 1_u32..2_000_000,
        queue_us in 0_u64..1_000_000,
        previous in proptest::option::of(FLOOR..u32::MAX),
    ) {
        let law = WindowLaw { queue_us };
        let sample = Sample { delivery_bps: Some(rate_bps), is_app_limited: false, wired_rtt_us: Some(rtt_us) };
        let window = law.clamp(previous, sample).expect("a window");
        let exact = rate_bps as f64 / 8.0 * (f64::from(rtt_us) + queue_us as f64) / 1e6;
        let expected = exact.clamp(f64::from(FLOOR), f64::from(u32::MAX));
        prop_assert!((f64::from(window) - expected).abs() <= 1.0 + expected * 1e-9);
    }

    /// More of anything never narrows a window.
    #[test]
    fn a_window_grows_with_rate_round_trip_and_queue(
        rate_bps in 0_u64..10_000_000_000,
        rtt_us in 1_u32..1_000_000,
        queue_us in 0_u64..100_000,
        more in 0_u32..1_000_000,
    ) {
        let window = |rate, rtt, queue| {
            let sample = Sample { delivery_bps: Some(rate), is_app_limited: false, wired_rtt_us: Some(rtt) };
            WindowLaw { queue_us: queue }.clamp(None, sample)
        };
        let base = window(rate_bps, rtt_us, queue_us);
        prop_assert!(window(rate_bps + u64::from(more), rtt_us, queue_us) >= base);
        prop_assert!(window(rate_bps, rtt_us + more, queue_us) >= base);
        prop_assert!(window(rate_bps, rtt_us, queue_us + u64::from(more)) >= base);
    }

    /// A rate that the server limited says what the radio can carry at least.
    #[test]
    fn a_limited_sender_never_narrows_a_window(
        rate_bps in proptest::option::of(0_u64..10_000_000_000),
        rtt_us in proptest::option::of(1_u32..1_000_000),
        previous in FLOOR..u32::MAX,
    ) {
        let law = WindowLaw { queue_us: 10_000 };
        let sample = Sample { delivery_bps: rate_bps, is_app_limited: true, wired_rtt_us: rtt_us };
        prop_assert!(law.clamp(Some(previous), sample) >= Some(previous));
        prop_assert_eq!(law.clamp(None, sample), None);
    }
}

#[test]
fn the_loop_sets_the_window_of_a_connection_that_carries_data() {
    let (running, mut client, mut server) = pair("window-queue = \"10ms\"");
    thread::scope(|scope| {
        let sender = scope.spawn(move || while server.write_all(&CHUNK).is_ok() {});
        let mut window = None;
        let mut buffer = vec![0; 65_536];
        wait_until("a window is set", || {
            for _ in 0..50 {
                client.read_exact(&mut buffer).expect("arrives");
            }
            let flows: serde_json::Value =
                serde_json::from_str(&running.page("/flows.json")).expect("JSON");
            window = flows["flows"][0]["window_bytes"].as_u64();
            window.is_some()
        });
        assert!(window >= Some(u64::from(FLOOR)));
        drop(client);
        sender.join().expect("ends with the connection");
    });
}
