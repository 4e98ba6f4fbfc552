//! One direction of a leg: links in a row, from the device at one end to the device at the other.

use std::collections::VecDeque;
use std::io;
use std::io::IoSlice;

use wavebed_link::{Backlog, Ecn, Link, Reason, Run, RunFlags, TimeSum};
use wavebed_os::ethernet_port::Refusal;
use wavebed_packet::{
    HeaderBuf, MAX_COALESCED, Network, Transport, VnetHeader, complete_segment, flip_bit, inspect,
    piece,
};

use crate::capture::Capture;
use crate::coalesce::{Coalesce, Coalescer, Group};
use crate::on_time::{Lateness, Outages, TURN_NS};
use crate::packet_log::LinkLog;
use crate::pool::{Arrival, Packet, Packets, Parts};
use crate::port::Port;
use crate::series::DepartureRow;

/// A packet with a transit time this much above the least one was queued behind others: slots, grants and single
/// repetitions of a radio take less.
const QUEUED_NS: u64 = 5_000_000;

/// Segments that are looked at to see when a group is complete: more than the largest super-packet has at 1500 bytes.
const SETTLED_AT_ONCE: usize = 64;

/// A link with its name and capture points.
pub struct NamedLink {
    /// `HOP.down` or `HOP.up`.
    pub name: String,
    /// The link.
    pub link: Link,
    /// Capture points at its entry and exit.
    pub points: Option<(u32, u32)>,
    /// Its packet log.
    pub log: Option<LinkLog>,
}

/// Counters of the two devices of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceCounters {
    /// Packets (super-packets count once) read from the device.
    pub packets_read: u64,
    /// Wire segments in them.
    pub segments_read: u64,
    /// Wire segments of IPv6 in the packets read.
    pub ipv6_segments_read: u64,
    /// Packets written to the device.
    pub packets_written: u64,
    /// Wire segments in them.
    pub segments_written: u64,
    /// Wire segments in packets that the device refused.
    pub refused_segments: u64,
    /// The same by reason.
    pub refusals: Refusals,
}

/// What was read for some links, and what left them.
#[derive(Clone, Debug)]
pub struct Account {
    /// Counters of the two devices.
    pub devices: DeviceCounters,
    /// Lateness by wire segment, with the wait in the input device.
    pub lateness: Lateness,
    /// Lateness without the wait in the input device, which is known as an upper bound only.
    pub surely_late: Lateness,
    /// Times between the read of a segment and the time at which it was due.
    pub transit: TimeSum,
    least_transit_ns: u64,
    device_late_ns: u64,
    departures: Option<DepartureRow>,
    finished_departures: Vec<DepartureRow>,
}

impl Account {
    fn new(with_series: bool) -> Self {
        Self {
            devices: DeviceCounters::default(),
            lateness: Lateness::default(),
            surely_late: Lateness::default(),
            transit: TimeSum::default(),
            least_transit_ns: u64::MAX,
            device_late_ns: 0,
            departures: with_series.then(DepartureRow::default),
            finished_departures: Vec::new(),
        }
    }

    /// Counts a group that was written to the device at `now_ns`, or refused: alone, or in one packet with the group
    /// before.
    fn count(
        &mut self,
        group: &Group,
        packet: &Packet,
        now_ns: u64,
        refusal: Option<Refusal>,
        is_alone: bool,
    ) {
        let surely_ns = now_ns.saturating_sub(group.due_ns);
        let late_ns = surely_ns + self.late_since_device(packet, group.due_ns);
        let segments = u64::from(group.run.count);
        if let Some(refusal) = refusal {
            self.devices.refused_segments += segments;
            self.devices.refusals.count(refusal, segments);
        } else {
            let transit_ns = group.due_ns.saturating_sub(packet.read_ns);
            self.transit.add(transit_ns, segments);
            self.devices.packets_written += u64::from(is_alone);
            self.devices.segments_written += segments;
            self.lateness.record(late_ns, segments);
            self.surely_late.record(surely_ns, segments);
        }
        self.note_departure(now_ns, group, surely_ns, refusal.is_none(), is_alone);
    }

