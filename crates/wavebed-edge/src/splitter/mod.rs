//! A transparent TCP splitter: it ends a client's connection at the edge, opens one of its own to the server from the
//! client's address, and copies bytes between both. Each leg has its own congestion control, retransmission timer and
//! buffers, so that losses of the radio are repaired over the radio only.
//!
//! The *client leg* is the connection with the client, which crosses the radio; the *server leg* is the one with the
//! server. *Down* is the direction from the server to the client, *up* the other one.
//!
//! One thread, one epoll(7) set. Sockets are edge-triggered: a leg remembers that it can be read or written until the
//! kernel says otherwise, so that a full destination costs no further system call and a half-closed socket no busy loop.
//!
//! Every socket has `SO_LINGER` of zero until its connection has ended in order. Whatever ends the program, `SIGKILL`
//! included, therefore resets its connections: neither end takes a truncated stream for a whole one.

mod accept;
mod admission;
mod carry;
mod carry_buffer;
mod carry_pipe;
mod direction;
mod event;
mod flow;
mod http;
mod http_request;
pub mod keeper;
mod metrics;
mod passwd;
mod pool;
mod privileges;
mod program;
mod rules;
mod server;
mod settings;
mod settings_file;
mod settings_value;
mod slab;
mod socket;
mod sweep;
mod window;

pub use carry::{Carry, Filled};
pub use carry_buffer::Buffer;
pub use carry_pipe::Pipe;
pub use http_request::{MOST_REQUEST_BYTES, Page, answer};
pub use metrics::Totals;
pub use pool::share_bytes;
pub use program::{Arguments, run};
pub use rules::Rules;
pub use server::{Ended, Splitter};
pub use settings::{Copy, Settings};
pub use settings_file::{read, read_text};
pub use settings_value::{Ports, Prefix};
pub use window::{Limits, Sample, WindowLaw};
