//! The datagrams of a recording. Integers are little-endian.
//!
//! ```text
//! 0      8     9      10     11    12     16       24        28            36            44
//! token  kind  index  count  0     seq    send_ns  highest   echo_ns       received      queueing_ns   (64 bytes)
//! ```
//! Full packets are filled up with zeros.

use serde::Deserialize;

/// Bytes of the shortest datagram.
pub const LEAST_BYTES: u16 = 64;
const LEAST: usize = LEAST_BYTES as usize;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Tells the server the client's address.
    Hello,
    /// A single probe, or packet `index` of `count` of a train.
    Light {
        /// Its place in the train, from 0.
        index: u8,
        /// Packets of the train; 1: a single probe.
        count: u8,
    },
    /// A packet of heavy load.
    Heavy,
    /// The receiver of heavy load tells its sender.
    Feedback(Feedback),
}

/// What the receiver of heavy load knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The highest number that arrived.
    pub highest: u32,
    /// When that packet was sent, on the sender's clock.
    pub echo_ns: u64,
    /// Bytes that arrived since the recording's start.
    pub received_bytes: u64,
    /// The delay of that packet beyond the least one known.
    pub queueing_ns: u64,
}

/// A datagram's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is for.
    pub kind: Use,
    /// Its number among packets of its kind.
    pub seq: u32,
    /// When it was sent, nanoseconds since the start on the sender's clock.
    pub send_ns: u64,
}

impl Packet {
    /// Writes it to the first bytes of `bytes`, which are at least [`LEAST_BYTES`]; the others stay.
    ///
    /// # Panics
    /// If `bytes` is shorter.
    pub fn write(&self, token: u64, bytes: &mut [u8]) {
        let (kind, index, count, feedback) = match self.kind {
            Use::Hello => (0, 0, 0, Feedback::default()),
            Use::Light { index, count } => (1, index, count, Feedback::default()),
            Use::Heavy => (2, 0, 0, Feedback::default()),
            Use::Feedback(feedback) => (3, 0, 0, feedback),
        };
        bytes[..8].copy_from_slice(&token.to_le_bytes());
        bytes[8..12].copy_from_slice(&[kind, index, count, 0]);
        bytes[12..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.send_ns.to_le_bytes());
        bytes[24..28].copy_from_slice(&feedback.highest.to_le_bytes());
        bytes[28..36].copy_from_slice(&feedback.echo_ns.to_le_bytes());
        bytes[36..44].copy_from_slice(&feedback.received_bytes.to_le_bytes());
        bytes[44..52].copy_from_slice(&feedback.queueing_ns.to_le_bytes());
        bytes[52..LEAST].fill(0);
    }

    /// Reads one; `None` if it is none of this recording.
    #[must_use]
    pub fn read(token: u64, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEAST] = bytes.first_chunk()?;
        if word(bytes, 0) != token {
            return None;
        }
        let kind = match bytes[8] {
            0 => Use::Hello,
            1 if bytes[9] < bytes[10] => Use::Light {
                index: bytes[9],
                count: bytes[10],
            },
            2 => Use::Heavy,
            3 => Use::Feedback(Feedback {
                highest: half(bytes, 24),
                echo_ns: word(bytes, 28),
                received_bytes: word(bytes, 36),
                queueing_ns: word(bytes, 44),
            }),
            _ => return None,
        };
        Some(Self {
            kind,
            seq: half(bytes, 12),
            send_ns: word(bytes, 16),
        })
    }
}

fn word(bytes: &[u8; LEAST], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8; LEAST], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// What happens in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Both ends send single probes and trains.
    Light,
    /// The server keeps the downlink's queue filled, but short.
    Down,
    /// The client keeps the uplink's queue filled, but short.
    Up,
    /// The server fills the downlink's queue.
    FillDown,
    /// The client fills the uplink's queue.
    FillUp,
    /// Nobody sends: queues become empty.
    Drain,
}

impl Kind {
    /// The end that sends heavy load.
    #[must_use]
    pub fn sender(self) -> Option<Role> {
        match self {
            Self::Down | Self::FillDown => Some(Role::Server),
            Self::Up | Self::FillUp => Some(Role::Client),
            Self::Light | Self::Drain => None,
        }
    }

    /// Whether the queue is filled without regard to its delay.
    #[must_use]
    pub fn fills(self) -> bool {
        matches!(self, Self::FillDown | Self::FillUp)
    }

