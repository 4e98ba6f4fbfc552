//! Keeps a program known to the kernel's dispatcher between two runs.
//!
//! Before a program is run repeatedly the kernel enters it into a table of XDP programs (`bpf_dispatcher_change_prog`), and
//! after the run it takes it out again; both wait for all processors, some 10 ms each, in which nothing is sent. A program
//! that is attached somewhere is in the table already, and its runs begin and end at once. So it is attached where no frame
//! ever comes: to the loopback interface, which is down, of a network namespace of its own.

use std::io;
use std::thread;

use wavebed_os::bpf::{Link, Program, XdpMode};
use wavebed_os::error::Context;
use wavebed_os::namespace::NetworkNamespace;

use super::count::load_idle;

/// The loopback interface of every network namespace.
const LOOPBACK: u32 = 1;

/// A place where a program is attached and sees nothing.
#[derive(Debug)]
pub struct Keep {
    link: Link,
    _namespace: NetworkNamespace,
}

impl Keep {
    /// Makes the place.
    ///
    /// # Errors
    /// The process may not make a network namespace, or the kernel refuses.
    pub fn new() -> wavebed_os::Result<Self> {
        // A thread of its own, so that ours stays in its namespace.
        let made = thread::spawn(|| {
            let namespace = NetworkNamespace::new()?;
            let link = Link::attach_xdp(&load_idle()?, LOOPBACK, XdpMode::Generic)?;
            Ok(Self {
                link,
                _namespace: namespace,
            })
        });
        made.join()
            .map_err(|_| io::Error::other("its thread ended"))
            .during("make", "a network namespace")?
    }

    /// Puts `program` there, in the place of the one before.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn put(&self, program: &Program) -> wavebed_os::Result<()> {
        self.link.replace(program)
    }
}
