"""Progress of a forwarding test from its events: the plan once, then the part that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wavebed.experiment.estimate import duration_text
from wavebed.store.journal import Event, LoadMeasured, RunPlanned, StepBegun, TrialBegun

__all__ = ["Progress", "Teller"]

if TYPE_CHECKING:
    from wavebed.store.journal import Part


class Progress(Protocol):
    """Shows the progress of the test; `wavebed.cli.progress.Progress` is the real one."""

    def note(self, text: str) -> None:
        """Say a line that stays."""

    def step(self, text: str, left_s: float) -> None:
        """Say that a new step begins, and how long all that follows will take."""

    def go_on(self, text: str, left_s: float) -> None:
        """Take note of one of many small steps."""


class Teller:
    """Tells its progress the events that it hears."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._text = ""
        self._end_s = 0.0
        """The end of the test, on the clock of the events."""

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        match event:
            case RunPlanned():
                parts = ", ".join(_part(part) for part in event.parts)
                at_most_s = event.expected_s if event.at_most_s is None else event.at_most_s
                self._progress.note(
                    f"plan: about {duration_text(event.expected_s)}, at most {duration_text(at_most_s)}: {parts}"
                )
            case StepBegun():
                self._begin(event.step, event.left_s, event.since_s)
            case TrialBegun():
                self._begin(f"part {event.number} of {event.trials}, {event.trial}", event.left_s, event.since_s)
            case LoadMeasured():
                rate = "as fast as it goes" if event.offered_pps is None else f"{event.offered_pps:,.0f} pps"
                outcome = "refused" if event.refused else f"{event.lost:,} lost"
                if event.left_s is not None:
                    self._end_s = event.since_s + event.left_s
                self._progress.go_on(f"{self._text}: {rate}, {outcome}", max(self._end_s - event.since_s, 0.0))
            case _:
                pass

    def _begin(self, text: str, left_s: float, since_s: float) -> None:
        self._text, self._end_s = text, since_s + left_s
        self._progress.step(text, left_s)


def _part(part: Part) -> str:
    return f"{part.trial} ({duration_text(part.expected_s)})"
