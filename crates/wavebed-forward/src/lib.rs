//! The tester of `wavebed forward`: frames, who sends them, who counts them, and the counters of both.
//!
//! A frame carries its number, the time it left and the number of its trial in 18 bytes, so that the receiving
//! port can tell loss, duplicates, reordering and delay without knowing anything else.

pub mod account;
pub mod af_xdp;
pub mod answer;
pub mod bpf;
pub mod frame;
pub mod histogram;
pub mod live_frames;
pub mod neighbour;
pub mod pace;
mod paced;
pub mod receiver;
pub mod relay;
pub mod rx_ring;
pub mod sender;
pub mod sendmmsg;
pub mod tx_ring;
pub mod xdp_device;
pub mod xdp_receiver;
