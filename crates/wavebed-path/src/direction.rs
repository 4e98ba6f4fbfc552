//! One direction of a leg, with its packets in flight. It shares no state with the other direction.

use std::{io, iter};

use wavebed_link::TimeSum;
use wavebed_packet::transport;

use crate::capture::Capture;
use crate::frames::{Frames, Sorted};
use crate::link_chain::{LinkChain, NamedLink};
use crate::pool::{Arrival, Packets};
use crate::port::Port;

/// Packets read before due packets are written: at 64 KiB each, some 30 µs of copying, which bounds the lateness that
/// reading adds.
const READ_BATCH: usize = 4;

/// A device that was not seen empty for this long is behind, and gets longer reads until it is empty.
const BEHIND_NS: u64 = 500_000;

/// Packets read at a time from a device that is behind: some 130 µs of copying.
const READ_BATCH_BEHIND: usize = 16;

/// A packet of a TUN device: no header before the IP header, and one chain for all.
const PACKET: Sorted = Sorted {
    front: 0,
    class: None,
};

/// One direction, from one device to another.
pub struct Direction {
    /// Its links.
    pub chain: LinkChain,
    /// The links of devices that have their own, by class.
    pub classes: Vec<ClassChain>,
    /// Its packets in flight.
    pub packets: Packets,
    /// Last time at which the input device was known to be empty: packets may wait since then.
    pub empty_ns: u64,
    /// The time to which its links were advanced.
    pub advanced_ns: u64,
    /// Its capture.
    pub capture: Option<Capture>,
    /// What does not go through the links, if its devices are ports of Ethernet.
    pub frames: Option<Frames>,
}

/// The links of a class of devices.
pub struct ClassChain {
    /// The name of its departures: `PORT-PORT.CLASS.down` or `.up`.
    pub name: String,
    /// Its links.
    pub chain: LinkChain,
}

/// Result of one read turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Packets read.
    pub packets: usize,
    /// The device may have more.
    pub more: bool,
}

impl Direction {
    /// Reads a few packets from `input`. Frames that pass around the links are written to `output` at once.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read(
        &mut self,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        let behind = clock().saturating_sub(self.empty_ns) > BEHIND_NS;
        let batch = if behind {
            READ_BATCH_BEHIND
        } else {
            READ_BATCH
        };
        self.read_up_to(batch, input, output, clock)
    }

    /// Reads all packets of a device that knows when each was sent.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read_all(
        &mut self,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        self.read_up_to(usize::MAX, input, output, clock)
    }

    /// Reads one packet from `input`, as [`Self::read`]: the next poll tells whether there is another one.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read_one(
        &mut self,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        let turn = self.read_up_to(1, input, output, clock)?;
        Ok(Turn {
            more: false,
            ..turn
        })
    }

    fn read_up_to(
        &mut self,
        batch: usize,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        for packets in 0..batch {
            let Some(length) = input.read(self.packets.pool.room())? else {
                self.empty_ns = clock();
                return Ok(Turn {
                    packets,
                    more: false,
                });
            };
            let sorted = match &mut self.frames {
                None => Some(PACKET),
                Some(frames) => frames.sort(self.packets.pool.read(length), output),
            };
            let Some(Sorted { front, class }) = sorted else {
                continue;
            };
            if front > 0 {
                transport::complete(&mut self.packets.pool.room()[..length], front);
            }
            let chain = match class {
                None => &mut self.chain,
                Some(class) => &mut self.classes[class].chain,
            };
            let (read_ns, waited_ns) = if let Some(sent_ns) = input.sent_ns() {
                (sent_ns.max(self.advanced_ns), 0)
            } else {
                let read_ns = clock();
                (read_ns, read_ns.saturating_sub(self.empty_ns))
            };
            let arrival = Arrival {
                length,
                front,
                read_ns,
                waited_ns,
            };
            chain.accept(&arrival, &mut self.packets, self.capture.as_mut());
        }
        Ok(Turn {
            packets: batch,
            more: true,
        })
    }

    /// Advances the links to now and writes due packets to `output`.
    pub fn advance(&mut self, output: &mut impl Port, clock: &impl Fn() -> u64) {
        self.advanced_ns = clock();
        let classes = self.classes.iter_mut().map(|each| &mut each.chain);
        for chain in iter::once(&mut self.chain).chain(classes) {
            chain.advance(
                clock(),
                &mut self.packets,
                output,
                clock,
                self.capture.as_mut(),
            );
        }
    }

    /// When to advance next, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.chains().filter_map(LinkChain::next_event_ns).min()
    }

    /// For how long nothing that arrives from now on is due, nanoseconds.
    #[must_use]
    pub fn foresight_ns(&self) -> u64 {
        let each = self.chains().map(LinkChain::foresight_ns);
        each.min().unwrap_or(0)
    }

    /// Whether no segment is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chains().all(|chain| chain.backlog().segments == 0)
    }

    /// Its chains: first for all devices, then for each class.
    pub fn chains(&self) -> impl Iterator<Item = &LinkChain> {
        let classes = self.classes.iter().map(|each| &each.chain);
        iter::once(&self.chain).chain(classes)
    }

    /// The same, to be changed.
    pub fn chains_mut(&mut self) -> impl Iterator<Item = &mut LinkChain> {
        let classes = self.classes.iter_mut().map(|each| &mut each.chain);
        iter::once(&mut self.chain).chain(classes)
    }

    /// Times of all chains between the read of a segment and the time at which it was due.
    #[must_use]
    pub fn transit(&self) -> TimeSum {
        let mut all = TimeSum::default();
        for chain in self.chains() {
            all.merge(chain.transit);
        }
        all
    }

    /// The links of all chains.
    pub fn links(&self) -> impl Iterator<Item = &NamedLink> {
        self.chains().flat_map(|chain| &chain.links)
    }
}
