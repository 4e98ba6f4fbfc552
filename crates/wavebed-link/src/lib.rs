//! Network links in virtual time: queues, servers, delay, loss, and the radio of 5G and LTE. Sans-IO: time and random
//! numbers are arguments. It is the link engine of wavebed.
//!
//! Other programs use [`sim`], which takes packets and returns departures and drops; it has an example. That module,
//! [`config`], [`pattern`] and the types that they name keep to semantic versions. The rest is for wavebed itself and
//! may change with each minor version. The least version of Rust is 1.90.
//!
//! A [`Link`] is a row of [`Stage`]s. Packets enter as [`Run`]s of wire segments; each segment is delivered, or dropped
//! with a [`Reason`], and counted in [`LinkCounters`]. The crate reads no clock, stores no packet bytes, and makes no
//! system call.
//!
//! Times are nanoseconds since an origin, in the link's own virtual time. Sizes are IP bytes of wire segments.

pub mod bottleneck;
pub mod config;
pub mod counters;
pub mod delay;
pub mod impairment;
pub mod link;
pub mod loss;
pub mod pattern;
pub mod queue;
pub mod radio;
pub mod random_stream;
pub mod rate;
pub mod run;
pub mod sim;
pub mod stage;
pub mod wifi;

pub use counters::{
    Counter, Counts, LinkCounters, MillisecondRow, PacketLog, Reason, Sojourn, TimeSum,
};
pub use link::Link;
pub use random_stream::RandomStream;
pub use run::{Backlog, BlockRecord, Ecn, Run, RunFlags};
pub use stage::{Change, Conditions, Outlet, Stage, Unit};

/// The example of the readme.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
