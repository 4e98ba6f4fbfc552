//! Links for simulators: packets in, departures and drops out, in virtual time.
//!
//! This module, with [`config`](crate::config), [`pattern`](crate::pattern) and the types that they name, is the
//! interface for other programs, and keeps to semantic versions. The other modules are the engine's own.
//!
//! - [`LinkSpec`] describes one direction: a rate or a radio, queue, delay, loss. It is made by calls, or read from the
//!   stages of a file that wavebed wrote.
//! - [`SimLink`] is one direction that runs. [`SimLink::send`] offers a packet with anything that belongs to it,
//!   [`SimLink::poll`] returns what left or was dropped, [`SimLink::next_event_ns`] says when to poll next.
//! - [`PathSpec`] and [`SimPath`] are both directions of one or more hops, such as those of a trial that
//!   `wavebed resolve` wrote.
//!
//! The result depends on the seed and on the packets with their times alone, not on when or how often a link is polled.
//!
//! ```
//! use wavebed_link::config::QueueConfig;
//! use wavebed_link::queue::Limit;
//! use wavebed_link::sim::{Fate, LinkSpec, Packet, Rate, SimLink};
//!
//! let queue = QueueConfig::Droptail { limit: Limit::Packets(2) };
//! let spec = LinkSpec::new()
//!     .bottleneck(Rate::constant(12_000_000), queue)
//!     .delay_ns(10_000_000);
//! let mut link = SimLink::new(&spec, 1)?;
//! for name in ["in service", "first in the queue", "second in the queue", "too many"] {
//!     link.send(0, Packet::new(1500), name);
//! }
//! let mut left = Vec::new();
//! while let Some(now_ns) = link.next_event_ns() {
//!     while let Some(departure) = link.poll(now_ns) {
//!         left.push((departure.content, departure.at_ns, departure.fate == Fate::Delivered));
//!     }
//! }
//! assert_eq!(left, [
//!     ("too many", 0, false),
//!     ("in service", 11_000_000, true),
//!     ("first in the queue", 12_000_000, true),
//!     ("second in the queue", 13_000_000, true),
//! ]);
//! # Ok::<(), wavebed_link::sim::SpecError>(())
//! ```

mod link;
mod path;
mod presets;
mod sample;
mod spec;

pub use link::{Departure, Fate, Packet, SimLink};
pub use path::{PathSpec, SimPath, Trial};
pub use presets::preset_names;
pub use sample::{SAMPLE_DOWN, SAMPLE_UP};
pub use spec::{LinkSpec, Load, Rate, SpecError};
