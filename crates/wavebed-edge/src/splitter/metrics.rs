//! Counters and gauges, as Prometheus text (version 0.0.4) and as JSON.

use std::fmt::Write as _;
use std::os::fd::AsFd;

use serde_json::{Value, json};
use wavebed_os::{clock, socket};

use super::flow::{Flow, Leg};
use super::server::Splitter;

/// Connections that one answer describes.
const MOST_FLOWS: usize = 1000;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections accepted, refused ones included.
    pub accepted: u64,
    /// Connections refused at a limit.
    pub refused: u64,
    /// Connections whose server did not answer, or refused.
    pub failed: u64,
    /// Connections that made room while their server had not answered.
    pub evicted: u64,
    /// Connections that ended in order.
    pub completed: u64,
    /// Connections reset by the client or because of its silence.
    pub client_resets: u64,
    /// The same by the server.
    pub server_resets: u64,
    /// Connections reset because they were idle.
    pub idle_resets: u64,
    /// Connections reset at the end of the program.
    pub stop_resets: u64,
    /// Bytes given to servers on connections that have ended.
    pub up_bytes: u64,
    /// The same to clients.
    pub down_bytes: u64,
    /// Time that these bytes waited for the server, nanoseconds.
    pub up_stalled_ns: u64,
    /// The same for the client.
    pub down_stalled_ns: u64,
}

impl Totals {
    /// Adds what a connection carried.
    pub(super) fn add(&mut self, flow: &Flow, now_ns: u64) {
        self.up_bytes += flow.up.bytes;
        self.down_bytes += flow.down.bytes;
        self.up_stalled_ns += flow.up.stalled_ns(now_ns);
        self.down_stalled_ns += flow.down.stalled_ns(now_ns);
    }
}

/// Name, description and value of a counter.
type Counter = (&'static str, &'static str, fn(&Totals) -> f64);
/// Name, type, description and value.
type Metric = (&'static str, &'static str, &'static str, f64);

const COUNTERS: [Counter; 12] = [
    ("accepted_total", "Connections accepted", |totals| {
        count(totals.accepted)
    }),
    (
        "refused_total",
        "Connections refused at a limit",
        |totals| count(totals.refused),
    ),
    (
        "failed_total",
        "Connections whose server did not answer or refused",
        |totals| count(totals.failed),
    ),
    (
        "evicted_total",
        "Connections that made room while connecting",
        |totals| count(totals.evicted),
    ),
    ("completed_total", "Connections ended in order", |totals| {
        count(totals.completed)
    }),
    (
        "client_resets_total",
        "Connections reset by their client",
        |totals| count(totals.client_resets),
    ),
    (
        "server_resets_total",
        "Connections reset by their server",
        |totals| count(totals.server_resets),
    ),
    ("idle_resets_total", "Idle connections reset", |totals| {
        count(totals.idle_resets)
    }),
    ("up_bytes_total", "Bytes given to servers", |totals| {
        count(totals.up_bytes)
    }),
    ("down_bytes_total", "Bytes given to clients", |totals| {
        count(totals.down_bytes)
    }),
    (
        "up_stalled_seconds_total",
        "Time that bytes waited for a server",
        |totals| seconds(totals.up_stalled_ns),
    ),
    (
        "down_stalled_seconds_total",
        "Time that bytes waited for a client",
        |totals| seconds(totals.down_stalled_ns),
    ),
];

/// Prometheus counts in f64: exact to 9 petabytes.
#[allow(clippy::cast_precision_loss, reason = "see above")]
fn count(number: u64) -> f64 {
    number as f64
}

fn seconds(ns: u64) -> f64 {
    count(ns) / 1e9
}

fn gauge(number: usize) -> f64 {
    count(number as u64)
}

impl Splitter {
    /// All metrics.
    fn metrics(&self) -> Vec<Metric> {
        let mut totals = self.totals;
        let now_ns = clock::monotonic_ns();
        let (mut half_closed, mut room) = (0, 0);
        for flow in self.flows.iter() {
            totals.add(flow, now_ns);
            half_closed += usize::from(flow.is_half_closed());
            room += flow.up.room() + flow.down.room();
        }
        let counters = COUNTERS.map(|(name, help, value)| (name, "counter", help, value(&totals)));
        let gauges = [
            ("connections", "Connections", self.flows.len()),
            (
                "connecting",
                "Connections whose server has not answered",
                self.admission.connecting(),
            ),
            (
                "half_closed",
                "Connections of which one direction has ended",
                half_closed,
            ),
            ("buffered_bytes", "Bytes in buffers", self.pool.held()),
            ("buffer_room_bytes", "Room of buffers that hold bytes", room),
        ];
        let gauges = gauges.map(|(name, help, value)| (name, "gauge", help, gauge(value)));
        counters.into_iter().chain(gauges).collect()
    }

    /// As Prometheus text.
    pub(super) fn prometheus(&self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in self.metrics() {
            let name = format!("wavebed_splitter_{name}");
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {value}"
            );
        }
        text
    }

    /// As JSON, with the names of the Prometheus metrics.
    pub(super) fn json(&self) -> Value {
        let pairs = self
            .metrics()
            .into_iter()
            .map(|(name, _, _, value)| (name.to_owned(), json!(value)));
        Value::Object(pairs.collect())
    }

    /// The connections, with `TCP_INFO` of their legs.
    pub(super) fn flows_json(&self) -> Value {
        let now_ns = clock::monotonic_ns();
        let flows: Vec<Value> = self
            .flows
            .iter()
            .take(MOST_FLOWS)
            .map(|flow| flow_json(flow, now_ns))
            .collect();
        json!({ "connections": self.flows.len(), "flows": flows })
    }
}

fn flow_json(flow: &Flow, now_ns: u64) -> Value {
    json!({
        "client": flow.client_address.to_string(),
        "server": flow.server_address.to_string(),
        "connecting": flow.is_connecting,
        "age_s": seconds(now_ns.saturating_sub(flow.opened_ns)),
        "idle_s": seconds(now_ns.saturating_sub(flow.active_ns)),
        "up_bytes": flow.up.bytes,
        "down_bytes": flow.down.bytes,
        "up_buffered_bytes": flow.up.held(),
        "down_buffered_bytes": flow.down.held(),
        "up_stalled_s": seconds(flow.up.stalled_ns(now_ns)),
        "down_stalled_s": seconds(flow.down.stalled_ns(now_ns)),
        "window_bytes": flow.window.limits.map(|limits| limits.window_bytes),
        "buffer_limit_bytes": flow.window.limits.map(|limits| limits.buffer_bytes),
        "client_leg": leg_json(&flow.client),
        "server_leg": leg_json(&flow.server),
    })
}

fn leg_json(leg: &Leg) -> Value {
    let Ok(info) = socket::info(leg.socket.as_fd()) else {
        return Value::Null;
    };
    let congestion = rustix::net::sockopt::tcp_congestion(&leg.socket).ok();
    json!({
        "congestion_control": congestion,
        "rtt_us": info.rtt_us,
        "min_rtt_us": info.min_rtt_us,
        "rto_us": info.rto_us,
        "cwnd_segments": info.cwnd_segments,
        "unacked_segments": info.unacked_segments,
        "retransmitted_segments": info.total_retrans_segments,
        "delivery_rate_bps": info.delivery_rate_bps,
        "notsent_bytes": info.notsent_bytes,
        "bytes_acked": info.bytes_acked,
        "bytes_received": info.bytes_received,
    })
}
