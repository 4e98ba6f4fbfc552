//! The pseudo-code of RFC 8289 and RFC 8290 once more, segment by segment and as literally as Rust allows. It shares no
//! code with the engine: times are signed, zero stands for "not set", and every list is a plain vector.

use wavebed_link::Ecn;

/// One segment in the reference model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub id: u32,
    pub bytes: i64,
    pub tstamp: i64,
    pub ecn: Ecn,
    pub flow: u32,
}

/// The decision of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Dropped(u32),
    Overflowed(u32),
    Marked(u32),
}

/// RFC 8289, section 5.
#[derive(Default)]
pub struct Rfc8289 {
    pub packets: Vec<Packet>,
    target: i64,
    interval: i64,
    maxpacket: i64,
    ecn: bool,
    first_above_time: i64,
    drop_next: i64,
    count: i64,
    lastcount: i64,
    dropping: bool,
    pub times_entered: u32,
    pub times_resumed: u32,
}

struct Dodequeue {
    p: Option<Packet>,
    ok_to_drop: bool,
}

impl Rfc8289 {
    pub fn new(target: i64, interval: i64, maxpacket: i64, ecn: bool) -> Self {
        Self {
            target,
            interval,
            maxpacket,
            ecn,
            ..Self::default()
        }
    }

    pub fn bytes(&self) -> i64 {
        self.packets.iter().map(|p| p.bytes).sum()
    }

    fn dodequeue(&mut self, now: i64) -> Dodequeue {
        let p = if self.packets.is_empty() {
            None
        } else {
            Some(self.packets.remove(0))
        };
        let mut r = Dodequeue {
            p,
            ok_to_drop: false,
        };
        match r.p {
            None => self.first_above_time = 0,
            Some(p) => {
                let sojourn_time = now - p.tstamp;
                if sojourn_time < self.target || self.bytes() <= self.maxpacket {
                    self.first_above_time = 0;
                } else if self.first_above_time == 0 {
                    self.first_above_time = now + self.interval;
                } else if now >= self.first_above_time {
                    r.ok_to_drop = true;
                }
            }
        }
        r
    }

    fn control_law(&self, t: i64, count: i64) -> i64 {
        t + (self.interval as f64 / (count as f64).sqrt()).floor() as i64
    }

    fn markable(&self, r: &Dodequeue) -> bool {
        self.ecn && r.p.is_some_and(|p| p.ecn != Ecn::NotEct)
    }

    pub fn deque(&mut self, now: i64, log: &mut Vec<Decision>) -> Option<Packet> {
        let mut r = self.dodequeue(now);
        if self.dropping {
            if !r.ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                if self.markable(&r) {
                    // Marking stands for dropping, but the segment goes on (section 4 of RFC 8290).
                    Self::mark(&mut r, log);
                    self.count += 1;
                    self.drop_next = self.control_law(self.drop_next, self.count);
                    return r.p;
                }
                log.push(Decision::Dropped(r.p.unwrap().id));
                self.count += 1;
                r = self.dodequeue(now);
                if r.ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if r.ok_to_drop {
            if self.markable(&r) {
                Self::mark(&mut r, log);
            } else {
                log.push(Decision::Dropped(r.p.unwrap().id));
                r = self.dodequeue(now);
            }
            self.dropping = true;
            self.times_entered += 1;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16 * self.interval {
                self.count = delta;
                self.times_resumed += 1;
            }
            self.drop_next = self.control_law(now, self.count);
            self.lastcount = self.count;
        }
        r.p
    }

    fn mark(r: &mut Dodequeue, log: &mut Vec<Decision>) {
        let p = r.p.as_mut().unwrap();
        if p.ecn != Ecn::Ce {
            p.ecn = Ecn::Ce;
            log.push(Decision::Marked(p.id));
        }
    }
}

/// RFC 8290, section 4.
pub struct Rfc8290 {
    pub queues: Vec<Rfc8289>,
    credits: Vec<i64>,
    new_queues: Vec<usize>,
    old_queues: Vec<usize>,
    quantum: i64,
    limit_packets: usize,
    /// Packets in all queues, and their bytes.
    pub length: usize,
    pub bytes: i64,
    pub batches: u32,
}

impl Rfc8290 {
    pub fn new(queues: Vec<Rfc8289>, quantum: i64, limit_packets: usize) -> Self {
        let credits = vec![0; queues.len()];
        Self {
            queues,
            credits,
            new_queues: vec![],
            old_queues: vec![],
            quantum,
            limit_packets,
            length: 0,
            bytes: 0,
            batches: 0,
        }
    }

    pub fn enqueue(&mut self, p: Packet, queue: usize, log: &mut Vec<Decision>) {
        self.queues[queue].packets.push(p);
        self.length += 1;
        self.bytes += p.bytes;
        if !self.new_queues.contains(&queue) && !self.old_queues.contains(&queue) {
            self.new_queues.push(queue);
            self.credits[queue] = self.quantum;
        }
        if self.length <= self.limit_packets {
            return;
        }
        self.batches += 1;
        let fattest = (0..self.queues.len())
            .rev()
            .max_by_key(|&q| self.queues[q].bytes())
            .unwrap();
        let half = self.queues[fattest].bytes() / 2;
        let mut gone = 0;
        let mut number = 0;
        while number < 64 && (number == 0 || gone < half) {
            let p = self.queues[fattest].packets.remove(0);
            gone += p.bytes;
            number += 1;
            self.length -= 1;
            self.bytes -= p.bytes;
            log.push(Decision::Overflowed(p.id));
        }
    }

    pub fn dequeue(&mut self, now: i64, log: &mut Vec<Decision>) -> Option<Packet> {
        loop {
            let (queue, new) = if let Some(&queue) = self.new_queues.first() {
                (queue, true)
            } else {
                (*self.old_queues.first()?, false)
            };
            let leave = |scheduler: &mut Self| {
                if new {
                    scheduler.new_queues.remove(0);
                } else {
                    scheduler.old_queues.remove(0);
                }
            };
            if self.credits[queue] <= 0 {
                self.credits[queue] += self.quantum;
                leave(self);
                self.old_queues.push(queue);
                continue;
            }
            let state = &mut self.queues[queue];
            let (packets, bytes) = (state.packets.len(), state.bytes());
            let served = state.deque(now, log);
            self.length -= packets - state.packets.len();
            self.bytes -= bytes - state.bytes();
            if let Some(p) = served {
                self.credits[queue] -= p.bytes;
                return Some(p);
            }
            leave(self);
            if new {
                self.old_queues.push(queue);
            }
        }
    }
}