    /// The part of its wait in the device that makes a packet late that is due at `due_ns` (Lindley's recurrence with
    /// transit times only; queueing is the transit time above the least one). A packet that queued behind others is as
    /// late as they are, not more: the link was busy. A packet that hardly queued is late by its wait in the device.
    fn late_since_device(&mut self, packet: &Packet, due_ns: u64) -> u64 {
        let transit_ns = due_ns.saturating_sub(packet.read_ns);
        self.least_transit_ns = self.least_transit_ns.min(transit_ns);
        let queued_ns = transit_ns - self.least_transit_ns;
        self.device_late_ns = if queued_ns > QUEUED_NS {
            self.device_late_ns.min(packet.waited_ns + queued_ns)
        } else {
            packet.waited_ns.saturating_sub(queued_ns)
        };
        self.device_late_ns
    }

    fn note_departure(
        &mut self,
        now_ns: u64,
        group: &Group,
        late_ns: u64,
        written: bool,
        is_alone: bool,
    ) {
        let Some(row) = &mut self.departures else {
            return;
        };
        let at_ms = now_ns / 1_000_000;
        if row.at_ms != at_ms {
            if row.packets + row.refused_segments > 0 {
                self.finished_departures.push(*row);
            }
            *row = DepartureRow {
                at_ms,
                ..Default::default()
            };
        }
        let segments = u64::from(group.run.count);
        if written {
            row.packets += u64::from(is_alone);
            row.segments += segments;
            row.bytes += group.run.bytes();
            row.late_max_ns = row.late_max_ns.max(late_ns);
        } else {
            row.refused_segments += segments;
        }
    }

    /// Takes the departure rows of finished milliseconds.
    pub fn take_departures(&mut self, closing: bool) -> Vec<DepartureRow> {
        if closing && let Some(row) = self.departures.take() {
            self.finished_departures.push(row);
        }
        std::mem::take(&mut self.finished_departures)
    }
}

/// One direction of a leg, or the part of it that packets of one device pass.
pub struct LinkChain {
    /// Links in the order in which packets pass them.
    pub links: Vec<NamedLink>,
    /// What was read for them, and what left.
    pub account: Account,
    /// The link with the port of a cell.
    port: Option<usize>,
    /// What came during an outage, which waits for its end.
    held: VecDeque<Run>,
    outages: Outages,
    coalescer: Coalescer,
    moving: Vec<Run>,
    groups: Vec<Group>,
    header: HeaderBuf,
    segment: Vec<u8>,
    ahead: Option<Ahead>,
}

/// The links of a class of devices, or of a device of a cell.
pub struct ClassChain {
    /// The name of its departures: `PORT-PORT.CLASS.down` or `HOST-DEVICE.down`, and `.up`.
    pub name: String,
    /// Its links.
    pub chain: LinkChain,
    /// When its links must be advanced, unless the cell changes them before: in a cell most devices are idle.
    pub(crate) wake_ns: u64,
}

impl ClassChain {
    /// The links of a class or device.
    #[must_use]
    pub const fn new(name: String, chain: LinkChain) -> Self {
        Self {
            name,
            chain,
            wake_ns: 0,
        }
    }
}

/// What is written to a device before it is due. The links account for it when it is due, as without.
struct Ahead {
    /// The last link tells what is settled; otherwise packets are written once they are due.
    is_settled: bool,
    settled: Vec<Run>,
    coalescer: Coalescer,
    groups: Vec<Group>,
    refusals: Vec<Option<Refusal>>,
    /// Of each group that was written and is not accounted for: how late it was, and why it was refused.
    written: VecDeque<(u64, Option<Refusal>)>,
}

/// A port to which packets are written as due at one time.
struct AtOnce<'a, P>(&'a mut P, u64);

impl<P: Port> Port for AtOnce<'_, P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.0.read(buffer)
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.0.write_ahead(self.1, parts);
        Ok(())
    }

    fn largest_packet(&self) -> u32 {
        self.0.largest_packet()
    }
}

impl LinkChain {
    /// A chain of these links.
    #[must_use]
    pub fn new(links: Vec<NamedLink>, coalesce: Coalesce, with_series: bool) -> Self {
        Self {
            port: links.iter().position(|named| named.link.has_port()),
            links,
            account: Account::new(with_series),
            held: VecDeque::new(),
            outages: Outages::default(),
            coalescer: Coalescer::new(coalesce),
            moving: Vec::new(),
            groups: Vec::new(),
            header: HeaderBuf::default(),
            segment: Vec::new(),
            ahead: None,
        }
    }

