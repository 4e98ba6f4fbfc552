//! The demand of modelled users of a cell in bytes over time, without packets.

use std::collections::VecDeque;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::random_stream::RandomStream;
use crate::run::NEVER;
use crate::stage::{MAX_RATE_BPS, MAX_TIME_NS};

/// A terabyte.
const MAX_FILE_BYTES: u64 = 1_000_000_000_000;
/// Lower rates and shorter periods would cost time, and no scheduler would notice them.
const MIN_ON_BPS: u64 = 1000;
const MIN_ON_NS: u64 = 100_000;

/// The demand of a modelled user.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "BackgroundTraffic")]
pub enum TrafficConfig {
    /// Always more data.
    FullBuffer {},
    /// Packets at a constant rate in random periods. Periods and pauses are exponentially distributed.
    OnOff {
        /// Bits per second while on.
        #[garde(range(min = MIN_ON_BPS, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Mean time on.
        #[garde(range(min = MIN_ON_NS, max = MAX_TIME_NS))]
        on_ns: u64,
        /// Mean time off.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        off_ns: u64,
    },
    /// Poisson arrivals of files, which queue at one user (FTP model 3, TR 36.889, annex A).
    Files {
        /// Files per second.
        #[garde(range(min = 1e-6, max = 1e6))]
        per_s: f64,
        /// Bytes of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
    },
    /// Poisson arrivals of users, who leave when they have their file (FTP model 1, TR 36.814).
    UserPerFile {
        /// Users per second.
        #[garde(range(min = 1e-6, max = 1e6))]
        per_s: f64,
        /// Bytes of the file of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
    },
    /// A file, an exponentially distributed pause, the next file (FTP model 2, TR 36.814).
    FileAfterFile {
        /// Bytes of each.
        #[garde(range(min = 1, max = MAX_FILE_BYTES))]
        bytes: u64,
        /// Mean pause between the end of a file and the next one.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        pause_ns: u64,
    },
    /// A video: a segment is fetched in each period, or later if the one before is late.
    Video {
        /// Bits per second of the video.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Length of a segment.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        segment_ns: u64,
        /// How far the player runs ahead. A segment that is later stops the video.
        #[serde(default = "buffer_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        buffer_ns: u64,
    },
}

/// As `maxBufferLength` of hls.js.
const fn buffer_ns() -> u64 {
    30_000_000_000
}

/// Bytes of a packet of [`TrafficConfig::OnOff`].
const PACKET_BYTES: u64 = 1500;
const NS_PER_S: u128 = 1_000_000_000;

/// How a modelled user fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fared {
    /// Bytes that it asked for; of a full buffer, those that it got.
    pub offered_bytes: u64,
    /// Bytes that it got.
    pub served_bytes: u64,
    /// Files or segments that it has.
    pub files: u64,
    /// Sum of their times from request to end.
    pub files_ns: u64,
    /// Time for which its video stood still.
    pub stalled_ns: u64,
}

/// A file or segment that a modelled user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedFile {
    /// When it was requested.
    pub requested_ns: u64,
    /// When its last byte was delivered.
    pub ended_ns: u64,
}

/// What a modelled user asked for and got.
#[derive(Debug, Default)]
struct Tally {
    fared: Fared,
    /// The files that were not taken yet, if they are kept.
    ended: Option<Vec<EndedFile>>,
}

/// The demand of a modelled user. It depends on the random stream and on what was taken when, not on the calls between.
#[derive(Debug)]
pub struct Background {
    source: Source,
    tally: Tally,
}

#[derive(Debug)]
enum Source {
    FullBuffer,
    OnOff(OnOff),
    Files(Files),
    Users(Users),
    Fetches(Fetches),
}

