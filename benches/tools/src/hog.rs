//! A busy process, for measuring how late others get beside it.

use std::time::{Duration, Instant};

/// How long.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Spins until the time is over.
pub fn run(arguments: &Arguments) {
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut state = 1u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            state = std::hint::black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
    }
}
