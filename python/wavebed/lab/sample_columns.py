"""The columns of the samples of connections and processors, as the sampler writes them (`wavebed-path`)."""

from __future__ import annotations

__all__ = ["CPU", "FLOWS", "FLOW_TEXTS"]

FLOW_TEXTS = ("host", "local", "remote", "state", "congestion", "ca_state")
FLOWS = (
    "time_ns",
    "host",
    "cookie",
    "local",
    "remote",
    "state",
    "congestion",
    "ca_state",
    "cwnd_segments",
    "ssthresh_segments",
    "mss_bytes",
    "rtt_us",
    "rttvar_us",
    "min_rtt_us",
    "rto_us",
    "unacked_segments",
    "lost_segments",
    "total_retrans_segments",
    "bytes_sent",
    "bytes_retrans",
    "bytes_acked",
    "bytes_received",
    "delivery_rate_bps",
    "delivery_app_limited",
    "pacing_rate_bps",
    "notsent_bytes",
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
)
CPU = ("time_ns", "core", "busy", "softirq")
