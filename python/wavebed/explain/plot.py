"""A picture of an explanation: the causes of the delay, stacked over time, and the losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.explain.model import CAUSES
from wavebed.page.charts import FAINT, INK, figure_bytes, panels, styled
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from wavebed.explain.model import Cause, Explanation, OfDirection, Stall
    from wavebed.page.charts import Axes, Figure


_COLOURS: dict[Cause, str] = {
    "propagation": "#d5dae0",
    "transmission": "#aab4bf",
    "queue": "#1f5fa8",
    "turn": "#4a8cc9",
    "slot": "#a9cdec",
    "grant": "#1d8a99",
    "connection": "#5c6b73",
    "outage": "#a3151a",
    "handover": "#1d2733",
    "harq": "#e69f00",
    "rlc": "#d9722e",
    "reordering": "#f3d27a",
    "ue": "#8a4fa3",
    "jitter": "#2f8f5b",
    "host": "#cc79a7",
    "unexplained": "#000000",
}
_LOST = "#a3151a"
_LEAST_SHARE = 0.01
"""Causes that are always below this part of the highest mean have no entry in the legend."""


def explanation_png(found: Explanation) -> bytes:
    """Draw a panel for each direction with packets; the same explanation makes the same bytes."""
    with styled():
        return figure_bytes(_build(found), "png")


def _build(found: Explanation) -> Figure:
    shown = [each for each in found.directions if each.windows]
    plan = [(each, lost) for each in shown for lost in (False, True) if not lost or each.lost_segments]
    heights = [0.8 if lost else 2.6 for _, lost in plan] or [1.0]
    figure, all_axes = panels(heights, 0.8 + sum(heights) + 0.5 * len(shown))
    for axes, (each, lost) in zip(all_axes, plan, strict=False):
        edges = np.arange(found.start_s, found.end_s + found.step_ms / 1e3, found.step_ms / 1e3)
        if lost:
            _draw_losses(axes, each, edges)
        else:
            _draw_causes(axes, each, edges, found)
        axes.set_xlim(found.start_s, found.end_s)
        axes.tick_params(length=3)
    if not plan:
        all_axes[0].set_title("no packets were sent in this time", loc="left", fontsize=11)
    what = "sending" if found.source == "packets" else "leaving the queue"
    all_axes[-1].set_xlabel(f"time of {what}  (s)")
    return figure


def _draw_causes(axes: Axes, each: OfDirection, edges: NDArray[np.float64], found: Explanation) -> None:
    total = np.zeros(len(edges) - 1)
    highest = max((window.delay_mean_ms or 0.0 for window in each.windows), default=0.0)
    for cause in CAUSES:
        values = _course(each, cause, edges)
        if not values.any():
            continue
        named = values.max() >= _LEAST_SHARE * highest
        axes.stairs(
            total + values,
            edges,
            baseline=total,
            fill=True,
            color=_COLOURS[cause],
            lw=0,
            label=cause if named else None,
        )
        total += values
    _mark_stalls(axes, found.stalls)
    axes.set_ylim(0, max(float(total.max()) * 1.06, 0.1))
    axes.set_ylabel("mean delay  (ms)")
    axes.grid(axis="y")
    coarse = "" if found.source == "packets" else "  (time in the queue only)"
    axes.set_title(f"{each.name}{coarse}", loc="left", fontweight="bold", fontsize=11, color=INK)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(
        handles, names, loc="lower right", bbox_to_anchor=(1, 1.0), ncols=max(len(names), 1), frameon=False,
        fontsize=8.5, handlelength=1.0, columnspacing=1.0, borderaxespad=0.3,
    )  # fmt: skip


def _draw_losses(axes: Axes, each: OfDirection, edges: NDArray[np.float64]) -> None:
    lost = np.zeros(len(edges) - 1)
    for window in each.windows:
        lost[_place(window.start_s, edges)] = window.lost_segments
    axes.stairs(lost, edges, fill=True, color=_LOST, lw=0)
    axes.set_ylim(0, float(lost.max()) * 1.1 or 1)
    axes.set_ylabel("lost")
    axes.grid(axis="y")


def _mark_stalls(axes: Axes, stalls: Sequence[Stall]) -> None:
    place = axes.get_xaxis_transform()
    for number, stall in enumerate(stalls):
        wide = [(stall.start_s, stall.end_s - stall.start_s)]
        axes.broken_barh(
            wide, (0.96, 0.04), transform=place, color=FAINT, lw=0, label="users waited" if number == 0 else None
        )


def _course(each: OfDirection, cause: Cause, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.zeros(len(edges) - 1)
    for window in each.windows:
        values[_place(window.start_s, edges)] = window.mean_ms_by_cause.get(cause, 0.0)
    return values


def _place(at_s: float, edges: NDArray[np.float64]) -> int:
    step_s = float(edges[1] - edges[0])
    return min(round((at_s - float(edges[0])) / step_s), len(edges) - 2)


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
    if each.turns:
        rows = [
            (turn.device or "another user", f"{turn.mean_ms:.3f}", str(turn.segments), f"{turn.max_ms:.2f}")
            for turn in each.turns
        ]
        yield table_text([("turn behind", "mean, ms", "segments", "longest, ms"), *rows])
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
