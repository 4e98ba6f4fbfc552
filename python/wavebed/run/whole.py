"""The check that every workload of a trial was complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.result.model import WorkloadRecord

__all__ = ["partial_check"]


def partial_check(workloads: Sequence[WorkloadRecord]) -> Check:
    """Check that no workload is partial."""
    partial = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "partial"]
    return Check(
        "every workload is complete", not partial, "suspect", "; ".join(partial) or "all workloads completed", "partial"
    )
