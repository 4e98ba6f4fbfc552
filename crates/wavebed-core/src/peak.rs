//! The highest rate of a pattern, for the default limit of a queue, read by the engine's parser.

use std::path::Path;

use wavebed_link::pattern::Pattern;
use wavebed_path::Patterns;

use crate::problem::{Problem, print};

/// Opportunities are summed over this time to give a rate.
const WINDOW_NS: u64 = 100_000_000;

/// Prints the highest rate of the pattern in `file`.
///
/// # Errors
/// The pattern is invalid, or has no rate.
pub fn run(file: &str) -> Result<i32, Problem> {
    let pattern = Patterns::default()
        .load(Path::new(file))
        .map_err(Problem::wrong)?;
    let peak_bps = peak_bps(&pattern)
        .ok_or_else(|| Problem::wrong(format!("{file}: has neither rates nor opportunities")))?;
    print(&format!(
        "{}\n",
        serde_json::json!({ "peak_bps": peak_bps })
    ))
    .map(|()| 0)
}

fn peak_bps(pattern: &Pattern) -> Option<u64> {
    if let Some(rates) = pattern.rate_bps() {
        return rates.iter().copied().max();
    }
    let mut most = 0;
    let (mut window, mut sum) = (0, 0);
    for (at_ns, &bytes) in pattern.at().iter().zip(pattern.bytes()?) {
        if at_ns / WINDOW_NS != window {
            (window, sum) = (at_ns / WINDOW_NS, 0);
        }
        sum += u64::from(bytes);
        most = most.max(sum);
    }
    Some(most.saturating_mul(8 * 1_000_000_000 / WINDOW_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak_of(text: &str) -> Option<u64> {
        peak_bps(&Pattern::parse(text).expect("is a pattern"))
    }

    #[test]
    fn the_peak_is_the_highest_rate_or_the_most_opportunities_in_a_window() {
        let head = "# wavebed pattern 1\n# duration_s = 1\n";
        let steps = format!("{head}# kind = steps\ntime_s,rate_bps\n0,5\n0.5,7\n0.6,1\n");
        assert_eq!(peak_of(&steps), Some(7));
        let keys = "# light_bytes = 1\n# light_idle_s = 1\n";
        let light =
            format!("{head}{keys}# kind = steps\ntime_s,rate_bps,light_rate_bps\n0,5,2\n0.5,1,9\n");
        assert_eq!(
            peak_of(&light),
            Some(5),
            "the light rate has no effect on a queue"
        );
        let moments =
            format!("{head}# kind = opportunities\ntime_s,bytes\n0.01,10\n0.09,20\n0.1,25\n");
        assert_eq!(peak_of(&moments), Some(30 * 8 * 10));
        let delays = format!("{head}# kind = steps\ntime_s,delay_s\n0,1\n");
        assert_eq!(peak_of(&delays), None);
    }
}
