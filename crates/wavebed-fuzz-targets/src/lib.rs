//! Fuzz targets as functions: the tests replay the corpus of each, and `fuzz/` explores them with libFuzzer.
//!
//! A target panics if an input breaks its property.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "test figures are small"
)]
#![expect(
    clippy::missing_panics_doc,
    reason = "every target panics on a finding"
)]

pub mod config;
pub mod forward_read;
pub mod http_request;
pub mod packet_cut;
pub mod packet_inspect;
pub mod pattern;
pub mod tunnel_messages;

/// A target: runs on one input.
pub type Target = fn(&[u8]);

/// Every target with its name, which the files of its corpus and of its program for libFuzzer have too.
pub const TARGETS: [(&str, Target); 7] = [
    ("config", config::run),
    ("forward_read", forward_read::run),
    ("http_request", http_request::run),
    ("packet_cut", packet_cut::run),
    ("packet_inspect", packet_inspect::run),
    ("pattern", pattern::run),
    ("tunnel_messages", tunnel_messages::run),
];
