//! Keep-alives of the connecting end: the listening end learns a new address only from what comes from there, and an
//! end that only receives has nothing to report once nothing arrives.

/// After this time without a word of its own. Two round trips follow at most, one that proves the address and one for a
/// report: traffic goes on within 300 ms where a round trip takes up to 100 ms.
const EVERY_NS: u64 = 100_000_000;
/// After the last packet of a host. An idle tunnel has QUIC's keep-alives only, which cost a tenth.
const WHILE_NS: u64 = 10_000_000_000;

/// When this end has to say that it is there.
#[derive(Debug, Default)]
pub struct Presence {
    /// When a host's packet passed in either direction.
    packet_ns: Option<u64>,
    /// When this end sent the last message.
    said_ns: u64,
}

impl Presence {
    /// A host's packet passes.
    pub fn packet(&mut self, now_ns: u64) {
        self.packet_ns = Some(now_ns);
    }

    /// This end sends a message.
    pub fn say(&mut self, now_ns: u64) {
        self.said_ns = now_ns;
    }

    /// When the next keep-alive is due; `None` while the tunnel is idle.
    pub fn due_ns(&self) -> Option<u64> {
        let due_ns = self.said_ns + EVERY_NS;
        self.packet_ns
            .filter(|packet_ns| due_ns <= packet_ns + WHILE_NS)
            .map(|_| due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_end_that_said_nothing_for_100_ms_says_something_until_10_s_after_the_last_packet() {
        let mut presence = Presence::default();
        assert_eq!(presence.due_ns(), None);
        presence.packet(5_000 * MS);
        presence.say(5_010 * MS);
        let mut said = 0;
        while let Some(due_ns) = presence.due_ns() {
            assert_eq!(due_ns, (5_110 + said * 100) * MS);
            presence.say(due_ns);
            said += 1;
        }
        assert_eq!(said, 99);
        presence.packet(20_000 * MS);
        assert!(presence.due_ns().is_some_and(|due_ns| due_ns < 20_000 * MS));
    }
}
