//! The event loop of wavebed: hosts ⇄ links, clock, logs, capture.
//!
//! A [`lane::Lane`] leads from one device through links to another; it is tested without a device or a clock. An
//! [`engine::Engine`] runs one thread per lane, two for each hop, on real ones.

pub mod capture;
pub mod config;
pub mod direction;
pub mod engine;
pub mod event_loop;
pub mod gaps;
pub mod host_books;
pub mod join;
pub mod lane;
pub mod lateness;
pub mod on_time;
pub mod packet_memory;
pub mod packets;
pub mod pool;
pub mod port;
mod processors;
pub mod sampler;
pub mod series;
pub mod summary;

pub use config::{HopConfig, LinkError, Patterns, SegmentConfig, build_hops};
pub use engine::{Engine, EngineError, HopSetup, SegmentSetup, Setup};
pub use host_books::HostBooks;
pub use join::Join;
pub use sampler::SampleSetup;
pub use summary::Summary;
