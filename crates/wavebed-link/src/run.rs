//! A run of wire segments of one packet: the unit that links process.

/// The time of an event that does not come.
pub(crate) const NEVER: u64 = u64::MAX;
/// Consecutive wire segments of one packet that have the same outcome at the same time.
///
/// A super-packet enters as one run. Stages split it where segments differ: a queue with space for some of them, a
/// server that sends one after another, a loss in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When the run reaches the stage, virtual time, nanoseconds.
    pub at_ns: u64,
    /// The owner's key of the packet that the segments belong to. The link does not use it.
    pub packet: u32,
    /// Index of the first segment within the packet.
    pub first: u16,
    /// How many segments, at least 1.
    pub count: u16,
    /// IP bytes of every segment but the last.
    pub segment_bytes: u16,
    /// IP bytes of the run's last segment.
    pub last_bytes: u16,
    /// Hash of the flow (addresses, protocol, ports), for fair queueing.
    pub flow: u32,
    /// Zero, or a random word that selects the flipped bit of the segment ([`Run::flipped_bit`]). Only runs of one
    /// segment are corrupted.
    pub flip: u32,
    /// Current ECN field.
    pub ecn: Ecn,
    /// Properties of the run.
    pub flags: RunFlags,
}

/// The two ECN bits of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// 00: not ECN-capable.
    NotEct = 0,
    /// 01: ECN-capable, ECT(1).
    Ect1 = 1,
    /// 10: ECN-capable, ECT(0).
    Ect0 = 2,
    /// 11: congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Whether this is the identifier of L4S, ECT(1), or CE, which it may have become (RFC 9331, section 5.1).
    #[must_use]
    pub const fn is_l4s(self) -> bool {
        self as u8 & 1 == 1
    }

    /// The field from the low two bits of the traffic class.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Properties of a run, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFlags(pub u8);

impl RunFlags {
    /// Neighbour discovery, router solicitation, MLD: never uses up an index of a loss process or a pattern.
    pub const CONTROL: Self = Self(1);
    /// This run is the copy that a duplication stage made.
    pub const COPY: Self = Self(2);

    /// Whether every bit of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Run {
    /// IP bytes of all segments together.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.count as u64 - 1) * self.segment_bytes as u64 + self.last_bytes as u64
    }

    /// IP bytes of the first segment.
    #[must_use]
    pub const fn head_bytes(&self) -> u32 {
        if self.count > 1 {
            self.segment_bytes as u32
        } else {
            self.last_bytes as u32
        }
    }

    /// Takes the first `count` segments off the run and returns them; the run keeps the rest.
    ///
    /// # Panics
    /// If `count` is zero or the run has no more than `count` segments (a bug of the caller).
    #[must_use]
    pub fn split_front(&mut self, count: u16) -> Self {
        assert!(
            count > 0 && count < self.count,
            "split of {count} from a run of {}",
            self.count
        );
        let front = Self {
            count,
            last_bytes: self.segment_bytes,
            ..*self
        };
        self.first += count;
        self.count -= count;
        front
    }

    /// The flipped bit of the run's one segment, counted from the first bit on the wire.
    #[must_use]
    pub const fn flipped_bit(&self) -> Option<u32> {
        if self.flip == 0 {
            return None;
        }
        let bits = self.last_bytes as u32 * 8;
        self.flip.checked_rem(bits)
    }

    /// Whether the flipped bit makes the IP version invalid, from 4 as from 6. No host accepts such a packet. A flip of
    /// the third version bit turns 4 into 6 and back.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self.flipped_bit(), Some(0 | 1 | 3))
    }

    /// The index just past the last segment.
    #[must_use]
    pub const fn end(&self) -> u16 {
        self.first + self.count
    }
}

/// Segments in a stage or a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Wire segments.
    pub segments: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

impl Backlog {
    /// Adds `run`.
    #[inline]
    pub const fn count(&mut self, run: &Run) {
        self.segments += run.count as u64;
        self.bytes += run.bytes();
    }
}

impl std::ops::AddAssign for Backlog {
    fn add_assign(&mut self, other: Self) {
        self.segments += other.segments;
        self.bytes += other.bytes;
    }
}

/// One transmission of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRecord {
    /// The number of the block, from 0, in the order in which the radio built blocks. In a split bearer, blocks of
    /// the fallback carrier have odd numbers and the others even ones.
    pub number: u64,
    /// The slot that carried it.
    pub slot: Slot,
    /// The HARQ process.
    pub process: u32,
    /// Number of the transmission, from 1.
    pub attempt: u32,
    /// Bytes on air.
    pub bytes: u64,
    /// Whether it failed.
    pub failed: bool,
    /// Whether the sender took a failure for a success, or a success for a failure.
    pub misheard: bool,
    /// When the block was built, or the decision was made to send it again.
    pub built_ns: u64,
    /// When decoding ends.
    pub decoded_ns: u64,
    /// Waiting data could not be sent before this time: there was none, or the UE slept or was being re-established.
    pub awake_ns: u64,
    /// The begin of the first slot that the latest awaited grant was valid for; 0 if none was awaited.
    pub granted_ns: u64,
    /// The begin of the first slot in which its data could have been sent, had the slot not been given to others; 0 if
    /// there was none.
    pub turn_ns: u64,
    /// The begin of the last such slot. Data that came later did not wait for its turn.
    pub turn_last_ns: u64,
    /// The device of the cell that got most of these slots, by its index; `None`: no device, or none of these slots.
    pub turn_of: Option<u32>,
    /// The rate of the channel in its slot, over all carriers, bits per second.
    pub rate_bps: u64,
    /// SINR in its slot, dB, and the SINR at which one first transmission in ten of a full block fails; `None` where a
    /// block error rate decides.
    pub sinr_db: Option<(f64, f64)>,
    /// In the record of a first transmission: the segments in the block. Of a segment that was split the block has a
    /// piece.
    pub contents: Vec<Run>,
}

/// One slot of one carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whether it belongs to the fallback carrier.
    pub fallback: bool,
    /// Which component carrier; 0 is the primary one.
    pub carrier: u32,
    /// Its index since time 0.
    pub index: u64,
    /// When it begins.
    pub start_ns: u64,
}

impl Slot {
    /// Blocks are filled in this order.
    #[must_use]
    pub const fn order(&self) -> (u64, u32) {
        (self.start_ns, self.carrier)
    }
}
