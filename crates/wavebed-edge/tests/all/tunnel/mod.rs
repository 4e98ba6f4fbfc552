//! The tunnel in virtual time: flow queues, rate laws, formats, coalescing.

mod blockages;
mod coalesce;
mod delivery_states;
mod flow_queues;
mod formats;
mod gates;
mod hostile_reports;
mod packets;
mod phone;
#[path = "../../../../wavebed-packet/tests/all/common/mod.rs"]
mod recipes;
mod simulation;
