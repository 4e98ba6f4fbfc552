//! Any bytes are a pattern or one clear line; a pattern plays without a panic.
use std::sync::Arc;

use wavebed_link::pattern::{Cursor, End, Pattern};

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    match Pattern::parse_bytes(bytes) {
        Err(error) => {
            let line = error.to_string();
            assert!(
                !line.contains('\n') && line.starts_with("line "),
                "{line:?}"
            );
        }
        Ok(pattern) => {
            let pattern = Arc::new(pattern);
            let rows = pattern.at().len();
            let light = pattern.light_pattern();
            assert_eq!(light.is_some(), pattern.light().is_some());
            assert!(light.is_none_or(|light| light.at() == pattern.at()));
            for end in [End::Repeat, End::Hold, End::Stop] {
                let mut cursor = Cursor::new(pattern.clone(), end, pattern.period() / 3, 7);
                let mut at = 7;
                for _ in 0..50 {
                    assert!(cursor.seek(at).is_none_or(|row| row < rows));
                    assert!(cursor.until() > at || cursor.until() == u64::MAX);
                    at = cursor
                        .until()
                        .min(at.saturating_add(pattern.period() * 5 / 2));
                }
            }
        }
    }
}
