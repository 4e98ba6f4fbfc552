//! The program that counts what comes in, and drops the test frames that it has counted.
//!
//! It says what [`crate::account::Accounts`] says, with one difference: a frame that is more than a window late and whose
//! place nobody took since is known to be new, and counts as such.
//!
//! Counts are kept by processor, without atomic operations: a processor sees one frame at a time. What processors share
//! (which numbers were seen, large sizes, samples) is changed in one step, but for the greatest number of a flow: the frames
//! of a flow come to one processor, or their order means nothing.

use std::os::fd::AsFd;

use wavebed_os::bpf::{Instruction, Map, Program, ProgramKind, SharedMemory};

use super::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::assembler::{Assembler, Helper, Label, Operation, Register, Test, Width};
use super::bucket::bucket;
use super::{bytes_of, in_frame, number, place};
use crate::account::{SAMPLE_BYTES, WINDOW};
use crate::frame::{FCS_BYTES, Frames, STAMP_BYTES};
use crate::histogram::BUCKETS;

/// Answers of an XDP program.
pub const DROP: i32 = 1;
/// See [`DROP`].
pub const PASS: i32 = 2;

/// Words of one processor's counters: these, the histogram of delays, then the sizes below [`SMALL_SIZES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names are those of the frame counters")]
pub enum Count {
    Unique,
    Duplicates,
    Reordered,
    Stale,
    OtherTrial,
    Damaged,
    Foreign,
    First,
    Last,
    /// The greatest delay taken from the greatest number there is, so that 0 means none.
    LatencyLeast,
    LatencyGreatest,
}

/// Where the histogram begins, words.
pub const LATENCY_WORD: usize = 16;
/// Where the sizes begin, words.
pub const SIZES_WORD: usize = LATENCY_WORD + BUCKETS;
/// Sizes with FCS below this are counted by processor, others together: they are rare.
pub const SMALL_SIZES: usize = 2048;
/// Words of a processor; a power of two.
pub const PROCESSOR_WORDS: usize = 4096;
const _: () = assert!(SIZES_WORD + SMALL_SIZES <= PROCESSOR_WORDS);
/// Sizes below this are told apart; a super-packet has up to 64 KiB, with large ones switched on up to 512 KiB.
pub const SIZES: usize = 1 << 17;

/// A sample: time, length, then the first bytes. The first one begins after a cache line that holds how many were begun.
pub const SAMPLE_WORDS: usize = 2 + SAMPLE_BYTES / 8;
/// Where the first sample begins, words.
pub const FIRST_SAMPLE_WORD: usize = 8;

#[expect(clippy::cast_possible_truncation, reason = "a million")]
const WINDOW_PLACES: usize = WINDOW as usize;

/// Where the program keeps what across calls, from the end of the stack.
const SAVED_NUMBER: i16 = -8;
const SAVED_TIME: i16 = -16;
const SAVED_PAYLOAD: i16 = -24;
const SAVED_SAMPLE: i16 = -32;

/// What the program writes to.
#[derive(Debug)]
pub struct CountMaps {
    /// Counters by processor.
    pub counters: SharedMemory,
    /// How many processors have counters.
    pub processors: usize,
    /// Large sizes.
    pub sizes: SharedMemory,
    /// Samples.
    pub samples: SharedMemory,
    /// How many samples are kept.
    pub sample: u32,
    /// By number modulo the window: one more than the number that was there.
    seen: Map,
    /// By flow: one more than its greatest number.
    ahead: Map,
    /// By row: bytes of payload.
    payloads: Map,
}

