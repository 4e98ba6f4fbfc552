//! Packets that are cut and coalesced.

mod coalesce;
mod common;
mod cut;
