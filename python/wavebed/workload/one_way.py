"""One-way delays between hosts whose clocks differ."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host
    from wavebed.workload.latency_windows import Probe

__all__ = ["MOST_ERROR", "on_one_clock"]

MOST_ERROR = 0.1
"""One-way delays are given if the error of the clocks is at most this part of their median."""


def on_one_clock(probes: Sequence[Probe], server: Host, client: Host) -> tuple[list[Probe], dict[str, Json]]:
    """Return probes with one-way delays on the laboratory's clock, and what is known of the clocks.

    Without a known offset, or with one too uncertain for these delays, the probes have no one-way delays.

    Parameters
    ----------
    probes : sequence of Probe
        Their one-way delays are differences of the two hosts' system clocks.
    """
    corrected: list[Probe] = []
    errors_ms: list[float] = []
    for probe in probes:
        of_server, of_client = server.clock_offset(probe.sent_s), client.clock_offset(probe.sent_s)
        if of_server is None or of_client is None:
            return _without(probes), {"one-way delays": "none: a clock was set during the trial"}
        ahead_ms = 1e3 * (of_server.ahead_s - of_client.ahead_s)
        errors_ms.append(1e3 * (of_server.error_s + of_client.error_s))
        corrected.append(
            replace(
                probe,
                up_ms=None if probe.up_ms is None else probe.up_ms - ahead_ms,
                down_ms=None if probe.down_ms is None else probe.down_ms + ahead_ms,
            )
        )
    delays_ms = [each for probe in corrected for each in (probe.up_ms, probe.down_ms) if each is not None]
    if not delays_ms or max(errors_ms) == 0:
        return corrected, {}
    worst_ms, middle_ms = max(errors_ms), median(delays_ms)
    known: dict[str, Json] = {"error of the clocks, ms": worst_ms}
    if worst_ms > MOST_ERROR * middle_ms:
        told = f"none: the clocks are known to ±{worst_ms:.3f} ms, and the median would be {middle_ms:.3f} ms"
        return _without(probes), {**known, "one-way delays": told}
    return corrected, known


def _without(probes: Sequence[Probe]) -> list[Probe]:
    return [replace(probe, up_ms=None, down_ms=None) for probe in probes]