impl CountMaps {
    /// Empty ones.
    ///
    /// # Errors
    /// The kernel's refusal.
    ///
    /// # Panics
    /// Never: payloads are below 64 KiB.
    pub fn new(frames: &Frames, sample: u32, processors: usize) -> wavebed_os::Result<Self> {
        let payloads = Map::array("payloads", frames.rows().len().next_multiple_of(4) * 2, 1)?;
        let mut bytes = Vec::with_capacity(frames.rows().len() * 2);
        for row in frames.rows() {
            let payload = u16::try_from(row.payload_length()).expect("frames are short");
            bytes.extend_from_slice(&payload.to_ne_bytes());
        }
        bytes.resize(frames.rows().len().next_multiple_of(4) * 2, 0);
        payloads.set(0, &bytes)?;
        Ok(Self {
            counters: SharedMemory::new("counters", processors * PROCESSOR_WORDS)?,
            processors,
            sizes: SharedMemory::new("sizes", SIZES)?,
            samples: SharedMemory::new(
                "samples",
                FIRST_SAMPLE_WORD + sample as usize * SAMPLE_WORDS,
            )?,
            sample,
            seen: Map::array("seen", bytes_of(WINDOW_PLACES), 1)?,
            ahead: Map::array("ahead", bytes_of(frames.flows()), 1)?,
            payloads,
        })
    }
}

/// Loads the program that counts the frames of `trial`.
///
/// # Errors
/// The kernel's refusal.
pub fn load(frames: &Frames, trial: u16, maps: &CountMaps) -> wavebed_os::Result<Program> {
    Program::load("wb_count", ProgramKind::Xdp, &write(frames, trial, maps))
}

/// Loads a program that lets everything pass: it holds the place of one that counts.
///
/// # Errors
/// The kernel's refusal.
pub fn load_idle() -> wavebed_os::Result<Program> {
    let mut program = Assembler::new();
    program.set(R0, PASS).exit();
    Program::load("wb_idle", ProgramKind::Xdp, &program.finish())
}

/// What stands before a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    vlan: bool,
    pppoe: bool,
    v6: bool,
}

impl Layout {
    fn network(self) -> usize {
        14 + if self.vlan { 4 } else { 0 } + if self.pppoe { 8 } else { 0 }
    }

    fn header(self) -> usize {
        self.network() + if self.v6 { 40 } else { 20 } + 8
    }

    /// All layouts, beginning with the layout of the frames that are expected.
    fn all(frames: &Frames) -> Vec<Self> {
        let mut all: Vec<Self> = (0..8)
            .map(|bits| Self {
                vlan: bits & 1 != 0,
                pppoe: bits & 2 != 0,
                v6: bits & 4 != 0,
            })
            .collect();
        all.sort_by_key(|layout| {
            (layout.v6, layout.header()) != (frames.is_v6(), frames.header_length())
        });
        all
    }
}

/// Writes the program. After the layouts, `R3` is the number, `R4` the time in the stamp, `R5` the payload's length by the
/// UDP header; all along `R6` is the context, `R7` the processor's counters, `R8` the frame's length, `R9` now.
fn write(frames: &Frames, trial: u16, maps: &CountMaps) -> Vec<Instruction> {
    let mut program = Assembler::new();
    let (stamped, foreign, drop, pass) = (
        program.label(),
        program.label(),
        program.label(),
        program.label(),
    );
    begin(&mut program, maps, pass);
    for layout in Layout::all(frames) {
        recognise(&mut program, layout, stamped);
    }
    program.jump(foreign).place(stamped);
    judge_stamp(&mut program, trial, foreign, drop);
    note_size_and_time(&mut program, maps);
    if maps.sample > 0 {
        keep_sample(&mut program, maps);
    }
    judge_payload(&mut program, frames, maps, drop);
    judge_number(&mut program, maps, drop);
    judge_order(&mut program, frames, maps);
    note_delay(&mut program);
    program.place(drop).set(R0, DROP).exit();
    program.place(foreign);
    count(&mut program, Count::Foreign);
    program.place(pass).set(R0, PASS).exit();
    program.finish()
}

