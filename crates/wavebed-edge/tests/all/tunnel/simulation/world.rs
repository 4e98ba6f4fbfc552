//! The loop of events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use wavebed_edge::tunnel::law::Law;
use wavebed_edge::tunnel::queue::FlowQueuesSettings;
use wavebed_edge::tunnel::wire::{Message, PacketHeader, Report};
use wavebed_edge::tunnel::{Receiver, Sender, SenderSettings, SenderState};
use wavebed_link::{Change, Ecn, Link, Run, RunFlags};

use super::super::packets::{ecn, number, packet};
use super::path::{Path, Setup};
use super::source::{Kind, Source};

/// Bytes of a packet on the link beyond its IP bytes: the bytes that a QUIC datagram adds.
pub const OVERHEAD_BYTES: u64 = 60;
/// Bytes of an acknowledgement or a report on its way back.
const BACK_BYTES: u16 = 112;

enum Event {
    Source(usize),
    Change(Change),
}

/// What goes back.
enum Answer {
    /// Packets of a source that arrived at one time, and whether they had a mark.
    Acks(usize, Vec<(u64, bool)>),
    Report(Report),
}

pub struct World {
    pub now_ns: u64,
    /// One way, without any queue.
    delay_ns: u64,
    sender: Option<Sender>,
    receiver: Receiver,
    link: Link,
    back: Link,
    answers: HashMap<u32, Answer>,
    underway: HashMap<u32, (Option<PacketHeader>, Vec<u8>)>,
    keys: u32,
    pub sources: Vec<Source>,
    made: Vec<BTreeMap<u64, u64>>,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    contents: HashMap<u64, Event>,
    order: u64,
    /// Arrival and time in the link's queue of each tunnel packet.
    pub queued: Vec<(u64, u64)>,
}

impl World {
    pub fn new(setup: Setup, law: Option<Box<dyn Law>>, sources: Vec<Source>) -> Self {
        Self::over(Path::constant(setup), law, sources)
    }

    /// `law`: without one there is no tunnel.
    pub fn over(path: Path, law: Option<Box<dyn Law>>, sources: Vec<Source>) -> Self {
        let settings = SenderSettings {
            queues: FlowQueuesSettings::default(),
            overhead_bytes: OVERHEAD_BYTES,
            seed: 5,
        };
        let mut world = Self {
            now_ns: 0,
            delay_ns: path.delay_ns,
            sender: law.map(|law| Sender::new(settings, law)),
            receiver: Receiver::default(),
            link: path.link,
            back: path.back,
            answers: HashMap::new(),
            underway: HashMap::new(),
            keys: 0,
            made: sources.iter().map(|_| BTreeMap::new()).collect(),
            sources,
            events: BinaryHeap::new(),
            contents: HashMap::new(),
            order: 0,
            queued: Vec::new(),
        };
        for index in 0..world.sources.len() {
            world.at(0, Event::Source(index));
        }
        world
    }

    pub fn state(&self) -> SenderState {
        self.sender.as_ref().expect("a tunnel").state()
    }

    /// Changes the link's rate at `at_ns`; zero blocks it.
    pub fn change_rate(&mut self, at_ns: u64, rate_bps: u64) {
        self.at(at_ns, Event::Change(Change::RateBps(rate_bps)));
    }

