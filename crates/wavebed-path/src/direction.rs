//! One direction of a leg, with its packets in flight. It shares no state with the other direction.

use std::{io, slice};

use wavebed_link::radio::Cell;
use wavebed_link::{Run, TimeSum};
use wavebed_packet::transport;

use crate::capture::Capture;
use crate::cell_account::{CellAccount, FileTimes};
use crate::frames::{Frames, Sorted};
use crate::link_chain::{ClassChain, LinkChain, NamedLink};
use crate::pool::{Arrival, NO_DEVICE, Packets};
use crate::port::Port;
use crate::series::Classes;

/// What is read before due packets are written: 64 short frames from a ring, half as many packets by system calls, or four
/// of 64 KiB. Each takes some 30 µs, which bounds the lateness that reading adds.
const READ_BATCH: usize = 64;

/// A device that was not seen empty for this long is behind, and gets longer reads until it is empty.
const BEHIND_NS: u64 = 500_000;

/// The same from a device that is behind: some 130 µs.
const READ_BATCH_BEHIND: usize = 256;

/// Copying this many bytes takes as long as all else that a frame from a ring costs. A system call takes as long again.
const BYTES_AS_A_FRAME: usize = 4_096;

/// One direction: from one device to another, or between one and the devices of a cell.
pub struct Direction {
    /// Its links: of all devices, or of those without links of their own; with a cell those that its devices share.
    pub chain: LinkChain,
    /// The links of devices that have their own, by class; of a cell by device.
    pub classes: Vec<ClassChain>,
    /// The cell that the classes are in.
    pub cell: Option<InCell>,
    /// Its packets in flight.
    pub packets: Packets,
    /// Last time at which each input device was known to be empty: packets may wait since then.
    pub empty_ns: Vec<u64>,
    /// The time to which its links were advanced.
    pub advanced_ns: u64,
    /// Its capture.
    pub capture: Option<Capture>,
    /// What does not go through the links, if its devices are ports of Ethernet.
    pub frames: Option<Frames>,
    /// What is on its way between the links of the devices of a cell and the links that they share.
    merging: Vec<Run>,
    /// The devices of a cell whose links are advanced in this turn.
    awake: Vec<usize>,
}

/// One direction of a cell, and how packets come to its devices' links.
pub struct InCell {
    /// The scheduler of the devices' radios.
    pub cell: Cell,
    /// How.
    pub way: Way,
    /// `CELL.down` or `CELL.up`.
    pub name: String,
    /// The times of the files of each modelled user.
    pub file_times: FileTimes,
}

impl InCell {
    /// Where its slots went up to `now_ns`, as [`CellAccount::new`].
    #[must_use]
    pub fn account(&self, now_ns: u64) -> Option<CellAccount> {
        CellAccount::new(&self.name, &self.cell, &self.file_times, now_ns)
    }
}

/// Where the links are that the devices of a cell share.
pub enum Way {
    /// Before the cell: the destination says to which device a packet goes. One to none of them goes to the first one,
    /// which answers as a host without a route.
    Down(Classes),
    /// After the cell; each device has an input of its own.
    Up,
    /// Before the cell, between ports: packets of no device leave behind the shared links.
    DownPorts,
    /// After the cell, between ports: packets of no device come to the shared links beside the cell.
    UpPorts,
}

impl Way {
    const fn is_down(&self) -> bool {
        matches!(self, Self::Down(_) | Self::DownPorts)
    }

    /// Whether the shared links come after the cell.
    pub(crate) const fn is_up(&self) -> bool {
        !self.is_down()
    }

    const fn is_between_ports(&self) -> bool {
        matches!(self, Self::DownPorts | Self::UpPorts)
    }
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
    /// A direction of these links, from one device.
    #[must_use]
    pub fn new(chain: LinkChain, packets: Packets) -> Self {
        Self {
            chain,
            classes: Vec::new(),
            cell: None,
            packets,
            empty_ns: vec![0],
            advanced_ns: 0,
            capture: None,
            frames: None,
            merging: Vec::new(),
            awake: Vec::new(),
        }
    }

    /// A direction with a cell, from this number of devices.
    #[must_use]
    pub fn in_cell(self, cell: InCell, classes: Vec<ClassChain>, inputs: usize) -> Self {
        Self {
            cell: Some(cell),
            classes,
            empty_ns: vec![0; inputs],
            ..self
        }
    }

