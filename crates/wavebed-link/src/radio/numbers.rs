//! The numbers of segments in the legs of a split bearer (COUNT of PDCP).

use std::collections::VecDeque;

use crate::run::Run;

/// The packets of the numbered segments that have not left the legs.
///
/// In a leg, the packet of a run is the COUNT of its first segment, less its index in the packet: so consecutive segments
/// have the same one and leave together, and the COUNT follows from the run.
#[derive(Debug, Default)]
pub struct Numbers {
    /// COUNT of the first.
    first: u64,
    packets: VecDeque<Option<u32>>,
}

impl Numbers {
    /// Numbers `run`; returns it as the legs know it.
    pub fn enter(&mut self, run: Run) -> Run {
        let count = self.first + self.packets.len() as u64;
        for _ in 0..run.count {
            self.packets.push_back(Some(run.packet));
        }
        Run {
            packet: low(count).wrapping_sub(run.first.into()),
            ..run
        }
    }

    /// COUNT of the first segment of a run in a leg.
    pub fn count(&self, run: &Run) -> u64 {
        let count = run.packet.wrapping_add(run.first.into());
        self.first + u64::from(count.wrapping_sub(low(self.first)))
    }

    /// The runs, packet by packet, of what a leg knows as `run`.
    pub fn known(&self, mut run: Run) -> Vec<Run> {
        let mut found = Vec::new();
        let mut place = usize::try_from(self.count(&run) - self.first).expect("it is in memory");
        while let Some(packet) = self.packets.get(place).copied() {
            let segments = self.packets.range(place..).take(run.count.into());
            let same = segments.take_while(|other| **other == packet).count();
            let length = u16::try_from(same).unwrap_or(run.count);
            let last = length == run.count;
            let front = if last { run } else { run.split_front(length) };
            found.extend(packet.map(|packet| Run { packet, ..front }));
            if last {
                break;
            }
            place += usize::from(length);
        }
        found
    }

    /// Removes the segments of `run`, which left a leg, and passes them to `put` packet by packet with their COUNT.
    pub fn leave(&mut self, mut run: Run, mut put: impl FnMut(u64, Run)) {
        let mut count = self.count(&run);
        loop {
            let place = usize::try_from(count - self.first).expect("it is in memory");
            let packet = self.packets[place];
            let segments = self.packets.range_mut(place..).take(run.count.into());
            let same = segments.take_while(|other| **other == packet);
            let length = same.fold(0, |length, segment| {
                *segment = None;
                length + 1
            });
            let packet = packet.expect("a segment leaves once");
            if length == run.count {
                put(count, Run { packet, ..run });
                break;
            }
            let front = run.split_front(length);
            put(count, Run { packet, ..front });
            count += u64::from(length);
        }
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are enough for what is in memory"
)]
const fn low(count: u64) -> u32 {
    count as u32
}
