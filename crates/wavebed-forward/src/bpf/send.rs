//! The program that writes frames, paces them and redirects them to an interface.
//!
//! The kernel runs it once for each frame of a round, and hands the round's frames to the interface at its end. A round is
//! one batch: its first frame waits until the batch is due. Softirqs of the processor are held while the program waits, so
//! it waits a short time only ([`WAIT_ROUNDS`]); if that is not enough the whole round is left out (its frames are
//! dropped before they are numbered), and the next one goes on waiting.

use std::os::fd::AsFd;

use wavebed_os::bpf::{Instruction, Map, Program, ProgramKind, SharedMemory};

use super::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::assembler::{Assembler, Helper, Label, Operation, Test, Width};
use super::count::DROP;
use super::refused::Refused;
use super::{bytes_of, in_frame, number, place};
use crate::frame::{Frames, HEADER_ROOM, STAMP_BYTES};
use crate::sender::Job;

/// How often the clock is read before a round is left out: about 25 µs.
pub const WAIT_ROUNDS: i32 = 1000;
/// The answer of a program whose frame is to be redirected.
const REDIRECT: i32 = 4;
/// A batch that leaves later than this is counted (see [`crate::sender::Sent::late_batches`]).
const LATE_NS: i32 = 100_000;
/// Bytes of a row: the header, how much shorter than the longest its frame is, and the sum of its checksum.
const ROW_BYTES: usize = HEADER_ROOM + 8;
const SHORTER_AT: usize = HEADER_ROOM;
const SUM_AT: usize = HEADER_ROOM + 4;
/// Frames of a round that share a reading of the clock, a power of two. They wait for each other anyhow: the kernel hands
/// frames over in bundles of 16. A reading costs as much as writing the frame.
const CLOCK_FRAMES: i32 = 8;
/// Where the program keeps the row after this one across a call, from the end of the stack.
const SAVED_ROW: i16 = -8;

/// Words that the program and its user share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The number of the next frame.
    Next,
    /// Frames from this number on are not sent yet.
    Limit,
    /// Where in the table the next frame's row begins, bytes.
    Row,
    /// Which frame of a round comes next.
    Place,
    /// Whether this round is left out.
    Skip,
    /// The time in the stamp of the last frame.
    Last,
    /// How late the latest batch was.
    LateMax,
    /// Batches that were late.
    LateBatches,
    /// All batches.
    Batches,
    /// Frames that could not be redirected: the interface is gone.
    Failed,
    /// When the first frame is due.
    Start,
}
const STATE_WORDS: usize = 11;

/// What the program works on.
#[derive(Debug)]
pub struct SendMaps {
    /// See [`State`].
    pub state: SharedMemory,
    table: Map,
    interfaces: Map,
}

impl SendMaps {
    /// The maps of a job that begins with frame 0.
    ///
    /// # Errors
    /// The kernel's refusal.
    ///
    /// # Panics
    /// Never: frames are short.
    pub fn new(frames: &Frames, interface: u32) -> wavebed_os::Result<Self> {
        let table = Map::array("rows", frames.rows().len() * ROW_BYTES, 1)?;
        let longest = frames.longest();
        let mut bytes = Vec::with_capacity(frames.rows().len() * ROW_BYTES);
        for row in frames.rows() {
            bytes.extend_from_slice(&row.bytes);
            bytes.extend_from_slice(&(number(row.length) - number(longest)).to_ne_bytes());
            bytes.extend_from_slice(&row.checksum.unwrap_or(0).to_ne_bytes());
        }
        table.set(0, &bytes)?;
        let interfaces = Map::interfaces("interfaces", 1)?;
        interfaces.set(0, &interface.to_ne_bytes())?;
        Ok(Self {
            state: SharedMemory::new("state", STATE_WORDS)?,
            table,
            interfaces,
        })
    }
}

/// Loads the program that sends the frames of a job in rounds of `batch`.
///
/// # Errors
/// The kernel's refusal.
pub fn load(
    frames: &Frames,
    job: &Job,
    batch: u32,
    maps: &SendMaps,
    refused: &Refused,
) -> wavebed_os::Result<Program> {
    Program::load(
        "wb_send",
        ProgramKind::XdpLive,
        &write(frames, job, batch, maps, refused),
    )
}

