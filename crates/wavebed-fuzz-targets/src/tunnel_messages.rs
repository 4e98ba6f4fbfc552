//! Messages of the tunnel: what is read is written back the same, and no report stops a sender.

use wavebed_edge::tunnel::law::{DeliveryLaw, RateLimits};
use wavebed_edge::tunnel::queue::FlowQueuesSettings;
use wavebed_edge::tunnel::wire::{KEEP_ALIVE, Message, REPORT_BYTES};
use wavebed_edge::tunnel::{Receiver, Sender, SenderSettings};

const LIMITS: RateLimits = RateLimits {
    floor_bps: 500_000,
    start_bps: 10_000_000,
    most_bps: 1_000_000_000,
};

/// Runs the target on one input.
pub fn run(data: &[u8]) {
    let settings = SenderSettings {
        queues: FlowQueuesSettings::default(),
        overhead_bytes: 60,
        seed: 1,
    };
    let mut sender = Sender::new(settings, Box::new(DeliveryLaw::new(LIMITS)));
    let mut receiver = Receiver::default();
    let mut now_ns = 0;
    for message in data.chunks(REPORT_BYTES) {
        now_ns += 3_000_000;
        match Message::parse(message) {
            Ok(Message::Packet(header, packet)) => {
                assert_eq!([&header.to_bytes()[..], packet].concat(), message);
                receiver.receive(header, message.len() as u64, now_ns);
                sender.enqueue(packet.to_vec(), now_ns);
            }
            Ok(Message::Report(report)) => {
                assert_eq!(report.to_bytes(), message);
                sender.report(&report, now_ns);
            }
            Ok(Message::KeepAlive) => assert_eq!(message[0], KEEP_ALIVE),
            Err(_) => {}
        }
        sender.check(now_ns);
        if let Some(report) = receiver.report(now_ns) {
            sender.report(&report, now_ns);
        }
        while sender.poll(now_ns).is_some() {}
        let rate_bps = sender.state().rate_bps;
        assert!((LIMITS.floor_bps..=LIMITS.most_bps).contains(&rate_bps));
    }
}
