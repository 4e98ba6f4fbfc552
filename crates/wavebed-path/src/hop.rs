//! A hop: what lies between two hosts. Two directions, one table of packets, two devices.

use std::io;

use crate::capture::Capture;
use crate::direction::Direction;
use crate::packets::Packets;
use crate::port::Port;

/// Packets read from one device before the other gets its turn: at 64 KiB each, some 30 µs of copying, which
/// bounds what reading adds to the lateness of departures.
const READ_BATCH: usize = 4;

/// A hop between the device `near` (towards the server) and the device `far` (towards the client).
pub struct Hop {
    /// From near to far.
    pub down: Direction,
    /// From far to near.
    pub up: Direction,
    /// Packets in flight in both directions.
    pub packets: Packets,
    /// Capture of both directions.
    pub capture: Option<Capture>,
}

/// What a turn of reading found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Packets that were read.
    pub packets: usize,
    /// A device may have more.
    pub more: bool,
}

impl Hop {
    /// Reads up to [`READ_BATCH`] packets from each device that may have some (`readable`: near, far).
    ///
    /// # Errors
    /// When a device fails for good.
    pub fn read(
        &mut self,
        ports: &mut [impl Port; 2],
        readable: [bool; 2],
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        let mut turn = Turn::default();
        let directions = [&mut self.down, &mut self.up];
        for ((port, direction), readable) in ports.iter_mut().zip(directions).zip(readable) {
            if !readable {
                continue;
            }
            let mut left = READ_BATCH;
            while left > 0 {
                let Some(length) = port.read(self.packets.pool.room())? else {
                    break;
                };
                let span = self.packets.pool.keep(length);
                direction.accept(clock(), span, &mut self.packets, self.capture.as_mut());
                turn.packets += 1;
                left -= 1;
            }
            turn.more |= left == 0;
        }
        Ok(turn)
    }

    /// Moves both directions on to now and writes what is due.
    pub fn advance(&mut self, ports: &mut [impl Port; 2], clock: &impl Fn() -> u64) {
        let [near, far] = ports;
        self.down.advance(
            clock(),
            &mut self.packets,
            far,
            clock,
            self.capture.as_mut(),
        );
        self.up.advance(
            clock(),
            &mut self.packets,
            near,
            clock,
            self.capture.as_mut(),
        );
    }

    /// When to advance next, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.down
            .next_event_ns()
            .into_iter()
            .chain(self.up.next_event_ns())
            .min()
    }
}
