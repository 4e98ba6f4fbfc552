//! Rebinding of the client's NAT: its flows get other source ports, as after a restart of a carrier's NAT.
//!
//! There is no NAT, and no tracking of connections, before the first event: until then packets are as without one.

use std::collections::VecDeque;

use wavebed_os::clock;
use wavebed_os::nft::{self, SourcePorts};

use super::Init;
use crate::engine::Request;
use crate::network::DEVICE_PREFIX;
use crate::problem::{CANNOT, Problem};
use crate::say::say;

/// Source ports after the events, in turn: below those that Linux gives by itself (32768 to 60999).
const PORTS: [(u16, u16); 2] = [(10_000, 20_999), (21_000, 31_999)];

/// The events.
#[derive(Default)]
pub(super) struct Rebindings {
    /// When further ones are due.
    due_ns: VecDeque<u64>,
    /// When those until now were, since time zero.
    pub done_ns: Vec<u64>,
    /// Time zero.
    zero_ns: u64,
    table: Option<SourcePorts>,
}

impl Init {
    /// Plans the events of the laboratory file, once time has begun at `zero_ns`.
    pub(super) fn plan_rebindings(&mut self, zero_ns: u64) {
        self.rebindings.zero_ns = zero_ns;
        let times_ns = self.lab.network.rebind_at_ns.iter();
        self.rebindings.due_ns = times_ns.map(|at| zero_ns.saturating_add(*at)).collect();
    }

    /// Plans them where time began at once.
    pub(super) fn plan_rebindings_of_running(&mut self) {
        if let Ok(shown) = self.engine.ask(&Request::Show)
            && let Some(zero_ns) = shown["zero_ns"].as_u64()
        {
            self.plan_rebindings(zero_ns);
        }
    }

    /// When the next event is due.
    pub(super) fn rebinding_due_ns(&self) -> Option<u64> {
        self.rebindings.due_ns.front().copied()
    }

    /// Makes the events that are due.
    pub(super) fn rebind_when_due(&mut self) {
        while self
            .rebinding_due_ns()
            .is_some_and(|at| at <= clock::monotonic_ns())
        {
            self.rebindings.due_ns.pop_front();
            if let Err(line) = self.rebind() {
                // A trial without its event would be another trial.
                say(format_args!("rebind: {line}"));
                self.end_with(CANNOT);
            }
        }
    }

    /// Gives the client's flows other source ports.
    pub(super) fn rebind(&mut self) -> Result<(), String> {
        if self.lab.network.nat {
            return Err(
                "with nat the server is this machine, whose connections stay: leave nat out"
                    .to_owned(),
            );
        }
        self.hosts[0]
            .network
            .enter()
            .map_err(|error| error.to_string())?;
        let count = self.rebindings.done_ns.len();
        // The old table first: of two, the older one would choose the port.
        self.rebindings.table = None;
        let table = SourcePorts::new(
            &format!("rebind-{count}"),
            DEVICE_PREFIX,
            PORTS[count % PORTS.len()],
        );
        let done = table.and_then(|table| nft::forget_connections().map(|()| table));
        let table = done.map_err(|error| Problem::from(error).line)?;
        self.rebindings.table = Some(table);
        let now_ns = clock::monotonic_ns().saturating_sub(self.rebindings.zero_ns);
        self.rebindings.done_ns.push(now_ns);
        Ok(())
    }
}
