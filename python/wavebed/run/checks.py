"""Is a trial valid? Each condition with its evidence, from the engine's summary and the samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.result.model import Verdict, WorkloadRecord

__all__ = ["engine_checks", "processor_check", "verdict"]

BUSY = 0.97
BUSY_SHARE = 0.25
"""Marked when all processors together were busier than `BUSY` in more than this share of the intervals."""
UDP_LOSS_SHARE = 0.001


def _list(engine: Mapping[str, Json], key: str) -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", engine.get(key) or [])


def _sum(rows: Sequence[Mapping[str, Json]], key: str) -> int:
    return sum(cast("int", row.get(key) or 0) for row in rows)


def _dropped(links: Sequence[Mapping[str, Json]], reason: str) -> int:
    return _sum([cast("Mapping[str, Json]", link.get("dropped_segments") or {}) for link in links], reason)


def engine_checks(engine: Mapping[str, Json], messages: str = "") -> list[Check]:
    """Return the conditions that the engine's summary speaks of.

    Parameters
    ----------
    engine : mapping
        The summary of the laboratory; empty if it ended without one.
    messages : str
        What it printed; the last line says why it ended, if it did by itself.
    """
    if not engine:
        last = messages.strip().rpartition("\n")[2].removeprefix("wavebed-core: ")
        why = "the laboratory ended without a summary" + (f": {last}" if last else "")
        return [Check("the engine gave its summary", False, "invalid", why, "no-summary")]
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
            "queues limited by the path alone",
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
                missed <= 0.01 * max(rounds, 1),
                "suspect",
                f"{missed} of {rounds + missed} rounds of TCP_INFO left out",
                "samplers",
            )
        )
    return checks


def _missing_check(missing: Sequence[str]) -> Check:
    said = "; ".join(missing) or "nothing is missing"
    return Check("counters and series are whole", not missing, "suspect", said, "missing")


def _udp_check(hosts: Sequence[Mapping[str, Json]], links: Sequence[Mapping[str, Json]]) -> Check:
    lost = _sum(hosts, "udp_receive_buffer_errors")
    delivered = max(_sum(links, "delivered_segments"), 1)
    return Check(
        "no loss at receiving sockets",
        lost <= UDP_LOSS_SHARE * delivered,
        "suspect",
        f"{lost} UDP datagrams found no room in a socket's buffer",
        "socket-loss",
    )


def _time_checks(engine: Mapping[str, Json]) -> list[Check]:
    """Take over what the engine says of its own time (`on_time.rs` in wavebed-path has the bounds)."""
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
    """Judge whether the processors were saturated.

    Parameters
    ----------
    busy : sequence of float
        Mean busy share of all processors in each interval of the samplers.
    """
    saturated = sum(share > BUSY for share in busy)
    share = saturated / len(busy) if busy else 0.0
    return Check(
        "processors not saturated",
        share <= BUSY_SHARE,
        "suspect",
        f"all processors busy in {share:.0%} of {len(busy)} intervals of 0.1 s (bound {BUSY_SHARE:.0%})",
        "processors",
    )


def verdict(checks: Sequence[Check], workloads: Sequence[WorkloadRecord]) -> tuple[Verdict, list[str]]:
    """Return the verdict and its reasons: the worst that was found."""
    failed = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "failed"]
    broken = {
        severity: [
            f"not so: {check.name}: {check.evidence}"
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
