//! The packet log of a link: when segments entered, left queues, were sent in which blocks, and left.

use crate::counters::Reason;
use crate::radio::BlockRecord;
use crate::run::Run;

/// An event of the segments of a run; `run.at_ns` is its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The segments.
    pub run: Run,
    /// What happened to them.
    pub event: Event,
}

/// What happened to segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// They entered the link, or were made as copies in it.
    Entered,
    /// They left the queue of the stage that sends blocks, for a block (the first time counts), or the first queue of a
    /// link without blocks.
    Dequeued,
    /// They left that stage: its server has sent them, or its receiver has them in order.
    Left,
    /// They left the stage with this index in the link: another one that takes time, but not the last one.
    Passed(usize),
    /// The block with this number was built with them, or with a piece of one, for a slot that begins at this time.
    Sent(u64),
    /// They left the link.
    Delivered,
    /// They were dropped.
    Dropped(Reason),
}

/// The events of a link since they were last taken, in the order in which the link processed them.
#[derive(Debug, Default)]
pub struct PacketLog {
    entries: Vec<Entry>,
    blocks: Vec<BlockRecord>,
    /// The stage whose queue is logged.
    stage: Option<usize>,
    /// The stages of which [`Event::Passed`] is recorded if their queue is not logged, one bit each.
    passed: u64,
}

impl PacketLog {
    /// Records `event`.
    pub fn push(&mut self, run: Run, event: Event) {
        self.entries.push(Entry { run, event });
    }

    /// `run` left the queue of `stage` at `at_ns`.
    pub fn dequeued(&mut self, at_ns: u64, run: &Run, stage: usize) {
        if *self.stage.get_or_insert(stage) == stage {
            self.push(Run { at_ns, ..*run }, Event::Dequeued);
        }
    }

    /// The queue of `stage` is logged.
    pub const fn watch(&mut self, stage: usize) {
        self.stage = Some(stage);
    }

    /// The time at which runs pass this stage is logged too.
    pub const fn watch_passing(&mut self, stage: usize) {
        if stage < u64::BITS as usize {
            self.passed |= 1 << stage;
        }
    }

    /// `run` left `stage`.
    pub fn left(&mut self, run: &Run, stage: usize) {
        if self.stage == Some(stage) {
            self.push(*run, Event::Left);
        } else if stage < u64::BITS as usize && self.passed >> stage & 1 == 1 {
            self.push(*run, Event::Passed(stage));
        }
    }

    /// Records these transmissions.
    pub fn sent(&mut self, blocks: Vec<BlockRecord>) {
        for block in blocks {
            for &run in &block.contents {
                let (built, sent) = (block.built_ns, block.slot.start_ns);
                self.push(
                    Run {
                        at_ns: built,
                        ..run
                    },
                    Event::Dequeued,
                );
                self.push(Run { at_ns: sent, ..run }, Event::Sent(block.number));
            }
            self.blocks.push(block);
        }
    }

    /// Takes the events.
    pub fn take_entries(&mut self) -> std::vec::Drain<'_, Entry> {
        self.entries.drain(..)
    }

    /// Takes the transmissions of blocks.
    pub fn take_blocks(&mut self) -> std::vec::Drain<'_, BlockRecord> {
        self.blocks.drain(..)
    }
}
