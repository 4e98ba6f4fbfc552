//! Transport blocks in flight, and the record of each transmission.

use super::contents::Chunk;
use super::decode::Decoder;
use super::slots::Slot;
use crate::run::Run;

/// A transport block in a HARQ process.
#[derive(Debug)]
pub struct Block {
    /// Its number, from 0, in the order in which blocks were built.
    pub number: u64,
    /// The HARQ process.
    pub process: u32,
    /// The slot of the first transmission.
    pub first: Slot,
    /// Transmissions so far.
    pub attempts: u32,
    /// What decides whether a transmission fails.
    pub errors: Errors,
    /// Bytes on air.
    pub bytes: u64,
    /// Symbols that a retransmission needs in its slot.
    pub symbols: u32,
    /// Its contents; none after it was received.
    pub chunks: Vec<Chunk>,
    /// Whether it was received, which the sender may not know.
    pub received: bool,
    /// When the receiver first got later data while this block was missing.
    pub noticed_ns: Option<u64>,
    /// Its next event.
    pub phase: Phase,
}

/// What decides whether a transmission of a block fails.
#[derive(Clone, Copy, Debug)]
pub enum Errors {
    /// The probability that the first transmission fails.
    Rate(f64),
    /// The SINR of each transmission.
    Sinr(Decoder),
}

/// The next event of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The end of decoding.
    Decoding {
        /// When.
        at_ns: u64,
        /// Whether decoding fails.
        failed: bool,
        /// Whether the sender takes it for the opposite.
        misheard: bool,
        /// When its process is free, or may send it again.
        then_ns: u64,
    },
    /// A slot for a retransmission, from this time on.
    Again {
        /// When.
        from_ns: u64,
    },
    /// Success; its process is free from this time on.
    Done {
        /// When.
        from_ns: u64,
    },
}

/// One transmission of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRecord {
    /// The number of the block, from 0, in the order in which the radio built blocks. In a split bearer, those of the
    /// fallback carrier are odd and the others are even.
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
    /// The rate of the channel in its slot, over all carriers, bits per second.
    pub rate_bps: u64,
    /// SINR in its slot, dB, and that of which one first transmission in ten of a full block fails; `None` where a block
    /// error rate decides.
    pub sinr_db: Option<(f64, f64)>,
    /// In the record of a first transmission: the segments in the block. Of a segment that was split the block has a
    /// piece.
    pub contents: Vec<Run>,
}
