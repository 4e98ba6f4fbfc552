//! The prober in virtual time.

mod window;
