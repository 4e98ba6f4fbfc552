//! Transport blocks on their way, and the record of what became of each transmission.

use super::contents::Chunk;
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
    /// Probability that the first transmission fails.
    pub bler: f64,
    /// Bytes on air.
    pub bytes: u64,
    /// Symbols that a slot needs to carry it again.
    pub symbols: u32,
    /// What it carries.
    pub chunks: Vec<Chunk>,
    /// When the receiver first got something that was sent after it, while it was missing.
    pub noticed_ns: Option<u64>,
    /// What comes next.
    pub phase: Phase,
}

/// What a block waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its transmission will have been decoded.
    Decoding {
        /// When.
        at_ns: u64,
        /// Whether in vain.
        failed: bool,
        /// From when on its process is free, or may send it again.
        then_ns: u64,
    },
    /// A slot to be sent again, from this time on.
    Again {
        /// When.
        from_ns: u64,
    },
    /// It arrived; its process is free from this time on.
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
