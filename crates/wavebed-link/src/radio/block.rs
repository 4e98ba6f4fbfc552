//! Transport blocks in flight, and the record of each transmission.

use super::contents::Chunk;
use super::decode::Decoder;
use super::slots::Slot;

/// A transport block in a HARQ process.
#[derive(Debug)]
pub struct Block {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
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
}
