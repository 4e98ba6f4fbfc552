"""The explanation of a trial as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.explain.causes import Cause
    from wavebed.explain.model import Explanation, OfDirection, Stall

__all__ = ["explanation_text"]

_SOURCES = {
    "packets": "from the packet log",
    "series": "coarse, from the series per millisecond",
}


def explanation_text(found: Explanation) -> str:
    """Return a table for each direction, its losses and worst moments, then stalls and the lateness of this machine."""
    blocks = [f"{found.trial} ({found.verdict}), {found.start_s:g} to {found.end_s:g} s, {_SOURCES[found.source]}"]
    blocks += ["\n".join(_of_direction(each)) for each in found.directions]
    if found.stalls:
        blocks.append("\n".join(["waits of users, and the longest delay from 1 s before", *_stalls(found.stalls)]))
    if found.hosts:
        listed = ", ".join(
            f"{each.late_max_ms:.2f} ms ({each.direction}, at {each.at_s:.1f} s)" for each in found.hosts
        )
        blocks.append(f"latest departures of this machine: {listed}")
    if found.meanings:
        blocks.append(table_text([("cause", "the time …"), *found.meanings.items()], left=True))
    blocks += [f"not recorded: {line}" for line in found.missing]
    return "\n\n".join(blocks)


def _of_direction(each: OfDirection) -> Iterator[str]:
    counts = f"{each.segments} segments sent, {each.delivered_segments} delivered, {each.lost_segments} lost"
    if each.unfinished_segments:
        counts += f", {each.unfinished_segments} on the way at the end"
    over = "" if each.links == [each.name] else f" over {', '.join(each.links)}"
    yield f"{each.name}{over}: {counts}"
    if each.blocks_sent:
        failures = f", {each.link_failures} radio link failures" if each.link_failures else ""
        yield f"radio: {each.blocks_failed} of {each.blocks_sent} transmissions failed{failures}"
    if each.delay_mean_ms is not None:
        what = "time in the queue" if each.base_delay_ms is None else "one-way delay"
        base = "" if each.base_delay_ms is None else f", of which {each.base_delay_ms:.2f} ms is the base delay"
        yield (
            f"{what}: mean {each.delay_mean_ms:.2f} ms, p50 {each.delay_p50_ms:.2f}, p95 {each.delay_p95_ms:.2f},"
            f" p99 {each.delay_p99_ms:.2f}, longest {each.delay_max_ms:.2f} ms{base}"
        )
        rows: list[tuple[str, ...]] = [
            (
                share.cause,
                f"{share.mean_ms:.3f}",
                "" if share.late_percent is None else f"{share.late_percent:.1f}",
                f"{share.max_ms:.2f}",
            )
            for share in each.causes
        ]
        yield table_text([("cause", "mean, ms", "of late time, %", "longest, ms"), *rows])
    if each.lost:
        rows = [(lost.reason, lost.link, lost.cause or "", str(lost.segments)) for lost in each.lost]
        yield table_text([("lost by", "on", "cause", "segments"), *rows], left=True)
    by = "leaving the queue" if each.unfinished_segments is None else "sending"
    yield from _moments(f"longest delays, by the time of {by}:", [moment.text for moment in each.worst_delays])
    yield from _moments(f"most losses, by the time of {by}:", [moment.text for moment in each.worst_losses])


def _moments(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield title
        yield from (f"  {line}" for line in lines)


def _stalls(stalls: list[Stall]) -> Iterator[str]:
    for stall in stalls:
        parts = []
        for each in stall.causes:
            named = ", ".join(f"{cause} {ms:.0f} ms" for cause, ms in _largest(each.late_ms_by_cause))
            lost = f", {each.lost_segments} segments lost" if each.lost_segments else ""
            late = "nothing delivered" if each.late_max_ms is None else f"up to {each.late_max_ms:.0f} ms late"
            parts.append(f"{each.direction}: {late}{f' ({named})' if named else ''}{lost}")
        lasted_s = stall.end_s - stall.start_s
        yield f"  {stall.start_s:.1f} s, {stall.workload}: {stall.kind} of {lasted_s:.1f} s; {'; '.join(parts)}"


def _largest(by_cause: dict[Cause, float]) -> list[tuple[Cause, float]]:
    return sorted(((cause, ms) for cause, ms in by_cause.items() if ms >= 1), key=lambda each: -each[1])[:3]
