//! Keeps idle processors awake, so that a thread wakes within microseconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// The device that takes a bound on the wake-up time of idle processors (PM `QoS`; kernel
/// documentation, `power/pm_qos_interface`).
pub const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// The value without a bound, microseconds (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_BOUND_US: i32 = 2_000_000_000;

/// A bound on the wake-up time of idle processors, which can be lifted and set again. The kernel removes it when the
/// file is closed, on any end of the process.
#[derive(Debug)]
pub struct Awake {
    request: File,
    bound: bool,
}

impl Awake {
    /// Sets a bound of zero: idle processors spin.
    ///
    /// # Errors
    /// The device does not exist, or only root may open it.
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
    /// The error of write(2).
    pub fn set(&mut self, bound: bool) -> io::Result<()> {
        if bound != self.bound {
            let value_us = if bound { 0 } else { NO_BOUND_US };
            self.request.write_all(&value_us.to_ne_bytes())?;
            self.bound = bound;
        }
        Ok(())
    }
}
