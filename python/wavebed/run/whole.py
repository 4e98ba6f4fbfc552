"""Whether every program of a trial ran all the time, and every workload did all that was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.result.model import WorkloadRecord
    from wavebed.workload.model import Json

__all__ = ["STOPPED_INVALID_S", "partial_check", "stopped_checks"]

STOPPED_INVALID_S = 0.05
"""A program that was stopped for longer makes the trial invalid: the order of the round trips that are told apart."""


def stopped_checks(engine: Mapping[str, Json]) -> list[Check]:
    """Judge whether somebody stopped a program of the laboratory (SIGSTOP): its figures are not those of the path.

    Parameters
    ----------
    engine : mapping
        The summary of the laboratory.
    """
    stops = cast("list[dict[str, Json]]", engine.get("stopped_programs") or [])
    longest_s = max((cast("float", stop["stopped_s"]) for stop in stops), default=0.0)
    told = [f"{stop['program']} on {stop['host']} was stopped for {stop['stopped_s']:.2f} s" for stop in stops]
    return [
        Check(
            "no program was stopped",
            not stops,
            "invalid" if longest_s > STOPPED_INVALID_S else "doubtful",
            "; ".join(told) or "every program ran until its end",
        )
    ]


def partial_check(workloads: Sequence[WorkloadRecord]) -> Check:
    """Judge whether every workload did all that was planned."""
    partial = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "partial"]
    return Check(
        "every workload is whole", not partial, "doubtful", "; ".join(partial) or "each did all that was planned"
    )
