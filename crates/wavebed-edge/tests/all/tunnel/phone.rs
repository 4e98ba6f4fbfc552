//! The radio of bbr-5g's phone: slots, HARQ, in-order delivery, 20 MiB of buffer; seed 2 of the scene, 5 s of its patterns.

use std::path::Path;

use wavebed_edge::tunnel::law::{DeliveryLaw, RateLimits};

use crate::tunnel::simulation::{MS, Phone};

const LIMITS: RateLimits = RateLimits {
    floor_bps: 500_000,
    start_bps: 20_000_000,
    most_bps: 2_000_000_000,
};

fn phone(seconds: u64) -> Phone {
    let trial = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/all/tunnel/phone/spec.json"
    );
    Phone::new(Path::new(trial), seconds)
}

#[test]
fn four_cubic_flows_use_the_phones_radio_and_ping_waits_15_ms_at_most() {
    let phone = phone(3);
    let with = phone.with(Some(Box::new(DeliveryLaw::new(LIMITS))));
    let without = phone.with(None);
    println!("phone: {with:?}; without the tunnel {without:?}");
    assert!(phone.capacity_bps() > 300_000_000, "the radio's rate");
    assert!(with.used >= 950 && with.tcp >= 910, "{with:?}");
    assert!(
        with.ping_us <= 15_000 && with.ping_p95_us <= 25_000,
        "{with:?}"
    );
    assert!(without.ping_us > 200_000, "{without:?}");
}

#[test]
fn a_longer_target_queue_uses_more_and_delays_more() {
    let phone = phone(2);
    let [none, long] = [0, 20].map(|target_ms| {
        let law = DeliveryLaw::new(LIMITS).with_target_queue(target_ms * MS);
        phone.with(Some(Box::new(law)))
    });
    println!("phone, targets of 0 and 20 ms: {none:?}, {long:?}");
    assert!(long.used > none.used, "{none:?}, {long:?}");
    assert!(long.ping_us > none.ping_us + 3_000, "{none:?}, {long:?}");
}
