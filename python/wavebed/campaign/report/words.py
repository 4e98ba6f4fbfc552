"""Answers, methods and states of a campaign in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.campaign.text import reason_text
from wavebed.report.numbers import figure, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.results import Answer, CampaignResults

METHODS = {
    "signed-ranks": "Hodges and Lehmann's estimate and Wilcoxon's signed ranks, over pairs of one block",
    "anytime-signed-ranks": "confidence sequence by bets on signed ranks, over pairs of one block; valid at every look",
    "anytime-signs": "confidence sequence from bets on signs, over pairs of one block; valid at every look",
    "planned-signed-ranks": "group-sequential signed ranks, over pairs of one block, at the planned looks",
    "mann-kendall": "Mann and Kendall's test of the order of the blocks",
    "fisher-exact": "Fisher's exact test",
    "chi-square": "Chi-square test by random permutations",
}
_VERDICTS = ("better", "worse", "different", "equivalent", "equal", "undecided")
_TWICE = 2.0


def level_text(level: float | None) -> str:
    """Return a level: ``95 %``, ``99.9 %``."""
    if level is None:
        return "–"
    text = f"{100 * level:.6f}".rstrip("0").rstrip(".")
    return f"{text} %" if len(text) <= 5 else f"{100 * level:.4g} %"


def effect_words(answer: Answer) -> str:
    """Return the effect: ``20 % lower``, ``2.10 times as high``, ``12.3 ms higher``."""
    finding, unit = answer.finding, answer.question.values.unit
    if finding.estimate is None:
        return "no value"
    if finding.scale == "ratio":
        if finding.estimate >= _TWICE:
            return f"{figure(finding.estimate)} times as high"
        percent = 100 * (finding.estimate - 1)
        return f"{figure(abs(percent))} % {'lower' if percent < 0 else 'higher'}" if percent else "the same"
    if not finding.estimate:
        return "the same"
    way = "lower" if finding.estimate < 0 else "higher"
    return f"{figure(abs(finding.estimate))}{f' {unit}' if unit else ''} {way}"


def interval_words(answer: Answer) -> str:
    """Return the interval: ``ratio 0.780 to 0.820``, ``+11 to +13 ms``; empty without one."""
    finding, unit = answer.finding, answer.question.values.unit
    if finding.low is None or finding.high is None:
        return ""
    if finding.scale == "ratio":
        return f"ratio {figure(finding.low)} to {figure(finding.high)}"
    return f"{signed(finding.low)} to {signed(finding.high)}{f' {unit}' if unit else ''}"


def sentence(answer: Answer, level: float | None = None) -> str:
    """Return an answer in plain words, with effect and interval.

    Parameters
    ----------
    level : float, optional
        The level of the interval, where it is that of this answer alone.
    """
    question, finding = answer.question, answer.finding
    pair = question.pair
    metric = question.values.title
    interval = interval_words(answer)
    kind = "interval" if level is None else f"{level_text(level)} interval"
    told = f"{effect_words(answer)} ({f'{kind}: {interval}' if interval else 'no interval'})"
    match finding.verdict:
        case "better" | "worse":
            return f"{pair.cell} is {finding.verdict} than {pair.baseline}: {metric} is {told}."
        case "different":
            return f"{pair.cell} differs from {pair.baseline}: {metric} is {told}."
        case "equivalent":
            return f"{pair.cell} is equivalent to {pair.baseline} within {question.text}: {metric} is {told}."
        case "equal":
            return f"{pair.cell} equals {pair.baseline}: {metric} is the same in all {finding.count} blocks."
        case _:
            why = reason_text(answer)
            return (
                f"Undecided whether {pair.cell} is better than {pair.baseline}: {metric} is {told}, margin"
                f" {question.text}{f'; {why}' if why else ''}."
            )


def summary(title: str, answers: Sequence[Answer]) -> str:
    """Return the number of answers of each verdict on a metric."""
    counts = {verdict: sum(answer.finding.verdict == verdict for answer in answers) for verdict in _VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{title}, {len(answers)} comparisons: {told}."


def covered(results: CampaignResults) -> str:
    """Return what an interval covers."""
    if results.campaign.replicate == "channel":
        return (
            "Each block is another realisation of the channel: intervals cover realisations of the channel, on the"
            " machines that ran them."
        )
    return (
        "The channel is the same in every block: intervals cover the variation of this host alone, not other"
        " realisations of the channel."
    )


def state_words(results: CampaignResults) -> str:
    """Return why the campaign ended, or that it has not."""
    ended, planned = len(results.ended), results.run.blocks
    if results.campaign.stopped:
        return f"stopped after {ended} of at most {planned} blocks: {results.campaign.stopped}"
    if results.complete:
        rule = "the stop rule was not met" if results.campaign.stop == "decided" else "as planned"
        return f"ended after all {planned} blocks, {rule}"
    return f"not complete: {ended} of {planned} blocks"
