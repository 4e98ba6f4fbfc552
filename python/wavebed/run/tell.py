"""Show the events of a run on its progress line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wavebed.experiment.events import Event, RunEnded, RunInterrupted, StepBegun, TrialBegun, TrialStored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.lab.protocol import Lab
    from wavebed.run.play import RunningWorkload
    from wavebed.run.progress import Live

__all__ = ["Teller"]


class Teller:
    """A listener of the journal that writes the progress line."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._trial: TrialBegun | None = None
        self._began_s = 0.0

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case StepBegun():
                self._live.say(event.step)
            case TrialBegun():
                self._live.new_trial()
                self._trial, self._began_s = event, time.monotonic()
            case TrialStored() if event.verdict != "valid" and self._trial is not None:
                place = f"trial {event.number} of {self._trial.trials} ({event.trial})"
                self._live.note(f"{place} is {event.verdict}: {event.reasons[0]}")
            case RunEnded() | RunInterrupted():
                self._live.clear()
            case _:
                pass

    def look(self, lab: Lab, running: Sequence[RunningWorkload]) -> None:
        """Show the state of the running trial, if the line is due."""
        trial = self._trial
        assert trial is not None, "a trial has begun"
        head = f"trial {trial.number} of {trial.trials} ({trial.treatment}, seed {trial.seed})"
        left_s = max(trial.left_s - (time.monotonic() - self._began_s), 0.0)
        self._live.look(head, left_s, lab, running)
