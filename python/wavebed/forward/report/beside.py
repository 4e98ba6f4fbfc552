"""The figures of other tools on the same device, beside those of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from wavebed.forward.report.words import cell, code, frames, mbps, section, table
from wavebed.report.numbers import MISSING

if TYPE_CHECKING:
    from wavebed.forward.result import DeviceResult

__all__ = ["Beside", "beside_section", "iperf3_runs"]

Beside: TypeAlias = Mapping[str, object]


def iperf3_runs(result: DeviceResult) -> dict[str, Beside]:
    """Return the runs of iperf3, by the name of the study's test."""
    told = result.beside.get("iperf3")
    if isinstance(told, Mapping):
        return {str(test): run for test, run in told.items() if isinstance(run, Mapping)}
    if isinstance(told, Sequence) and not isinstance(told, str):
        return {str(run["test"]): run for run in told if isinstance(run, Mapping) and "test" in run}
    return {}


def beside_section(result: DeviceResult) -> str:
    """Return the section that sets iperf3's figures beside ours; empty without any."""
    runs = iperf3_runs(result)
    if not runs:
        return ""
    head = [
        "the study's test",
        "wavebed, received, pps",
        "iperf3, at the interface, pps",
        "iperf3 prints, Mbit/s of payload",
        "the study's formula, Mpps",
        "right, Mpps",
    ]
    ours = {one.name: one.received for one in result.overload}
    rows, notes = [], []
    for test, run in runs.items():
        received = next((rate for name, rate in ours.items() if name == test), None)
        conversion = run.get("conversion")
        formula = conversion if isinstance(conversion, Mapping) else {}
        cells = (
            frames(None if received is None else received.pps),
            frames(_number(run, "pps")),
            mbps(_number(run, "claimed_mbps")),
            _digits(_number(formula, "study_mpps")),
            _digits(_number(formula, "corrected_mpps")),
        )
        rows.append(f"<tr><th scope=row>{escape(test)}</th>{''.join(cell(text) for text in cells)}</tr>")
        if run.get("failed"):
            notes.append(f'<li class="fails">{escape(test)}: {escape(str(run["failed"]))}</li>')
        if run.get("command"):
            notes.append(f"<li>{code(str(run['command']))}</li>")
        if run.get("doubt"):
            notes.append(f'<li class="fails">{escape(test)}: {escape(str(run["doubt"]))}</li>')
    told = (
        '<p class="soft">The study\'s exact commands through the same device. iperf3 prints payload; the frames are'
        " counted at the receiving interface. The study's formula divides the payload rate by the size on the wire,"
        " and so gives too little.</p>"
    )
    return section(
        "iperf3", "iperf3 beside it", told, table("iperf3 beside it", head, rows), f"<ul>{''.join(notes)}</ul>"
    )


def _number(told: Beside, key: str) -> float | None:
    value = told.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4g}"
