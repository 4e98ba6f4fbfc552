//! Reports that no honest receiver sends do not stop a sender.

use proptest::prelude::*;
use wavebed_edge::tunnel::law::{AutorateLaw, DeliveryLaw, Law, RateLimits};
use wavebed_edge::tunnel::queue::FlowQueuesSettings;
use wavebed_edge::tunnel::wire::Report;
use wavebed_edge::tunnel::{Sender, SenderSettings};

use crate::tunnel::packets::{Flow, packet};

const LIMITS: RateLimits = RateLimits {
    floor_bps: 500_000,
    start_bps: 10_000_000,
    most_bps: 100_000_000,
};

fn report() -> impl Strategy<Value = Report> {
    let wild = (any::<[u32; 4]>(), any::<[u64; 2]>());
    // Low numbers pass the first checks.
    let near = ([0u32..60, 0..3_000_000, 0..50, 0..5], [0u64..50, 0..60_000]);
    let words = prop_oneof![wild, near];
    (words, any::<[u32; 4]>(), any::<bool>()).prop_map(|((head, counts), delays, wild)| Report {
        number: head[0],
        at_us: head[1],
        highest: head[2],
        held_us: head[3],
        packets: counts[0],
        bytes: counts[1],
        delay_min_us: if wild { delays[0] } else { delays[0] % 50_000 },
        delay_mean_us: if wild { delays[1] } else { delays[1] % 50_000 },
        delay_last_us: if wild { delays[2] } else { delays[2] % 50_000 },
        gap_us: if wild { delays[3] } else { delays[3] % 50_000 },
    })
}

proptest! {
    #[test]
    fn the_rate_stays_within_its_limits_and_packets_go_on(
        autorate: bool,
        reports in proptest::collection::vec((report(), 0u64..40), 1..120),
    ) {
        let law: Box<dyn Law> = if autorate {
            Box::new(AutorateLaw::new(LIMITS))
        } else {
            Box::new(DeliveryLaw::new(LIMITS))
        };
        let settings = SenderSettings {
            queues: FlowQueuesSettings::default(),
            overhead_bytes: 60,
            seed: 1,
        };
        let mut sender = Sender::new(settings, law);
        let flow = Flow { source: 1, destination: 2, protocol: 17, port: 3 };
        let mut now_ns = 0;
        for (report, wait_ms) in reports {
            for number in 0..5 {
                sender.enqueue(packet(flow, 0, 500, number), now_ns);
            }
            now_ns += wait_ms * 1_000_000;
            sender.check(now_ns);
            while sender.poll(now_ns).is_some() {}
            sender.report(&report, now_ns);
            let rate_bps = sender.state().rate_bps;
            prop_assert!((LIMITS.floor_bps..=LIMITS.most_bps).contains(&rate_bps));
        }
        // Whatever was said, the sender goes on, with packets or with the search for the end of a blockage: within the
        // longest round trip that reports can feign, which is the time since the start, and a second.
        sender.enqueue(packet(flow, 0, 500, 9), now_ns);
        let at_ns = sender.next_send_ns().into_iter().chain(sender.next_check_ns()).min();
        prop_assert!(at_ns.is_some_and(|at_ns| at_ns <= 2 * now_ns + 1_000_000_000), "{at_ns:?}");
    }
}
