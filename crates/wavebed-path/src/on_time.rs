//! Checks whether the engine was on time: each condition with its severity and its evidence.

use serde::Serialize;
use wavebed_os::machine_time::Lost;

use crate::gaps::{COUNTED_NS, Gaps};
use crate::lateness::Lateness;

/// A run with a later p99 is suspect: a quarter of a millisecond, an NR slot of 60 kHz.
const LATE_P99_NS: u64 = 250_000;
/// A run with a later p99 is invalid: the order of the differences between round trips under study. A packet that is
/// later is a late packet.
const LATE_PACKET_NS: u64 = 5_000_000;
/// A run with a larger fraction of late packets is suspect: they are the tail that a p99.9 shows.
const LATE_PACKETS_FRACTION: f64 = 0.001;
/// A run with a longer gap is invalid: TCP takes it for an outage (its shortest timeout is 200 ms, a player's far
/// less).
const GAP_INVALID_NS: u64 = 50_000_000;
/// A run with a larger fraction of stolen time is suspect: two of the 200 ticks that two processors have in a second.
const STOLEN_FRACTION: f64 = 0.01;
/// Shorter suspensions are within the error of reading two clocks.
const SUSPENDED_NS: u64 = 1_000_000;
/// Bound of the steps of the time of day, per run and per second of it; clock steering makes at most 500 ppm.
const STEP_NS: f64 = 10_000_000.0;
const STEP_NS_PER_S: f64 = 1_000_000.0;

/// The verdict on a run that breaks a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run counts, and is reported as suspect.
    Suspect,
    /// The run does not count: its figures come from the machine, not from the path.
    Invalid,
}

impl Severity {
    /// Its name in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// A condition on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name for programs.
    pub code: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// The verdict if it does not hold.
    pub severity: Severity,
    /// The figures, with the bound.
    pub evidence: String,
}

#[expect(clippy::cast_precision_loss, reason = "times of a run fit an f64")]
const fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The severity of a figure above its first bound: invalid above `invalid_ns`, else suspect.
const fn graded(found_ns: u64, invalid_ns: u64) -> Severity {
    if found_ns > invalid_ns {
        Severity::Invalid
    } else {
        Severity::Suspect
    }
}

/// Lateness of the packets of a direction.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// With the wait in the input device, which is known as an upper bound only.
    pub at_most: Lateness,
    /// Without it.
    pub surely: Lateness,
}

/// Checks the lateness over all directions. The upper bound makes a run suspect; only the measured part makes it
/// invalid.
#[must_use]
pub fn lateness(directions: &[Late]) -> Vec<Check> {
    let at_most = directions.iter().map(|each| &each.at_most);
    let surely = directions.iter().map(|each| each.surely.percentile(0.99));
    let surely_ns = surely.flatten().max().unwrap_or(0);
    bounds(at_most, surely_ns)
}

fn bounds<'a>(
    directions: impl Iterator<Item = &'a Lateness> + Clone,
    surely_ns: u64,
) -> Vec<Check> {
    let of = |fraction: f64| {
        let each = directions.clone();
        each.filter_map(move |late| late.percentile(fraction)).max()
    };
    let p99_ns = of(0.99).unwrap_or(0);
    let worst_ns = directions
        .clone()
        .map(Lateness::worst_ns)
        .max()
        .unwrap_or(0);
    let text = format!(
        "packets left up to {:.0} µs late at p99 ({:.0} µs without waiting in the device), {:.1} ms at worst",
        millis(p99_ns) * 1e3,
        millis(surely_ns) * 1e3,
        millis(worst_ns)
    );
    let (late, total) = directions.fold((0, 0), |(late, total), direction| {
        (
            late + direction.above(LATE_PACKET_NS),
            total + direction.total(),
        )
    });
    #[expect(clippy::cast_precision_loss, reason = "a fraction")]
    let fraction = late as f64 / total.max(1) as f64;
    vec![
        Check {
            code: "late",
            name: "engine on time",
            holds: p99_ns <= LATE_P99_NS,
            severity: graded(surely_ns, LATE_PACKET_NS),
            evidence: format!(
                "{text}; bounds {:.0} µs (suspect) and {:.0} ms (invalid)",
                millis(LATE_P99_NS) * 1e3,
                millis(LATE_PACKET_NS)
            ),
        },
        Check {
            code: "late-packets",
            name: "few late packets",
            holds: fraction <= LATE_PACKETS_FRACTION,
            severity: Severity::Suspect,
            evidence: format!(
                "{late} of {total} segments left more than {:.0} ms late ({:.2} %; bound {:.1} %)",
                millis(LATE_PACKET_NS),
                fraction * 100.0,
                LATE_PACKETS_FRACTION * 100.0
            ),
        },
    ]
}

/// Checks the gaps of all event loops.
#[must_use]
pub fn gaps<'a>(loops: impl IntoIterator<Item = &'a Gaps>) -> Check {
    let (mut count, mut total_ns, mut worst) = (0, 0, None);
    for gaps in loops {
        count += gaps.count;
        total_ns += gaps.total_ns;
        worst = [worst, gaps.worst()]
            .into_iter()
            .flatten()
            .max_by_key(|gap| gap.length_ns);
    }
    let text = worst.map_or_else(
        || "the engine never stood still".to_owned(),
        |worst| {
            format!(
                "the engine stood still for up to {:.1} ms at {:.3} s ({count} gaps above {:.0} ms, {:.1} ms in all)",
                millis(worst.length_ns),
                millis(worst.at_ns) / 1e3,
                millis(COUNTED_NS),
                millis(total_ns)
            )
        },
    );
    let worst_ns = worst.map_or(0, |gap| gap.length_ns);
    Check {
        code: "gaps",
        name: "engine kept running",
        holds: worst_ns <= COUNTED_NS,
        severity: graded(worst_ns, GAP_INVALID_NS),
        evidence: format!(
            "{text}; bounds {:.0} ms (suspect) and {:.0} ms (invalid)",
            millis(COUNTED_NS),
            millis(GAP_INVALID_NS)
        ),
    }
}

