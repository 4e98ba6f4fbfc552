//! One end of a recording: sends and receives until the schedule is over.

use std::io;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use wavebed_os::socket::{Batch, MOST_SEGMENTS, TimedUdp};
use wavebed_os::{clock, poll};

use crate::config::{Config, Problem};
use crate::packet::{Feedback, Kind, LEAST_BYTES, Now, Packet, Role, Schedule, Use};
use crate::window::{Received, Window};

const HELLO_NS: u64 = 100_000_000;
const FEEDBACK_NS: u64 = 5_000_000;
/// Heavy load asks for room so often.
const TICK_NS: u64 = 500_000;
/// Packets that are still on their way at the end are waited for.
const LAST_NS: u64 = 1_000_000_000;
/// The least delay of this time is that without a queue.
const LEAST_OF_NS: u64 = 30_000_000_000;

/// The least delay of the last [`LEAST_OF_NS`], in two halves; nanoseconds.
#[derive(Debug)]
struct LeastDelay {
    half_since: u64,
    before: i64,
    now: i64,
}

impl LeastDelay {
    fn new() -> Self {
        Self {
            half_since: 0,
            before: i64::MAX,
            now: i64::MAX,
        }
    }

    fn see(&mut self, delay_ns: i64, at_ns: u64) {
        if at_ns >= self.half_since + LEAST_OF_NS / 2 {
            self.before = self.now;
            self.now = i64::MAX;
            self.half_since = at_ns;
        }
        self.now = self.now.min(delay_ns);
    }

    fn beyond(&self, delay_ns: i64) -> u64 {
        u64::try_from(delay_ns.saturating_sub(self.before.min(self.now))).unwrap_or(0)
    }
}

/// What is due in a light phase.
#[derive(Debug, Default)]
struct Light {
    phase: Option<u64>,
    next: u64,
    sent: u32,
}

/// What was received of heavy load, for feedback.
#[derive(Debug, Default)]
struct Heard {
    feedback: Feedback,
    is_new: bool,
    told_ns: u64,
    count: u32,
}

struct Endpoint<'a, W: Write> {
    config: &'a Config,
    schedule: Schedule,
    socket: TimedUdp,
    has_peer: bool,
    start_ns: u64,
    received: Received<W>,
    window: Window,
    heavy_phase: Option<u64>,
    heavy_bytes: Vec<u8>,
    light: Light,
    heard: Heard,
    least: LeastDelay,
    hello_ns: u64,
    refused_ms: u64,
    batch: Batch,
}