    /// Makes the path longer, or shorter, from `at_ns` on: its one-way delay.
    pub fn change_delay(&mut self, at_ns: u64, delay_ns: u64) {
        self.at(at_ns, Event::Change(Change::DelayNs(delay_ns)));
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at_ns, self.order)));
        self.contents.insert(self.order, event);
    }

    /// Runs until `until_ns`.
    pub fn run(&mut self, until_ns: u64) {
        loop {
            let sender = self.sender.as_ref();
            let next = [
                self.events.peek().map(|Reverse((at_ns, _))| *at_ns),
                self.link.next_event_ns(),
                self.back.next_event_ns(),
                sender.and_then(Sender::next_send_ns),
                sender.and_then(Sender::next_check_ns),
                sender.and_then(|_| self.receiver.next_report_ns()),
            ];
            let at_ns = next.into_iter().flatten().min().unwrap_or(until_ns);
            if at_ns >= until_ns {
                self.now_ns = until_ns;
                return;
            }
            self.now_ns = at_ns.max(self.now_ns);
            self.step();
        }
    }

    fn step(&mut self) {
        let now_ns = self.now_ns;
        self.deliver();
        self.deliver_back();
        while let Some(Reverse((at_ns, order))) = self.events.peek().copied()
            && at_ns <= now_ns
        {
            self.events.pop();
            let event = self.contents.remove(&order).expect("queued with it");
            self.handle(event);
        }
        if let Some(sender) = &mut self.sender {
            sender.check(now_ns);
            if let Some(report) = self.receiver.report(now_ns) {
                self.answer(Answer::Report(report));
            }
        }
        while let Some((header, bytes)) = self.sender.as_mut().and_then(|s| s.poll(now_ns)) {
            self.transmit(Some(header), bytes);
        }
    }

    fn handle(&mut self, event: Event) {
        let now_ns = self.now_ns;
        match event {
            Event::Source(index) => self.source(index),
            Event::Change(change) => {
                self.link.apply(now_ns, &change);
            }
        }
    }

    /// Lets a source send what it may.
    fn source(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let mut numbers = Vec::new();
        let mut again_ns = None;
        match &mut self.sources[index].kind {
            Kind::Steady { every_ns, due_ns } => {
                if *due_ns <= now_ns {
                    numbers.push(*due_ns / *every_ns);
                    *due_ns += *every_ns;
                }
                again_ns = Some(*due_ns);
            }
            Kind::Tcp(tcp) => {
                if tcp.timeout_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                    tcp.time_out(now_ns);
                }
                while let Some(number) = tcp.send(now_ns) {
                    numbers.push(number);
                }
                // One timer at a time is enough: each run of it looks again.
                again_ns = again_ns.or(tcp.timeout_ns().filter(|_| !numbers.is_empty()));
            }
        }
        for number in numbers {
            let source = &mut self.sources[index];
            source.sent += 1;
            let bytes = packet(source.flow, source.ecn, source.bytes.into(), number);
            self.made[index].insert(number, now_ns);
            match &mut self.sender {
                Some(sender) => sender.enqueue(bytes, now_ns),
                None => self.transmit(None, bytes),
            }
        }
        if let Some(again_ns) = again_ns {
            self.at(again_ns, Event::Source(index));
        }
    }

    fn transmit(&mut self, header: Option<PacketHeader>, bytes: Vec<u8>) {
        if let Some(header) = header {
            // What the other end gets is what was sent.
            let message = [&header.to_bytes()[..], &bytes].concat();
            assert_eq!(
                Message::parse(&message),
                Ok(Message::Packet(header, &bytes))
            );
        }
        let overhead = header.map_or(0, |_| OVERHEAD_BYTES);
        let size = u16::try_from(bytes.len() as u64 + overhead).expect("an IP packet");
        self.keys += 1;
        self.underway.insert(self.keys, (header, bytes));
        self.link.accept(run(self.now_ns, self.keys, size));
    }

    fn answer(&mut self, answer: Answer) {
        self.keys += 1;
        self.answers.insert(self.keys, answer);
        self.back.accept(run(self.now_ns, self.keys, BACK_BYTES));
    }

    fn deliver_back(&mut self) {
        let mut delivered = Vec::new();
        self.back.poll(self.now_ns, &mut delivered);
        for run in delivered {
            match self.answers.remove(&run.packet).expect("sent once") {
                Answer::Acks(index, packets) => {
                    if let Kind::Tcp(tcp) = &mut self.sources[index].kind {
                        for (number, marked) in packets {
                            tcp.acknowledge(number, marked, self.now_ns);
                        }
                    }
                    self.source(index);
                }
                Answer::Report(report) => {
                    if let Some(sender) = &mut self.sender {
                        sender.report(&report, self.now_ns);
                    }
                }
            }
        }
    }

    fn deliver(&mut self) {
        let mut delivered = Vec::new();
        self.link.poll(self.now_ns, &mut delivered);
        for run in self.link.take_lost() {
            self.underway.remove(&run.packet);
        }
        let mut acks: BTreeMap<usize, Vec<(u64, bool)>> = BTreeMap::new();
        for run in delivered {
            let (header, bytes) = self.underway.remove(&run.packet).expect("sent once");
            if let Some(header) = header {
                self.receiver.receive(header, run.bytes(), self.now_ns);
                let now_us = u32::try_from(self.now_ns / 1000).expect("less than an hour");
                let delay_ns = u64::from(now_us.wrapping_sub(header.sent_us)) * 1000;
                let queue_ns = delay_ns.saturating_sub(self.delay_ns);
                self.queued.push((self.now_ns, queue_ns));
            }
            if !bytes.is_empty()
                && let Some((index, ack)) = self.arrive(&bytes)
            {
                acks.entry(index).or_default().push(ack);
            }
        }
        for (index, acks) in acks {
            self.answer(Answer::Acks(index, acks));
        }
    }

    /// A packet is there. Returns its acknowledgement, if its source wants one.
    fn arrive(&mut self, bytes: &[u8]) -> Option<(usize, (u64, bool))> {
        let flow = super::super::packets::flow_of(bytes);
        let index = self.sources.iter().position(|source| source.flow == flow);
        let index = index.expect("a source made it");
        let number = number(bytes);
        let made_ns = self.made[index].remove(&number).expect("made once");
        let source = &mut self.sources[index];
        source.arrived.push((self.now_ns, self.now_ns - made_ns));
        matches!(source.kind, Kind::Tcp(_)).then(|| (index, (number, ecn(bytes) == 3)))
    }
}

const fn run(at_ns: u64, packet: u32, bytes: u16) -> Run {
    Run {
        at_ns,
        packet,
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
