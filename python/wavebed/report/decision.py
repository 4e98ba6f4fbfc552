"""The decisions of a check at the head of its report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import msgspec

from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_json
from wavebed.prepared import prepared
from wavebed.report.numbers import figure
from wavebed.result.names import CHECK_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["decision_section", "seeds_text"]

_MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
_STYLES = {"pass": "valid", "fail": "failed", "inconclusive": "suspect"}
_MOST_SEEDS = 20


class _Value(msgspec.Struct):
    seed: int
    value: float | None
    decides: bool


class _Requirement(msgspec.Struct):
    requirement: str
    treatment: str
    outcome: str
    unit: str
    value: float | None
    values: list[_Value]
    reasons: list[str]


class _Check(msgspec.Struct):
    """What the page shows of the file; `wavebed schema check` has all of it."""

    outcome: str
    requirements: list[_Requirement]
    stopped: str = ""
    timing_text: str = ""
    computing_text: str = ""


def decision_section(folder: Path) -> str:
    """Return each requirement with its outcome, measured against its bound, by seed; empty without a check.

    Raises
    ------
    UserError
        If the decisions of the folder are damaged.
    """
    file = folder / CHECK_FILE
    if not file.exists():
        return ""
    content = read_json(file, "run the check again", most=MAX_TEXT_BYTES)
    try:
        check = msgspec.convert(content, prepared(_Check))
    except msgspec.ValidationError as error:
        raise UserError(f"{file}: {error}: run the check again") from None
    several = len({each.treatment for each in check.requirements}) > 1
    rows = "".join(_row(each, several=several) for each in check.requirements)
    head = "".join(f"<th scope=col>{each}</th>" for each in ("requirement", "result", "measured", "by seed", "why"))
    lines = (check.timing_text, check.computing_text, check.stopped)
    notes = "".join(f"<p>{escape(each)}</p>" for each in lines if each)
    passed = sum(each.outcome == "pass" for each in check.requirements)
    lead = f"{passed} of {len(check.requirements)} requirements hold"
    return (
        f'<p class="lead">{_badge(check.outcome)} {escape(lead)}</p><div class="scroll"><table class="small">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"
    )


def _badge(outcome: str) -> str:
    return f'<span class="badge {_STYLES.get(outcome, "suspect")}">{_MARKS.get(outcome, "?")} {escape(outcome)}</span>'


def _row(requirement: _Requirement, *, several: bool) -> str:
    name = f"{requirement.treatment}: {requirement.requirement}" if several else requirement.requirement
    measured = "" if requirement.value is None else f"{figure(requirement.value)} {requirement.unit}"
    seeds = seeds_text(
        [
            (each.seed, "failed" if each.value is None else figure(each.value), each.decides)
            for each in requirement.values
        ]
    )
    why = "<br>".join(map(escape, requirement.reasons))
    return (
        f"<tr><th scope=row>{escape(name)}</th><td>{_badge(requirement.outcome)}</td><td>{escape(measured)}</td>"
        f'<td class="text">{escape(seeds)}</td><td class="text">{why}</td></tr>'
    )


def seeds_text(values: Sequence[tuple[int, str, bool]]) -> str:
    """Return seeds with their values, the first ones of many; values that decide nothing are in brackets.

    Parameters
    ----------
    values : sequence of (int, str, bool)
        Seed, value as text, and whether it decides.
    """
    told = [f"{seed}: {text if decides else f'({text})'}" for seed, text, decides in values[:_MOST_SEEDS]]
    left = len(values) - _MOST_SEEDS
    return ", ".join([*told, f"and {left} more"] if left > 0 else told)
