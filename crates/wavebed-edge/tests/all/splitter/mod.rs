//! The splitter on loopback, in direct mode: no test here needs root.

mod bytes;
mod ends;
mod limits;
mod program;
mod running;
mod stops;
mod timeouts;
mod urgent;
mod windows;