fn begin(program: &mut Assembler, maps: &CountMaps, pass: Label) {
    let shift = (PROCESSOR_WORDS * 8).ilog2();
    program
        .set(R6, R1)
        .call(Helper::Processor)
        .alu32(Operation::Move, R0, R0)
        .jump_if(R0, Test::AtLeast, number(maps.processors), pass)
        .alu(Operation::ShiftLeft, R0, number(shift as usize))
        .set_address(R7, maps.counters.as_fd(), 0)
        .add(R7, R0)
        .set(R1, R6)
        .call(Helper::Length)
        .set(R8, R0)
        .call(Helper::Time)
        .set(R9, R0)
        .load(Width::Word, R1, R6, 0)
        .load(Width::Word, R2, R6, 4);
}

/// Goes to `stamped` if the frame has this layout, and on if not.
fn recognise(program: &mut Assembler, layout: Layout, stamped: Label) {
    let next = program.label();
    let header = layout.header();
    let network = layout.network();
    program
        .set(R0, R1)
        .add(R0, number(header + STAMP_BYTES))
        .jump_if(R0, Test::Greater, R2, next);
    let mut at = 12;
    if layout.vlan {
        let tagged = program.label();
        program.load(Width::Half, R0, R1, place(at)).jump_if(
            R0,
            Test::Equal,
            in_frame(0x8100),
            tagged,
        );
        expect_half(program, at, 0x88a8, next);
        program.place(tagged);
        at += 4;
    }
    if layout.pppoe {
        expect_half(program, at, 0x8864, next);
        expect_half(program, at + 2, 0x1100, next);
        expect_half(
            program,
            at + 8,
            if layout.v6 { 0x0057 } else { 0x0021 },
            next,
        );
    } else {
        expect_half(program, at, if layout.v6 { 0x86dd } else { 0x0800 }, next);
    }
    program.load(Width::Byte, R0, R1, place(network));
    if layout.v6 {
        program
            .alu(Operation::And, R0, 0xf0)
            .jump_if(R0, Test::NotEqual, 0x60, next)
            .load(Width::Byte, R0, R1, place(network + 6))
            .jump_if(R0, Test::NotEqual, 17, next);
    } else {
        program
            .jump_if(R0, Test::NotEqual, 0x45, next)
            .load(Width::Byte, R0, R1, place(network + 9))
            .jump_if(R0, Test::NotEqual, 17, next)
            // No fragment: neither an offset nor that more follow.
            .load(Width::Half, R0, R1, place(network + 6))
            .jump_if(R0, Test::AnyBit, in_frame(0x3fff), next);
    }
    program
        .load(Width::Double, R3, R1, place(header))
        .load(Width::Double, R4, R1, place(header + 8))
        .load(Width::Half, R5, R1, place(header - 4))
        .load(Width::Half, R0, R1, place(header + 16))
        .jump(stamped)
        .place(next);
}

fn expect_half(program: &mut Assembler, at: usize, value: u16, otherwise: Label) {
    program.load(Width::Half, R0, R1, place(at)).jump_if(
        R0,
        Test::NotEqual,
        in_frame(value),
        otherwise,
    );
}

/// `R0` is the trial as it stands in the frame.
fn judge_stamp(program: &mut Assembler, trial: u16, foreign: Label, drop: Label) {
    let ours = program.label();
    program
        .big_endian(R3, 64)
        .big_endian(R4, 64)
        .big_endian(R5, 16)
        .jump_if(R5, Test::Less, number(8 + STAMP_BYTES), foreign)
        .add(R5, -8)
        // Numbers are below 2^40 (frame::NUMBERS).
        .set(R1, R3)
        .alu(Operation::ShiftRight, R1, 40)
        .jump_if(R1, Test::NotEqual, 0, foreign)
        .jump_if(R0, Test::Equal, in_frame(trial), ours);
    count(program, Count::OtherTrial);
    program.jump(drop).place(ours);
}

