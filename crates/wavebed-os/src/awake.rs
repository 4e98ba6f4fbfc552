//! Keeping idle processors awake, so that waking a thread takes microseconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Where the kernel takes a bound on the time that an idle processor may need to wake up (PM `QoS`; kernel
/// documentation, `power/pm_qos_interface`).
pub const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// The value that means no bound, microseconds (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_BOUND_US: i32 = 2_000_000_000;

/// A bound on the wake-up time of idle processors, which may be lifted and set again. The kernel forgets it when
/// the file is closed, however the process ends.
#[derive(Debug)]
pub struct Awake {
    request: File,
    bound: bool,
}

impl Awake {
    /// Asks for a bound of zero: idle processors spin.
    ///
    /// # Errors
    /// The device is not there, or not for us (it is root's).
    pub fn request() -> io::Result<Self> {
        let request = OpenOptions::new().write(true).open(LATENCY_DEVICE)?;
        let mut awake = Self {
            request,
            bound: false,
        };
        awake.set(true)?;
        Ok(awake)
    }

    /// Sets the bound to zero, or lifts it.
    ///
    /// # Errors
    /// What write(2) answers.
    pub fn set(&mut self, bound: bool) -> io::Result<()> {
        if bound != self.bound {
            let value_us = if bound { 0 } else { NO_BOUND_US };
            self.request.write_all(&value_us.to_ne_bytes())?;
            self.bound = bound;
        }
        Ok(())
    }
}
