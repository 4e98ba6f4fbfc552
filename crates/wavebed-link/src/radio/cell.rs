//! One direction of a radio cell: the radios of its devices, and who gets each slot.

use std::sync::{Arc, Mutex};

/// One direction of a cell, which its ports share. Runs enter by the ports; [`Cell::advance`] handles them in the order of
/// their times; the ports forward what left.
#[derive(Clone)]
pub struct Cell(Arc<Mutex<Devices>>);

struct Devices {}

impl Cell {
    /// Handles everything up to and including `now_ns`. Every port must have been given what reaches it up to then.
    pub fn advance(&self, now_ns: u64) {
        let _ = (&self.0, now_ns, Devices {});
        unimplemented!("the cell")
    }

    /// Time of the next event, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        unimplemented!("the cell")
    }
}