fn note_size_and_time(program: &mut Assembler, maps: &CountMaps) {
    let (large, told, known, sized) = (
        program.label(),
        program.label(),
        program.label(),
        program.label(),
    );
    program
        .set(R1, R8)
        .add(R1, number(FCS_BYTES))
        .jump_if(R1, Test::AtLeast, number(SMALL_SIZES), large)
        .alu(Operation::ShiftLeft, R1, 3)
        .add(R1, R7);
    increment(program, R1, SIZES_WORD);
    program
        .jump(sized)
        .place(large)
        .jump_if(R1, Test::Less, number(SIZES), told)
        .set(R1, number(SIZES - 1))
        .place(told)
        .alu(Operation::ShiftLeft, R1, 3)
        .set_address(R2, maps.sizes.as_fd(), 0)
        .add(R2, R1)
        .set(R1, 1)
        .atomic_add(Width::Double, R2, 0, R1)
        .place(sized)
        .store(Width::Double, R7, word(Count::Last), R9)
        .load(Width::Double, R1, R7, word(Count::First))
        .jump_if(R1, Test::NotEqual, 0, known)
        .store(Width::Double, R7, word(Count::First), R9)
        .place(known);
}

fn keep_sample(program: &mut Assembler, maps: &CountMaps) {
    let (enough, short, kept) = (program.label(), program.label(), program.label());
    let sample = number(maps.sample as usize);
    program
        .set_address(R2, maps.samples.as_fd(), 0)
        .load(Width::Double, R1, R2, 0)
        .jump_if(R1, Test::AtLeast, sample, enough)
        .set(R1, 1)
        .fetch_add(Width::Double, R2, 0, R1)
        .jump_if(R1, Test::AtLeast, sample, enough)
        .alu(Operation::Multiply, R1, number(bytes_of(SAMPLE_WORDS)))
        .set_address(R2, maps.samples.as_fd(), bytes_of(FIRST_SAMPLE_WORD))
        .add(R2, R1)
        .store(Width::Double, R2, 0, R9)
        .store(Width::Double, R10, SAVED_NUMBER, R3)
        .store(Width::Double, R10, SAVED_TIME, R4)
        .store(Width::Double, R10, SAVED_PAYLOAD, R5)
        .store(Width::Double, R10, SAVED_SAMPLE, R2)
        .set(R1, R6)
        .set(R3, R2)
        .add(R3, 16)
        .set(R2, 0)
        .set(R4, number(SAMPLE_BYTES))
        .jump_if(R8, Test::AtLeast, number(SAMPLE_BYTES), short)
        .set(R4, R8)
        .place(short)
        // The verifier wants to see that something is loaded.
        .jump_if(R4, Test::Equal, 0, kept)
        .jump_if(R4, Test::Greater, number(SAMPLE_BYTES), kept)
        .call(Helper::LoadBytes)
        .place(kept)
        .load(Width::Double, R3, R10, SAVED_NUMBER)
        .load(Width::Double, R4, R10, SAVED_TIME)
        .load(Width::Double, R5, R10, SAVED_PAYLOAD)
        .load(Width::Double, R2, R10, SAVED_SAMPLE)
        // Last: a length says that the sample is whole.
        .store(Width::Double, R2, 8, R8)
        .place(enough);
}

fn judge_payload(program: &mut Assembler, frames: &Frames, maps: &CountMaps, drop: Label) {
    let (right, damaged) = (program.label(), program.label());
    let rows = frames.rows();
    let first = rows[0].payload_length();
    if rows.iter().all(|row| row.payload_length() == first) {
        program.jump_if(R5, Test::Equal, number(first), right);
    } else {
        modulo(program, R1, rows.len());
        program
            // Never; the verifier does not know what a remainder is.
            .jump_if(R1, Test::AtLeast, number(rows.len()), damaged)
            .alu(Operation::ShiftLeft, R1, 1)
            .set_address(R2, maps.payloads.as_fd(), 0)
            .add(R2, R1)
            .load(Width::Half, R1, R2, 0)
            .jump_if(R1, Test::Equal, R5, right);
    }
    program.place(damaged);
    count(program, Count::Damaged);
    program.jump(drop).place(right);
}

