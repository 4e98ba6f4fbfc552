"""Numbers of a forwarding test as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wavebed.page.text import MISSING, figure

if TYPE_CHECKING:
    from wavebed.forward.search import GoalFinding
    from wavebed.stats.intervals import Interval

_THIN = "\N{NARROW NO-BREAK SPACE}"
GOAL_NAMES = {"rfc2544": "RFC 2544", "ndr": "NDR", "pdr": "PDR"}
"""Short names of the goals."""
GOAL_WORDS = {
    "rfc2544": "RFC 2544 throughput: no frame lost in a long trial",
    "ndr": "NDR, non-drop rate: no frame lost in most of many short trials",
    "pdr": "PDR, partial drop rate: at most 0.5 % lost in most of many short trials",
}


def frames(count: float | None) -> str:
    """Write a number of frames, or of frames per second, in full."""
    if count is None or not math.isfinite(count):
        return MISSING
    return f"{round(count):,}".replace(",", _THIN).replace("-", "−")


def mpps(pps: float | None) -> str:
    """Write millions of frames per second with four significant digits."""
    return MISSING if pps is None else f"{pps / 1e6:.4g}"


def mbps(value: float | None) -> str:
    """Write Mbit/s with four significant digits."""
    return MISSING if value is None else f"{value:.4g}" if abs(value) < 10_000 else figure(value)


def percent(ratio: float | None) -> str:
    """Write a fraction in percent; one that is not 0 never as 0."""
    if ratio is None:
        return MISSING
    return "0 %" if ratio == 0 else f"{100 * ratio:.3g} %"


def us(seconds: float | None) -> str:
    """Write a delay in microseconds."""
    return MISSING if seconds is None else figure(seconds * 1e6)


def bounds(interval: Interval, scale: float = 1.0, *, whole: bool = False) -> str:
    """Write the ends of an interval; a dash where there are too few values for one."""
    if interval.low is None or interval.high is None:
        return MISSING
    write = frames if whole else mbps
    return f"{write(interval.low * scale)} to {write(interval.high * scale)}"


def goal_text(finding: GoalFinding | None) -> tuple[str, str]:
    """Return the cell of a goal: the rate in pps or a word, and the remark below it."""
    if finding is None:
        return MISSING, ""
    lower, upper = finding.lower, finding.upper
    if finding.rate is not None and lower is not None:
        return frames(finding.rate.pps), "line rate" if finding.outcome == "line_rate" else ""
    if finding.outcome == "at_least" and lower is not None:
        return "refused", f"the tester's limit; at least {frames(lower.offered.pps)}"
    if finding.outcome == "below" and upper is not None:
        return f"below {frames(upper.offered.pps)}", "the lowest load tried"
    return "refused", finding.refusal.code.replace("_", " ") if finding.refusal else ""


def sentence(text: str) -> str:
    """Return a text that ends with one full stop."""
    return text.rstrip(". ") + "."
