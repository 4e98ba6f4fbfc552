"""The findings of a forwarding test as text for a terminal."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

from wavebed.forward.result import refused_parts
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.frames import Rates
    from wavebed.forward.parts import BurstFinding, LatencyFinding, LossRateFinding, OverloadFinding
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import GoalFinding, SizeFinding

REFUSED = "refused"
GOAL_TITLES = {"rfc2544": "RFC 2544", "ndr": "NDR", "pdr": "PDR"}
TEST_TITLES = {"throughput": "throughput test", "overload": "64-byte test"}


def summary_text(result: DeviceResult) -> str:
    """Return the tables, the refusals with their reasons, and the doubts."""
    ports = f"{result.transmitter.interface} to {result.receiver.interface}"
    means = f"sent by {result.sender or 'nothing'}, counted by {result.receiver_kind or 'nothing'}"
    parts = [f"{result.device} ({result.kind}): {ports}, {means}"]
    if result.overload:
        parts.append(_section("Forwarded rate under overload (not a loss-free rate)", _overload(result.overload)))
    if result.sizes:
        parts.append(_section("Loss-free rates, Mpps (Mbit/s at L1)", _sizes(result.sizes)))
    if result.latency:
        parts.append(_section("Latency at fractions of NDR, microseconds", _latency(result.latency)))
    if result.loss_rates:
        parts.append(_section("Frame loss by load", _loss_rates(result.loss_rates)))
    if result.bursts:
        parts.append(_section("Back-to-back bursts without loss (RFC 9004)", _bursts(result.bursts)))
    beside = _beside(result)
    if beside:
        parts.append(beside)
    parts += _notes(result)
    return "\n\n".join(parts)


def _overload(tests: Sequence[OverloadFinding]) -> list[list[str]]:
    rows = [
        ["test", "frame", "offered Mpps", "received Mpps", "95 % interval", "Mbit/s L1", "payload", "loss", "CPU max"]
    ]
    for test in tests:
        received, low, high = test.received, test.received_pps.low, test.received_pps.high
        rows.append(
            [
                TEST_TITLES.get(test.name, test.name) if test.sizes_bytes in {(64,), (1518,)} else test.name,
                "+".join(map(str, test.sizes_bytes)),
                _mpps(test.sent.pps if test.sent else None),
                REFUSED if received is None else _mpps(received.pps),
                "–" if low is None or high is None else f"{_mpps(low)} to {_mpps(high)}",
                "–" if received is None else f"{received.l1_mbps:.1f}",
                "–" if received is None else f"{received.payload_mbps:.1f}",
                _fraction(test.loss_ratio.estimate),
                _fraction(test.cpu_busy_max.estimate),
            ]
        )
    return rows


def _sizes(sizes: Sequence[SizeFinding]) -> list[list[str]]:
    names = list(dict.fromkeys(goal.goal.name for size in sizes for goal in size.goals))
    rows = [["frame", "line rate", *(GOAL_TITLES.get(name, name) for name in names)]]
    for size in sizes:
        found = [size.goal(name) for name in names]
        line = "not known" if size.line_rate is None else _both(size.line_rate)
        rows.append([size.name, line, *("–" if goal is None else _goal(goal) for goal in found)])
    return rows


def _goal(goal: GoalFinding) -> str:
    if goal.outcome == "found" and goal.rate is not None:
        return _both(goal.rate)
    if goal.outcome == "line_rate" and goal.rate is not None:
        return f"{_both(goal.rate)} = line rate"
    if goal.outcome == "at_least" and goal.lower is not None:
        return f"≥ {_both(goal.lower.offered)}: the tester's limit"
    if goal.outcome == "below" and goal.upper is not None:
        return f"< {_both(goal.upper.offered)}"
    return REFUSED


def _latency(findings: Sequence[LatencyFinding]) -> list[list[str]]:
    rows = [["frame", "load", "Mpps", "median", "P99", "P99.9", "max"]]
    for one in findings:
        times = (one.p50_s, one.p99_s, one.p999_s, one.max_s)
        told = [REFUSED] * len(times) if one.refusal else ["–" if t is None else f"{t * 1e6:.1f}" for t in times]
        rows.append([one.name, f"{one.fraction:.0%}", _mpps(one.offered.pps), *told])
    return rows


def _loss_rates(findings: Sequence[LossRateFinding]) -> list[list[str]]:
    steps = [(loss_rate.name, step) for loss_rate in findings for step in loss_rate.steps]
    return [
        ["frame", "offered", "Mpps", "loss"],
        *(
            [
                name,
                f"{step.fraction:.0%}",
                _mpps(step.offered.pps),
                REFUSED if step.refusal else _fraction(step.loss_ratio),
            ]
            for name, step in steps
        ),
    ]


def _bursts(findings: Sequence[BurstFinding]) -> list[list[str]]:
    rows = [["frame", "Mpps", "longest burst", "buffer"]]
    for burst in findings:
        longest = REFUSED if burst.mean_frames is None else f"{burst.mean_frames:.0f} frames"
        buffer = "none seen" if burst.unlimited else _milliseconds(burst.corrected_buffer_s)
        rows.append([burst.name, _mpps(burst.offered.pps), longest, buffer])
    return rows


def _beside(result: DeviceResult) -> str:
    runs = result.beside.get("iperf3")
    if not isinstance(runs, (list, tuple)):
        return ""
    rows = [
        ["iperf3", "payload", "frames Mpps at the interface", "it prints Mbit/s", "the study's formula", "corrected"]
    ]
    for run in runs:
        if not isinstance(run, dict):
            continue
        if "failed" in run:
            rows.append([str(run.get("test", "")), "–", str(run["failed"]), "–", "–", "–"])
            continue
        conversion = run["conversion"]
        rows.append(
            [
                str(run["test"]),
                f"{run['payload_bytes']} B",
                REFUSED if run["doubt"] else _mpps(run["pps"]),
                f"{run['claimed_mbps']:.1f}",
                f"{conversion['study_mpps']:.4f} Mpps",
                f"{conversion['corrected_mpps']:.4f} Mpps",
            ]
        )
    return _section("The study's command on the same device", rows)


def _notes(result: DeviceResult) -> list[str]:
    # Trials of one part are refused alike, with other numbers: one line for each kind.
    kinds = {(one.code, *parts): (one, parts) for one, parts in reversed(refused_parts(result).items())}
    notes = [
        f"refused ({', '.join(parts)}): {one.reason}" + (f": {one.remedy}" if one.remedy else "")
        for one, parts in reversed(kinds.values())
    ]
    notes += [f"note: {doubt}" for doubt in result.doubts]
    return ["\n".join(notes)] if notes else []


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"{title}:\n{indent(table_text(rows, left=True), '  ')}"


def _both(rates: Rates) -> str:
    return f"{_mpps(rates.pps)} ({rates.l1_mbps:.1f})"


def _mpps(pps: float | None) -> str:
    return "–" if pps is None else f"{pps / 1e6:.4f}"


def _fraction(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}" if 0 < value < 0.1 else f"{value:.0%}"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.2f} ms"
