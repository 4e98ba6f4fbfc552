"""The top of a device's page: verdict, findings in words, refusals."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.forward.report.words import frames, percent, sentence
from wavebed.forward.result import refused_parts, sizes_text, verdict_of

if TYPE_CHECKING:
    from wavebed.forward.folder import ForwardRecord
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import SizeFinding

__all__ = ["findings_in_words", "head"]

_BADGES = {
    "valid": ("✓ valid", "Nothing speaks against the figures."),
    "suspect": ("? suspect", "Some figures are refused; those that stand are below."),
    "invalid": ("✗ invalid", "There is no figure that can be proved."),
}


_NO_BREAK = "\N{NO-BREAK SPACE}%"
_HOW = {"ndr": "without loss", "rfc2544": "without loss", "pdr": "with at most 0.5 % lost"}
"""The first of these goals that was asked is told."""


def head(record: ForwardRecord) -> str:
    """Return the header: title, verdict, findings, refusals, doubts."""
    result = record.result
    kind = f" ({result.kind})" if result.kind not in (result.device, "external") else ""
    facts = [
        result.started.replace("T", " ").replace("+00:00", " UTC"),
        f"took {_time(result.took_s)}",
        "IPv6" if result.settings.headers.ipv6 else "IPv4",
        f"{result.frames.flows} flows" if result.frames is not None else "",
        f"link of {result.link_mbps:g} Mbit/s" if result.link_mbps is not None else "speed of the link not known",
        f"wavebed {record.versions['wavebed']}" if "wavebed" in record.versions else "",
    ]
    verdict = verdict_of(result)
    text, meaning = _BADGES[verdict]
    return "".join(
        (
            f"<header><h1>Small packets through {escape(result.device)}{escape(kind)}</h1>",
            f'<p class="soft">{escape(", ".join(fact for fact in facts if fact))}</p></header>',
            f'<p><span class="badge {verdict}">{text}</span> {meaning}</p>',
            "".join(
                f'<p class="lead">{escape(found.replace(" %", _NO_BREAK))}</p>' for found in findings_in_words(result)
            ),
            _refused(result),
            "".join(f'<p class="warn">Keep in mind: {escape(sentence(doubt))}</p>' for doubt in result.doubts),
        )
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def findings_in_words(result: DeviceResult) -> list[str]:
    """Return a sentence for the smallest and the largest frame size: loss-free, and under overload."""
    plain = sorted((size for size in result.sizes if len(size.sizes_bytes) == 1), key=lambda size: size.sizes_bytes)
    told = [_loss_free(size) for size in dict.fromkeys((*plain[:1], *plain[-1:]))]
    for overload in result.overload:
        sizes = sizes_text(str(overload.sizes_bytes[0]))
        if overload.received is None or overload.loss_ratio.estimate is None:
            continue
        asked = "" if overload.sent is None else f" of {frames(overload.sent.pps)} offered"
        told.append(
            f"Under overload ({overload.name} test, {sizes}): {frames(overload.received.pps)}{asked} frames per second"
            f" got through, {percent(overload.loss_ratio.estimate)} lost."
        )
    return told


def _loss_free(size: SizeFinding) -> str:
    what = f"Frames of {sizes_text(size.name)}:"
    asked = ((size.goal(name), how) for name, how in _HOW.items())
    goal, how = next(((goal, how) for goal, how in asked if goal is not None), (None, ""))
    if goal is None:
        return f"{what} the loss-free rate was not searched."
    if goal.rate is None:
        if goal.outcome == "at_least" and goal.lower is not None:
            least = frames(goal.lower.offered.pps)
            return f"{what} no rate is reported. The tester, not the device, was the limit, at {least} per second."
        if goal.outcome == "below" and goal.upper is not None:
            return f"{what} frames are lost even at {frames(goal.upper.offered.pps)} per second."
        return f"{what} no rate is reported, for the reason below."
    fraction = "" if size.line_rate is None else f", {percent(goal.rate.pps / size.line_rate.pps)} of line rate"
    if goal.outcome == "line_rate":
        fraction = ": line rate"
    return f"{what} {frames(goal.rate.pps)} per second {how}{fraction}."


def _refused(result: DeviceResult) -> str:
    parts = refused_parts(result)
    if not parts:
        return ""
    lines = []
    for refusal, where in parts.items():
        told = refusal.reason.rstrip(". ")
        remedy = f" <b>Remedy:</b> {escape(refusal.remedy)}" if refusal.remedy else ""
        lines.append(
            f"<li><b>{escape(', '.join(where))}</b>: {escape(told)}"
            f' <span class="soft">({escape(refusal.code)})</span>.{remedy}</li>'
        )
    return f'<div class="refused"><h3>Refused, with the reason</h3><ul>{"".join(lines)}</ul></div>'