/// Checks the time that the machine lost in a run of `duration_s`.
#[must_use]
pub fn machine(lost: &Lost, duration_s: f64) -> Vec<Check> {
    let stolen = lost.stolen_fraction.unwrap_or(0.0);
    let step_bound_ns = STEP_NS + STEP_NS_PER_S * duration_s;
    vec![
        Check {
            code: "stolen",
            name: "processors not stolen",
            holds: stolen <= STOLEN_FRACTION,
            severity: Severity::Suspect,
            evidence: format!(
                "a hypervisor gave {:.1} % of the processors' time to others; bound {:.0} %",
                stolen * 100.0,
                STOLEN_FRACTION * 100.0
            ),
        },
        Check {
            code: "suspended",
            name: "machine not suspended",
            holds: lost.suspended_ns <= SUSPENDED_NS,
            severity: Severity::Invalid,
            evidence: format!(
                "the machine was suspended for {:.1} s",
                millis(lost.suspended_ns) / 1e3
            ),
        },
        Check {
            code: "clock-step",
            name: "time of day not set",
            holds: millis(lost.clock_step_ns) * 1e6 <= step_bound_ns,
            severity: Severity::Suspect,
            evidence: format!(
                "the time of day moved by {:.1} ms against the monotonic clock; bound {:.0} ms",
                millis(lost.clock_step_ns),
                step_bound_ns / 1e6
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::{Check, Late, Severity, gaps, lateness, machine};
    use crate::gaps::Gaps;
    use crate::lateness::Lateness;
    use wavebed_os::machine_time::Lost;

    const MS: u64 = 1_000_000;

    fn broken(checks: &[Check]) -> Vec<(&'static str, Severity)> {
        let broken = checks.iter().filter(|check| !check.holds);
        broken.map(|check| (check.name, check.severity)).collect()
    }

    fn both(late: Lateness) -> Late {
        Late {
            at_most: late.clone(),
            surely: late,
        }
    }

    fn stood_still(length_ns: u64) -> Gaps {
        let mut gaps = Gaps::default();
        gaps.look(0, 0, length_ns);
        gaps
    }

    #[test]
    fn a_gap_above_one_millisecond_makes_a_run_suspect_and_one_above_fifty_invalid() {
        let judged = |loops: &[Gaps]| broken(&[gaps(loops)]);
        assert_eq!(judged(&[Gaps::default(), stood_still(MS)]), []);
        assert_eq!(
            judged(&[stood_still(5 * MS), Gaps::default()]),
            [("engine kept running", Severity::Suspect)]
        );
        assert_eq!(
            judged(&[stood_still(60 * MS)]),
            [("engine kept running", Severity::Invalid)]
        );
    }

    #[test]
    fn one_late_packet_in_a_thousand_is_valid_and_two_are_suspect() {
        let late = |count| {
            let mut lateness = Lateness::default();
            lateness.record(20_000, 1_000 - count);
            lateness.record(6 * MS, count);
            broken(&super::lateness(&[both(lateness)]))
        };
        assert_eq!(late(1), []);
        assert_eq!(late(2), [("few late packets", Severity::Suspect)]);
    }

    #[test]
    fn a_percentile_above_a_slot_makes_a_run_suspect() {
        let mut late = Lateness::default();
        late.record(400_000, 10);
        assert_eq!(
            broken(&lateness(&[both(late), Late::default()])),
            [("engine on time", Severity::Suspect)]
        );
    }

    #[test]
    fn a_percentile_above_five_milliseconds_makes_a_run_invalid() {
        let mut late = Lateness::default();
        late.record(9 * MS, 10);
        assert_eq!(
            broken(&lateness(&[both(late)])),
            [
                ("engine on time", Severity::Invalid),
                ("few late packets", Severity::Suspect)
            ]
        );
    }

    #[test]
    fn an_upper_bound_alone_makes_a_run_suspect_only() {
        let mut late = Late::default();
        late.at_most.record(9 * MS, 10);
        late.surely.record(20_000, 10);
        assert_eq!(
            broken(&lateness(&[late])),
            [
                ("engine on time", Severity::Suspect),
                ("few late packets", Severity::Suspect)
            ]
        );
    }

    #[test]
    fn stolen_and_suspended_processors_are_reported() {
        let lost = Lost {
            stolen_fraction: Some(0.02),
            suspended_ns: 2_000 * MS,
            clock_step_ns: 2_000 * MS,
        };
        assert_eq!(
            broken(&machine(&lost, 10.0)),
            [
                ("processors not stolen", Severity::Suspect),
                ("machine not suspended", Severity::Invalid),
                ("time of day not set", Severity::Suspect)
            ]
        );
        assert_eq!(broken(&machine(&Lost::default(), 10.0)), []);
    }
}
