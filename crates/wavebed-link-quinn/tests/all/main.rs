//! quinn over paths in virtual time.

mod guide;
mod simulation;