    /// Writes packets ahead of their time from now on, to a port that takes them so.
    pub fn write_ahead(&mut self) {
        let last = self.links.last_mut();
        self.ahead = Some(Ahead {
            is_settled: last.is_some_and(|last| last.link.keep_settled()),
            settled: Vec::new(),
            coalescer: self.coalescer.clone(),
            groups: Vec::new(),
            refusals: Vec::new(),
            written: VecDeque::new(),
        });
    }

    /// For how long nothing that arrives from now on is due, nanoseconds; 0 where packets are not written ahead.
    #[must_use]
    pub fn foresight_ns(&self) -> u64 {
        match (&self.ahead, self.links.last()) {
            (Some(ahead), Some(last)) if ahead.is_settled => last.link.foresight_ns(),
            _ => 0,
        }
    }

    /// Takes the packet that was read into the pool's room.
    pub fn accept(
        &mut self,
        arrival: &Arrival,
        packets: &mut Packets,
        capture: Option<&mut Capture>,
    ) {
        match self.receive(arrival, packets) {
            Ok(run) => self.arrive(run, packets, capture),
            Err((run, reason)) => {
                self.refuse(&run, reason);
            }
        }
    }

    /// Counts and stores the packet that was read into the pool's room, or returns the drop reason.
    pub(crate) fn receive(
        &mut self,
        arrival: &Arrival,
        packets: &mut Packets,
    ) -> Result<Run, (Run, Reason)> {
        self.account.devices.packets_read += 1;
        let kept = keep(arrival, packets);
        let (Ok(run) | Err((run, _))) = &kept;
        self.account.devices.segments_read += u64::from(run.count);
        if let Ok(run) = &kept
            && packets.packet(run.packet).shape.network == Network::V6
        {
            self.account.devices.ipv6_segments_read += u64::from(run.count);
        }
        kept
    }

    /// Counts a run at the first link as offered and dropped. False if there is no link.
    pub(crate) fn refuse(&mut self, run: &Run, reason: Reason) -> bool {
        let first = self.links.first_mut();
        first.is_some_and(|first| {
            first.link.refuse(run, reason);
            true
        })
    }

    /// Takes a stored run, which reaches the links at `run.at_ns`.
    pub(crate) fn arrive(
        &mut self,
        run: Run,
        packets: &mut Packets,
        mut capture: Option<&mut Capture>,
    ) {
        self.end_outage(run.at_ns, packets, capture.as_deref_mut());
        if self.outages.holds(run.at_ns) {
            self.held.push_back(run);
        } else {
            self.enter(run, packets, capture);
        }
    }

    /// Passes a run to the first link.
    fn enter(&mut self, run: Run, packets: &mut Packets, capture: Option<&mut Capture>) {
        if let Some(first) = self.links.first_mut() {
            if let (Some(capture), Some((way_in, _))) = (capture, first.points) {
                capture.take(way_in, &run, packets);
            }
            first.link.accept(run);
            settle(&mut first.link, &mut first.log, packets);
        } else {
            self.moving.push(run);
        }
    }

    /// Lets nothing enter the links in these outages; it waits before them. A later call replaces an earlier one. The
    /// chain must have been advanced to now.
    pub const fn interrupt(&mut self, outages: Outages) {
        self.outages = outages;
    }

    /// If outages are over at `now_ns`, passes on what waited.
    fn end_outage(
        &mut self,
        now_ns: u64,
        packets: &mut Packets,
        mut capture: Option<&mut Capture>,
    ) {
        while let Some(at_ns) = self.outages.pass(now_ns) {
            while let Some(run) = self.held.pop_front() {
                self.enter(Run { at_ns, ..run }, packets, capture.as_deref_mut());
            }
        }
    }

    /// Advances the links to `now_ns` and writes due packets to `port`; `clock` is read at each write.
    pub fn advance(
        &mut self,
        now_ns: u64,
        packets: &mut Packets,
        port: &mut impl Port,
        clock: &impl Fn() -> u64,
        capture: Option<&mut Capture>,
    ) {
        self.carry(now_ns, packets, capture);
        self.leave(now_ns, packets, port, clock, &mut []);
    }

