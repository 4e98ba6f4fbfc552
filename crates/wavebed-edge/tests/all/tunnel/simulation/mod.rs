//! Sources, a tunnel, a link and reports in virtual time.

mod path;
mod phone;
mod source;
mod tcp;
mod world;

pub use path::{Path, Setup};
pub use phone::Phone;
pub use source::{Source, cbr, ping, tcp};
pub use world::{OVERHEAD_BYTES, World};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
