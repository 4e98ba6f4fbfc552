//! The remedies: in virtual time, on loopback, and in network namespaces. Root is needed: without it the latter fail.

mod check;
mod intercept;
mod radio;
mod splitter;
mod syn;
mod system_calls;
mod tunnel;
mod tunnel_ends;
