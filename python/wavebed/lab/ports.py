"""The ports of workloads on their hosts."""

from __future__ import annotations

__all__ = ["MOST_WORKLOADS", "WORKLOAD_PORTS", "ports_of"]

_FIRST = 20_000
_EACH = 20
MOST_WORKLOADS = 32
WORKLOAD_PORTS = range(_FIRST, _FIRST + _EACH * MOST_WORKLOADS)
"""Those of all workloads of a trial, TCP and UDP."""


def ports_of(number: int) -> range:
    """Return the ports of a workload by its place in the trial, from 0; no other has them."""
    first = _FIRST + _EACH * number
    return range(first, first + _EACH)
