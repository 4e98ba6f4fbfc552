//! The tunnel in virtual time: flow queues, rate laws, formats.

mod flow_queues;
mod gates;
mod packets;
mod simulation;
