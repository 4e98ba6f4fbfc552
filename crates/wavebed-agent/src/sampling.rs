//! Samples of connections and processors, by a process of its own: the agent forks programs and so has one thread.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use wavebed_os::namespace::{self, Child, Forked, Isolation, Notice};
use wavebed_os::sock_diag::SockDiag;
use wavebed_os::{poll, process, unix};
use wavebed_path::SampleSetup;
use wavebed_path::sampler::Sampler;

use crate::problem::Problem;

/// A process that samples until it is stopped or the agent ends.
#[derive(Debug)]
pub struct Sampling {
    child: Child,
    stop: OwnedFd,
}

/// What is sampled.
pub struct SamplingPlan<'a> {
    /// Folder of `flows.csv` and `cpu.csv`, which exists.
    pub folder: &'a Path,
    /// Name of this host.
    pub host: String,
    /// Time zero on `CLOCK_MONOTONIC`.
    pub zero_ns: u64,
    /// Between two samples of the connections, nanoseconds.
    pub flows_ns: u64,
    /// Between two samples of the processors, nanoseconds.
    pub cpu_ns: u64,
}

impl Sampling {
    /// Starts to sample.
    ///
    /// # Errors
    /// The process cannot be made, or an interval is shorter than a millisecond.
    pub fn start(plan: SamplingPlan<'_>) -> Result<Self, Problem> {
        if plan.flows_ns.min(plan.cpu_ns) < 1_000_000 {
            return Err(Problem::of(
                "an interval of samples",
                "is shorter than a millisecond",
            ));
        }
        let (ours, theirs) = unix::stream_pair()?;
        match namespace::fork(Isolation::None, Notice::DescriptorOnly)? {
            Forked::Parent(child) => {
                drop(theirs);
                Ok(Self {
                    child,
                    stop: ours.into(),
                })
            }
            Forked::Child => {
                drop(ours);
                let _ = process::die_with_parent();
                let stop: OwnedFd = theirs.into();
                // The inputs of programs are open here too: they would never end.
                let _ = process::keep_only(stop.as_fd());
                std::process::exit(sample(plan, &stop));
            }
        }
    }

    /// Ends it, with its files complete.
    ///
    /// # Errors
    /// It could not read the kernel or write its files.
    pub fn stop(self) -> Result<(), Problem> {
        drop(self.stop);
        let state = process::wait_for(self.child.pid)?;
        match state.exit_code() {
            0 => Ok(()),
            _ => Err(Problem::of(
                "samples of connections and processors",
                "could not be taken or written",
            )),
        }
    }
}

fn sample(plan: SamplingPlan<'_>, stop: &OwnedFd) -> i32 {
    let start = || -> Result<Sampler, String> {
        let sockets = SockDiag::open().map_err(|error| error.to_string())?;
        let setup = SampleSetup {
            flows_ns: plan.flows_ns,
            cpu_ns: plan.cpu_ns,
            hosts: vec![(plan.host, sockets)],
        };
        Sampler::start(setup, plan.folder, plan.zero_ns).map_err(|error| error.to_string())
    };
    let Ok(sampler) = start() else {
        return 1;
    };
    let mut readable = [false];
    while !unix::is_hung_up(stop) {
        let _ = poll::wait(&[stop.as_fd()], &mut readable, None);
    }
    i32::from(sampler.finish().1.is_some())
}
