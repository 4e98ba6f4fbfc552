"""Checks of a trial's validity, each with its evidence, from the engine's summary and the samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.result.model import Verdict, WorkloadRecord

__all__ = ["engine_checks", "partial_check", "processor_check", "verdict"]

BUSY = 0.97
BUSY_FRACTION = 0.25
"""Suspect if all processors together were busier than `BUSY` in more than this fraction of the intervals."""
LEAST_INTERVALS = 10
"""A share of fewer intervals says nothing: a program of 0.2 s keeps a processor busy for as long as it starts."""
UDP_LOSS_FRACTION = 0.001


def _list(engine: Mapping[str, Json], key: str) -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", engine.get(key) or [])


def _sum(rows: Sequence[Mapping[str, Json]], key: str) -> int:
    return sum(cast("int", row.get(key) or 0) for row in rows)


def _dropped(links: Sequence[Mapping[str, Json]], reason: str) -> int:
    return _sum([cast("Mapping[str, Json]", link.get("dropped_segments") or {}) for link in links], reason)


def engine_checks(engine: Mapping[str, Json], messages: str = "") -> list[Check]:
    """Return the checks of the engine's summary.

    Parameters
    ----------
    engine : mapping
        The summary of the laboratory; empty if it ended without one.
    messages : str
        Its printed output; the last line has the reason if it ended by itself.
    """
    if not engine:
        last = messages.strip().rpartition("\n")[2].removeprefix("wavebed-core: ")
        why = "the laboratory ended without a summary" + (f": {last}" if last else "")
        return [Check("the engine wrote its summary", False, "invalid", why, "no-summary")]
    links, departures, hosts = _list(engine, "links"), _list(engine, "departures"), _list(engine, "hosts")
    unaccounted = sum(abs(cast("int", link["unaccounted_segments"])) for link in links)
    offered = _sum(links, "offered_segments")
    refused, device = _sum(departures, "refused_segments"), _sum(hosts, "device_dropped_packets")
    beyond = _dropped(links, "packet_memory")
    checks = [
        Check(
            "every packet accounted for",
            unaccounted == 0,
            "invalid",
            f"{offered:,} segments offered to the links, {unaccounted} unaccounted for",
            "unaccounted",
        ),
        Check(
            "no loss outside the links",
            refused + device == 0,
            "invalid",
            f"{device} lost at devices, {refused} refused by devices",
            "lost-outside",
        ),
        Check(
            "queues limited only by the path",
            beyond == 0,
            "suspect",
            f"{beyond:,} segments dropped at the packet memory limit",
            "packet-memory",
        ),
        _udp_check(hosts, links),
        *_time_checks(engine),
        _missing_check(cast("list[str]", engine.get("missing") or [])),
    ]
    sampler = engine.get("sampler")
    if isinstance(sampler, dict):
        rounds, missed = cast("int", sampler["rounds"]), cast("int", sampler["missed"])
        checks.append(
            Check(
                "the samplers kept up",
                missed <= 0.01 * max(rounds, 1) or rounds + missed < LEAST_INTERVALS,
                "suspect",
                f"{missed} of {rounds + missed} TCP_INFO sampling rounds missed",
                "samplers",
            )
        )
    return checks


def _missing_check(missing: Sequence[str]) -> Check:
    said = "; ".join(missing) or "nothing is missing"
    return Check("counters and series are complete", not missing, "suspect", said, "missing")


def _udp_check(hosts: Sequence[Mapping[str, Json]], links: Sequence[Mapping[str, Json]]) -> Check:
    lost = _sum(hosts, "udp_receive_buffer_errors")
    delivered = max(_sum(links, "delivered_segments"), 1)
    return Check(
        "no loss at receiving sockets",
        lost <= UDP_LOSS_FRACTION * delivered,
        "suspect",
        f"{lost} UDP datagrams lost because a socket's receive buffer was full",
        "socket-loss",
    )


def _time_checks(engine: Mapping[str, Json]) -> list[Check]:
    """Return the engine's own checks of its timing (`on_time.rs` in wavebed-path has the bounds)."""
    return [
        Check(
            cast("str", row["name"]),
            bool(row["holds"]),
            cast('Literal["invalid", "suspect"]', row["severity"]),
            cast("str", row["evidence"]),
            cast("str", row["code"]),
        )
        for row in _list(engine, "checks")
    ]


def processor_check(busy: Sequence[float]) -> Check:
    """Check that the processors were not saturated.

    Parameters
    ----------
    busy : sequence of float
        Mean busy fraction of all processors in each interval of the samplers.
    """
    fraction = sum(each > BUSY for each in busy) / len(busy) if busy else 0.0
    judged = len(busy) >= LEAST_INTERVALS
    bound = f"bound {BUSY_FRACTION:.0%}" if judged else f"fewer than {LEAST_INTERVALS} are not judged"
    return Check(
        "processors not saturated",
        fraction <= BUSY_FRACTION or not judged,
        "suspect",
        f"all processors busy in {fraction:.0%} of {len(busy)} intervals of 0.1 s ({bound})",
        "processors",
    )


def partial_check(workloads: Sequence[WorkloadRecord]) -> Check:
    """Check that no workload is partial."""
    partial = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "partial"]
    return Check(
        "every workload is complete", not partial, "suspect", "; ".join(partial) or "all workloads completed", "partial"
    )


def verdict(checks: Sequence[Check], workloads: Sequence[WorkloadRecord]) -> tuple[Verdict, list[str]]:
    """Return the worst verdict found, and its reasons."""
    failed = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "failed"]
    broken = {
        severity: [
            f"check failed: {check.name}: {check.evidence}"
            for check in checks
            if not check.holds and check.severity == severity
        ]
        for severity in ("invalid", "suspect")
    }
    doubts = [f"{each.name}: {doubt}" for each in workloads for doubt in each.outcome.doubts]
    reasons = [*failed, *broken["invalid"], *broken["suspect"], *doubts]
    if failed:
        return "failed", reasons
    if broken["invalid"]:
        return "invalid", reasons
    return ("suspect" if reasons else "valid"), reasons
