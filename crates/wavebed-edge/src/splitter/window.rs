//! The radio-aware window: the server may send as fast as the radio delivers, and not far ahead of it.
//!
//! The idea is milliProxy's (Polese et al., `GLOBECOM` 2017, arXiv 1703.05985), the formula ours. Data waits in three
//! places at the edge: unread in the server leg's receive window, in the buffer, and unsent in the client leg. They get a
//! half, a quarter and a quarter of the time that data may wait; the window holds a wired round trip besides.

use std::os::fd::AsFd;

use rustix::net::sockopt;
use wavebed_os::socket;

use super::flow::Flow;
use super::server::Splitter;

/// Between two measurements of a connection.
pub const PERIOD_NS: u64 = 100_000_000;
/// Ten segments (RFC 6928): less would stop a connection that a blockage has slowed down.
const FLOOR_BYTES: u32 = 14_600;
/// Limits until the first measurement.
const START: Limits = Limits {
    window_bytes: 256 << 10,
    buffer_bytes: 256 << 10,
};
/// Data in 256 bytes of receive memory, until it is measured: the kernel's own first guess, one half.
const START_DENSITY: u32 = 128;
/// Unread data from which its density is measured, bytes.
const ENOUGH_BYTES: u64 = 16 << 10;

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

/// What may wait at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Receive window of the server leg, bytes.
    pub window_bytes: u32,
    /// Bytes in the buffer, and as many unsent in the client leg.
    pub buffer_bytes: u32,
}

/// How limits follow the radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLaw {
    /// Time that data may wait at the edge, microseconds.
    pub queue_us: u64,
}

impl WindowLaw {
    /// The limits after `sample`, while `previous` hold. When the server limits the rate, no data waits at the edge: the
    /// limits double, as in slow start, since the radio may carry more.
    #[must_use]
    pub fn limits(&self, previous: Limits, sample: Sample) -> Limits {
        let (Some(rate_bps), Some(rtt_us)) = (sample.delivery_bps, sample.wired_rtt_us) else {
            return previous;
        };
        let new = Limits {
            window_bytes: bytes_in(rate_bps, u64::from(rtt_us) + self.queue_us / 2),
            buffer_bytes: bytes_in(rate_bps, self.queue_us / 4),
        };
        if !sample.is_app_limited {
            return new;
        }
        let twice = |bytes: u32| bytes.saturating_mul(2);
        Limits {
            window_bytes: twice(previous.window_bytes).max(new.window_bytes),
            buffer_bytes: twice(previous.buffer_bytes).max(new.buffer_bytes),
        }
    }
}

/// Bytes that a rate carries in some time, within bounds.
fn bytes_in(rate_bps: u64, time_us: u64) -> u32 {
    let bytes = u128::from(rate_bps) * u128::from(time_us) / 8_000_000;
    u32::try_from(bytes).unwrap_or(u32::MAX).max(FLOOR_BYTES)
}

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// Bytes of the connection at the last measurement.
    seen: u64,
    /// Data in 256 bytes of the server leg's receive memory.
    density: u32,
    /// The latest delivery rates, bits per second; 0: not yet measured.
    rates: [u64; 3],
    /// Those that hold.
    pub limits: Option<Limits>,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            seen: 0,
            density: START_DENSITY,
            rates: [0; 3],
            limits: None,
        }
    }
}

impl Splitter {
    /// Measures the connections that carried data, and sets their limits.
    pub(super) fn follow_radio(&mut self, law: WindowLaw) {
        let unsent = self.settings.client_unsent.option();
        for (_, flow) in self.flows.iter_mut() {
            if !flow.is_connecting && flow.down.bytes != flow.window.seen {
                flow.window.seen = flow.down.bytes;
                measure(flow, law, unsent);
            }
        }
    }
}

/// The median of the latest rates: one of a burst, after the radio or the machine stood still, says nothing.
fn filtered(rates: &mut [u64; 3], latest: u64) -> u64 {
    rates.rotate_left(1);
    rates[2] = latest;
    let mut sorted = *rates;
    sorted.sort_unstable();
    if sorted[0] == 0 { latest } else { sorted[1] }
}

/// Sets the first limits. Not before the connection is established: they would limit its window scale.
pub fn start(flow: &mut Flow, most_unsent: u32) {
    set(flow, START, most_unsent);
}

/// A socket that refuses has ended, and its event is on the way.
fn measure(flow: &mut Flow, law: WindowLaw, most_unsent: u32) {
    let Ok(radio) = socket::info(flow.client.socket.as_fd()) else {
        return;
    };
    let Ok(wired) = socket::info(flow.server.socket.as_fd()) else {
        return;
    };
    let sample = Sample {
        delivery_bps: radio
            .delivery_rate_bps
            .map(|latest| filtered(&mut flow.window.rates, latest)),
        is_app_limited: radio.delivery_app_limited.unwrap_or(false),
        wired_rtt_us: wired.min_rtt_us.or(wired.rtt_us),
    };
    let unread = rustix::io::ioctl_fionread(&flow.server.socket).unwrap_or(0);
    let memory = socket::receive_memory(flow.server.socket.as_fd()).unwrap_or(0);
    if unread >= ENOUGH_BYTES
        && let Some(density) = (unread * 256).checked_div(memory.into())
    {
        flow.window.density = u32::try_from(density).unwrap_or(256).clamp(16, 256);
    }
    let previous = flow.window.limits.unwrap_or(START);
    set(flow, law.limits(previous, sample), most_unsent);
}

fn set(flow: &mut Flow, limits: Limits, most_unsent: u32) {
    flow.window.limits = Some(limits);
    flow.down.limit_bytes = Some(limits.buffer_bytes as usize);
    let unsent = limits.buffer_bytes.min(most_unsent);
    let _ = socket::set_unsent_limit(flow.client.socket.as_fd(), unsent);
    let server = flow.server.socket.as_fd();
    // The clamp limits what the server may send beyond what has arrived; only the receive buffer limits what is unread.
    let _ = socket::set_window_clamp(server, limits.window_bytes);
    // The kernel doubles it.
    let memory = u64::from(limits.window_bytes) * 128 / u64::from(flow.window.density);
    let memory = usize::try_from(memory.min(1 << 30)).unwrap_or(usize::MAX);
    // Without CAP_NET_ADMIN it would be cut at net.core.rmem_max, and might limit the rate.
    let _ = sockopt::set_socket_recv_buffer_size_force(server, memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_does_not_move_the_rate() {
        let mut rates = [0; 3];
        let steps = [50, 51, 50, 400, 52, 50].map(|rate| filtered(&mut rates, rate));
        assert_eq!(steps, [50, 51, 50, 51, 52, 52]);
    }
}
