"""Words and numbers of the comparison with a study, for pages, tables and text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wavebed.page.text import MISSING, figure
from wavebed.stats.intervals import FEWEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.reproduce.judge import Beside, PublishedFigure, Tried
    from wavebed.reproduce.studies import Hypothesis, StudyPart
    from wavebed.stats.intervals import Interval


def ours_text(ours: Interval) -> str:
    """Return our median with its interval, if there is one."""
    if ours.estimate is None:
        return MISSING
    if ours.low is None or ours.high is None:
        return figure(ours.estimate)
    return f"{figure(ours.estimate)} ({figure(ours.low)} to {figure(ours.high)})"


def published_text(published: PublishedFigure) -> str:
    """Return the published figure."""
    return f"{'≥ ' if published.at_least else ''}{figure(published.value)}"


def counts_text(found: Sequence[Beside]) -> str:
    """Return how many figures, and how many ratios, have which verdict."""
    if not found:
        return "nothing was published"
    figures = [each for each in found if not each.published.is_ratio]
    ratios = [each for each in found if each.published.is_ratio]
    told = [f"{_number(figures, 'figure')}: {_verdicts(figures)}"] if figures else []
    if ratios:
        orders = _counted(each.order for each in ratios)
        told.append(f"{_number(ratios, 'ratio')}: {_verdicts(ratios)}; {orders}")
    return ". ".join(told)


def _number(found: Sequence[Beside], what: str) -> str:
    return f"{len(found)} published {what}{'' if len(found) == 1 else 's'}"


def again_text(part: StudyPart, hypothesis: Hypothesis) -> str:
    """Return the command that runs a hypothesis again."""
    return f"wavebed campaign run {part.campaign} --only {part.hypotheses}={hypothesis.level}"


def explains_text(tried: Tried) -> str:
    """Return whether a change explains; from few trials with their number, since chance may have moved a figure."""
    if tried.found is None:
        return MISSING
    if not tried.explains:
        return "no"
    return "yes" if tried.trials >= FEWEST else f"yes, n = {tried.trials}"


def explaining_texts(found: Sequence[Tried]) -> list[str]:
    """Return which verdicts figures have with each change that explains."""
    return [f"With {each.hypothesis.label}: {counts_text(each.beside)}" for each in found if each.explains]


def _verdicts(found: Sequence[Beside]) -> str:
    near = sum(each.within for each in found)
    return f"{_counted(each.verdict for each in found)}; the median is within the tolerance in {near}"


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())


def verdict_text(beside: Beside) -> str:
    """Return the verdict, with the order of a ratio."""
    return f"{beside.verdict}, {beside.order}" if beside.order else beside.verdict


def distance_text(distance: float | None) -> str:
    """Return a mean ``|ln ratio|`` with its factor: 0.69 is a factor of 2."""
    return MISSING if distance is None else f"{distance:.2f}"


def within_text(tried: Tried) -> str:
    """Return how many fitted and held-out figures are within the tolerance."""
    return " and ".join(
        f"{within} of {count}" for within, count in zip(tried.within, tried.counts, strict=True) if count
    )


def moved_text(tried: Tried) -> str:
    """Return how many held-out figures a change moves inside the tolerance and out of it."""
    if tried.found is None:
        return MISSING
    missing = tried.counts[1] - tried.compared
    return f"{tried.inside} in, {tried.outside} out" + (f", {missing} missing" if missing else "")
