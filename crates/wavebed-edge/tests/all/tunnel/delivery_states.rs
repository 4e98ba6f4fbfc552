//! Each transition of the delivery law's state machine, report by report; the table is in `law/delivery.rs`.

use wavebed_edge::tunnel::law::DeliveryState::{Blocked, Draining, Following, Probing};
use wavebed_edge::tunnel::law::{DeliveryLaw, DeliveryState, Law, Observation, RateLimits};

const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;
const START_BPS: u64 = 20 * MBIT;
const RTT_MS: u64 = 20;
/// Clocks of two ends differ: every delay has this offset.
const BASE_NS: u64 = 500 * MS;

const fn bytes(rate_bps: u64, time_ms: u64) -> u64 {
    rate_bps / 8 * time_ms / 1000
}

/// What the next report says.
#[derive(Clone, Copy)]
struct Said {
    delivered_bps: u64,
    queue_ms: u64,
    is_loaded: bool,
    in_flight_bytes: u64,
    lost_packets: u64,
}

/// A law, and a link that reports to it each 10 ms.
struct Link {
    law: DeliveryLaw,
    now_ms: u64,
}

impl Link {
    /// A law that met no limit yet, on a path whose jitter it does not know: a loud one.
    fn starting() -> Self {
        let law = DeliveryLaw::new(RateLimits {
            floor_bps: MBIT / 2,
            start_bps: START_BPS,
            most_bps: 1000 * MBIT,
        });
        Self { law, now_ms: 1000 }
    }

    /// The same after the start.
    fn loud() -> Self {
        let mut link = Self::starting();
        link.law.path_changed();
        link
    }

    /// Three seconds without load and without jitter.
    fn grows_quiet(mut self) -> Self {
        for _ in 0..300 {
            self.report(self.idle());
        }
        assert_eq!(self.state(), Following);
        self
    }

    fn quiet() -> Self {
        Self::loud().grows_quiet()
    }

    fn state(&self) -> DeliveryState {
        self.law.state()
    }

    fn rate_bps(&self) -> u64 {
        self.law.pace().rate_bps
    }

    /// Time until something may be sent.
    fn pause_ms(&self) -> u64 {
        (self.law.pace().resume_ns / MS).saturating_sub(self.now_ms)
    }

    /// All that is sent is delivered, without a queue.
    fn fits(&self) -> Said {
        let rate_bps = self.rate_bps();
        Said {
            delivered_bps: rate_bps,
            queue_ms: 0,
            is_loaded: true,
            in_flight_bytes: bytes(rate_bps, RTT_MS),
            lost_packets: 0,
        }
    }

    /// Nothing is sent that is worth speaking of.
    fn idle(&self) -> Said {
        Said {
            is_loaded: false,
            ..self.fits()
        }
    }

    /// All is delivered beside a queue of `queue_ms` milliseconds, which is on the way, too.
    fn queued(&self, delivered_bps: u64, queue_ms: u64) -> Said {
        Said {
            delivered_bps,
            queue_ms,
            in_flight_bytes: bytes(delivered_bps, RTT_MS + queue_ms),
            ..self.fits()
        }
    }

    fn report(&mut self, said: Said) -> DeliveryState {
        self.now_ms += 10;
        let sendable_bytes = bytes(self.rate_bps(), 10);
        let delay_ns = BASE_NS + said.queue_ms * MS;
        self.law.observe(&Observation {
            now_ns: self.now_ms * MS,
            interval_ns: 10 * MS,
            delivered_bytes: bytes(said.delivered_bps, 10),
            longest_gap_ns: MS,
            lost_packets: said.lost_packets,
            delay_min_ns: delay_ns,
            delay_mean_ns: delay_ns,
            delay_last_ns: delay_ns,
            rtt_ns: Some((RTT_MS + said.queue_ms) * MS),
            sent_bytes: if said.is_loaded { sendable_bytes } else { 0 },
            sendable_bytes,
            in_flight_bytes: said.in_flight_bytes,
        });
        self.state()
    }

    /// Reports of 10 ms for `time_ms`; the state after the last.
    fn reports(&mut self, time_ms: u64, said: Said) -> DeliveryState {
        for _ in 0..time_ms / 10 {
            self.report(said);
        }
        self.state()
    }

    /// Into `Probing`.
    fn probe(&mut self) {
        assert_eq!(self.report(self.fits()), Probing);
    }

    /// Into `Draining`: a queue of 15 ms in two reports, at `delivered_bps`.
    fn cut(&mut self, delivered_bps: u64) {
        let said = self.queued(delivered_bps, 15);
        self.report(said);
        assert_eq!(self.report(said), Draining);
    }

