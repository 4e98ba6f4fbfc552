//! Playback of patterns.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use wavebed_link::pattern::{Cursor, End, Pattern};

#[test]
fn playback_repeats_holds_and_stops() {
    let text =
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 40\ntime_s,loss\n0,0\n10,0\n25,0\n";
    let pattern = Arc::new(Pattern::parse(text).expect("it is valid"));
    let second = 1_000_000_000;
    let at = |end, start: u64, origin: u64, times: &[u64]| -> Vec<(Option<usize>, u64)> {
        let mut cursor = Cursor::new(pattern.clone(), end, start * second, origin * second);
        times
            .iter()
            .map(|time| (cursor.seek(time * second), cursor.until() / second))
            .collect()
    };
    let never = u64::MAX / second;
    assert_eq!(
        at(End::Repeat, 0, 0, &[0, 9, 10, 24, 30, 40, 55, 4_000_011]),
        [
            (0, 10),
            (0, 10),
            (1, 25),
            (1, 25),
            (2, 40),
            (0, 50),
            (1, 65),
            (1, 4_000_025)
        ]
        .map(some)
    );
    assert_eq!(
        at(End::Hold, 0, 0, &[24, 25, 40, 99]),
        [(1, 25), (2, never), (2, never), (2, never)].map(some)
    );
    assert_eq!(
        at(End::Stop, 0, 0, &[39, 40]),
        [(Some(2), 40), (None, never)]
    );
    // Second 30 of the pattern is at second 5.
    assert_eq!(
        at(End::Repeat, 30, 5, &[5, 14, 15, 25]),
        [(2, 15), (2, 15), (0, 25), (1, 40)].map(some)
    );
    assert_eq!(
        at(End::Stop, 30, 5, &[14, 15]),
        [(Some(2), 15), (None, never)]
    );
    assert_eq!(
        Cursor::new(pattern, End::Stop, 30 * second, 5 * second).end_at(),
        Some(15 * second)
    );
}

fn some((row, until): (usize, u64)) -> (Option<usize>, u64) {
    (Some(row), until)
}

proptest! {
    #[test]
    fn a_cursor_agrees_with_a_search_through_the_rows(
        gaps in prop::collection::vec(1u64..50, 0..10),
        tail in 1u64..50,
        start in 0u64..400,
        jumps in prop::collection::vec(prop_oneof![0u64..20, 0u64..2_000], 1..40),
        end in prop_oneof![Just(End::Repeat), Just(End::Hold), Just(End::Stop)],
    ) {
        let mut at = vec![0];
        for gap in &gaps {
            at.push(at[at.len() - 1] + gap);
        }
        let period = at[at.len() - 1] + tail;
        let start = start % period;
        let mut text = format!("# wavebed pattern 1\n# kind = packets\n# packets = {period}\npacket,loss\n");
        for packet in &at {
            writeln!(text, "{packet},0").unwrap();
        }
        let pattern = Arc::new(Pattern::parse(&text).unwrap());
        let origin = 1000;
        let row_at = |now: u64| {
            let position = now - origin + start;
            let within = match end {
                End::Repeat => position % period,
                End::Hold => position.min(period - 1),
                End::Stop if position >= period => return None,
                End::Stop => position,
            };
            Some(at.iter().rposition(|&row_at| row_at <= within).unwrap())
        };
        let mut cursor = Cursor::new(pattern, end, start, origin);
        let mut now = origin;
        for jump in jumps {
            now += jump;
            prop_assert_eq!(cursor.seek(now), row_at(now));
            let until = cursor.until();
            prop_assert!(until > now);
            if until < u64::MAX {
                prop_assert_eq!(row_at(until - 1), row_at(now));
                let next = row_at(until);
                prop_assert!(next != row_at(now) || at.len() == 1);
            }
        }
    }
}
