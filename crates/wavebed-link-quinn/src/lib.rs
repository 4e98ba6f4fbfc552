//! QUIC over a radio link in virtual time: two [`quinn_proto`] endpoints with a [`wavebed_link`] path between them.
//!
//! A test of half a minute on a 5G link takes a second or two and no network. With the same seed, versions and
//! configuration every datagram has the same size and time ([`Simulation::digest`]), on any machine.
//!
//! ```
//! use std::time::Duration;
//! use wavebed_link::pattern::Pattern;
//! use wavebed_link::sim::{LinkSpec, PathSpec, SAMPLE_DOWN, SAMPLE_UP};
//! use wavebed_link_quinn::{Download, Simulation, tls};
//!
//! // 5G at 28 GHz in a street, and 8 ms of wire to the server.
//! let radio = |text| LinkSpec::new().radio_of(Pattern::parse(text)?);
//! let wire = || LinkSpec::new().delay_ns(8_000_000);
//! let path = PathSpec::new(wire(), wire()).then(radio(SAMPLE_DOWN)?, radio(SAMPLE_UP)?);
//!
//! let mut simulation = Simulation::new(&path, 1, tls::server_config(), || Download::server())?;
//! let download = simulation.connect(tls::client_config(), Download::client(1_000_000))?;
//! simulation.run_until(Duration::from_secs(10), |simulation| simulation.client(download).is_done());
//! assert_eq!(simulation.client(download).received_bytes(), 1_000_000);
//! println!("{:?}", simulation.now());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Application`] of your own takes the place of [`Download`]; a congestion controller of your own goes into the
//! [`quinn_proto::TransportConfig`].
//!
//! # Limits
//! - Hosts take no time: what a processor, a socket buffer or a timer of an operating system adds is not there
//!   ([`Simulation::with_timer_resolution`] gives timers one).
//! - Each host has one socket, IPv4, and sends up to [`BURST_DATAGRAMS`] datagrams at once, as `quinn` does.
//! - A datagram larger than the path's MTU is dropped without an ICMP message.
//! - The BBR of `quinn-proto` 0.11 takes random numbers of its own, so that runs with it are not the same.

mod application;
mod download;
mod host;
mod simulation;
pub mod tls;

pub use application::{Application, Context};
pub use download::Download;
pub use host::{BURST_DATAGRAMS, Dropped};
pub use simulation::{ConnectionId, Error, Simulation};

/// The example of the readme.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