    /// Into `Draining`: one report in which a fifth arrives, 8 ms late; what was sent at the former rate is on the way.
    fn fall(&mut self) {
        self.report(self.idle());
        let said = Said {
            delivered_bps: START_BPS / 5,
            queue_ms: 8,
            ..self.fits()
        };
        assert_eq!(self.report(said), Draining);
    }
}

#[test]
fn missing_reports_block_in_every_state() {
    let mut following = Link::quiet();
    let mut probing = Link::quiet();
    probing.probe();
    let mut draining = Link::quiet();
    draining.cut(START_BPS);
    for link in [&mut following, &mut probing, &mut draining] {
        link.law.blocked(link.now_ms * MS);
        assert_eq!(link.state(), Blocked);
    }
}

#[test]
fn a_report_ends_a_blockage_and_a_probe_but_not_the_draining_of_a_cut() {
    for (start, after) in [
        (Following, Following),
        (Probing, Following),
        (Draining, Draining),
    ] {
        let mut link = Link::quiet();
        match start {
            Probing => link.probe(),
            Draining => link.cut(START_BPS),
            _ => {}
        }
        let before_bps = if start == Probing {
            START_BPS
        } else {
            link.rate_bps()
        };
        link.law.blocked(link.now_ms * MS);
        assert_eq!(link.report(link.queued(MBIT, 15)), after, "{start:?}");
        assert_eq!(link.rate_bps(), before_bps, "{start:?}");
    }
}

#[test]
fn after_a_blockage_nothing_is_cut_or_probed_for_a_round_trip_and_10_ms() {
    let mut link = Link::quiet();
    link.law.blocked(link.now_ms * MS);
    link.report(link.fits());
    assert_eq!(link.reports(20, link.fits()), Following);
    assert_eq!(link.report(link.fits()), Probing);
}

#[test]
fn a_changed_path_keeps_the_rate_and_ends_the_start() {
    let mut link = Link::starting().grows_quiet();
    link.cut(START_BPS / 2);
    let rate_bps = link.rate_bps();
    assert!(rate_bps < START_BPS);
    link.law.path_changed();
    assert_eq!((link.state(), link.rate_bps()), (Following, rate_bps));
    assert!(!link.law.is_starting());
}

#[test]
fn a_loss_changes_nothing() {
    let (mut link, mut lossy) = (Link::quiet(), Link::quiet());
    for _ in 0..30 {
        let state = link.report(link.fits());
        let said = Said {
            lost_packets: 5,
            ..lossy.fits()
        };
        assert_eq!(lossy.report(said), state);
        assert_eq!(lossy.law.pace(), link.law.pace());
    }
}

#[test]
fn a_fall_of_the_rate_is_cut_at_the_first_report() {
    let mut link = Link::quiet();
    link.fall();
    assert_eq!(link.rate_bps(), START_BPS / 5 * 9 / 10);
    // 20 ms of the former rate are on the way: at the new one 91 ms beyond the round trip.
    assert_eq!(link.pause_ms(), 91);
}

#[test]
fn a_long_queue_in_two_reports_is_cut() {
    let mut link = Link::quiet();
    let said = link.queued(START_BPS * 8 / 10, 15);
    assert_eq!(link.report(said), Following);
    assert_eq!(link.report(said), Draining);
    assert_eq!(link.rate_bps(), START_BPS * 8 / 10 * 9 / 10);
    assert!((1..=15).contains(&link.pause_ms()), "{}", link.pause_ms());
}

#[test]
fn a_cut_is_not_repeated_for_a_round_trip_and_10_ms() {
    let mut link = Link::quiet();
    link.fall();
    let rate_bps = link.rate_bps();
    let worse = link.queued(rate_bps / 10, 30);
    let held_ms = (link.pause_ms() + RTT_MS + 10) / 10 * 10;
    assert_eq!(link.reports(held_ms, worse), Draining);
    assert_eq!(link.rate_bps(), rate_bps);
    assert_eq!(link.report(worse), Draining);
    assert!(link.rate_bps() < rate_bps);
}

#[test]
fn three_cuts_for_one_queue_mean_a_longer_path() {
    let mut link = Link::quiet();
    let said = link.queued(START_BPS, 30);
    let mut least_bps = START_BPS;
    for _ in 0..100 {
        if link.report(said) == Following && least_bps < START_BPS {
            break;
        }
        least_bps = least_bps.min(link.rate_bps());
    }
    assert_eq!((link.state(), link.rate_bps()), (Following, START_BPS));
    // The queue of 30 ms is the path now: load is probed.
    link.reports(50, said);
    assert_eq!(link.state(), Probing);
}

