//! The operating system interface of wavebed: clocks, TUN devices, poll, scheduling, namespaces, netlink.
//!
//! The only crate of the workspace with `unsafe` code. It depends on no other crate of the workspace.

// For calls that rustix does not have; each block carries its reason.
#![allow(unsafe_code)]

pub mod awake;
pub mod bpf;
pub mod capabilities;
pub mod cgroup;
pub mod clock;
pub mod confinement;
pub mod deadline;
pub mod error;
pub mod ethernet_port;
pub mod ethtool;
pub mod foreign;
pub mod guest;
pub mod guest_calls;
pub mod interface;
pub mod landlock;
pub mod machine_time;
pub mod memory_limit;
pub mod mount;
pub mod mount_tree;
pub mod named_sockets;
pub mod namespace;
pub mod neighbour_socket;
pub mod netdev;
pub mod netlink;
pub mod nft;
pub mod nft_ingress;
pub mod output;
pub mod packet_ring;
pub mod packet_socket;
pub mod poll;
pub mod process;
pub mod sched;
pub mod seccomp;
mod shared;
pub mod sock_diag;
pub mod tcp_option;
pub mod terminal;
pub mod timed_udp;
pub mod tun;
pub mod unix;
pub mod xdp_socket;

pub use error::{Error, Result};
