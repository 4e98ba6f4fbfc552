//! Directions of a path in virtual time, with packets in lists.

mod direction;
mod frames;