    /// One letter, for files and datagrams.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Light => 'l',
            Self::Down => 'd',
            Self::Up => 'u',
            Self::FillDown => 'f',
            Self::FillUp => 'g',
            Self::Drain => 'n',
        }
    }
}

/// A phase and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What happens.
    pub kind: Kind,
    /// How long.
    pub length_ns: u64,
}

/// A phase at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// What happens.
    pub kind: Kind,
    /// Its number from the start.
    pub number: u64,
    /// When it began, nanoseconds since the start.
    pub begin_ns: u64,
    /// When it ends.
    pub end_ns: u64,
}

/// The phases of a recording.
#[derive(Clone, Debug)]
pub struct Schedule {
    opening: Vec<Phase>,
    cycle: Vec<Phase>,
}

impl Schedule {
    /// Phases of some length: `opening` once, then `cycle` again and again.
    #[must_use]
    pub fn new(opening: Vec<Phase>, cycle: Vec<Phase>) -> Self {
        Self { opening, cycle }
    }

    /// The phase at `at_ns` since the start.
    ///
    /// # Panics
    /// If the cycle has no length.
    #[must_use]
    pub fn at(&self, at_ns: u64) -> Now {
        let mut begin_ns = 0;
        let mut number = 0;
        for phase in &self.opening {
            if at_ns < begin_ns + phase.length_ns {
                return now(*phase, number, begin_ns);
            }
            begin_ns += phase.length_ns;
            number += 1;
        }
        let length_ns: u64 = self.cycle.iter().map(|phase| phase.length_ns).sum();
        let passes = (at_ns - begin_ns) / length_ns;
        begin_ns += passes * length_ns;
        number += passes * self.cycle.len() as u64;
        for phase in &self.cycle {
            if at_ns < begin_ns + phase.length_ns {
                return now(*phase, number, begin_ns);
            }
            begin_ns += phase.length_ns;
            number += 1;
        }
        unreachable!("the moment is in this pass");
    }
}

fn now(phase: Phase, number: u64, begin_ns: u64) -> Now {
    Now {
        kind: phase.kind,
        number,
        begin_ns,
        end_ns: begin_ns + phase.length_ns,
    }
}

/// The end of the path at which a prober is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends the downlink; waits for the client's first datagram.
    Server,
    /// Sends the uplink.
    Client,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(token: u64, seq: u32, send_ns: u64, which in 0_u8..4, a: u32, b: u64, c: u64, d: u64) {
            let kind = match which {
                0 => Use::Hello,
                1 => Use::Light { index: 3, count: 10 },
                2 => Use::Heavy,
                _ => Use::Feedback(Feedback { highest: a, echo_ns: b, received_bytes: c, queueing_ns: d }),
            };
            let packet = Packet { kind, seq, send_ns };
            let mut bytes = [0; 100];
            packet.write(token, &mut bytes);
            prop_assert_eq!(Packet::read(token, &bytes), Some(packet));
            prop_assert_eq!(Packet::read(token ^ 1, &bytes), None);
            prop_assert_eq!(Packet::read(token, &bytes[..63]), None);
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let token = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
            if let Some(packet) = Packet::read(token, &bytes) {
                let mut again = [0; 64];
                packet.write(token, &mut again);
                prop_assert_eq!(Packet::read(token, &again), Some(packet));
            }
        }
    }

    const fn phase(kind: Kind, length_ns: u64) -> Phase {
        Phase { kind, length_ns }
    }

    #[test]
    fn the_opening_comes_once_and_the_cycle_repeats() {
        let schedule = Schedule::new(
            vec![phase(Kind::FillDown, 5)],
            vec![phase(Kind::Light, 10), phase(Kind::Down, 20)],
        );
        let told: Vec<_> = [0, 4, 5, 14, 15, 34, 35, 65]
            .map(|at| schedule.at(at))
            .iter()
            .map(|now| (now.kind, now.number, now.begin_ns, now.end_ns))
            .collect();
        assert_eq!(
            told,
            [
                (Kind::FillDown, 0, 0, 5),
                (Kind::FillDown, 0, 0, 5),
                (Kind::Light, 1, 5, 15),
                (Kind::Light, 1, 5, 15),
                (Kind::Down, 2, 15, 35),
                (Kind::Down, 2, 15, 35),
                (Kind::Light, 3, 35, 45),
                (Kind::Light, 5, 65, 75),
            ]
        );
    }
}
