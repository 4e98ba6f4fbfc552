//! Checks whether the engine was on time: each condition with its severity and its evidence.

use serde::Serialize;
use wavebed_os::clock::Lost;

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

/// Outages that begin at the time of a command: nothing enters the links, and waits before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// How long each lasts, nanoseconds.
    pub down_ns: u64,
    /// From one to the next, nanoseconds.
    pub period_ns: u64,
    /// How many there are.
    pub times: u32,
}

impl Interruption {
    /// One outage of `down_ns`.
    #[must_use]
    pub const fn once(down_ns: u64) -> Self {
        Self {
            down_ns,
            period_ns: down_ns,
            times: 1,
        }
    }

    /// The outages if the command comes at `now_ns`.
    #[must_use]
    pub const fn from(self, now_ns: u64) -> Outages {
        Outages::repeated(now_ns, self.down_ns, self.period_ns, self.times)
    }
}

/// Outages in the order of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// The present one or the next.
    from_ns: u64,
    until_ns: u64,
    period_ns: u64,
    /// Those after it.
    left: u32,
}

impl Outages {
    /// One that lasts until `until_ns`.
    #[must_use]
    pub const fn until(until_ns: u64) -> Self {
        Self {
            from_ns: 0,
            until_ns,
            period_ns: 0,
            left: 0,
        }
    }

    /// As many outages of `down_ns`, each `period_ns` after the one before; the first begins at `from_ns`.
    #[must_use]
    pub const fn repeated(from_ns: u64, down_ns: u64, period_ns: u64, times: u32) -> Self {
        Self {
            from_ns,
            until_ns: from_ns.saturating_add(down_ns),
            period_ns,
            left: times.saturating_sub(1),
        }
    }

    /// Whether there is an outage at `at_ns`; those that ended before must have been passed.
    #[must_use]
    pub const fn holds(&self, at_ns: u64) -> bool {
        self.from_ns <= at_ns && at_ns < self.until_ns
    }

    /// The end of the outage that is present.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.until_ns
    }

    /// Passes on to the next outage if this one ended at or before `now_ns`, and returns when.
    pub const fn pass(&mut self, now_ns: u64) -> Option<u64> {
        if self.until_ns > now_ns || self.until_ns == 0 {
            return None;
        }
        let ended_ns = self.until_ns;
        *self = if self.left == 0 {
            Self::until(0)
        } else {
            let from_ns = self.from_ns.saturating_add(self.period_ns);
            let down_ns = self.until_ns - self.from_ns;
            Self::repeated(from_ns, down_ns, self.period_ns, self.left)
        };
        Some(ended_ns)
    }
}

// Gaps: periods in which an event loop polled no device although it had not asked to sleep that long. The loop was
// busy, or was prevented from running: another program, a stopped process, a stolen or suspended processor.

/// A loop sleeps at most this long, so that a gap of `n` ms is seen as one of at least `n - 1` ms whenever it begins.
pub const LONGEST_SLEEP_NS: u64 = 1_000_000;

/// Packets due within this time after a turn wait for the next turn: at 20 Gbit/s a segment is due every 0.6 µs, and a
/// turn for each would cost more than the copying. A packet due after a pause is not delayed.
pub const TURN_NS: u64 = 20_000;

/// Gaps up to this length are not counted: a turn of a busy loop takes some 100 µs.
pub const COUNTED_NS: u64 = 1_000_000;

/// Number of gaps kept with their time.
const KEPT: usize = 16;

/// One gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// When it began, nanoseconds since time zero.
    pub at_ns: u64,
    /// Its length, nanoseconds.
    pub length_ns: u64,
}

/// The gaps of a loop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gaps {
    /// Gaps above [`COUNTED_NS`].
    pub count: u64,
    /// Their total length, nanoseconds.
    pub total_ns: u64,
    /// The longest of them, in the order of time.
    pub longest: Vec<Gap>,
    #[serde(skip)]
    looked_ns: u64,
}

