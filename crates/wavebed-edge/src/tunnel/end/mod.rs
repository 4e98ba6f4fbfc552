//! The ends: a TUN device on one side, QUIC datagrams on the other.

mod device;
mod engine;
mod filter;
mod initial;
mod key;
mod outgoing;
mod path_mtu;
mod presence;
mod program;
mod settings;
mod tls;
mod transport;

pub use program::{Arguments, run};
