//! The event loop of wavebed between the hosts' devices and the links; clock, logs, captures.
//!
//! A [`direction::Direction`] carries packets from one device through links to another; its tests need no device and no
//! clock. An [`engine::Engine`] runs the directions of all legs on real devices, one or two threads per leg.

pub mod capture;
pub mod cell_account;
pub mod coalesce;
pub mod config;
pub mod direction;
pub mod engine;
pub mod event_loop;
pub mod frame_input;
pub mod frames;
pub mod host_counters;
pub mod link_chain;
pub mod on_time;
pub mod packet_log;
pub mod pool;
pub mod port;
mod processors;
pub mod sampler;
pub mod series;
pub mod summary;

pub use coalesce::Coalesce;
pub use config::{
    BuiltNetwork, CellConfig, DeviceConfig, HopConfig, HopKind, HopView, HostConfig,
    LEAST_PACKET_MEMORY_BYTES, LegConfig, LinkError, NetworkConfig, Patterns, Way, build_devices,
    build_legs, is_name,
};
pub use engine::{CellSetup, ClassSetup, Engine, EngineError, HopSetup, LegSetup, Setup};
pub use frames::FrameAccount;
pub use host_counters::HostCounters;
pub use on_time::Interruption;
pub use port::Device;
pub use sampler::SampleSetup;
pub use series::Address;
pub use summary::Summary;