#[test]
fn while_a_cut_drains_a_faster_link_raises_the_rate() {
    let mut link = Link::quiet();
    link.fall();
    let rate_bps = link.rate_bps();
    let said = link.queued(START_BPS / 2, 8);
    assert_eq!(link.reports(30, said), Draining);
    assert!(link.rate_bps() > rate_bps, "{}", link.rate_bps());
    assert!(link.rate_bps() <= START_BPS / 2 * 9 / 10);
}

#[test]
fn a_queue_that_drains_early_was_a_false_alarm() {
    let mut link = Link::starting().grows_quiet();
    link.fall();
    assert!(!link.law.is_starting());
    assert_eq!(link.report(link.idle()), Following);
    assert_eq!((link.rate_bps(), link.pause_ms()), (START_BPS, 0));
    assert!(link.law.is_starting(), "as before the cut");
}

#[test]
fn a_queue_that_drains_at_the_end_of_its_pause_ends_it() {
    let mut link = Link::quiet();
    link.fall();
    let rate_bps = link.rate_bps();
    let slow = link.queued(START_BPS / 5, 8);
    assert_eq!(link.reports(80, slow), Draining);
    assert_eq!(link.report(link.idle()), Following);
    assert_eq!((link.rate_bps(), link.pause_ms()), (rate_bps, 0));
}

#[test]
fn a_queue_that_stands_is_drained_by_a_pause_and_not_again_for_250_ms() {
    let mut link = Link::quiet();
    let said = Said {
        in_flight_bytes: bytes(START_BPS, RTT_MS + 5),
        ..link.queued(START_BPS, 5)
    };
    assert_eq!(link.reports(20, said), Following);
    assert_eq!(link.pause_ms(), 0);
    assert_eq!(link.report(said), Following);
    assert_eq!((link.pause_ms(), link.rate_bps()), (5, START_BPS));
    // A queue that stays after the pause would be jitter.
    link.report(link.idle());
    let mut again_ms = 10_u64;
    while link.pause_ms() == 0 && again_ms < 1000 {
        link.report(said);
        again_ms += 10;
    }
    assert!((250..=300).contains(&again_ms), "{again_ms}");
}

#[test]
fn load_without_a_queue_is_probed() {
    let mut link = Link::quiet();
    assert_eq!(link.report(link.idle()), Following);
    link.probe();
    assert_eq!(link.rate_bps(), START_BPS * 5 / 4);
}

#[test]
fn at_the_start_probes_double_the_rate_each_round_trip_and_10_ms() {
    let mut link = Link::starting().grows_quiet();
    link.probe();
    for doublings in 1..=3 {
        assert_eq!(link.rate_bps(), START_BPS << doublings);
        assert_eq!(link.reports(RTT_MS + 10, link.fits()), Probing);
    }
    assert!(link.law.is_starting());
}

#[test]
fn a_probe_that_is_delivered_is_kept_and_the_third_is_faster() {
    let mut link = Link::quiet();
    let mut rate_bps = START_BPS;
    for per_mille in [1250, 1250, 1500] {
        link.probe();
        rate_bps = rate_bps * per_mille / 1000;
        assert_eq!(link.rate_bps(), rate_bps);
        assert_eq!(link.reports(RTT_MS + 20, link.fits()), Following);
        assert_eq!(link.rate_bps(), rate_bps);
    }
}

#[test]
fn a_probe_that_is_not_delivered_is_given_up_for_250_ms() {
    let mut link = Link::quiet();
    link.probe();
    let said = link.queued(START_BPS, 0);
    assert_eq!(link.reports(RTT_MS + 20, said), Following);
    assert_eq!((link.rate_bps(), link.pause_ms()), (START_BPS, 0));
    assert_eq!(link.reports(240, said), Following);
    assert_eq!(link.report(said), Probing);
}

#[test]
fn a_probe_that_leaves_a_queue_ends_the_start_and_pauses() {
    let mut link = Link::starting().grows_quiet();
    link.probe();
    let said = link.queued(START_BPS, 5);
    assert_eq!(link.reports(RTT_MS + 20, said), Following);
    assert!(!link.law.is_starting());
    assert!(link.pause_ms() > 0);
    assert_eq!(link.rate_bps(), START_BPS * 985 / 1000);
}

#[test]
fn on_a_loud_path_a_probe_waits_60_ms_for_packets_that_were_held_back() {
    let mut link = Link::loud();
    link.probe();
    let said = link.queued(START_BPS, 0);
    assert_eq!(link.reports(RTT_MS + 50, said), Probing);
    assert_eq!(link.report(said), Following);
}
