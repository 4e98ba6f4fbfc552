"""Which series the report of a campaign draws over time."""

from __future__ import annotations

import numpy as np

from wavebed.campaign.report.plot_time import kept_series


def test_the_link_with_the_longest_queues_is_drawn() -> None:
    time_s = np.arange(3.0)
    trial = {
        ("Throughput of wire", "Mbit/s", "sum"): (time_s, np.array([9.0, 9.0, 9.0])),
        ("Queue at wire", "kB", "max"): (time_s, np.array([1.0, 1.0, np.nan])),
        ("Throughput of radio", "Mbit/s", "sum"): (time_s, np.array([8.0, 8.0, 8.0])),
        ("Queue at radio", "kB", "max"): (time_s, np.array([0.0, 50.0, 0.0])),
        ("latency: rtt", "ms", "mean"): (time_s, time_s),
    }
    assert [title for title, _, _ in kept_series([trial, trial], list(trial))] == [
        "Throughput of radio",
        "Queue at radio",
        "latency: rtt",
    ]