impl Background {
    /// The demand of `traffic`, from time 0 on.
    #[must_use]
    pub fn new(traffic: TrafficConfig, random: RandomStream) -> Self {
        let source = match traffic {
            TrafficConfig::FullBuffer {} => Source::FullBuffer,
            TrafficConfig::OnOff {
                rate_bps,
                on_ns,
                off_ns,
            } => Source::OnOff(OnOff::new(rate_bps, on_ns, off_ns, random)),
            TrafficConfig::Files { per_s, bytes } => {
                let arrivals = Arrivals::new(per_s, random);
                Source::Files(Files {
                    bytes,
                    oldest: arrivals.clone(),
                    arrivals,
                    sent_bytes: 0,
                })
            }
            TrafficConfig::UserPerFile { per_s, bytes } => Source::Users(Users {
                bytes,
                arrivals: Arrivals::new(per_s, random),
                present: VecDeque::new(),
            }),
            TrafficConfig::FileAfterFile { bytes, pause_ns } => {
                let pauses = Exponential::new(pause_ns, random);
                Source::Fetches(Fetches::new(
                    pauses.ns(0),
                    Fetch::FileAfterFile {
                        bytes,
                        pauses,
                        files: 0,
                    },
                ))
            }
            TrafficConfig::Video {
                rate_bps,
                segment_ns,
                buffer_ns,
            } => {
                let first_ns = scaled(random.unit(0), segment_ns);
                Source::Fetches(Fetches::new(
                    first_ns,
                    Fetch::Video {
                        rate_bps,
                        segment_ns,
                        buffer_ns,
                        due_ns: first_ns,
                        rest: 0,
                    },
                ))
            }
        };
        Self {
            source,
            tally: Tally::default(),
        }
    }

    /// Keeps the files that end from now on.
    pub fn keep_files(&mut self) {
        self.tally.ended.get_or_insert_default();
    }

    /// Takes the files that ended and were kept.
    pub fn take_files(&mut self) -> Vec<EndedFile> {
        let ended = self.tally.ended.as_mut();
        ended.map(std::mem::take).unwrap_or_default()
    }

    /// When its demand grows next, if nothing is taken before; [`NEVER`] if not.
    #[must_use]
    pub const fn next_arrival_ns(&self) -> u64 {
        match &self.source {
            Source::FullBuffer => NEVER,
            Source::OnOff(on_off) => on_off.next_ns,
            Source::Files(files) => files.arrivals.next_ns,
            Source::Users(users) => users.arrivals.next_ns,
            Source::Fetches(fetches) => fetches.next_ns(),
        }
    }

    /// Adds what arrives up to and including `now_ns`.
    pub fn advance(&mut self, now_ns: u64) {
        let bytes = match &mut self.source {
            Source::FullBuffer => 0,
            Source::OnOff(on_off) => on_off.advance(now_ns),
            Source::Files(files) => files.bytes.saturating_mul(files.arrivals.advance(now_ns)),
            Source::Users(users) => users.advance(now_ns),
            Source::Fetches(fetches) => fetches.advance(now_ns),
        };
        let offered_bytes = &mut self.tally.fared.offered_bytes;
        *offered_bytes = offered_bytes.saturating_add(bytes);
    }

    /// Bytes that wait; `u64::MAX` of a full buffer.
    #[must_use]
    pub const fn backlog_bytes(&self) -> u64 {
        match &self.source {
            Source::FullBuffer => u64::MAX,
            _ => self.tally.fared.offered_bytes - self.tally.fared.served_bytes,
        }
    }

    /// Users with demand: 0 or 1, or with [`TrafficConfig::UserPerFile`] their number. A scheduler serves them as that
    /// many.
    #[must_use]
    pub fn users(&self) -> usize {
        match &self.source {
            Source::Users(users) => users.present.len(),
            _ => usize::from(self.backlog_bytes() > 0),
        }
    }

