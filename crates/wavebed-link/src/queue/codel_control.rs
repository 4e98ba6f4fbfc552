//! The control law of `CoDel`, RFC 8289, for queues of any packets.

use super::codel::CodelSettings;

impl CodelSettings {
    /// The threshold for `packet`, if it is left out of the control law.
    fn l4s_threshold_ns<W: Waiting>(&self, packet: &W::Packet) -> Option<u64> {
        let apart = self.ecn && W::is_ect1(packet);
        self.ce_threshold_ns.filter(|_| apart)
    }
}

/// Packets that wait in order of arrival, as [`CodelControl`] sees them.
pub trait Waiting {
    /// A packet.
    type Packet;

    /// Takes the head.
    fn pop(&mut self) -> Option<Self::Packet>;

    /// Bytes that wait.
    fn bytes(&self) -> u64;

    /// When `packet` arrived, nanoseconds.
    fn arrived_ns(packet: &Self::Packet) -> u64;

    /// Whether `packet` has ECT(1), the identifier of L4S (RFC 9331).
    fn is_ect1(packet: &Self::Packet) -> bool;

    /// Marks `packet` with CE. False if it is not ECN-capable.
    fn mark(&mut self, packet: &mut Self::Packet, now_ns: u64) -> bool;

    /// Drops `packet` by the control law.
    fn drop(&mut self, packet: Self::Packet, now_ns: u64);
}

/// The state of one `CoDel` queue, named as in RFC 8289, section 5.
#[derive(Debug, Default)]
pub struct CodelControl {
    /// While the delay is above the target: when it will have been so for an interval.
    first_above_ns: Option<u64>,
    drop_next_ns: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CodelControl {
    /// The time of the next drop after `from_ns`. The square root is IEEE-exact, so that every machine agrees.
    #[expect(
        clippy::cast_precision_loss,
        reason = "an interval above 2^53 ns, 104 days, may lose a nanosecond"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below the interval, not negative"
    )]
    fn control_law(&self, from_ns: u64, interval_ns: u64) -> u64 {
        from_ns + (interval_ns as f64 / f64::from(self.count).sqrt()) as u64
    }

    /// Takes the head of `waiting`, and returns whether it may be dropped.
    fn take<W: Waiting>(
        &mut self,
        waiting: &mut W,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<(W::Packet, bool)> {
        let Some(packet) = waiting.pop() else {
            self.first_above_ns = None;
            return None;
        };
        let sojourn_ns = now_ns.saturating_sub(W::arrived_ns(&packet));
        if sojourn_ns < settings.target_ns || waiting.bytes() <= u64::from(settings.mtu_bytes) {
            self.first_above_ns = None;
            return Some((packet, false));
        }
        let first_above_ns = *self
            .first_above_ns
            .get_or_insert(now_ns + settings.interval_ns);
        Some((packet, now_ns >= first_above_ns))
    }

    /// Takes the next packet of `waiting` for service; drops or marks by the control law, or marks by the threshold.
    pub fn dequeue<W: Waiting>(
        &mut self,
        waiting: &mut W,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<W::Packet> {
        let mut packet = self.choose(waiting, now_ns, settings)?;
        if let Some(threshold_ns) = settings.l4s_threshold_ns::<W>(&packet)
            && now_ns.saturating_sub(W::arrived_ns(&packet)) > threshold_ns
        {
            waiting.mark(&mut packet, now_ns);
        }
        Some(packet)
    }

    /// Takes the next packet that the control law lets through.
    fn choose<W: Waiting>(
        &mut self,
        waiting: &mut W,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<W::Packet> {
        let Some((mut packet, mut may_drop)) = self.take(waiting, now_ns, settings) else {
            self.dropping = false;
            return None;
        };
        let apart = |packet: &W::Packet| settings.l4s_threshold_ns::<W>(packet).is_some();
        if !self.dropping {
            if !may_drop || apart(&packet) {
                return Some(packet);
            }
            let next = if settings.ecn && waiting.mark(&mut packet, now_ns) {
                Some(packet)
            } else {
                waiting.drop(packet, now_ns);
                self.take(waiting, now_ns, settings)
                    .map(|(packet, _)| packet)
            };
            self.start_dropping(now_ns, settings.interval_ns);
            return next;
        }
        self.dropping = may_drop;
        while self.dropping && now_ns >= self.drop_next_ns && !apart(&packet) {
            self.count = self.count.saturating_add(1);
            if settings.ecn && waiting.mark(&mut packet, now_ns) {
                self.drop_next_ns = self.control_law(self.drop_next_ns, settings.interval_ns);
                break;
            }
            waiting.drop(packet, now_ns);
            let Some(taken) = self.take(waiting, now_ns, settings) else {
                self.dropping = false;
                return None;
            };
            (packet, may_drop) = taken;
            self.dropping = may_drop;
            if may_drop {
                self.drop_next_ns = self.control_law(self.drop_next_ns, settings.interval_ns);
            }
        }
        Some(packet)
    }

    /// Enters the drop state, near the drop rate of the previous one if that ended recently.
    fn start_dropping(&mut self, now_ns: u64, interval_ns: u64) {
        self.dropping = true;
        let since_last = self.count - self.last_count;
        let recent = now_ns < self.drop_next_ns.saturating_add(16 * interval_ns);
        self.count = if since_last > 1 && recent {
            since_last
        } else {
            1
        };
        self.drop_next_ns = self.control_law(now_ns, interval_ns);
        self.last_count = self.count;
    }
}
