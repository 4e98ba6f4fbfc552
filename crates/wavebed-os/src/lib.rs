//! The operating system interface of wavebed: clocks, TUN devices, poll, scheduling, namespaces, netlink.
//!
//! The only crate of the workspace with `unsafe` code. It depends on no other crate of the workspace.

// For calls that rustix does not have; each block carries its reason.
#![allow(unsafe_code)]

pub mod bpf;
pub mod cgroup;
pub mod clock;
pub mod confinement;
pub mod error;
pub mod ethernet_port;
pub mod ethtool;
pub mod guest;
pub mod interface;
pub mod named_sockets;
pub mod namespace;
pub mod netlink;
pub mod nft;
pub mod output;
pub mod packet_ring;
pub mod packet_socket;
pub mod poll;
pub mod process;
pub mod sched;
pub mod sock_diag;
pub mod socket;
pub mod tun;
pub mod unix;
pub mod xdp_socket;

pub use error::{Error, Result};
