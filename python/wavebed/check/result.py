"""The result of a check as text, JSON, Markdown and JUnit XML."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from xml.etree import ElementTree as ET  # what is written here is not read

from wavebed.check.judge import total, value_text
from wavebed.page.tables import markdown_escaped, markdown_table
from wavebed.printable import printable
from wavebed.report.metrics import seeds_text
from wavebed.store.records import PATH_WORKLOAD
from wavebed.terminal import closing_text, table_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.check.judge import Decision, Outcome
    from wavebed.check.trials import JudgedTrial
    from wavebed.config.data import Json

Timing: TypeAlias = Literal["good", "reduced", "unusable"]

EXIT_STATUS: dict[Outcome, int] = {"pass": 0, "fail": 1, "inconclusive": 3}
"""Inconclusive has the status of a machine that cannot do it."""

_MOST_URGENT: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
"""The outcome that a reader asks for first."""

_HEAD = ("requirement", "result", "measured", "seeds")
_SIGNS = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "⚪ inconclusive"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The decisions of a check.

    Parameters
    ----------
    title : str
        What was checked.
    seeds : sequence of int
        All that were planned.
    stopped : str
        Why it ended before all seeds had run, if it did.
    folder : pathlib.Path
        Of the results.
    report : pathlib.Path or None
        Its page.
    """

    title: str
    seeds: Sequence[int]
    decisions: Sequence[Decision]
    trials: Sequence[JudgedTrial]
    folder: Path
    report: Path | None = None
    stopped: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome of all requirements."""
        return total(self.decisions)

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        return EXIT_STATUS[self.outcome]

    @property
    def summary(self) -> str:
        """The outcome and what it is of, in a line."""
        counts = [(each, sum(one.outcome == each for one in self.decisions)) for each in EXIT_STATUS]
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
        count = len(self.decisions)
        return f"{self.outcome}: {told} of {count} requirement{'' if count == 1 else 's'}"

    @property
    def timing(self) -> Timing:
        """How well the machine kept the time of the path."""
        if any(each.is_late and not each.slowed for each in self.trials):
            return "unusable"
        return "reduced" if any(each.slowed or each.delayed_s for each in self.trials) else "good"

    @property
    def timing_text(self) -> str:
        """The timing in a line, and what it does to the answer."""
        count = len(self.trials)
        late = sum(each.is_late and not each.slowed for each in self.trials)
        if late:
            return (
                f"timing: unusable with {late} of {count} seeds: the machine was late, and their values decide nothing"
            )
        told = []
        delayed = [each for each in self.trials if each.delayed_s > 0]
        if delayed:
            most = value_text(1000 * max(each.delayed_s for each in delayed), "ms")
            share = max(each.delayed_s / each.lasted_s for each in delayed)
            told.append(f"answers may be off by ± {most} or {value_text(100 * share, '%')}")
        if any(each.slowed for each in self.trials):
            told.append("on a slow machine times can only be too long, and goodput too low")
        return f"timing: reduced ({'; '.join(told)}): every decision allows for it" if told else "timing: good"

    @property
    def computing_text(self) -> str:
        """In virtual time a line about the computing of the programs; else nothing."""
        if any(each.is_unguarded for each in self.trials):
            return (
                "computing: takes no time in virtual time, and this guest kernel does not count it: a program that"
                " computes for long may pass: decide with --real-time"
            )
        most_s = max((each.computed_s.get(PATH_WORKLOAD, 0.0) for each in self.trials), default=0.0)
        if most_s == 0:
            return ""
        most = value_text(most_s, "s")
        return f"computing: takes no time in virtual time; every decision allows for the {most} that it took at most"

    def text(self) -> str:
        """Return the outcome, a table of the requirements, and the reasons."""
        rows = [(self._name(each), each.outcome, each.measured_text, _counted(each)) for each in self.decisions]
        lines = [table_text([_HEAD, *rows], left=True), "", *self._reasons()]
        lines += [each for each in (self.computing_text, self.stopped) if each]
        last = ("results", str(self.folder)) if self.report is None else ("report", str(self.report))
        closing = [
            ("question", self.title),
            ("answer", self.summary),
            ("effect", self.effect),
            ("timing", self.timing_text.removeprefix("timing: ")),
            last,
        ]
        return "\n".join([*lines, *([""] if lines[-1] else []), closing_text(closing)])

    @property
    def effect(self) -> str:
        """How far a requirement is from its bound: one that failed, else one that is open, else the first."""
        measured = [each for each in self.decisions if each.requirement is not None and each.value is not None]
        first = next((each for outcome in _MOST_URGENT for each in measured if each.outcome == outcome), None)
        if first is None or first.value is None or first.bound is None:
            if measured:
                return f"{measured[0].text}: {measured[0].measured_text}"
            required = any(each.requirement is not None for each in self.decisions)
            return "no required metric was measured" if required else "nothing was required of a metric"
        told = f"{first.text}: measured {first.measured_text}"
        if math.isfinite(first.value) and first.bound:
            share = 100 * (first.value - first.bound) / abs(first.bound)
            told += f", {value_text(abs(share), '%')} {'above' if share > 0 else 'below'} the bound" if share else ""
        return told

    def markdown(self) -> str:
        """Return the same for the summary of a job."""
        rows = [
            [
                markdown_escaped(self._name(each)),
                _SIGNS[each.outcome],
                markdown_escaped(each.measured_text),
                _counted(each),
                markdown_escaped(by_seed(each)),
                "<br>".join(map(markdown_escaped, each.reasons)),
            ]
            for each in self.decisions
        ]
        seeds = f"seeds {self.seeds[0]} to {self.seeds[-1]}" if len(self.seeds) > 1 else f"seed {self.seeds[0]}"
        lines = [
            f"**wavebed check: {markdown_escaped(self.summary)}**",
            "",
            markdown_escaped(f"{self.title}, {seeds}"),
            "",
        ]
        lines += markdown_table((*_HEAD, "by seed", "why"), rows)
        for each in filter(None, (self.timing_text, self.computing_text, self.stopped)):
            lines += ["", markdown_escaped(each)]
        return "\n".join([*lines, "", f"Results: {markdown_escaped(str(self.folder))}", ""])

    def json(self) -> dict[str, Json]:
        """Return the same as one object; values are in the `unit` beside them."""
        return {
            "outcome": self.outcome,
            "title": self.title,
            "seeds": list(self.seeds),
            "stopped": self.stopped,
            "timing": self.timing,
            "timing_text": self.timing_text,
            "computing_text": self.computing_text,
            "requirements": [_decision_json(each) for each in self.decisions],
            "trials": [_trial_json(each) for each in self.trials],
            "folder": str(self.folder),
            "report": None if self.report is None else str(self.report),
        }

    def junit(self) -> str:
        """Return JUnit XML: a case for each requirement; what is inconclusive is skipped, with the reason."""
        outcomes = [each.outcome for each in self.decisions]
        suite = ET.Element(
            "testsuite",
            name=f"wavebed check: {printable(self.title)}",
            tests=str(len(outcomes)),
            failures=str(outcomes.count("fail")),
            skipped=str(outcomes.count("inconclusive")),
            errors="0",
        )
        properties = ET.SubElement(suite, "properties")
        seeds = " ".join(map(str, self.seeds))
        report = "" if self.report is None else str(self.report)
        told = [("decision", self.summary), ("timing", self.timing_text.removeprefix("timing: "))]
        if self.computing_text:
            told.append(("computing", self.computing_text.removeprefix("computing: ")))
        for name, value in (*told, ("seeds", seeds), ("folder", str(self.folder)), ("report", report)):
            ET.SubElement(properties, "property", name=f"wavebed.{name}", value=printable(value))
        for each in self.decisions:
            self._case(suite, each)
        ET.indent(suite)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, "unicode") + "\n"

    def _case(self, suite: ET.Element, decision: Decision) -> None:
        case = ET.SubElement(
            suite, "testcase", classname=f"wavebed.{decision.treatment}", name=printable(self._name(decision))
        )
        said = "\n".join(map(printable, decision.reasons))
        first = printable(decision.reasons[0]) if decision.reasons else ""
        if decision.outcome == "fail":
            message = f"{decision.measured_text}: {first}" if decision.measured_text else first
            ET.SubElement(case, "failure", message=message).text = said
        elif decision.outcome == "inconclusive":
            ET.SubElement(case, "skipped", message=f"inconclusive: {first}").text = said
        if decision.measured_text:
            told = f"{decision.statistic} {decision.measured_text}; by seed: {by_seed(decision)}"
            ET.SubElement(case, "system-out").text = printable(told)

    def _reasons(self) -> list[str]:
        """Return the reasons of failures by requirement, and once each the reasons of what is inconclusive."""
        failed = [
            f"{self._name(each)}: {line}" for each in self.decisions if each.outcome == "fail" for line in each.reasons
        ]
        open_ = [f"inconclusive: {line}" for each in self.decisions if each.outcome != "fail" for line in each.reasons]
        return list(dict.fromkeys([*failed, *open_]))

    def _name(self, decision: Decision) -> str:
        several = len({each.treatment for each in self.decisions}) > 1
        return f"{decision.treatment}: {decision.text}" if several else decision.text


def by_seed(decision: Decision) -> str:
    """Return the value of each seed; in brackets those that decide nothing."""
    values = decision.values.items()
    return seeds_text(
        [
            (
                seed,
                value_text(value, decision.unit) if math.isfinite(value) else "failed",
                seed not in decision.open_seeds,
            )
            for seed, value in values
        ]
    )


def _counted(decision: Decision) -> str:
    if decision.requirement is None:
        return str(decision.seeds)
    return f"{len(decision.values.keys() - decision.open_seeds)} of {decision.seeds}"


def _decision_json(decision: Decision) -> dict[str, Json]:
    requirement, spread = decision.requirement, decision.spread
    return {
        "requirement": decision.text,
        "treatment": decision.treatment,
        "outcome": decision.outcome,
        "statistic": decision.statistic or None,
        "comparison": None if requirement is None else requirement.comparison,
        "unit": decision.unit,
        "bound": decision.bound,
        "value": _finite(decision.value),
        "low": None if spread is None else spread.low,
        "high": None if spread is None else spread.high,
        "level": None if spread is None else spread.level,
        "seeds": decision.seeds,
        "seeds_for_interval": None if spread is None else spread.needed,
        "values": [
            {"seed": seed, "value": _finite(value), "decides": seed not in decision.open_seeds}
            for seed, value in decision.values.items()
        ],
        "reasons": list(decision.reasons),
    }


def _trial_json(trial: JudgedTrial) -> dict[str, Json]:
    return {
        "folder": trial.folder,
        "treatment": trial.treatment,
        "seed": trial.seed,
        "state": trial.state,
        "delayed_s": trial.delayed_s,
        "computed_s": trial.computed_s.get(PATH_WORKLOAD),
        "reasons": list(trial.reasons),
    }


def _finite(value: float | None) -> float | None:
    """Return a value; ``None`` of a failed seed, which has none."""
    return value if value is not None and math.isfinite(value) else None
