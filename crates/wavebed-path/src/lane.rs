//! A lane: one direction of a hop, with the packets that are on it. It shares nothing with the other direction.

use std::io;

use crate::capture::Capture;
use crate::direction::Direction;
use crate::packets::Packets;
use crate::port::Port;

/// Packets read before departures get their turn: at 64 KiB each, some 30 µs of copying, which bounds what reading
/// adds to the lateness of departures.
const READ_BATCH: usize = 4;

/// A device that was not seen empty for this long is behind, and gets longer turns until it is.
const BEHIND_NS: u64 = 500_000;

/// Packets read in a turn from a device that is behind: some 130 µs of copying.
const READ_BATCH_BEHIND: usize = 16;

/// One direction, from one device to another.
pub struct Lane {
    /// Its links.
    pub direction: Direction,
    /// The packets on it.
    pub packets: Packets,
    /// Since when packets may be waiting in the device: the last time at which it was known to be empty.
    pub empty_ns: u64,
    /// Its capture.
    pub capture: Option<Capture>,
}

/// What a turn of reading found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Packets that were read.
    pub packets: usize,
    /// The device may have more.
    pub more: bool,
}

impl Lane {
    /// Reads a few packets from `input`.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read(&mut self, input: &mut impl Port, clock: &impl Fn() -> u64) -> io::Result<Turn> {
        let behind = clock().saturating_sub(self.empty_ns) > BEHIND_NS;
        let batch = if behind {
            READ_BATCH_BEHIND
        } else {
            READ_BATCH
        };
        for packets in 0..batch {
            let Some(length) = input.read(self.packets.pool.room())? else {
                self.empty_ns = clock();
                return Ok(Turn {
                    packets,
                    more: false,
                });
            };
            let read_ns = clock();
            self.direction.accept(
                read_ns,
                read_ns.saturating_sub(self.empty_ns),
                length,
                &mut self.packets,
                self.capture.as_mut(),
            );
        }
        Ok(Turn {
            packets: batch,
            more: true,
        })
    }

    /// Moves everything on to now and writes what is due to `output`.
    pub fn advance(&mut self, output: &mut impl Port, clock: &impl Fn() -> u64) {
        self.direction.advance(
            clock(),
            &mut self.packets,
            output,
            clock,
            self.capture.as_mut(),
        );
    }

    /// When to advance next, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.direction.next_event_ns()
    }
}