    /// Gives the port of a cell what reaches it up to `now_ns`. The cell advances next, then the links by
    /// [`Self::carry`]. Does nothing without a port.
    pub(crate) fn carry_to_port(
        &mut self,
        now_ns: u64,
        packets: &mut Packets,
        mut capture: Option<&mut Capture>,
    ) {
        let Some(port) = self.port else {
            return;
        };
        self.end_outage(now_ns, packets, capture.as_deref_mut());
        for index in 0..port {
            self.pass(index, now_ns, packets, capture.as_deref_mut());
        }
        self.offer(port, packets, capture);
        let NamedLink { link, log, .. } = &mut self.links[port];
        link.poll_to_port(now_ns);
        settle(link, log, packets);
    }

    /// Advances the links to `now_ns`; what they delivered waits for [`Self::carried`] or [`Self::leave`].
    pub(crate) fn carry(
        &mut self,
        now_ns: u64,
        packets: &mut Packets,
        mut capture: Option<&mut Capture>,
    ) {
        self.end_outage(now_ns, packets, capture.as_deref_mut());
        for index in self.port.unwrap_or(0)..self.links.len() {
            self.pass(index, now_ns, packets, capture.as_deref_mut());
        }
    }

    /// What the links delivered, in the order of time.
    pub(crate) fn carried(&mut self) -> std::vec::Drain<'_, Run> {
        self.moving.drain(..)
    }

    /// Lets a run leave with [`Self::leave`] after all, which [`Self::carried`] has returned.
    pub(crate) fn put_back(&mut self, run: Run) {
        self.moving.push(run);
    }

    /// Offers a link what the links before it delivered.
    fn offer(&mut self, index: usize, packets: &mut Packets, mut capture: Option<&mut Capture>) {
        let NamedLink {
            link, points, log, ..
        } = &mut self.links[index];
        for run in self.moving.drain(..) {
            if let (Some(capture), Some((way_in, _))) = (capture.as_deref_mut(), *points) {
                capture.take(way_in, &run, packets);
            }
            link.accept(run);
            settle(link, log, packets);
        }
    }

    /// Passes what the links before this one delivered through it.
    fn pass(
        &mut self,
        index: usize,
        now_ns: u64,
        packets: &mut Packets,
        mut capture: Option<&mut Capture>,
    ) {
        self.offer(index, packets, capture.as_deref_mut());
        let NamedLink {
            link, points, log, ..
        } = &mut self.links[index];
        link.poll(now_ns, &mut self.moving);
        settle(link, log, packets);
        if let (Some(capture), Some((_, way_out))) = (capture, *points) {
            for run in &self.moving {
                capture.take(way_out, run, packets);
            }
        }
    }

    /// Writes what the links delivered to `port`. Behind a cell each of its devices, the `owners`, accounts for its own.
    pub(crate) fn leave(
        &mut self,
        now_ns: u64,
        packets: &mut Packets,
        port: &mut impl Port,
        clock: &impl Fn() -> u64,
        owners: &mut [ClassChain],
    ) {
        self.write_settled(now_ns, packets, port, clock);
        let groups = &mut self.groups;
        for run in self.moving.drain(..) {
            let (segments, most_ns) = coalesced(packets.packet(run.packet));
            self.coalescer
                .take(run, segments, most_ns, &mut |group| groups.push(group));
        }
        self.coalescer.poll(now_ns, &mut |group| groups.push(group));
        self.write_groups(packets, port, clock, owners);
    }

    /// Writes what is settled, if packets are written ahead.
    fn write_settled(
        &mut self,
        now_ns: u64,
        packets: &Packets,
        port: &mut impl Port,
        clock: &impl Fn() -> u64,
    ) {
        let Some(mut ahead) = self.ahead.take() else {
            return;
        };
        let foresight_ns = match self.links.last_mut() {
            Some(last) if ahead.is_settled => {
                last.link.take_settled(&mut ahead.settled);
                last.link.foresight_ns()
            }
            _ => {
                ahead.settled.extend(&self.moving);
                0
            }
        };
        let groups = &mut ahead.groups;
        for run in ahead.settled.drain(..) {
            let (segments, most_ns) = coalesced(packets.packet(run.packet));
            ahead
                .coalescer
                .take(run, segments, most_ns, &mut |group| groups.push(group));
        }
        ahead
            .coalescer
            .poll(now_ns + foresight_ns, &mut |group| groups.push(group));
        // A refusal before the port: no port takes the packet.
        let mut early = Vec::with_capacity(ahead.groups.len());
        for group in &ahead.groups {
            early.push(
                self.write_group(group, packets, &mut AtOnce(port, group.due_ns))
                    .err(),
            );
        }
        port.flush(&mut ahead.refusals);
        let written_ns = clock();
        let mut refusals = ahead.refusals.drain(..);
        for (group, early) in ahead.groups.drain(..).zip(early) {
            let refusal = early.or_else(|| refusals.next().flatten());
            let late_ns = written_ns.saturating_sub(group.due_ns);
            ahead.written.push_back((late_ns, refusal));
        }
        drop(refusals);
        self.ahead = Some(ahead);
    }

    fn write_groups(
        &mut self,
        packets: &mut Packets,
        port: &mut impl Port,
        clock: &impl Fn() -> u64,
        owners: &mut [ClassChain],
    ) {
        // Groups before this index were written already: datagrams leave together.
        let mut written_until = 0;
        let mut outcome = (0, None);
        for index in 0..self.groups.len() {
            let group = self.groups[index];
            let written = self.ahead.as_mut().map(|ahead| ahead.written.pop_front());
            let is_alone = index >= written_until;
            let (now_ns, refusal) = if let Some(written) = written {
                let (late_ns, refusal) = written.unwrap_or((0, Some(Refusal::Other)));
                (group.due_ns + late_ns, refusal)
            } else {
                if is_alone {
                    let (count, refusal) = self.write_next(index, packets, port);
                    written_until = index + count;
                    outcome = (clock(), refusal);
                }
                outcome
            };
            let packet = packets.packet(group.run.packet);
            let owner = owners.get_mut(usize::from(packet.device));
            let own = self.links.last_mut();
            let (account, last) = match owner {
                Some(ClassChain { chain, .. }) => {
                    (&mut chain.account, own.or(chain.links.last_mut()))
                }
                None => (&mut self.account, own),
            };
            account.count(&group, packet, now_ns, refusal, is_alone);
            if refusal.is_none()
                && let Some(log) = last.and_then(|last| last.log.as_mut())
            {
                let at_ns = now_ns;
                log.written(Run { at_ns, ..group.run }, packet.serial);
            }
            packets.release(group.run.packet, group.run.count);
        }
        self.groups.clear();
    }

    /// Writes the group with this index, and with it the datagrams of its flow that are due too, as GRO does. Returns how
    /// many groups were written, and why they were refused.
    fn write_next(
        &mut self,
        index: usize,
        packets: &Packets,
        port: &mut impl Port,
    ) -> (usize, Option<Refusal>) {
        if let Some(window_ns) = self.coalescer.window_ns()
            && port.takes_datagrams_together()
        {
            let last_ns = self.groups[index].due_ns + window_ns;
            let groups = self.groups[index..].iter().take(MAX_COALESCED);
            let near = groups.take_while(|group| group.due_ns <= last_ns);
            let count = write_datagrams(near, packets, port, &mut self.header);
            if count > 1 {
                return (count, None);
            }
        }
        let group = self.groups[index];
        (1, self.write_group(&group, packets, port).err())
    }

    fn write_group(
        &mut self,
        group: &Group,
        packets: &Packets,
        port: &mut impl Port,
    ) -> Result<(), Refusal> {
        let run = group.run;
        let written = self.write_run(&run, packets, port);
        let is_merged = packets.packet(run.packet).is_merged;
        if written != Err(Refusal::Other) || !is_merged || run.count == 1 {
            return written;
        }
        // The frames came one by one, and a kernel before 6.2 takes no super-packet of UDP from a port.
        (run.first..run.end()).try_for_each(|first| {
            let one = Run {
                first,
                count: 1,
                ..run
            };
            self.write_run(&one, packets, port)
        })
    }

    fn write_run(
        &mut self,
        run: &Run,
        packets: &Packets,
        port: &mut impl Port,
    ) -> Result<(), Refusal> {
        let packet = packets.packet(run.packet);
        let bytes = packets.bytes(run.packet);
        if u32::from(packet.shape.segment_bytes) > port.largest_packet() {
            return Err(Refusal::TooLong);
        }
        let marked = run.ecn == Ecn::Ce && packet.shape.ecn != Ecn::Ce as u8;
        let mut write = |parts: &[IoSlice<'_>]| port.write(parts).map_err(|e| Refusal::of(&e));
        if run.flip == 0 && !marked && run.count == packet.shape.segments {
            return write(&[IoSlice::new(bytes)]);
        }
        let Some(Parts {
            front,
            vnet,
            ip,
            padding,
        }) = Parts::of(bytes, packet.front)
        else {
            return Err(Refusal::Other);
        };
        if let Some(bit) = run.flipped_bit() {
            self.segment.clear();
            complete_segment(
                &vnet,
                ip,
                &packet.shape,
                run.first,
                marked,
                &mut self.segment,
            );
            flip_bit(&mut self.segment, bit);
            // No virtio-net flags: the receiver checks the checksum, and finds it wrong.
            return write(&[
                IoSlice::new(&[0; VnetHeader::LEN]),
                IoSlice::new(front),
                IoSlice::new(&self.segment),
                IoSlice::new(padding),
            ]);
        }
        let cut = piece(
            &vnet,
            ip,
            &packet.shape,
            run.first,
            run.count,
            marked,
            &mut self.header,
        );
        write(&[
            IoSlice::new(&cut.vnet.before(packet.front).to_bytes()),
            IoSlice::new(front),
            IoSlice::new(cut.header),
            IoSlice::new(&ip[cut.payload]),
            IoSlice::new(padding),
        ])
    }

    /// When to advance next, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.links
            .iter()
            .filter_map(|named| named.link.next_event_ns())
            .chain(self.coalescer.next_event_ns())
            .chain((!self.held.is_empty()).then_some(self.outages.end_ns()))
            .min()
    }

    /// When the next packet leaves, if nothing else arrives. Events inside the links before that need no turn of their
    /// own: the next one computes them with their own times.
    #[must_use]
    pub fn next_departure_ns(&self, packets: &Packets) -> Option<u64> {
        let held = (!self.held.is_empty()).then_some(self.outages.end_ns());
        let Some((last, before)) = self.links.split_last() else {
            return self.next_event_ns();
        };
        let reach_ns = (before.iter()).fold(held, |at_ns, named| {
            let later_ns = named.link.quiet_until_ns(at_ns);
            let settled = named.link.settled_at(0).map(|run| run.at_ns);
            later_ns.into_iter().chain(settled).min()
        });
        let later_ns = last.link.quiet_until_ns(reach_ns);
        let group_ns = self.next_group_ns(&last.link, packets);
        later_ns.into_iter().chain(group_ns).min()
    }

    /// When the next group leaves, as far as the times of its segments are settled.
    fn next_group_ns(&self, last: &Link, packets: &Packets) -> Option<u64> {
        let mut coalescer = self.coalescer.clone();
        for place in 0..SETTLED_AT_ONCE {
            let closes_ns = coalescer.next_event_ns();
            let Some(run) = last.settled_at(place) else {
                return closes_ns;
            };
            if closes_ns.is_some_and(|closes_ns| closes_ns < run.at_ns) {
                return closes_ns;
            }
            let mut is_complete = false;
            let (segments, most_ns) = coalesced(packets.packet(run.packet));
            coalescer.take(*run, segments, most_ns, &mut |_| is_complete = true);
            if is_complete {
                return Some(run.at_ns);
            }
        }
        coalescer.next_event_ns()
    }

    /// When to advance next at the latest, if nothing else arrives: at once while a group that is written ahead is open.
    #[must_use]
    pub(crate) fn wake_ns(&self) -> u64 {
        let is_open = |ahead: &Ahead| ahead.coalescer.next_event_ns().is_some();
        if self.ahead.as_ref().is_some_and(is_open) {
            return 0;
        }
        self.next_event_ns().unwrap_or(u64::MAX)
    }

    /// Packets before the links, in them, and in the open group.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let mut total = Backlog {
            segments: self.coalescer.waiting_segments(),
            bytes: 0,
        };
        for named in &self.links {
            total += named.link.backlog();
        }
        self.held.iter().for_each(|run| total.count(run));
        total
    }
}

