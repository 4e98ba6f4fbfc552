//! Directions of a path in virtual time, with packets in lists.

mod cell;
mod direction;
mod frames;
