//! Frames, their senders and receivers: in memory, and on interfaces in network namespaces. Root is needed there.

mod accounts;
mod bpf_bucket;
mod bpf_keep;
mod cable;
mod frames;
mod live_frames;
mod pair;
mod relay;
mod sockets;
mod xdp_device;
mod xdp_receiver;
