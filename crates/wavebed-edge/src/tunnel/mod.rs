//! The tunnel: flow queues and a rate law before the radio link, so that the queue is where it can be managed.
//!
//! Sans-IO: time is an argument. Times are nanoseconds, rates bits per second, sizes bytes. Each end has a [`Sender`] for
//! what it sends and a [`Receiver`] that reports to the other end's sender.

mod coalesce;
#[cfg(feature = "ends")]
pub mod end;
pub mod law;
pub mod queue;
mod receiver;
mod record;
mod sender;
mod units;
pub mod wire;

pub use coalesce::{CoalesceCounters, CoalesceTable};
pub use receiver::Receiver;
pub use sender::{Sender, SenderSettings, SenderState};