    /// Up to `bytes` are delivered at `at_ns`. Returns how many; the rest was not asked for by then.
    pub fn take(&mut self, bytes: u64, at_ns: u64) -> u64 {
        let bytes = bytes.min(self.backlog_bytes());
        let tally = &mut self.tally;
        tally.fared.served_bytes += bytes;
        match &mut self.source {
            Source::FullBuffer => tally.fared.offered_bytes += bytes,
            Source::OnOff(_) => {}
            Source::Files(files) => files.take(bytes, at_ns, tally),
            Source::Users(users) => users.take(bytes, at_ns, tally),
            Source::Fetches(fetches) => fetches.take(bytes, at_ns, tally),
        }
        bytes
    }

    /// How it has fared up to now.
    #[must_use]
    pub const fn fared(&self) -> Fared {
        self.tally.fared
    }
}

impl Tally {
    fn finish(&mut self, requested_ns: u64, ended_ns: u64) {
        self.fared.files += 1;
        let time_ns = ended_ns.saturating_sub(requested_ns);
        self.fared.files_ns = self.fared.files_ns.saturating_add(time_ns);
        if let Some(ended) = &mut self.ended {
            ended.push(EndedFile {
                requested_ns,
                ended_ns,
            });
        }
    }
}

/// `factor` times `time_ns`, in whole nanoseconds.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; `as` saturates"
)]
fn scaled(factor: f64, time_ns: u64) -> u64 {
    (factor * time_ns as f64).round() as u64
}

/// Exponentially distributed times, by index.
#[derive(Clone, Copy, Debug)]
struct Exponential {
    mean_ns: u64,
    random: RandomStream,
}

impl Exponential {
    const fn new(mean_ns: u64, random: RandomStream) -> Self {
        Self { mean_ns, random }
    }

    fn ns(self, index: u64) -> u64 {
        scaled(-(-self.random.unit(index)).ln_1p(), self.mean_ns)
    }
}

/// A Poisson process.
#[derive(Clone, Debug)]
struct Arrivals {
    gaps: Exponential,
    /// Arrivals before the next one.
    count: u64,
    next_ns: u64,
}

impl Arrivals {
    fn new(per_s: f64, random: RandomStream) -> Self {
        let gaps = Exponential::new(scaled(1.0 / per_s, 1_000_000_000), random);
        Self {
            gaps,
            count: 0,
            next_ns: gaps.ns(0),
        }
    }

    /// Goes to the next one.
    fn step(&mut self) {
        self.count += 1;
        self.next_ns = self.next_ns.saturating_add(self.gaps.ns(self.count));
    }

    /// Goes behind `now_ns`. Returns how many arrived.
    fn advance(&mut self, now_ns: u64) -> u64 {
        let before = self.count;
        while self.next_ns <= now_ns && self.next_ns < NEVER {
            self.step();
        }
        self.count - before
    }
}

/// Files of one user, one after another. Their times are drawn again when they end, so that none are kept.
#[derive(Debug)]
struct Files {
    bytes: u64,
    arrivals: Arrivals,
    /// The oldest file that has not ended.
    oldest: Arrivals,
    /// Bytes of it that were sent.
    sent_bytes: u64,
}

impl Files {
    fn take(&mut self, bytes: u64, at_ns: u64, tally: &mut Tally) {
        self.sent_bytes += bytes;
        while self.sent_bytes >= self.bytes {
            self.sent_bytes -= self.bytes;
            tally.finish(self.oldest.next_ns, at_ns);
            self.oldest.step();
        }
    }
}

/// Users with a file each, who share what they get in equal parts.
#[derive(Debug)]
struct Users {
    bytes: u64,
    arrivals: Arrivals,
    /// What is left of the file of each, and when it arrived; the oldest, which has the least left, first.
    present: VecDeque<(u64, u64)>,
}

impl Users {
    fn advance(&mut self, now_ns: u64) -> u64 {
        let before = self.arrivals.count;
        while self.arrivals.next_ns <= now_ns && self.arrivals.next_ns < NEVER {
            self.present.push_back((self.bytes, self.arrivals.next_ns));
            self.arrivals.step();
        }
        self.bytes.saturating_mul(self.arrivals.count - before)
    }

