//! The radio-aware window.

use std::io::{Read, Write};
use std::thread;

use proptest::prelude::*;
use wavebed_edge::splitter::{Limits, Sample, WindowLaw};

use crate::splitter::running::{pair, wait_until};

static CHUNK: [u8; 65_536] = [7; 65_536];

const FLOOR: u32 = 14_600;
const START: Limits = Limits {
    window_bytes: 1 << 18,
    buffer_bytes: 1 << 18,
};

proptest! {
    /// The window holds the wired round trip and half of the queue, the buffer a quarter.
    #[test]
    fn limits_hold_what_the_radio_delivers_in_their_time(
        rate_mbps in 0_u32..100_000,
        rtt_us in 1_u32..2_000_000,
        queue_us in 0_u32..1_000_000,
        window_bytes in FLOOR..u32::MAX,
    ) {
        let law = WindowLaw { queue_us: queue_us.into() };
        let rate_bps = u64::from(rate_mbps) * 1_000_000;
        let sample = Sample { delivery_bps: Some(rate_bps), is_app_limited: false, wired_rtt_us: Some(rtt_us) };
        let previous = Limits { window_bytes, buffer_bytes: FLOOR };
        let limits = law.limits(previous, sample);
        let exact = |time_us: f64| (f64::from(rate_mbps) / 8.0 * time_us).clamp(f64::from(FLOOR), f64::from(u32::MAX));
        let is_near = |bytes: u32, exact: f64| (f64::from(bytes) - exact).abs() <= 1.0 + f64::from(rate_mbps) / 8.0;
        prop_assert!(is_near(limits.window_bytes, exact(f64::from(rtt_us) + f64::from(queue_us) / 2.0)));
        prop_assert!(is_near(limits.buffer_bytes, exact(f64::from(queue_us) / 4.0)));
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
            WindowLaw { queue_us: queue }.limits(START, sample).window_bytes
        };
        let base = window(rate_bps, rtt_us, queue_us);
        prop_assert!(window(rate_bps + u64::from(more), rtt_us, queue_us) >= base);
        prop_assert!(window(rate_bps, rtt_us + more, queue_us) >= base);
        prop_assert!(window(rate_bps, rtt_us, queue_us + u64::from(more)) >= base);
    }

    /// A rate that the server limited says what the radio can carry at least: limits double until the radio sets them.
    #[test]
    fn a_limited_sender_never_narrows_a_window(
        rate_bps in 0_u64..10_000_000_000,
        rtt_us in 1_u32..1_000_000,
        window_bytes in FLOOR..u32::MAX,
        buffer_bytes in FLOOR..u32::MAX,
    ) {
        let law = WindowLaw { queue_us: 10_000 };
        let sample = Sample { delivery_bps: Some(rate_bps), is_app_limited: true, wired_rtt_us: Some(rtt_us) };
        let limits = law.limits(Limits { window_bytes, buffer_bytes }, sample);
        prop_assert!(limits.window_bytes >= window_bytes.saturating_mul(2));
        prop_assert!(limits.buffer_bytes >= buffer_bytes.saturating_mul(2));
    }
}

#[test]
fn without_a_measurement_limits_stay() {
    let law = WindowLaw { queue_us: 10_000 };
    let sample = Sample {
        wired_rtt_us: Some(80_000),
        ..Sample::default()
    };
    assert_eq!(law.limits(START, sample), START);
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
            window.is_some() && window != Some(1 << 18)
        });
        assert!(window >= Some(u64::from(FLOOR)));
        drop(client);
        sender.join().expect("ends with the connection");
    });
}