/// The segments of a packet, and the longest time within which they are coalesced.
const fn coalesced(packet: &Packet) -> (u16, u64) {
    let most_ns = if packet.is_merged { TURN_NS } else { u64::MAX };
    (packet.shape.segments, most_ns)
}

/// Writes the first datagrams of these groups as one packet, if there are several that one packet may carry. Returns how
/// many were written.
fn write_datagrams<'a>(
    groups: impl Iterator<Item = &'a Group>,
    packets: &Packets,
    port: &mut impl Port,
    header: &mut HeaderBuf,
) -> usize {
    let mut datagrams = groups.map_while(|group| datagram(group, packets));
    let (Some(first), Some(second)) = (datagrams.next(), datagrams.next()) else {
        return 0;
    };
    if first.1.shape.flow != second.1.shape.flow {
        return 0;
    }
    let mut together = wavebed_packet::Coalescer::default();
    let (vnet, packet, ip) = first;
    let mut goes_on = together.start_after(&vnet, ip, &packet.shape);
    for (vnet, packet, ip) in std::iter::once(second).chain(datagrams) {
        if !goes_on {
            break;
        }
        goes_on = together
            .add_after(&vnet, ip, &packet.shape)
            .unwrap_or(false);
    }
    let all = together.coalesced(header);
    if all.packets.len() < 2 {
        return 0;
    }
    let vnet = all.vnet.to_bytes();
    let mut parts = [IoSlice::new(&[]); MAX_COALESCED + 2];
    parts[0] = IoSlice::new(&vnet);
    parts[1] = IoSlice::new(all.header);
    for (part, payload) in parts[2..].iter_mut().zip(all.payloads()) {
        *part = IoSlice::new(payload);
    }
    match port.write(&parts[..2 + all.packets.len()]) {
        Ok(()) => all.packets.len(),
        // Each is written alone, and may be refused.
        Err(_) => 0,
    }
}

