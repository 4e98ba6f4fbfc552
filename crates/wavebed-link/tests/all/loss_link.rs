//! All random stages in one link: every loss is counted, and the times of wake-ups have no effect.

use crate::loss_support::{control, run};
use proptest::prelude::*;
use wavebed_link::delay::{Delay, Distribution, Shape};
use wavebed_link::impairment::Corrupt;
use wavebed_link::impairment::Duplicate;
use wavebed_link::impairment::Reorder;
use wavebed_link::loss::{GilbertElliott, Loss};
use wavebed_link::{Change, Link, RandomStream, Run, Stage, Unit};

#[derive(Clone, Debug)]
enum Step {
    Packet {
        gap_ns: u64,
        count: u16,
        control: bool,
    },
    Delay(u64),
    Loss(f64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0u64..3_000, 1u16..45, any::<bool>())
            .prop_map(|(gap_ns, count, rare)| Step::Packet { gap_ns, count, control: rare && count == 1 }),
        1 => (0u64..20_000).prop_map(Step::Delay),
        1 => (0.0..0.5).prop_map(Step::Loss),
    ];
    prop::collection::vec(step, 1..150)
}

fn link(seed: u64) -> Link {
    let random = |stage| RandomStream::new(seed, stage);
    let bursts = GilbertElliott {
        p: 0.1,
        r: 0.3,
        good_loss: 0.0,
        bad_loss: 0.8,
    };
    let shape = Shape::ParetoNormal;
    let distribution = Distribution {
        shape,
        mean_ns: 5_000,
        spread_ns: 3_000,
        correlation: 0.3,
    };
    let stages: Vec<Box<dyn Stage>> = vec![
        Box::new(Loss::gilbert_elliott(bursts, Unit::Packet, random(0))),
        Box::new(Delay::distribution(distribution, false, random(1))),
        Box::new(Duplicate::new(0.1, random(2))),
        Box::new(Reorder::new(0.1, 4_000, random(3))),
        Box::new(Corrupt::new(0.1, random(4))),
        Box::new(Delay::distribution(distribution, true, random(5))),
        Box::new(Loss::independent(0.05, Unit::Superpacket, random(6))),
    ];
    Link::new(stages, false)
}

/// Passes the steps, polling after those that `polls` picks besides where a change asks for it.
fn pass(steps: &[Step], seed: u64, polls: impl Fn(usize) -> bool) -> (Vec<Run>, Vec<Run>) {
    let mut link = link(seed);
    let mut delivered = Vec::new();
    let mut now_ns = 0;
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Packet {
                gap_ns,
                count,
                control: is_control,
            } => {
                now_ns += gap_ns;
                let run = run(now_ns, number as u32, 0, count);
                link.accept(if is_control { control(run) } else { run });
            }
            Step::Delay(_) | Step::Loss(_) => {
                // Moves past this instant, so that arrivals of the same one are all before the change.
                link.poll(now_ns, &mut delivered);
                now_ns += 1;
                let change = match *step {
                    Step::Delay(delay_ns) => Change::DelayNs(delay_ns),
                    Step::Loss(fraction) => Change::Loss(fraction),
                    Step::Packet { .. } => unreachable!("matched above"),
                };
                assert!(link.apply(now_ns, &change));
            }
        }
        if polls(number) {
            link.poll(now_ns, &mut delivered);
            if let Some(next_ns) = link.next_event_ns() {
                assert!(
                    next_ns > now_ns,
                    "polled to {now_ns}, yet something is due at {next_ns}"
                );
            }
        }
        let held = i128::from(link.backlog().segments);
        assert_eq!(link.counters().total().unaccounted_segments(), held);
    }
    link.poll(u64::MAX, &mut delivered);
    assert_eq!(link.backlog().segments, 0);
    assert_eq!(link.counters().total().unaccounted_segments(), 0);
    (delivered, link.take_lost().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_loss_is_counted_and_wake_ups_change_nothing(steps in steps(), seed: u64, every in 2usize..20) {
        let (eager, eager_lost) = pass(&steps, seed, |_| true);
        let (lazy, mut lazy_lost) = pass(&steps, seed, |number| number % every == 0);
        prop_assert!(eager.is_sorted_by_key(|run| run.at_ns));
        prop_assert_eq!(&eager, &lazy);
        // Stages catch up in another order when polled late; the losses themselves are the same.
        let mut eager_lost = eager_lost;
        let key = |run: &Run| (run.packet, run.first, run.at_ns, run.flags.0);
        eager_lost.sort_by_key(key);
        lazy_lost.sort_by_key(key);
        prop_assert_eq!(eager_lost, lazy_lost);
    }
}
