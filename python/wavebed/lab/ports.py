"""The ports of workloads on their hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MOST_WORKLOADS", "PORTS_EACH", "WORKLOAD_PORTS", "first_ports"]

PORTS_EACH = 20
"""Ports of a workload that needs no more."""
MOST_WORKLOADS = 32
_FIRST = 20_000
WORKLOAD_PORTS = range(_FIRST, _FIRST + PORTS_EACH * MOST_WORKLOADS)
"""Those of all workloads of a trial, TCP and UDP."""


def first_ports(counts: Sequence[int]) -> list[int]:
    """Return the first port of each workload of a trial, from how many each needs; no other has its ports."""
    return [_FIRST + sum(counts[:place]) for place in range(len(counts))]
