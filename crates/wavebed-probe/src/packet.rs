//! The datagrams of a recording. Integers are little-endian.
//!
//! ```text
//! 0      8     9      10     11    12     16       24        28            36            44
//! token  kind  index  count  0     seq    send_ns  highest   echo_ns       received      queueing_ns   (64 bytes)
//! ```
//! Full packets are filled up with zeros.

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
    /// Its number among those of its kind.
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
}