/// `R6` is the context, `R7` the state, `R9` the frame's number.
fn write(
    frames: &Frames,
    job: &Job,
    batch: u32,
    maps: &SendMaps,
    refused: &Refused,
) -> Vec<Instruction> {
    let mut program = Assembler::new();
    let (skip, drop, failed) = (program.label(), program.label(), program.label());
    program
        .set(R6, R1)
        .set_address(R7, maps.state.as_fd(), 0)
        .load(Width::Double, R9, R7, word(State::Next));
    take_place(&mut program, job, batch, skip, drop);
    begin_frame(&mut program, frames, maps, failed);
    write_header(&mut program, frames);
    write_stamp(&mut program, frames, job.trial);
    if frames.is_v6() {
        write_checksum(&mut program, frames, job.trial);
    }
    refused.ask(&mut program);
    hand_over(&mut program, maps, failed);
    program
        .place(skip)
        .store_number(Width::Double, R7, word(State::Skip), 1)
        .jump(drop)
        .place(failed)
        .load(Width::Double, R1, R7, word(State::Failed))
        .add(R1, 1)
        .store(Width::Double, R7, word(State::Failed), R1)
        .place(drop)
        .set(R0, DROP)
        .exit();
    program.finish()
}

/// Finds the frame's place in its round; the first one waits.
fn take_place(program: &mut Assembler, job: &Job, batch: u32, skip: Label, drop: Label) {
    let (within, first, go) = (program.label(), program.label(), program.label());
    let fresh = program.label();
    program
        .load(Width::Double, R8, R7, word(State::Place))
        .set(R1, R8)
        .add(R1, 1)
        .jump_if(R1, Test::Less, number(batch as usize), within)
        .set(R1, 0)
        .place(within)
        .store(Width::Double, R7, word(State::Place), R1)
        .load(Width::Double, R1, R7, word(State::Limit))
        .jump_if(R8, Test::Equal, 0, first)
        .load(Width::Double, R2, R7, word(State::Skip))
        .jump_if(R2, Test::NotEqual, 0, drop)
        .jump_if(R9, Test::AtLeast, R1, drop)
        .alu(Operation::And, R8, CLOCK_FRAMES - 1)
        .jump_if(R8, Test::NotEqual, 0, fresh)
        .call(Helper::Time)
        .store(Width::Double, R7, word(State::Last), R0)
        .place(fresh)
        .jump(go)
        .place(first)
        .store_number(Width::Double, R7, word(State::Skip), 0)
        .jump_if(R9, Test::AtLeast, R1, skip);
    when_due(program, job);
    wait(program, job, skip);
    program.place(go);
}

/// `R8` = when frame `R9` is due. `n * interval >> 32` needs 128 bits, so it is put together from halves.
fn when_due(program: &mut Assembler, job: &Job) {
    program.load(Width::Double, R8, R7, word(State::Start));
    if job.interval_q32 == 0 {
        return;
    }
    let half = u64::from(u32::MAX);
    program
        .set64(R3, job.interval_q32 >> 32)
        .set64(R4, job.interval_q32 & half)
        .set(R1, R9)
        .alu(Operation::ShiftRight, R1, 32)
        .alu32(Operation::Move, R2, R9)
        // low * low >> 32
        .set(R5, R2)
        .alu(Operation::Multiply, R5, R4)
        .alu(Operation::ShiftRight, R5, 32)
        .add(R8, R5)
        // low * high
        .alu(Operation::Multiply, R2, R3)
        .add(R8, R2)
        // high * low
        .alu(Operation::Multiply, R4, R1)
        .add(R8, R4)
        // high * high << 32
        .alu(Operation::Multiply, R1, R3)
        .alu(Operation::ShiftLeft, R1, 32)
        .add(R8, R1);
}

/// Waits until `R8`; `R9` counts, and is the number again afterwards.
fn wait(program: &mut Assembler, job: &Job, skip: Label) {
    let (again, due, punctual, counted) = (
        program.label(),
        program.label(),
        program.label(),
        program.label(),
    );
    program
        .set(R9, WAIT_ROUNDS)
        .place(again)
        .call(Helper::Time)
        .jump_if(R0, Test::AtLeast, R8, due)
        .add(R9, -1)
        .jump_if(R9, Test::NotEqual, 0, again)
        .jump(skip)
        .place(due)
        .set64(R1, job.deadline_ns)
        .jump_if(R0, Test::AtLeast, R1, skip)
        .store(Width::Double, R7, word(State::Last), R0)
        .load(Width::Double, R9, R7, word(State::Next))
        .load(Width::Double, R1, R7, word(State::Batches))
        .add(R1, 1)
        .store(Width::Double, R7, word(State::Batches), R1);
    if job.interval_q32 > 0 {
        program
            .alu(Operation::Subtract, R0, R8)
            .load(Width::Double, R1, R7, word(State::LateMax))
            .jump_if(R1, Test::AtLeast, R0, punctual)
            .store(Width::Double, R7, word(State::LateMax), R0)
            .place(punctual)
            .jump_if(R0, Test::AtMost, LATE_NS, counted)
            .load(Width::Double, R1, R7, word(State::LateBatches))
            .add(R1, 1)
            .store(Width::Double, R7, word(State::LateBatches), R1)
            .place(counted);
    }
}

