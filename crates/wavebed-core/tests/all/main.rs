//! Laboratories in real namespaces. Root is needed: without it the tests fail.

mod cell;
mod confined;
mod control;
mod doctor;
mod ending;
mod laboratory;
mod leaves_nothing;
mod nat;
mod support;
mod terminal;
mod unprivileged;
mod watch;
