//! The programs that learn how many of our frames an interface refused.
//!
//! The kernel asks the driver for each frame whether it takes redirected ones at all, and reports a no at the trace point
//! `xdp_redirect_err`. Then it hands frames over in bundles and reports each at `xdp_devmap_xmit`: the device from which
//! they seem to come, the device they go to, how many it took and how many not, and an error.
//! A program under our licence may not look into the kernel's devices, but it can compare them. The sending program asks for
//! a lesson with every frame; the next report of its thread is ours, since nothing else runs there between the two
//! (softirqs wait until the bundle has left). It tells which devices are ours, and what comes from and goes to them counts.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

use wavebed_os::bpf::{Link, Program, ProgramKind, SharedMemory, current_thread};
use wavebed_os::error::Context;

use super::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use super::assembler::{Assembler, Helper, Label, Operation, Test, Width};
use super::{bytes_of, place};

/// Where this process's PID namespace is named.
const PID_NAMESPACE: &str = "/proc/self/ns/pid";

/// Words that the two programs and their user share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Refused,
    Error,
    Lesson,
    From,
    To,
}
const WORDS: usize = 5;

/// Counts what is refused from now on.
#[derive(Debug)]
pub struct Refused {
    words: SharedMemory,
    _links: [Link; 2],
}

impl Refused {
    /// Watches what the calling thread redirects.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn watch() -> wavebed_os::Result<Self> {
        let words = SharedMemory::new("refused", WORDS)?;
        let load = |program: Assembler| {
            Program::load("wb_refused", ProgramKind::RawTracepoint, &program.finish())
        };
        let bundles = load(count_bundles(&words)?)?;
        let frames = load(count_frames(&words)?)?;
        Ok(Self {
            words,
            _links: [
                Link::attach_tracepoint(&bundles, "xdp_devmap_xmit")?,
                Link::attach_tracepoint(&frames, "xdp_redirect_err")?,
            ],
        })
    }

    /// Has `program` ask for a lesson. `R1` is overwritten.
    pub(super) fn ask(&self, program: &mut Assembler) {
        program
            .set_address(R1, self.words.as_fd(), bytes_of(Word::Lesson as usize))
            .store_number(Width::Double, R1, 0, 1);
    }

    /// How many frames were refused so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.words()[Word::Refused as usize].load(Ordering::Relaxed)
    }

    /// The driver's last error, as a positive number.
    #[must_use]
    pub fn error(&self) -> Option<i32> {
        let word = self.words.words()[Word::Error as usize].load(Ordering::Relaxed);
        let number = u32::try_from(word).ok()?.cast_signed();
        (number < 0).then_some(-number)
    }

    /// Forgets the driver's last error.
    pub fn forget_error(&self) {
        self.words.words()[Word::Error as usize].store(0, Ordering::Relaxed);
    }
}

fn at(word: Word) -> i16 {
    place(bytes_of(word as usize))
}

/// Begins a program: `R6` is what is reported, `R7` the words, `R1` whether there is a lesson. Goes to the label for other
/// threads.
fn begin(words: &SharedMemory) -> wavebed_os::Result<(Assembler, Label)> {
    let namespace = std::fs::metadata(PID_NAMESPACE).during("look at", PID_NAMESPACE)?;
    let mut program = Assembler::new();
    let end = program.label();
    program
        .set(R6, R1)
        .set64(R1, namespace.dev())
        .set64(R2, namespace.ino())
        .set(R3, R10)
        .add(R3, -8)
        .set(R4, 8)
        .call(Helper::ThreadInNamespace)
        .jump_if(R0, Test::NotEqual, 0, end)
        .load(Width::Word, R1, R10, -8)
        .jump_if(R1, Test::NotEqual, current_thread(), end)
        .set_address(R7, words.as_fd(), 0)
        .load(Width::Double, R1, R7, at(Word::Lesson));
    Ok((program, end))
}

/// Reported are: from, to, how many it took, how many not, the error.
fn count_bundles(words: &SharedMemory) -> wavebed_os::Result<Assembler> {
    let (mut program, end) = begin(words)?;
    let learnt = program.label();
    program
        .load(Width::Double, R8, R6, 0)
        .load(Width::Double, R9, R6, 8)
        .jump_if(R1, Test::Equal, 0, learnt)
        .store_number(Width::Double, R7, at(Word::Lesson), 0)
        .store(Width::Double, R7, at(Word::From), R8)
        .store(Width::Double, R7, at(Word::To), R9)
        .place(learnt)
        .load(Width::Double, R1, R7, at(Word::From))
        .jump_if(R1, Test::NotEqual, R8, end)
        .load(Width::Double, R1, R7, at(Word::To))
        .jump_if(R1, Test::NotEqual, R9, end)
        .load(Width::Double, R1, R6, 24)
        .alu32(Operation::Move, R1, R1);
    count(&mut program, 32, end);
    Ok(program)
}

/// Reported are: from, the program, to, the error. With a lesson open it is our frame.
fn count_frames(words: &SharedMemory) -> wavebed_os::Result<Assembler> {
    let (mut program, end) = begin(words)?;
    program
        .jump_if(R1, Test::Equal, 0, end)
        .store_number(Width::Double, R7, at(Word::Lesson), 0)
        .set(R1, 1);
    count(&mut program, 24, end);
    Ok(program)
}

/// Counts `R1` frames, notes the error at byte `error` of what is reported, and ends.
fn count(program: &mut Assembler, error: i16, end: Label) {
    program
        .load(Width::Double, R2, R7, at(Word::Refused))
        .add(R2, R1)
        .store(Width::Double, R7, at(Word::Refused), R2)
        .load(Width::Double, R1, R6, error)
        .alu32(Operation::Move, R1, R1)
        .jump_if(R1, Test::Equal, 0, end)
        .store(Width::Double, R7, at(Word::Error), R1)
        .place(end)
        .set(R0, 0)
        .exit();
}