    fn take(&mut self, mut bytes: u64, at_ns: u64, tally: &mut Tally) {
        while let Some(&(least, _)) = self.present.front().filter(|_| bytes > 0) {
            let users = self.present.len() as u64;
            let each = (bytes / users).min(least);
            // One byte more for the oldest ones, unless that ends a file.
            let more = if each < least { bytes % users } else { 0 };
            for ((left, _), place) in self.present.iter_mut().zip(0..) {
                *left -= each + u64::from(place < more);
            }
            bytes -= each * users + more;
            while let Some(&(0, arrived_ns)) = self.present.front() {
                self.present.pop_front();
                tally.finish(arrived_ns, at_ns);
            }
        }
    }
}

/// Files: each is requested after the end of the one before.
#[derive(Debug)]
struct Fetches {
    kind: Fetch,
    /// When the file was requested, or the next one will be.
    requested_ns: u64,
    /// Bytes of it that are left; 0: it was not requested yet.
    left: u64,
}

#[derive(Debug)]
enum Fetch {
    FileAfterFile {
        bytes: u64,
        pauses: Exponential,
        files: u64,
    },
    Video {
        rate_bps: u64,
        segment_ns: u64,
        buffer_ns: u64,
        /// When a player with a full buffer has room for this segment.
        due_ns: u64,
        /// Of a byte that the segments up to now have not filled: in bits for a second, divided by 10⁹.
        rest: u128,
    },
}

impl Fetches {
    const fn new(first_ns: u64, kind: Fetch) -> Self {
        Self {
            kind,
            requested_ns: first_ns,
            left: 0,
        }
    }

    const fn next_ns(&self) -> u64 {
        if self.left == 0 {
            self.requested_ns
        } else {
            NEVER
        }
    }

    fn advance(&mut self, now_ns: u64) -> u64 {
        if self.next_ns() > now_ns {
            return 0;
        }
        self.left = match &mut self.kind {
            Fetch::FileAfterFile { bytes, .. } => *bytes,
            Fetch::Video {
                rate_bps,
                segment_ns,
                rest,
                ..
            } => {
                let work = u128::from(*rate_bps) * u128::from(*segment_ns) + *rest;
                *rest = work % (8 * NS_PER_S);
                u64::try_from(work / (8 * NS_PER_S)).unwrap_or(NEVER).max(1)
            }
        };
        self.left
    }

    fn take(&mut self, bytes: u64, at_ns: u64, tally: &mut Tally) {
        self.left -= bytes;
        if self.left > 0 || bytes == 0 {
            return;
        }
        tally.finish(self.requested_ns, at_ns);
        self.requested_ns = match &mut self.kind {
            Fetch::FileAfterFile { pauses, files, .. } => {
                *files += 1;
                at_ns.saturating_add(pauses.ns(*files))
            }
            Fetch::Video {
                segment_ns,
                buffer_ns,
                due_ns,
                ..
            } => {
                // It is played when the buffer before it is empty, and all that follows is as late as it is.
                let late_ns = at_ns.saturating_sub(due_ns.saturating_add(*buffer_ns));
                let stalled_ns = &mut tally.fared.stalled_ns;
                *stalled_ns = stalled_ns.saturating_add(late_ns);
                *due_ns = due_ns.saturating_add(late_ns).saturating_add(*segment_ns);
                at_ns.max(*due_ns)
            }
        };
    }
}

/// Packets at a constant rate in some periods.
#[derive(Debug)]
struct OnOff {
    rate_bps: u64,
    on: Exponential,
    off: Exponential,
    /// Periods before this one.
    periods: u64,
    start_ns: u64,
    length_ns: u64,
    /// The length of all periods before.
    before_ns: u64,
    packets: u64,
    next_ns: u64,
}

