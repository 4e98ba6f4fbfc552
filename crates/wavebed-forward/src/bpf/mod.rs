//! Programs for the kernel, written instruction by instruction: no compiler is needed where wavebed runs.

pub mod assembler;
pub mod bucket;
pub mod count;