/// Takes part in a recording, and writes what arrived to `lines`.
///
/// # Errors
/// The port is in use, the peer cannot be reached, or `lines` cannot be written.
pub fn run<W: Write>(config: &Config, lines: W) -> Result<(), Problem> {
    let any: SocketAddr = match (config.role, config.address) {
        (Role::Server, address) => address,
        (Role::Client, SocketAddr::V4(_)) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        (Role::Client, SocketAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let mut socket = TimedUdp::bind(any, config.payload_bytes)?;
    let has_peer = config.role == Role::Client;
    if has_peer {
        socket.connect(config.address)?;
    }
    let mut endpoint = Endpoint {
        schedule: Schedule::new(config.opening.clone(), config.cycle.clone()),
        socket,
        has_peer,
        start_ns: config
            .start_unix_ns
            .saturating_sub(clock::realtime_offset_ns()),
        received: Received::begin(lines, config.start_unix_ns)?,
        window: Window::new(config.payload_bytes, config.most_bps),
        heavy_phase: None,
        heavy_bytes: vec![0; MOST_SEGMENTS * usize::from(config.payload_bytes)],
        light: Light::default(),
        heard: Heard::default(),
        least: LeastDelay::new(),
        hello_ns: 0,
        refused_ms: 0,
        batch: Batch::default(),
        config,
    };
    endpoint.take_part()?;
    let (light, heavy) = (endpoint.light.sent, endpoint.window.sent());
    Ok(endpoint.received.end(light, heavy, endpoint.refused_ms)?)
}

impl<W: Write> Endpoint<'_, W> {
    fn take_part(&mut self) -> Result<(), Problem> {
        loop {
            let now_ns = clock::monotonic_ns();
            let end_ns = self.start_ns + self.config.duration_ns;
            if now_ns >= end_ns + LAST_NS {
                return Ok(());
            }
            let mut next_ns = now_ns + TICK_NS * 10;
            self.send_hello(now_ns)?;
            if self.has_peer && now_ns >= self.start_ns && now_ns < end_ns {
                next_ns = self.send(now_ns)?;
            }
            self.send_feedback(now_ns)?;
            poll::wait(
                &[self.socket.as_fd()],
                &mut [false],
                Some(next_ns.saturating_sub(clock::monotonic_ns())),
            )?;
            self.receive()?;
        }
    }

    /// Sends what the phase asks for; returns when something is due next.
    fn send(&mut self, now_ns: u64) -> Result<u64, Problem> {
        let since_ns = now_ns - self.start_ns;
        let phase = self.schedule.at(since_ns);
        let left_ns = self.start_ns + phase.end_ns;
        let next_ns = if phase.kind == Kind::Light {
            self.send_light(phase, since_ns)?
        } else if phase.kind.sender() == Some(self.config.role) {
            self.send_heavy(phase, since_ns)?;
            now_ns + TICK_NS
        } else {
            now_ns + FEEDBACK_NS
        };
        Ok(next_ns.min(left_ns))
    }

    /// Probes that were due while the machine stood still are left out.
    fn send_light(&mut self, phase: Now, since_ns: u64) -> Result<u64, Problem> {
        let due = (since_ns - phase.begin_ns) / self.config.probe_ns;
        if self.light.phase != Some(phase.number) {
            self.light.phase = Some(phase.number);
            self.light.next = 0;
        }
        if due >= self.light.next {
            self.light.next = due + 1;
            let every = self.config.train_ns / self.config.probe_ns;
            // The first probe of a phase follows an idle time only if queues have become empty.
            if due > 0 && due.is_multiple_of(every) {
                self.send_train()?;
            } else {
                self.send_probe()?;
            }
        }
        Ok(self.start_ns + phase.begin_ns + self.light.next * self.config.probe_ns)
    }

    fn send_probe(&mut self) -> Result<(), Problem> {
        let mut bytes = [0; LEAST_BYTES as usize];
        self.write_light(0, 1, &mut bytes);
        self.socket.send(&bytes)?;
        Ok(())
    }

    fn send_train(&mut self) -> Result<(), Problem> {
        let length = usize::from(self.config.payload_bytes);
        let count = self.config.train_packets;
        let mut bytes = vec![0; usize::from(count) * length];
        for (index, segment) in (0..count).zip(bytes.chunks_mut(length)) {
            self.write_light(index, count, segment);
        }
        self.socket.send(&bytes)?;
        Ok(())
    }

    fn write_light(&mut self, index: u8, count: u8, bytes: &mut [u8]) {
        let packet = Packet {
            kind: Use::Light { index, count },
            seq: self.light.sent,
            send_ns: clock::monotonic_ns().saturating_sub(self.start_ns),
        };
        packet.write(self.config.token, bytes);
        self.light.sent += 1;
    }

    fn send_heavy(&mut self, phase: Now, since_ns: u64) -> Result<(), Problem> {
        if self.heavy_phase != Some(phase.number) {
            self.heavy_phase = Some(phase.number);
            let wanted_ns = if phase.kind.fills() {
                self.config.fill_ns
            } else {
                self.config.queue_ns
            };
            self.window.begin(since_ns, wanted_ns);
        }
        let length = usize::from(self.config.payload_bytes);
        let mut room = self.window.room(since_ns);
        while room > 0 {
            let count = room.min(MOST_SEGMENTS);
            let send_ns = clock::monotonic_ns().saturating_sub(self.start_ns);
            for segment in self.heavy_bytes.chunks_mut(length).take(count) {
                let packet = Packet {
                    kind: Use::Heavy,
                    seq: self.window.send(),
                    send_ns,
                };
                packet.write(self.config.token, segment);
            }
            if !self.socket.send(&self.heavy_bytes[..count * length])? {
                // Its numbers count as lost: the own interface was full.
                self.refused_ms += 1;
                return Ok(());
            }
            room -= count;
        }
        Ok(())
    }

    fn send_hello(&mut self, now_ns: u64) -> Result<(), Problem> {
        let is_due = now_ns.saturating_sub(self.hello_ns) >= HELLO_NS;
        if self.config.role == Role::Client && now_ns < self.start_ns && is_due {
            self.hello_ns = now_ns;
            self.send_small(Use::Hello, now_ns)?;
        }
        Ok(())
    }

    fn send_feedback(&mut self, now_ns: u64) -> Result<(), Problem> {
        if self.heard.is_new && now_ns.saturating_sub(self.heard.told_ns) >= FEEDBACK_NS {
            self.heard.is_new = false;
            self.heard.told_ns = now_ns;
            self.heard.count += 1;
            self.send_small(Use::Feedback(self.heard.feedback), now_ns)?;
        }
        Ok(())
    }

    fn send_small(&mut self, kind: Use, now_ns: u64) -> io::Result<()> {
        let mut bytes = [0; LEAST_BYTES as usize];
        let packet = Packet {
            kind,
            seq: self.heard.count,
            send_ns: now_ns.saturating_sub(self.start_ns),
        };
        packet.write(self.config.token, &mut bytes);
        self.socket.send(&bytes)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Problem> {
        if !self.has_peer {
            return self.find_peer();
        }
        let mut batch = std::mem::take(&mut self.batch);
        while self.socket.receive(&mut batch)? > 0 {
            for (bytes, at_ns) in batch.datagrams() {
                if let Some(packet) = Packet::read(self.config.token, bytes) {
                    self.take(&packet, bytes.len(), at_ns.saturating_sub(self.start_ns))?;
                }
            }
            self.send_feedback(clock::monotonic_ns())?;
        }
        self.batch = batch;
        Ok(())
    }

    /// The sender of the first datagram with the token is the client.
    fn find_peer(&mut self) -> Result<(), Problem> {
        let mut bytes = [0; LEAST_BYTES as usize];
        while let Ok((length, from)) = self.socket.receive_from(&mut bytes) {
            if Packet::read(self.config.token, &bytes[..length]).is_some() {
                self.socket.connect(from)?;
                self.has_peer = true;
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, packet: &Packet, bytes: usize, at_ns: u64) -> Result<(), Problem> {
        let delay_ns = at_ns.cast_signed() - packet.send_ns.cast_signed();
        match packet.kind {
            Use::Hello => {}
            Use::Light { index, count } => {
                self.least.see(delay_ns, at_ns);
                self.received.light(packet, index, count, bytes, at_ns)?;
            }
            Use::Heavy => {
                // The phase in which it was sent; its letter tells a full queue from a filled one.
                let phase = self.schedule.at(packet.send_ns).kind;
                self.received.heavy(packet, phase.letter(), bytes, at_ns)?;
                self.least.see(delay_ns, at_ns);
                self.heard.is_new = true;
                self.heard.feedback = Feedback {
                    highest: self.heard.feedback.highest.max(packet.seq),
                    echo_ns: packet.send_ns,
                    received_bytes: self.heard.feedback.received_bytes + bytes as u64,
                    queueing_ns: self.least.beyond(delay_ns),
                };
            }
            Use::Feedback(feedback) => {
                let now_ns = clock::monotonic_ns().saturating_sub(self.start_ns);
                self.window.hear(&feedback, now_ns);
            }
        }
        Ok(())
    }
}