impl OnOff {
    fn new(rate_bps: u64, on_ns: u64, off_ns: u64, random: RandomStream) -> Self {
        let on = Exponential::new(on_ns, random.process(0));
        let off = Exponential::new(off_ns, random.process(1));
        // At time 0 it is on with the probability of any other time. What is left of a period has no memory.
        let on_first = scaled(random.unit(0), on_ns.saturating_add(off_ns)) < on_ns;
        let mut on_off = Self {
            rate_bps,
            on,
            off,
            periods: 0,
            start_ns: if on_first { 0 } else { off.ns(0) },
            length_ns: on.ns(0),
            before_ns: 0,
            packets: 0,
            next_ns: 0,
        };
        on_off.find_next();
        on_off
    }

    /// Bits for a second, divided by 10⁹: what a packet takes of the product of rate and nanoseconds.
    const PACKET: u128 = PACKET_BYTES as u128 * 8 * NS_PER_S;

    /// Goes to the period of the next packet.
    fn find_next(&mut self) {
        let due = u128::from(self.packets + 1) * Self::PACKET;
        let due_ns = u64::try_from(due.div_ceil(u128::from(self.rate_bps))).unwrap_or(NEVER);
        while due_ns - self.before_ns > self.length_ns && self.start_ns < NEVER {
            self.before_ns += self.length_ns;
            self.periods += 1;
            let off_ns = self.off.ns(self.periods);
            self.start_ns = (self.start_ns.saturating_add(self.length_ns)).saturating_add(off_ns);
            self.length_ns = self.on.ns(self.periods);
        }
        self.next_ns = self.start_ns.saturating_add(due_ns - self.before_ns);
    }

