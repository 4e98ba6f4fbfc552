//! The radio-aware window: the server may send as fast as the radio delivers, and not far ahead of it.
//!
//! The idea is milliProxy's (Polese et al., `GLOBECOM` 2017, arXiv 1703.05985), the formula ours: the receive window of the
//! server leg is what the radio delivers in one wired round trip and in the time that data may wait at the edge.

use std::os::fd::AsFd;

use wavebed_os::tcp_option;

use super::flow::Flow;
use super::server::Splitter;

/// Between two measurements of a connection.
pub const PERIOD_NS: u64 = 100_000_000;
/// Ten segments (RFC 6928): less would stop a connection that a blockage has slowed down.
const FLOOR_BYTES: u32 = 14_600;

/// What one measurement found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Rate at which the client acknowledges, bits per second.
    pub delivery_bps: Option<u64>,
    /// Whether the server, not the radio, limited that rate.
    pub is_app_limited: bool,
    /// Least round trip of the server leg, microseconds.
    pub wired_rtt_us: Option<u32>,
}

/// How windows follow the radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLaw {
    /// Time that data may wait at the edge, microseconds.
    pub queue_us: u64,
}

impl WindowLaw {
    /// The window in bytes after `sample`, while `previous` holds; `None`: no limit. A rate that the server limited only
    /// raises the window, since the radio may carry more.
    #[must_use]
    pub fn clamp(&self, previous: Option<u32>, sample: Sample) -> Option<u32> {
        let (Some(rate_bps), Some(rtt_us)) = (sample.delivery_bps, sample.wired_rtt_us) else {
            return previous;
        };
        let time_us = u128::from(self.queue_us) + u128::from(rtt_us);
        let bytes = u128::from(rate_bps) * time_us / 8_000_000;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).max(FLOOR_BYTES);
        match previous {
            _ if !sample.is_app_limited => Some(bytes),
            // No limit yet, and no reason for one.
            None => None,
            Some(previous) => Some(previous.max(bytes)),
        }
    }
}

/// The window of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Track {
    /// Bytes of the connection at the last measurement.
    seen: u64,
    /// The window that holds.
    pub clamp: Option<u32>,
}

impl Splitter {
    /// Measures the connections that carried data, and sets their windows.
    pub(super) fn follow_radio(&mut self, law: WindowLaw) {
        for (_, flow) in self.flows.iter_mut() {
            if !flow.is_connecting && flow.down.bytes != flow.window.seen {
                flow.window.seen = flow.down.bytes;
                set_window(flow, law);
            }
        }
    }
}

/// A socket that refuses has ended, and its event is on the way.
fn set_window(flow: &mut Flow, law: WindowLaw) {
    let Ok(radio) = tcp_option::info(flow.client.socket.as_fd()) else {
        return;
    };
    let Ok(wired) = tcp_option::info(flow.server.socket.as_fd()) else {
        return;
    };
    let sample = Sample {
        delivery_bps: radio.delivery_rate_bps,
        is_app_limited: radio.delivery_app_limited.unwrap_or(false),
        wired_rtt_us: wired.min_rtt_us.or(wired.rtt_us),
    };
    flow.window.clamp = law.clamp(flow.window.clamp, sample);
    if let Some(bytes) = flow.window.clamp {
        // Also when it has not changed: the kernel widens it when it grows the receive buffer.
        let _ = tcp_option::set_window_clamp(flow.server.socket.as_fd(), bytes);
    }
}
