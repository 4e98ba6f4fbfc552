//! The tunnel in virtual time: flow queues, rate laws, formats.

mod blockages;
mod flow_queues;
mod formats;
mod gates;
mod hostile_reports;
mod packets;
mod phone;
mod simulation;
