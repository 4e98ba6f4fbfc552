"""One line of the table that `make stress` prints: what was asked, and what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Figure", "as_json", "of_all", "table"]

State = Literal["met", "missed", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What one experiment found.

    Parameters
    ----------
    name : str
        The experiment, such as ``freezes that are marked``.
    target : str
        What must hold, such as ``15 of 15``.
    found : str
        What was found, with its unit.
    state : str
        ``met``, ``missed``, or ``inconclusive`` where this machine could not tell; `why` then says so.
    why : str
        Evidence where the target was not met: the cases that missed it.
    """

    name: str
    target: str
    found: str
    state: State
    why: str = ""


def of_all(name: str, cases: Sequence[tuple[str, bool]], *, what: str = "cases") -> Figure:
    """Return the figure of an experiment in which every case must hold.

    Parameters
    ----------
    name : str
        The experiment.
    cases : sequence of (str, bool)
        Each case and whether it held; without any the figure is inconclusive.
    what : str
        What is counted.
    """
    missed = [case for case, held in cases if not held]
    found = f"{len(cases) - len(missed)} of {len(cases)} {what}"
    state: State = "inconclusive" if not cases else "missed" if missed else "met"
    return Figure(name, f"all {what}", found, state, "; ".join(missed[:5]))


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table in Markdown."""
    rows = [("experiment", "must hold", "found", ""), ("---", "---", "---", "---")]
    rows += [
        (each.name, each.target, each.found, each.state + (f": {each.why}" if each.why else "")) for each in figures
    ]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def as_json(figures: Sequence[Figure]) -> list[dict[str, str]]:
    """Return the figures as objects for JSON."""
    return [asdict(each) for each in figures]
