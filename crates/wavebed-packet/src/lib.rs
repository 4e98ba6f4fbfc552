//! Bytes of packets ⇄ typed views, and cut and join of segmentation super-packets. No I/O.
//!
//! A TUN device with offloads hands over packets of up to 64 KB behind a [`VnetHeader`]. On a wire each of them
//! would be a row of segments. [`inspect`] says which; [`piece`] cuts any sub-run of them out without touching
//! the payload; [`complete_segment`] writes one of them in full, checksums and all; a [`Joiner`] puts segments
//! that leave together into one super-packet again, only where cutting it gives back the same bytes.
//!
//! The packets start at the IP header: there is no link layer.

mod bytes;
pub mod checksum;
mod cut;
mod flow;
pub mod ip;
mod join;
mod shape;
pub mod transport;
mod vnet;

pub use cut::{HeaderBuf, Piece, complete_segment, flip_bit, piece};
pub use join::{Joiner, MAX_JOINED_BYTES, MAX_TCP_SEGMENTS, MAX_UDP_SEGMENTS};
pub use shape::{MAX_HEADER_LEN, Malformed, Network, Shape, Transport, inspect};
pub use vnet::VnetHeader;