impl Gaps {
    /// No gaps of a loop that begins at `now_ns`.
    #[must_use]
    pub fn since(now_ns: u64) -> Self {
        Self {
            looked_ns: now_ns,
            ..Self::default()
        }
    }

    /// The loop, which went to sleep at `slept_ns` and asked to be woken at `until_ns`, polls its devices again at
    /// `now_ns`. The time between its last poll and `slept_ns` is part of the gap.
    pub fn look(&mut self, slept_ns: u64, until_ns: u64, now_ns: u64) {
        let turn_ns = slept_ns.saturating_sub(self.looked_ns);
        let overslept_ns = now_ns.saturating_sub(until_ns.max(slept_ns));
        let length_ns = turn_ns + overslept_ns;
        if length_ns > COUNTED_NS {
            self.count += 1;
            self.total_ns += length_ns;
            self.keep(Gap {
                at_ns: now_ns - length_ns,
                length_ns,
            });
        }
        self.looked_ns = now_ns;
    }

    fn keep(&mut self, gap: Gap) {
        self.longest.push(gap);
        if self.longest.len() > KEPT {
            let shortest =
                (0..self.longest.len()).min_by_key(|&index| self.longest[index].length_ns);
            self.longest.remove(shortest.unwrap_or_default());
        }
    }

    /// The longest gap, if any was counted.
    #[must_use]
    pub fn worst(&self) -> Option<Gap> {
        self.longest.iter().copied().max_by_key(|gap| gap.length_ns)
    }
}

// Lateness: actual minus due time of leaving, and the wait in the input device, in a histogram with a relative
// resolution of 1/32.

/// Sub-buckets per power of two.
const FINE: u32 = 32;

/// A log-linear histogram of nanoseconds, weighted by wire segments.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: Vec<u64>,
    total: u64,
    worst_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            counts: vec![0; (64 * FINE) as usize],
            total: 0,
            worst_ns: 0,
        }
    }
}

impl Lateness {
    /// Counts `weight` segments that left `late_ns` after they were due.
    pub fn record(&mut self, late_ns: u64, weight: u64) {
        self.counts[Self::bucket(late_ns)] += weight;
        self.total += weight;
        self.worst_ns = self.worst_ns.max(late_ns);
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "bucket numbers are below 2048"
    )]
    fn bucket(value: u64) -> usize {
        if value < u64::from(FINE) {
            return value as usize;
        }
        let power = value.ilog2();
        let shift = power - FINE.trailing_zeros();
        ((shift + 1) * FINE) as usize + ((value >> shift) as usize - FINE as usize)
    }

    fn upper_edge(bucket: usize) -> u64 {
        let fine = FINE as usize;
        if bucket < fine {
            return bucket as u64;
        }
        let shift = bucket / fine - 1;
        (((fine + bucket % fine) as u64 + 1) << shift) - 1
    }

    /// The lateness that this fraction of the segments did not exceed, nanoseconds (upper edge of the bucket, at most
    /// 1/32 too high); `None` when nothing was counted.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "a rank"
    )]
    pub fn percentile(&self, fraction: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((self.total as f64 * fraction).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Self::upper_edge(bucket).min(self.worst_ns));
            }
        }
        Some(self.worst_ns)
    }

    /// Segments in the buckets above the bucket of `late_ns`: later than it, to within 1/32.
    #[must_use]
    pub fn above(&self, late_ns: u64) -> u64 {
        self.counts[Self::bucket(late_ns) + 1..].iter().sum()
    }

    /// The worst, nanoseconds.
    #[must_use]
    pub const fn worst_ns(&self) -> u64 {
        self.worst_ns
    }

    /// Segments counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use wavebed_os::clock::Lost;

    use super::*;

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

    #[test]
    fn a_flap_is_down_so_often_and_so_long() {
        let mut outages = Outages::repeated(100, 30, 50, 3);
        let mut down = Vec::new();
        let mut ended = Vec::new();
        for at_ns in 90..400 {
            ended.extend(outages.pass(at_ns));
            if outages.holds(at_ns) {
                down.push(at_ns);
            }
        }
        let wanted = (100..130).chain(150..180).chain(200..230);
        assert_eq!(down, wanted.collect::<Vec<_>>());
        assert_eq!(ended, [130, 180, 230]);
    }

    #[test]
    fn outages_that_were_missed_end_at_their_times() {
        let mut outages = Outages::repeated(100, 30, 50, 3);
        let ends: Vec<u64> = std::iter::from_fn(|| outages.pass(1000)).collect();
        assert_eq!(ends, [130, 180, 230]);
        assert!(!outages.holds(1000));
        assert_eq!(Outages::default().pass(5), None);
    }

    #[test]
    fn percentiles_are_within_a_thirty_second() {
        let mut late = Lateness::default();
        for value in 0..100_000u64 {
            late.record(value * 10, 1);
        }
        for (fraction, exact) in [(0.5, 499_990u64), (0.99, 989_990), (0.999, 998_990)] {
            let found = late.percentile(fraction).unwrap();
            assert!(
                found >= exact && found <= exact + exact / 32 + 1,
                "{fraction}: {found} against {exact}"
            );
        }
        assert_eq!(late.worst_ns(), 999_990);
    }

    #[test]
    fn every_value_falls_below_its_upper_edge() {
        for power in 0..63 {
            for value in [1u64 << power, (1u64 << power) + 1, (2u64 << power) - 1] {
                let bucket = Lateness::bucket(value);
                assert!(Lateness::upper_edge(bucket) >= value);
                assert!(bucket == 0 || Lateness::upper_edge(bucket - 1) < value);
            }
        }
    }

    #[test]
    fn later_segments_are_counted() {
        let mut late = Lateness::default();
        late.record(4_900_000, 5);
        late.record(5_400_000, 7);
        late.record(u64::MAX, 1);
        assert_eq!((late.above(5_000_000), late.above(u64::MAX)), (8, 0));
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        assert_eq!(Lateness::default().percentile(0.5), None);
    }
}