/// `R8` = the frame's row; `R1` = the frame, cut to its length, with room for header and stamp.
fn begin_frame(program: &mut Assembler, frames: &Frames, maps: &SendMaps, failed: Label) {
    let table = frames.rows().len() * ROW_BYTES;
    let (whole, next) = (program.label(), program.label());
    program
        .load(Width::Double, R1, R7, word(State::Row))
        // Never; the verifier wants to know that the row is within the table.
        .jump_if(R1, Test::Greater, number(table - ROW_BYTES), failed)
        .set_address(R8, maps.table.as_fd(), 0)
        .add(R8, R1);
    if frames
        .rows()
        .iter()
        .any(|row| row.length != frames.longest())
    {
        program
            .load(Width::Word, R2, R8, place(SHORTER_AT))
            .jump_if(R2, Test::Equal, 0, whole)
            // With its sign.
            .alu(Operation::ShiftLeft, R2, 32)
            .alu(Operation::SignedShiftRight, R2, 32)
            .set(R1, R6)
            .call(Helper::AdjustTail)
            .jump_if(R0, Test::NotEqual, 0, failed)
            .place(whole);
    }
    program
        .load(Width::Double, R1, R7, word(State::Row))
        .add(R1, number(ROW_BYTES))
        .jump_if(R1, Test::Less, number(table), next)
        .set(R1, 0)
        .place(next)
        .store(Width::Double, R10, SAVED_ROW, R1)
        .load(Width::Word, R1, R6, 0)
        .load(Width::Word, R2, R6, 4)
        .set(R3, R1)
        .add(R3, number(frames.header_length() + STAMP_BYTES))
        .jump_if(R3, Test::Greater, R2, failed);
}

/// Writes the header from the row: a frame that was used before has what the device made of it.
fn write_header(program: &mut Assembler, frames: &Frames) {
    let mut at = 0;
    for (width, bytes) in [
        (Width::Double, 8),
        (Width::Word, 4),
        (Width::Half, 2),
        (Width::Byte, 1),
    ] {
        while at + bytes <= frames.header_length() {
            program
                .load(width, R2, R8, place(at))
                .store(width, R1, place(at), R2);
            at += bytes;
        }
    }
}

/// Writes the stamp; `R3` stays the time.
fn write_stamp(program: &mut Assembler, frames: &Frames, trial: u16) {
    let at = frames.header_length();
    program
        .set(R2, R9)
        .big_endian(R2, 64)
        .store(Width::Double, R1, place(at), R2)
        .load(Width::Double, R3, R7, word(State::Last))
        .set(R2, R3)
        .big_endian(R2, 64)
        .store(Width::Double, R1, place(at + 8), R2)
        .store_number(Width::Half, R1, place(at + 16), in_frame(trial));
}

/// Completes the checksum: the row's sum and the sum of the stamp. In ones' complement a number of 64 bits counts as its
/// two halves, and they as theirs (RFC 1071).
fn write_checksum(program: &mut Assembler, frames: &Frames, trial: u16) {
    let some = program.label();
    program
        .load(Width::Word, R5, R8, place(SUM_AT))
        .add(R5, i32::from(trial));
    for value in [R9, R3] {
        program
            .set(R2, value)
            .alu(Operation::ShiftRight, R2, 32)
            .add(R5, R2)
            .alu32(Operation::Move, R2, value)
            .add(R5, R2);
    }
    // Below 2^35: four folds leave 16 bits.
    for _ in 0..4 {
        program
            .set(R2, R5)
            .alu(Operation::ShiftRight, R2, 16)
            .alu(Operation::And, R5, 0xffff)
            .add(R5, R2);
    }
    program
        .alu(Operation::Xor, R5, 0xffff)
        .jump_if(R5, Test::NotEqual, 0, some)
        .set(R5, 0xffff)
        .place(some)
        .big_endian(R5, 16)
        .store(Width::Half, R1, place(frames.header_length() - 2), R5);
}

/// Redirects the frame; only then it counts as sent.
fn hand_over(program: &mut Assembler, maps: &SendMaps, failed: Label) {
    program
        .set_map(R1, maps.interfaces.as_fd())
        .set(R2, 0)
        // What to answer if the interface is gone.
        .set(R3, DROP)
        .call(Helper::Redirect)
        .jump_if(R0, Test::NotEqual, REDIRECT, failed)
        .add(R9, 1)
        .store(Width::Double, R7, word(State::Next), R9)
        .load(Width::Double, R1, R10, SAVED_ROW)
        .store(Width::Double, R7, word(State::Row), R1)
        .exit();
}

fn word(state: State) -> i16 {
    place(bytes_of(state as usize))
}
