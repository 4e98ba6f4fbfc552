"""The order of the trials: blocks of one trial of every treatment with one seed, in random order within the block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.experiment.order import in_blocks
from wavebed.store.disk import attempt_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.run.scenario import TreatmentPlan

__all__ = ["Slot", "ordered"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A trial of a plan.

    Parameters
    ----------
    number : int
        Place in the order of the trials, from 1.
    block : int
        Place of its seed, from 1.
    attempt : int
        1, and one more each time that it is repeated with its seed.
    """

    number: int
    block: int
    seed: int
    treatment: TreatmentPlan
    attempt: int = 1

    @property
    def trial(self) -> str:
        """The name of its first attempt."""
        return f"{self.number:04d}-{self.treatment.name}"

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return attempt_name(self.trial, self.attempt)


def ordered(treatments: Sequence[TreatmentPlan], trials: int, seed: int) -> list[Slot]:
    """Return the trials in the order in which they run; the same seed gives the same order."""
    slots: list[Slot] = []
    for block, drawn in enumerate(in_blocks(treatments, trials, seed), 1):
        slots += [Slot(len(slots) + place, block, seed + block - 1, each) for place, each in enumerate(drawn, 1)]
    return slots
