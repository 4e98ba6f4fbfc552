//! Sources, a tunnel, a link and reports in virtual time.

mod source;
mod tcp;
mod world;

pub use source::{Source, cbr, ping, tcp};
pub use world::{OVERHEAD_BYTES, Setup, World};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