    /// The bytes that arrive up to `now_ns`.
    fn advance(&mut self, now_ns: u64) -> u64 {
        let before = self.packets;
        while self.next_ns <= now_ns && self.next_ns < NEVER {
            let on_ns = self.before_ns + (now_ns - self.start_ns).min(self.length_ns);
            let packets = u128::from(on_ns) * u128::from(self.rate_bps) / Self::PACKET;
            self.packets = u64::try_from(packets).unwrap_or(NEVER);
            self.find_next();
        }
        (self.packets - before).saturating_mul(PACKET_BYTES)
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
mod tests {
    use super::{Background, Fared, TrafficConfig};
    use crate::random_stream::RandomStream;
    use crate::run::NEVER;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    const FILES: TrafficConfig = TrafficConfig::Files {
        per_s: 20.0,
        bytes: 500_000,
    };
    const USERS: TrafficConfig = TrafficConfig::UserPerFile {
        per_s: 20.0,
        bytes: 500_000,
    };
    const READER: TrafficConfig = TrafficConfig::FileAfterFile {
        bytes: 500_000,
        pause_ns: 50_000_000,
    };
    const VIDEO: TrafficConfig = TrafficConfig::Video {
        rate_bps: 8_000_001,
        segment_ns: 100_000_000,
        buffer_ns: 300_000_000,
    };
    const ON_OFF: TrafficConfig = TrafficConfig::OnOff {
        rate_bps: 50_000_000,
        on_ns: 20_000_000,
        off_ns: 60_000_000,
    };

    fn of(traffic: TrafficConfig, seed: u64) -> Background {
        Background::new(traffic, RandomStream::new(seed, 5))
    }

    /// Every millisecond, up to `slot_bytes` are delivered at its end.
    fn serve(user: &mut Background, slot_bytes: u64, slots: std::ops::Range<u64>) {
        for slot in slots {
            user.advance(slot * 1_000_000);
            user.take(slot_bytes, (slot + 1) * 1_000_000);
        }
    }

    /// The times at which demand grows up to `end_ns`; each demand is served at once.
    fn arrivals(traffic: TrafficConfig, seed: u64, end_ns: u64) -> Vec<u64> {
        let mut user = of(traffic, seed);
        let mut times = Vec::new();
        while user.next_arrival_ns() <= end_ns {
            let at_ns = user.next_arrival_ns();
            times.push(at_ns);
            user.advance(at_ns);
            user.take(NEVER, at_ns);
        }
        times
    }

    fn gaps_s(times: &[u64]) -> Vec<f64> {
        let mut before = 0;
        let gap = |&at_ns: &u64| (at_ns - std::mem::replace(&mut before, at_ns)) as f64 / 1e9;
        times.iter().map(gap).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// Kolmogorov and Smirnov: 1.95 is exceeded once in 1000 times.
    fn assert_exponential(gaps: &mut [f64], mean: f64) {
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let below = |gap: f64| -(-gap / mean).exp_m1();
        let distance = |(place, &gap): (usize, &f64)| {
            let place = place as f64;
            (below(gap) - place / count)
                .abs()
                .max(((place + 1.0) / count - below(gap)).abs())
        };
        let worst = gaps.iter().enumerate().map(distance).fold(0.0, f64::max);
        assert!(worst * count.sqrt() < 1.95, "{worst} of {count}");
    }

    #[test]
    fn files_and_users_arrive_as_a_poisson_process() {
        for traffic in [FILES, USERS] {
            let times = arrivals(traffic, 3, 1000 * SECOND);
            // A Poisson number of mean 20 000: sd 141; four of them.
            assert!(times.len().abs_diff(20_000) < 566, "{}", times.len());
            assert_exponential(&mut gaps_s(&times), 0.05);
            // Counts of a second: variance as mean. Standard error of the variance of 1000 counts: 0.9; four of them.
            let mut counts = vec![0.0; 1000];
            for at_ns in times {
                counts[usize::try_from(at_ns / SECOND).unwrap()] += 1.0;
            }
            let centre = mean(&counts);
            let squares: Vec<f64> = counts.iter().map(|n| (n - centre).powi(2)).collect();
            assert!((mean(&squares) - 20.0).abs() < 3.6, "{}", mean(&squares));
        }
    }

    #[test]
    fn pauses_between_files_are_exponential() {
        let times = arrivals(READER, 4, 1000 * SECOND);
        // 1000 s / 50 ms; a Poisson number again.
        assert!(times.len().abs_diff(20_000) < 566, "{}", times.len());
        assert_exponential(&mut gaps_s(&times), 0.05);
    }

    #[test]
    fn a_source_is_on_for_its_part_of_the_time_at_its_rate() {
        let mut user = of(ON_OFF, 5);
        user.advance(4000 * SECOND);
        // 20 of 80 ms on. Alternating exponential periods: the variance of the time on in t is
        // 2 t on² off² / (on + off)³, so here 4000 s have sd 4.7 s; four of them.
        let on_s = user.fared().offered_bytes as f64 * 8.0 / 50e6;
        assert!((on_s - 1000.0).abs() < 19.0, "{on_s}");
        // Within a period, packets are 240 µs apart; between, there is a pause.
        let times = arrivals(ON_OFF, 5, 100 * SECOND);
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|&gap| gap >= 240_000));
        let mut pauses: Vec<f64> = (gaps.iter().filter(|&&gap| gap > 240_000))
            .map(|gap| (gap - 240_000) as f64 / 1e9)
            .collect();
        assert!(pauses.len() > 1000);
        assert_exponential(&mut pauses, 0.06);
    }

    #[test]
    fn a_source_begins_as_at_any_other_time() {
        let starts_on = |seed: &u64| of(ON_OFF, *seed).next_arrival_ns() == 240_000;
        let count = (0..4000).filter(starts_on).count();
        // A quarter are on, and e^(-0.24 / 20) of them for a packet's time: binomial, sd 27; four of them.
        assert!(count.abs_diff(988) < 110, "{count}");
    }

    #[test]
    fn a_video_asks_for_a_segment_each_period() {
        let times = arrivals(VIDEO, 6, 100 * SECOND);
        assert!(times[0] < 100_000_000);
        assert!(
            times
                .windows(2)
                .all(|pair| pair[1] - pair[0] == 100_000_000)
        );
        let mut user = of(VIDEO, 6);
        for at_ns in &times {
            user.advance(*at_ns);
            user.take(NEVER, *at_ns);
        }
        // 100 012.5 bytes each, exactly on the average.
        let exact = 8_000_001u128 * 100_000_000 * times.len() as u128 / 8_000_000_000;
        assert_eq!(u128::from(user.fared().offered_bytes), exact);
        assert_eq!(user.fared().stalled_ns, 0);
    }

    #[test]
    fn a_late_video_catches_up_and_stops_when_its_buffer_is_empty() {
        let mut user = of(VIDEO, 6);
        let first_ns = user.next_arrival_ns();
        user.advance(first_ns);
        // The first segment has 450 ms: 150 more than the buffer. The others are fetched at once.
        user.take(NEVER, first_ns + 450_000_000);
        assert_eq!(user.fared().stalled_ns, 150_000_000);
        let mut times = Vec::new();
        for _ in 0..6 {
            let at_ns = user.next_arrival_ns();
            times.push((at_ns - first_ns) / 1_000_000);
            user.advance(at_ns);
            user.take(NEVER, at_ns);
        }
        // Due at 250, 350, 450, 550 … ms after the first: later by what it stood still.
        assert_eq!(times, [450, 450, 450, 550, 650, 750]);
        assert_eq!(user.fared().stalled_ns, 150_000_000);
    }

    #[test]
    fn a_full_buffer_never_ends() {
        let mut user = of(TrafficConfig::FullBuffer {}, 1);
        assert_eq!((user.backlog_bytes(), user.users()), (u64::MAX, 1));
        assert_eq!(user.next_arrival_ns(), NEVER);
        assert_eq!(user.take(1 << 40, 7), 1 << 40);
        assert_eq!(user.backlog_bytes(), u64::MAX);
        assert_eq!(user.fared().served_bytes, 1 << 40);
    }

    /// M/D/1, by Pollaczek and Khinchin: a file waits ρ / (2 (1 - ρ)) of its time of service on the average.
    #[test]
    fn files_of_one_user_wait_for_each_other() {
        let mut user = of(FILES, 8);
        // 20 files a second of 500 kB at 16 000 bytes per ms: ρ = 0.625. A slot is at most 1 ms too long.
        serve(&mut user, 16_000, 0..2_000_000);
        let Fared {
            files, files_ns, ..
        } = user.fared();
        let found_ms = files_ns as f64 / files as f64 / 1e6;
        let service_ms = 500.0 / 16.0;
        let expected_ms = service_ms * (1.0 + 0.625 / (2.0 * 0.375));
        // 40 000 files, whose times correlate over a busy period: the standard error is about 0.5 ms.
        assert!(
            (found_ms - expected_ms).abs() < 2.0,
            "{found_ms}, not {expected_ms}"
        );
    }

    /// M/G/1 with processor sharing: a file takes 1 / (1 - ρ) of its time of service on the average.
    #[test]
    fn users_with_a_file_each_share() {
        let mut user = of(USERS, 8);
        serve(&mut user, 16_000, 0..2_000_000);
        let Fared {
            files, files_ns, ..
        } = user.fared();
        let found_ms = files_ns as f64 / files as f64 / 1e6;
        let expected_ms = 500.0 / 16.0 / 0.375;
        assert!(
            (found_ms - expected_ms).abs() < 4.0,
            "{found_ms}, not {expected_ms}"
        );
    }

    #[test]
    fn users_leave_when_they_have_their_file() {
        let mut user = of(USERS, 9);
        while user.users() < 3 {
            user.advance(user.next_arrival_ns());
        }
        let at_ns = user.next_arrival_ns() - 1;
        assert_eq!(user.take(1_499_998, at_ns), 1_499_998);
        assert_eq!((user.users(), user.fared().files), (2, 1));
        assert_eq!(user.take(NEVER, at_ns), 2);
        assert_eq!((user.users(), user.fared().files), (0, 3));
        assert_eq!(user.take(NEVER, at_ns), 0);
    }

    fn traffic() -> impl Strategy<Value = TrafficConfig> {
        prop_oneof![
            Just(TrafficConfig::FullBuffer {}),
            (1e-3..1e3, 1..2_000_000u64)
                .prop_map(|(per_s, bytes)| TrafficConfig::Files { per_s, bytes }),
            (1e-3..1e3, 1..2_000_000u64)
                .prop_map(|(per_s, bytes)| TrafficConfig::UserPerFile { per_s, bytes }),
            (1..2_000_000u64, 1..200_000_000u64)
                .prop_map(|(bytes, pause_ns)| TrafficConfig::FileAfterFile { bytes, pause_ns }),
            (
                1..100_000_000u64,
                1_000_000..200_000_000u64,
                1..1_000_000_000u64
            )
                .prop_map(|(rate_bps, segment_ns, buffer_ns)| TrafficConfig::Video {
                    rate_bps,
                    segment_ns,
                    buffer_ns
                }),
            (
                1000..1_000_000_000_000u64,
                100_000..200_000_000u64,
                1..200_000_000u64
            )
                .prop_map(|(rate_bps, on_ns, off_ns)| TrafficConfig::OnOff {
                    rate_bps,
                    on_ns,
                    off_ns
                }),
        ]
    }

    proptest! {
        #[test]
        fn demand_does_not_depend_on_when_it_is_asked_for(
            traffic in traffic(),
            seed in any::<u64>(),
            services in prop::collection::vec((1..20_000_000u64, 0..1_000_000u64), 1..40),
            polls in prop::collection::vec(1..7u64, 40),
        ) {
            let (mut one, mut other) = (of(traffic, seed), of(traffic, seed));
            let mut now_ns = 0;
            for (&(step_ns, bytes), parts) in services.iter().zip(polls) {
                for part in 1..parts {
                    one.advance(now_ns + step_ns * part / parts);
                }
                now_ns += step_ns;
                one.advance(now_ns);
                other.advance(now_ns);
                prop_assert!(one.next_arrival_ns() > now_ns);
                prop_assert_eq!(one.take(bytes, now_ns), other.take(bytes, now_ns));
                prop_assert_eq!(one.fared(), other.fared());
                prop_assert_eq!(one.next_arrival_ns(), other.next_arrival_ns());
                prop_assert_eq!(one.users(), other.users());
            }
        }

        #[test]
        fn what_arrives_is_served_or_waits(
            traffic in traffic(),
            seed in any::<u64>(),
            services in prop::collection::vec((0..20_000_000u64, 0..3_000_000u64), 1..60),
        ) {
            let mut user = of(traffic, seed);
            let (mut now_ns, mut taken) = (0, 0);
            for (step_ns, bytes) in services {
                now_ns += step_ns;
                user.advance(now_ns);
                let before = user.backlog_bytes();
                let got = user.take(bytes, now_ns);
                prop_assert_eq!(got, bytes.min(before));
                taken += got;
                let fared = user.fared();
                prop_assert_eq!(fared.served_bytes, taken);
                if traffic != (TrafficConfig::FullBuffer {}) {
                    prop_assert_eq!(fared.offered_bytes, taken + user.backlog_bytes());
                }
                prop_assert_eq!(user.users() > 0, user.backlog_bytes() > 0);
                if let TrafficConfig::Files { bytes, .. } | TrafficConfig::FileAfterFile { bytes, .. } = traffic {
                    prop_assert_eq!(fared.files, taken / bytes);
                }
            }
        }
    }
}