fn judge_number(program: &mut Assembler, maps: &CountMaps, drop: Label) {
    let (again, late, new) = (program.label(), program.label(), program.label());
    program
        .set(R1, R3)
        .alu(Operation::And, R1, number(WINDOW_PLACES - 1))
        .alu(Operation::ShiftLeft, R1, 3)
        .set_address(R2, maps.seen.as_fd(), 0)
        .add(R2, R1)
        .set(R5, R3)
        .add(R5, 1)
        .load(Width::Double, R1, R2, 0)
        .jump_if(R1, Test::Equal, R5, again)
        .jump_if(R1, Test::Greater, R5, late)
        .set(R1, R5)
        .exchange(Width::Double, R2, 0, R1)
        .jump_if(R1, Test::NotEqual, R5, new)
        .place(again);
    count(program, Count::Duplicates);
    program.jump(drop).place(late);
    count(program, Count::Stale);
    program.jump(drop).place(new);
    count(program, Count::Unique);
}

/// `R5` is one more than the number.
fn judge_order(program: &mut Assembler, frames: &Frames, maps: &CountMaps) {
    let (behind, ordered) = (program.label(), program.label());
    modulo(program, R1, frames.flows());
    program
        // Never; the verifier does not know what a remainder is.
        .jump_if(R1, Test::AtLeast, number(frames.flows()), ordered)
        .alu(Operation::ShiftLeft, R1, 3)
        .set_address(R2, maps.ahead.as_fd(), 0)
        .add(R2, R1)
        .load(Width::Double, R1, R2, 0)
        .jump_if(R1, Test::Greater, R3, behind)
        .store(Width::Double, R2, 0, R5)
        .jump(ordered)
        .place(behind);
    count(program, Count::Reordered);
    program.place(ordered);
}

fn note_delay(program: &mut Assembler) {
    let (positive, greatest, least) = (program.label(), program.label(), program.label());
    program
        .set(R2, 0)
        .jump_if(R9, Test::Less, R4, positive)
        .set(R2, R9)
        .alu(Operation::Subtract, R2, R4)
        .place(positive)
        .load(Width::Double, R1, R7, word(Count::LatencyGreatest))
        .jump_if(R1, Test::AtLeast, R2, greatest)
        .store(Width::Double, R7, word(Count::LatencyGreatest), R2)
        .place(greatest)
        .set(R3, R2)
        .alu(Operation::Xor, R3, -1)
        .load(Width::Double, R1, R7, word(Count::LatencyLeast))
        .jump_if(R1, Test::AtLeast, R3, least)
        .store(Width::Double, R7, word(Count::LatencyLeast), R3)
        .place(least);
    bucket(program, R2, R1);
    let counted = program.label();
    program
        // Never; for the verifier.
        .jump_if(R2, Test::AtLeast, number(BUCKETS), counted)
        .alu(Operation::ShiftLeft, R2, 3)
        .add(R2, R7);
    increment(program, R2, LATENCY_WORD);
    program.place(counted);
}

/// `to` = the number in `R3` modulo `divisor`.
fn modulo(program: &mut Assembler, to: Register, divisor: usize) {
    program.set(to, R3);
    if divisor.is_power_of_two() {
        program.alu(Operation::And, to, number(divisor - 1));
    } else {
        program.alu(Operation::Modulo, to, number(divisor));
    }
}

/// Adds one to a count of this processor. `R1` is overwritten.
fn count(program: &mut Assembler, count: Count) {
    program
        .load(Width::Double, R1, R7, word(count))
        .add(R1, 1)
        .store(Width::Double, R7, word(count), R1);
}

/// Adds one to word `at` from `base`. `R0` is overwritten.
fn increment(program: &mut Assembler, base: Register, at: usize) {
    program
        .load(Width::Double, R0, base, place(bytes_of(at)))
        .add(R0, 1)
        .store(Width::Double, base, place(bytes_of(at)), R0);
}

fn word(count: Count) -> i16 {
    place(bytes_of(count as usize))
}
