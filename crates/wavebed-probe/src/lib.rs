//! Measures an access between two hosts: light probes and heavy load in alternation.
//!
//! Both ends run the same program with one [`schedule`], which begins at one moment of their clocks. In a light phase
//! each sends single small probes, and trains of full packets after an idle time; in a heavy phase one end keeps the
//! queue of the access filled, but short ([`window`]). Each end writes what it received, and when ([`received`]).

pub mod config;
pub mod endpoint;
pub mod packet;
pub mod window;
