//! Programs for the kernel, written instruction by instruction: no compiler is needed where wavebed runs.

pub mod bucket;
pub mod count;
pub mod forward;
pub mod keep;
pub mod refused;
pub mod send;

pub use wavebed_os::bpf::assembler;

/// A number of two bytes as a load from a frame gives it.
fn in_frame(value: u16) -> i32 {
    i32::from(value.to_be())
}

const fn bytes_of(words: usize) -> usize {
    words * 8
}

fn number(value: usize) -> i32 {
    i32::try_from(value).expect("a number of 31 bits")
}

fn place(offset: usize) -> i16 {
    i16::try_from(offset).expect("an offset of 15 bits")
}
