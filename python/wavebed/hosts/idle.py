"""Round-trip times of the idle path before and after a trial: a change of them is a sign of cross traffic."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from wavebed.hosts.host import AgentHost

__all__ = ["idle_rtts_ms"]

PINGS = 20
_DRAINING = 10
"""Pings after a trial that are left out, in which queues of its load may drain."""
_INTERVAL_S = 0.05
_WAIT_S = 2
_TIME = re.compile(r"time=([0-9]{1,9}(?:\.[0-9]{1,9})?) ms")


def idle_rtts_ms(client: AgentHost, address: str, *, after: bool) -> list[float]:
    """Return the round-trip times of `PINGS` pings, ms; fewer if some were lost, none without ping or answers.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError
        If the client's agent has ended or does not answer.
    """
    count = PINGS + (_DRAINING if after else 0)
    limit_s = count * _INTERVAL_S + _WAIT_S
    argv = ["ping", "-4", "-n", "-i", str(_INTERVAL_S), "-c", str(count), "-w", str(round(limit_s)), address]
    with suppress(subprocess.TimeoutExpired):
        try:
            told = client.run(argv, capture_output=True, timeout=limit_s + _WAIT_S, confined=True).stdout
        except WavebedError:
            if not client.agent.is_alive:
                raise
            return []  # there is no ping
        return [float(each) for each in _TIME.findall(told)][-PINGS:]
    return []
