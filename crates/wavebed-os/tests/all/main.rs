//! Interfaces in network namespaces, and files. Root is needed.

mod ethernet_port;
mod output;
mod sock_diag;
mod tun;
