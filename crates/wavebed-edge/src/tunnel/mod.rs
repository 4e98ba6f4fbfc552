//! The tunnel: flow queues and a rate law before the radio link, so that the queue is where it can be managed.
//!
//! All of it is sans-IO but `end`: time is an argument. Times are nanoseconds, rates bits per second.

pub mod queue;
