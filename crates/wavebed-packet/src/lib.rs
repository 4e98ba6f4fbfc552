//! Packets as typed views of their bytes, and segmentation of super-packets. No I/O.
//!
//! A TUN device with offloads delivers packets of up to 64 KB behind a [`VnetHeader`]; on a wire each would be a row
//! of segments. [`inspect`] finds the segments; [`piece`] makes a packet of any consecutive segments without copying the
//! payload; [`complete_segment`] writes one segment in full, with its checksums. A [`Coalescer`] makes a super-packet of
//! segments that arrive one by one.
//!
//! The packets start at the IP header; [`ethernet`] finds it in a frame.

pub mod checksum;
mod coalesce;
mod cut;
pub mod ethernet;
pub mod ip;
mod shape;
pub mod transport;

pub use checksum::VnetHeader;
pub use coalesce::{Coalesced, Coalescer, MAX_COALESCED};
pub use cut::{HeaderBuf, Piece, complete_segment, flip_bit, piece};
pub use shape::{MAX_HEADER_LEN, Malformed, Network, Shape, Transport, inspect};