#[cfg(test)]
mod tests_of_gaps {
    use super::{Gap, Gaps, KEPT};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_loop_that_wakes_on_time_has_no_gap() {
        let mut gaps = Gaps::default();
        for tick in 0..1_000 {
            // Awake for 0.2 ms, asleep for 0.8 ms, woken 0.05 ms late.
            gaps.look(
                tick * MS + 200_000,
                (tick + 1) * MS - 50_000,
                (tick + 1) * MS,
            );
        }
        assert_eq!((gaps.count, gaps.worst()), (0, None));
    }

    #[test]
    fn a_process_stopped_during_its_sleep_has_a_gap() {
        let mut gaps = Gaps::default();
        gaps.look(100, MS, 6 * MS);
        assert_eq!(
            gaps.worst(),
            Some(Gap {
                at_ns: MS - 100,
                length_ns: 5 * MS + 100
            })
        );
    }

    #[test]
    fn a_long_turn_is_a_gap() {
        let mut gaps = Gaps::default();
        gaps.look(2 * MS, 2 * MS, 2 * MS);
        assert_eq!((gaps.count, gaps.total_ns), (1, 2 * MS));
    }

    #[test]
    fn a_packet_that_ends_the_sleep_early_makes_no_gap() {
        let mut gaps = Gaps::default();
        gaps.look(0, 900_000, 10_000);
        assert_eq!(gaps.count, 0);
    }

    #[test]
    fn the_longest_are_kept_in_the_order_of_time() {
        let mut gaps = Gaps::default();
        let mut now = 0;
        for length in (2..40).chain((2..40).rev()) {
            gaps.look(now, now, now + length * MS);
            now += length * MS;
        }
        assert_eq!((gaps.count, gaps.longest.len()), (76, KEPT));
        assert!(gaps.longest.iter().all(|gap| gap.length_ns >= 32 * MS));
        assert!(gaps.longest.is_sorted_by_key(|gap| gap.at_ns));
    }
}
