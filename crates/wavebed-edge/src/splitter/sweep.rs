//! Limits of time.

use super::event::End;
use super::flow::Flow;
use super::server::Splitter;
use super::settings::Settings;
use super::slab::FlowId;

impl Splitter {
    /// Ends connections that have exceeded a limit of time.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        let settings = &self.settings;
        let late: Vec<(FlowId, End)> = self
            .flows
            .iter_mut()
            .filter_map(|(id, flow)| Some((id, overdue(flow, settings, now_ns)?)))
            .collect();
        for (id, end) in late {
            self.end_flow(id, end, now_ns);
        }
        self.sweep_readers(now_ns);
        if !self.is_accepting && self.start_accepting().is_err() {
            // Descriptors or memory are still short.
            self.pause_accepting();
        }
    }
}

fn overdue(flow: &Flow, settings: &Settings, now_ns: u64) -> Option<End> {
    let quiet_ns = now_ns.saturating_sub(flow.active_ns);
    if flow.is_connecting {
        let waited_ns = now_ns.saturating_sub(flow.opened_ns);
        return (waited_ns > settings.handshake.ns()).then_some(End::Failed);
    }
    let limit = if flow.is_half_closed() {
        settings.half_closed.ns().min(settings.idle.ns())
    } else {
        settings.idle.ns()
    };
    (quiet_ns > limit).then_some(End::Idle)
}
