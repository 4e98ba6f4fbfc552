//! Live changes of a radio link.

use std::sync::Arc;

use crate::radio_support::{
    RATE_BPS, SLOT_NS, air, drive, pattern as columns, plain, played, radio, segment, sinr_air,
};
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::radio::{Air, Radio};
use wavebed_link::{Change, Stage};

const MS: u64 = 1_000_000;

fn pattern(duration_s: &str, rows: &[&str]) -> Arc<Pattern> {
    columns(duration_s, "rate_bps,bler,state", rows)
}

/// Whether the first transmission of a segment that comes at `at_ns` fails.
fn fails(radio: &mut Radio, at_ns: u64) -> bool {
    let outcome = drive(radio, &[segment(at_ns, 0)], at_ns + MS);
    outcome.blocks[0].failed
}

fn apply(radio: &mut Radio, at_ns: u64, change: &Change) {
    drive(radio, &[], at_ns);
    assert!(radio.apply(at_ns, change));
}

#[test]
fn a_pattern_brings_its_own_errors_after_a_rate() {
    let broken = Change::Pattern(pattern("1", &["0,768000000,1,los"]));
    for start in [
        air("1", &["0,768000000,0,los"]),
        Air::constant(RATE_BPS, 0.0),
    ] {
        let mut radio = radio(plain(), start);
        apply(&mut radio, 10 * MS, &Change::RateBps(RATE_BPS));
        assert!(!fails(&mut radio, 20 * MS));
        apply(&mut radio, 30 * MS, &broken);
        assert!(fails(&mut radio, 40 * MS));
    }
}

#[test]
fn a_fixed_error_rate_holds_whatever_changes() {
    let mut radio = radio(plain(), Air::constant(RATE_BPS, 0.0).with_fixed_bler(1.0));
    assert!(fails(&mut radio, MS));
    apply(&mut radio, 10 * MS, &Change::RateBps(2 * RATE_BPS));
    assert!(fails(&mut radio, 20 * MS));
    let clean = Change::Pattern(pattern("1", &["0,768000000,0,los"]));
    apply(&mut radio, 30 * MS, &clean);
    assert!(fails(&mut radio, 40 * MS));
}

#[test]
fn a_rate_keeps_the_errors_of_its_moment_but_for_those_of_an_outage() {
    let mut radio = radio(plain(), air("1", &["0,0,1,outage"]));
    apply(&mut radio, 10 * MS, &Change::RateBps(RATE_BPS));
    assert!(!fails(&mut radio, 20 * MS));
}

#[test]
fn a_rate_of_zero_and_back_keeps_what_waits() {
    let mut radio = radio(plain(), Air::constant(RATE_BPS, 0.0));
    apply(&mut radio, 10 * MS, &Change::RateBps(0));
    let held = drive(&mut radio, &[segment(11 * MS, 0)], 20 * MS);
    assert!(held.delivered.is_empty() && held.lost.is_empty());
    apply(&mut radio, 20 * MS, &Change::RateBps(RATE_BPS));
    let outcome = drive(&mut radio, &[], 30 * MS);
    assert_eq!(
        outcome.of(0),
        20 * MS + SLOT_NS + crate::radio_support::DECODE_NS
    );
}

#[test]
fn a_new_pattern_ends_as_the_old_one_would() {
    let steps = pattern("0.01", &["0,0,0,los", "0.005,768000000,0,los"]);
    let start = Air::pattern(Arc::clone(&steps), End::Hold, 0, 0, None).expect("it has rates");
    let mut radio = radio(plain(), start);
    apply(&mut radio, 100 * MS, &Change::Pattern(steps));
    // Repeated, the rate would be zero from 110 to 115 ms.
    let outcome = drive(&mut radio, &[segment(111 * MS, 0)], 200 * MS);
    assert!(outcome.of(0) < 112 * MS, "{}", outcome.of(0));
}

#[test]
fn a_rate_has_an_mcs_for_the_sinr_of_its_moment() {
    // 20 dB too little until the change; then one block in ten fails.
    let mut link = radio(plain(), sinr_air("1", &["0,768000000,5,25"]));
    assert!(fails(&mut link, MS));
    apply(&mut link, 10 * MS, &Change::RateBps(RATE_BPS));
    let failed = (2..502).filter(|&slot| fails(&mut link, slot * 10 * MS));
    let failed = failed.count();
    assert!((20..=80).contains(&failed), "{failed} of 500");
    // What was more than enough stays so.
    let mut link = radio(plain(), sinr_air("1", &["0,768000000,25,5"]));
    apply(&mut link, 10 * MS, &Change::RateBps(RATE_BPS));
    assert!((2..502).all(|slot| !fails(&mut link, slot * 10 * MS)));
}

#[test]
fn a_fixed_error_rate_holds_in_place_of_the_sinr() {
    let hopeless = columns("1", "rate_bps,sinr_db,need_db", &["0,768000000,0,30"]);
    let mut link = radio(plain(), played(hopeless, Some(0.0)));
    assert!(!fails(&mut link, MS));
}

#[test]
fn the_sinr_decides_where_a_pattern_has_both() {
    let rows = ["0,768000000,0,0,30", "0.5,768000000,1,30,0"];
    let both = columns("1", "rate_bps,bler,sinr_db,need_db", &rows);
    let mut link = radio(plain(), played(both, None));
    assert!(fails(&mut link, MS));
    assert!(!fails(&mut link, 600 * MS));
}