/// The datagram of a group: one unchanged UDP packet without a link-layer header.
fn datagram<'a>(group: &Group, packets: &'a Packets) -> Option<(VnetHeader, &'a Packet, &'a [u8])> {
    let packet = packets.packet(group.run.packet);
    let is_one = packet.front == 0
        && packet.shape.segments == 1
        && packet.shape.transport == Transport::Udp
        && !packet.shape.control
        && group.run.flip == 0
        && group.run.ecn as u8 == packet.shape.ecn;
    let (vnet, ip) = VnetHeader::split(packets.bytes(group.run.packet)).filter(|_| is_one)?;
    Some((vnet, packet, ip))
}

/// Stores the packet that was read into the pool's room, or returns the drop reason.
fn keep(arrival: &Arrival, packets: &mut Packets) -> Result<Run, (Run, Reason)> {
    let now_ns = arrival.read_ns;
    let bytes = packets.pool.read(arrival.length);
    let shape = Parts::of(bytes, arrival.front)
        .and_then(|parts| inspect(&parts.vnet, parts.ip).ok())
        .filter(|shape| shape.network != Network::Unknown);
    let Some(shape) = shape else {
        let before = VnetHeader::LEN + usize::from(arrival.front);
        let ip_bytes = arrival.length.saturating_sub(before);
        let ip_bytes = u16::try_from(ip_bytes).unwrap_or(u16::MAX);
        return Err((one_segment(now_ns, ip_bytes), Reason::Malformed));
    };
    let run = Run {
        count: shape.segments,
        segment_bytes: shape.segment_bytes,
        flow: shape.flow,
        ecn: Ecn::from_bits(shape.ecn),
        flags: if shape.control {
            RunFlags::CONTROL
        } else {
            RunFlags::default()
        },
        ..one_segment(now_ns, shape.last_bytes)
    };
    match packets.add(arrival, shape) {
        Some(packet) => Ok(Run { packet, ..run }),
        None => Err((run, Reason::PacketMemory)),
    }
}

/// A run of one segment of `bytes` with unknown headers.
const fn one_segment(at_ns: u64, bytes: u16) -> Run {
    Run {
        at_ns,
        packet: 0,
        first: 0,
        count: 1,
        segment_bytes: bytes,
        last_bytes: bytes,
        flow: 0,
        flip: 0,
        ecn: Ecn::NotEct,
        flags: RunFlags(0),
    }
}

/// Logs the events of a link, and updates the packet table by its copies and losses.
fn settle(link: &mut Link, log: &mut Option<LinkLog>, packets: &mut Packets) {
    if let Some(log) = log {
        log.take(link, packets);
    }
    for run in link.take_copied() {
        packets.retain(run.packet, run.count);
    }
    for run in link.take_lost() {
        packets.release(run.packet, run.count);
    }
}

/// Frames that an output device refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Counts wire frames.
    pub const fn count(&mut self, refusal: Refusal, frames: u64) {
        self.0[refusal as usize] += frames;
    }

    /// The number of one reason.
    #[must_use]
    pub const fn of(&self, refusal: Refusal) -> u64 {
        self.0[refusal as usize]
    }
}
