//! Events of connections, and their ends.

use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;
use wavebed_os::clock;

use super::flow::{Leg, Side};
use super::server::{Ended, Splitter};
use super::slab::FlowId;
use super::{socket, window};

/// Why a connection ended. Every end but the first resets what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both streams ended in order.
    Completed,
    /// The server refused or did not answer.
    Failed,
    /// It made room while its server had not answered.
    Evicted,
    /// A host reset it, or no longer acknowledges.
    Broken(Side),
    /// No byte moved.
    Idle,
    /// The program ends.
    Stop,
}

impl Splitter {
    /// An event of a leg.
    pub(super) fn on_leg(&mut self, id: FlowId, side: Side, events: EventFlags, now_ns: u64) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let leg = match side {
            Side::Client => &mut flow.client,
            Side::Server => &mut flow.server,
        };
        leg.note(events);
        let is_broken = events.intersects(EventFlags::ERR | EventFlags::HUP) && is_broken(leg);
        if flow.is_connecting {
            match side {
                Side::Client if is_broken => self.end_flow(id, End::Broken(side), now_ns),
                Side::Client => {}
                Side::Server if is_broken => self.end_flow(id, End::Failed, now_ns),
                Side::Server => self.answered(id, now_ns),
            }
        } else if is_broken {
            self.end_flow(id, End::Broken(side), now_ns);
        } else {
            self.pump(id, now_ns);
        }
    }

    /// The server has answered.
    fn answered(&mut self, id: FlowId, now_ns: u64) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        if !flow.server.is_writable {
            return;
        }
        if socket::end_connection(&self.settings, &flow.server.socket).is_err() {
            self.end_flow(id, End::Failed, now_ns);
            return;
        }
        flow.is_connecting = false;
        flow.active_ns = now_ns;
        if self.settings.window_queue.is_some() {
            window::start(flow, self.settings.client_unsent.option());
        }
        self.admission.answered(id);
        self.pump(id, now_ns);
    }

    /// Copies what can be copied.
    fn pump(&mut self, id: FlowId, now_ns: u64) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        match flow.pump(&mut self.pool, now_ns) {
            Err(side) => self.end_flow(id, End::Broken(side), now_ns),
            Ok(_) if flow.is_complete() => self.end_flow(id, End::Completed, now_ns),
            Ok(turns) => {
                if turns.iter().any(|turn| turn.is_cut) && !flow.is_queued {
                    flow.is_queued = true;
                    self.ready.push_back(id);
                }
            }
        }
    }

    /// Gives each connection whose turn was cut a further one.
    pub(super) fn turns(&mut self, now_ns: u64) {
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            if let Some(flow) = self.flows.get_mut(id) {
                flow.is_queued = false;
                self.pump(id, now_ns);
            }
        }
    }

    /// Ends a connection. Dropping its sockets resets both legs, unless it has completed.
    pub(super) fn end_flow(&mut self, id: FlowId, end: End, now_ns: u64) {
        let Some(mut flow) = self.flows.remove(id) else {
            return;
        };
        self.admission
            .end(id, flow.client_address.ip(), flow.is_connecting);
        self.totals.add(&flow, now_ns);
        flow.up.release(&mut self.pool);
        flow.down.release(&mut self.pool);
        let counter = match end {
            End::Completed => &mut self.totals.completed,
            End::Failed => &mut self.totals.failed,
            End::Evicted => &mut self.totals.evicted,
            End::Broken(Side::Client) => &mut self.totals.client_resets,
            End::Broken(Side::Server) => &mut self.totals.server_resets,
            End::Idle => &mut self.totals.idle_resets,
            End::Stop => &mut self.totals.stop_resets,
        };
        *counter += 1;
        if end == End::Completed {
            socket::close_in_order(&flow.client.socket);
            socket::close_in_order(&flow.server.socket);
        }
    }

    /// Resets all connections.
    pub(super) fn end(mut self, now_ns: u64) -> Ended {
        let ids: Vec<FlowId> = self.flows.iter_mut().map(|(id, _)| id).collect();
        let cut = ids.len();
        for id in ids {
            self.end_flow(id, End::Stop, now_ns.max(clock::monotonic_ns()));
        }
        Ended {
            totals: self.totals,
            cut,
        }
    }
}

/// Whether the connection of `leg` has failed; one that both hosts have ended has not.
fn is_broken(leg: &Leg) -> bool {
    !matches!(sockopt::socket_error(&leg.socket), Ok(Ok(())))
}