    /// Reads a few packets from `input`, which has this place among the inputs. Frames that pass around the links are
    /// written to `output` at once.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read(
        &mut self,
        place: usize,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        let behind = clock().saturating_sub(self.empty_ns[place]) > BEHIND_NS;
        let batch = if behind {
            READ_BATCH_BEHIND
        } else {
            READ_BATCH
        };
        self.read_up_to(batch, place, input, output, clock)
    }

    /// Reads all packets of a device that knows when each was sent.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read_all(
        &mut self,
        place: usize,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        self.read_up_to(usize::MAX, place, input, output, clock)
    }

    /// Reads one packet from `input`, as [`Self::read`]: the next poll tells whether there is another one.
    ///
    /// # Errors
    /// When the device fails for good.
    pub fn read_one(
        &mut self,
        place: usize,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        let turn = self.read_up_to(1, place, input, output, clock)?;
        Ok(Turn {
            more: false,
            ..turn
        })
    }

    fn read_up_to(
        &mut self,
        batch: usize,
        place: usize,
        input: &mut impl Port,
        output: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) -> io::Result<Turn> {
        let (mut packets, mut cost) = (0, 0);
        while cost < batch {
            let Some(length) = input.read(self.packets.pool.room())? else {
                self.empty_ns[place] = clock();
                return Ok(Turn {
                    packets,
                    more: false,
                });
            };
            packets += 1;
            let call = usize::from(!input.is_mapped());
            cost += 1 + call + length / BYTES_AS_A_FRAME;
            let Some(Sorted { front, class }) = self.sort(place, length, output) else {
                continue;
            };
            if front > 0 {
                transport::complete(&mut self.packets.pool.room()[..length], front);
            }
            let merged_ns = input.merged_ns();
            let (read_ns, waited_ns) = if let Some(sent_ns) = input.sent_ns() {
                let read_ns = sent_ns.max(self.advanced_ns);
                (read_ns, read_ns - sent_ns + merged_ns.unwrap_or(0))
            } else {
                let read_ns = clock();
                (read_ns, read_ns.saturating_sub(self.empty_ns[place]))
            };
            let arrival = Arrival {
                length,
                front,
                read_ns,
                waited_ns,
                device: class
                    .and_then(|class| class.try_into().ok())
                    .unwrap_or(NO_DEVICE),
                is_merged: merged_ns.is_some(),
            };
            self.accept(class, &arrival);
        }
        Ok(Turn {
            packets,
            more: true,
        })
    }

    /// Where the packet that was read has its IP header, and whose links it takes; none for a frame that takes no links.
    fn sort(&mut self, place: usize, length: usize, output: &mut impl Port) -> Option<Sorted> {
        let bytes = self.packets.pool.read(length);
        if let Some(frames) = &mut self.frames {
            return frames.sort(bytes, output);
        }
        let class = match self.cell.as_ref().map(|cell| &cell.way) {
            Some(Way::Down(devices)) => Some(devices.of(bytes, 0).unwrap_or(0)),
            Some(Way::Up) => Some(place),
            Some(Way::DownPorts | Way::UpPorts) | None => None,
        };
        Some(Sorted { front: 0, class })
    }

    /// Lets the packet that was read enter the links of its class.
    fn accept(&mut self, class: Option<usize>, arrival: &Arrival) {
        let (packets, capture) = (&mut self.packets, self.capture.as_mut());
        let way = self.cell.as_ref().map(|cell| &cell.way);
        let own = match class {
            None if way.is_some_and(Way::is_up) => {
                match self.chain.receive(arrival, packets) {
                    Ok(run) => self.merging.push(run),
                    Err((run, reason)) => {
                        self.chain.refuse(&run, reason);
                    }
                }
                return;
            }
            None => return self.chain.accept(arrival, packets, capture),
            Some(class) => {
                let own = &mut self.classes[class];
                own.wake_ns = 0;
                &mut own.chain
            }
        };
        if !way.is_some_and(Way::is_down) {
            return own.accept(arrival, packets, capture);
        }
        match own.receive(arrival, packets) {
            Ok(run) => self.chain.arrive(run, packets, capture),
            Err((run, reason)) => {
                let _ = self.chain.refuse(&run, reason) || own.refuse(&run, reason);
            }
        }
    }

    /// Advances the links to now and writes due packets to `output`.
    pub fn advance(&mut self, output: &mut impl Port, clock: &impl Fn() -> u64) {
        self.advance_to(slice::from_mut(output), clock);
    }

    /// Advances the links to now and writes due packets to the devices: towards a cell one for each of its devices.
    pub fn advance_to(&mut self, outputs: &mut [impl Port], clock: &impl Fn() -> u64) {
        let now_ns = clock();
        self.advanced_ns = now_ns;
        let Self {
            chain,
            classes,
            packets,
            capture,
            merging,
            awake,
            ..
        } = self;
        let Some(InCell { cell, way, .. }) = &self.cell else {
            let classes = classes.iter_mut().map(|each| &mut each.chain);
            for chain in std::iter::once(chain).chain(classes) {
                let output = &mut outputs[0];
                chain.advance(clock(), packets, output, clock, capture.as_mut());
            }
            return;
        };
        if way.is_down() {
            chain.carry(now_ns, packets, capture.as_mut());
            merging.extend(chain.carried());
            for run in merging.drain(..) {
                let device = usize::from(packets.packet(run.packet).device);
                if let Some(device) = classes.get_mut(device) {
                    device.wake_ns = 0;
                    device.chain.arrive(run, packets, capture.as_mut());
                } else {
                    chain.put_back(run);
                }
            }
        }
        let due = classes.iter_mut().filter(|each| each.wake_ns <= now_ns);
        for each in due {
            each.wake_ns = 0;
            each.chain.carry_to_port(now_ns, packets, capture.as_mut());
        }
        cell.advance(now_ns);
        cell.for_each_changed(|device| classes[device].wake_ns = 0);
        awake.clear();
        awake.extend((0..classes.len()).filter(|&device| classes[device].wake_ns == 0));
        for &device in &*awake {
            let chain = &mut classes[device].chain;
            chain.carry(now_ns, packets, capture.as_mut());
            if way.is_up() {
                merging.extend(chain.carried());
            }
        }
        if way.is_up() {
            // Stable: at one time the devices' order counts.
            merging.sort_by_key(|run| run.at_ns);
            for run in merging.drain(..) {
                chain.arrive(run, packets, capture.as_mut());
            }
            chain.carry(now_ns, packets, capture.as_mut());
            chain.leave(now_ns, packets, &mut outputs[0], clock, classes);
        } else {
            if way.is_between_ports() {
                chain.leave(now_ns, packets, &mut outputs[0], clock, &mut []);
            }
            for &device in &*awake {
                let output = if way.is_between_ports() { 0 } else { device };
                let chain = &mut classes[device].chain;
                chain.leave(now_ns, packets, &mut outputs[output], clock, &mut []);
            }
        }
        for &device in &*awake {
            classes[device].wake_ns = classes[device].chain.wake_ns();
        }
    }

    /// Lets the next advance look at all devices of a cell: something may have changed.
    pub fn wake_all(&mut self) {
        for each in &mut self.classes {
            each.wake_ns = 0;
        }
    }

    /// When to advance next, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let Some(at) = &self.cell else {
            return self.chains().filter_map(LinkChain::next_event_ns).min();
        };
        let devices = self.classes.iter().map(|each| each.wake_ns).min();
        let devices = devices.filter(|&at_ns| at_ns < u64::MAX);
        let others = [self.chain.next_event_ns(), at.cell.next_event_ns(), devices];
        others.into_iter().flatten().min()
    }

    /// When the next packet leaves, if nothing else arrives. A log and a capture need a turn at each event inside the
    /// links: then it is the next event.
    #[must_use]
    pub fn next_departure_ns(&self) -> Option<u64> {
        let is_logged = self.links().any(|named| named.log.is_some());
        if self.cell.is_some() || self.capture.is_some() || is_logged {
            return self.next_event_ns();
        }
        let chains = self.chains();
        chains
            .filter_map(|chain| chain.next_departure_ns(&self.packets))
            .min()
    }

    /// For how long nothing that arrives from now on is due, nanoseconds.
    #[must_use]
    pub fn foresight_ns(&self) -> u64 {
        let (own, classes) = self.leads_out();
        let own = own.then(|| self.chain.foresight_ns());
        let classes = self.classes.iter().filter(|_| classes);
        let classes = classes.map(|each| each.chain.foresight_ns());
        own.into_iter().chain(classes).min().unwrap_or(0)
    }

    /// Writes packets ahead of their time from now on, to ports that take them so.
    pub fn write_ahead(&mut self) {
        let (own, classes) = self.leads_out();
        if own {
            self.chain.write_ahead();
        }
        let classes = self.classes.iter_mut().filter(|_| classes);
        classes.for_each(|each| each.chain.write_ahead());
    }

    /// Whether no segment is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chains().all(|chain| chain.backlog().segments == 0)
    }

    /// Whether the own chain comes after the others.
    fn is_up(&self) -> bool {
        self.cell.as_ref().is_some_and(|at| at.way.is_up())
    }

    /// Which chains write packets to devices: the own one, and the classes'.
    fn leads_out(&self) -> (bool, bool) {
        match self.cell.as_ref().map(|at| &at.way) {
            Some(Way::Down(_)) => (false, true),
            Some(Way::Up | Way::UpPorts) => (true, false),
            Some(Way::DownPorts) | None => (true, true),
        }
    }

    /// Its chains, in the order in which packets pass them: first for all devices, then for each class; towards the base
    /// station of a cell the other way round.
    pub fn chains(&self) -> impl Iterator<Item = &LinkChain> {
        let is_up = self.is_up();
        let classes = self.classes.iter().map(|each| &each.chain);
        let own = |is: bool| is.then_some(&self.chain);
        own(!is_up).into_iter().chain(classes).chain(own(is_up))
    }

    /// The same, to be changed.
    pub fn chains_mut(&mut self) -> impl Iterator<Item = &mut LinkChain> {
        let is_up = self.is_up();
        let classes = self.classes.iter_mut().map(|each| &mut each.chain);
        let (first, last) = if is_up {
            (None, Some(&mut self.chain))
        } else {
            (Some(&mut self.chain), None)
        };
        first.into_iter().chain(classes).chain(last)
    }

    /// The chains with accounts: all, or the chains of a cell's devices. The chains of classes and devices have names.
    pub fn accounts(&self) -> impl Iterator<Item = (Option<&str>, &LinkChain)> {
        let own = (!self.is_of_devices()).then_some((None, &self.chain));
        let classes = self.classes.iter();
        let classes = classes.map(|each| (Some(each.name.as_str()), &each.chain));
        own.into_iter().chain(classes)
    }

    /// The same, to be changed.
    pub fn accounts_mut(&mut self) -> impl Iterator<Item = &mut LinkChain> {
        let own = (!self.is_of_devices()).then_some(&mut self.chain);
        let classes = self.classes.iter_mut().map(|each| &mut each.chain);
        own.into_iter().chain(classes)
    }

    /// Whether each packet belongs to a device of a cell.
    fn is_of_devices(&self) -> bool {
        let way = self.cell.as_ref().map(|at| &at.way);
        matches!(way, Some(Way::Down(_) | Way::Up))
    }

    /// The chains that packets enter first, to be changed: in a cell all but those behind others. Between ports packets
    /// of no device enter those behind the cell first.
    pub fn entrances_mut(&mut self) -> impl Iterator<Item = &mut LinkChain> {
        let (own, classes) = match self.cell.as_ref().map(|at| &at.way) {
            Some(Way::Down(_) | Way::DownPorts) => (true, false),
            Some(Way::Up) => (false, true),
            Some(Way::UpPorts) | None => (true, true),
        };
        let classes = self.classes.iter_mut().filter(move |_| classes);
        let classes = classes.map(|each| &mut each.chain);
        own.then_some(&mut self.chain).into_iter().chain(classes)
    }

    /// Times between the read of a segment and the time at which it was due: of all, or of each device of a cell with the
    /// name of its departures.
    #[must_use]
    pub fn transits(&self) -> Vec<(Option<&str>, TimeSum)> {
        let each = self.accounts();
        let each = each.map(|(name, chain)| (name, chain.account.transit));
        if self.is_of_devices() {
            return each.collect();
        }
        let mut all = TimeSum::default();
        each.for_each(|(_, transit)| all.merge(transit));
        vec![(None, all)]
    }

    /// The links of all chains.
    pub fn links(&self) -> impl Iterator<Item = &NamedLink> {
        self.chains().flat_map(|chain| &chain.links)
    }
}
