"""The host's processor time of the programs of a trial in virtual time, in which computing takes no time.

Inside a guest it stays a text of one length: a number would have more digits in one run than in the next, and what a
program has in memory moves its page faults, and so the times of the trial.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["Computing", "ProgramTime", "Time"]

Time = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{20}\Z")]
"""Nanoseconds, twenty digits."""


class ProgramTime(msgspec.Struct, frozen=True):
    """The processor time of a program that was started for a workload.

    Parameters
    ----------
    workload, host : str
        For what and where it was started.
    before_ns : str or None
        What all programs of the laboratory had used when it started. ``None``: the kernel does not count it.
    own_ns : str or None
        What it used. ``None``: it did not end, or the kernel does not count it.
    """

    workload: str
    host: str
    before_ns: Time | None = None
    own_ns: Time | None = None


class Computing(msgspec.Struct, frozen=True):
    """The processor time in user code of a trial's programs.

    Parameters
    ----------
    total_ns : str
        Of all programs.
    programs : tuple of ProgramTime
        In the order in which they were started.
    """

    total_ns: Time
    programs: tuple[ProgramTime, ...] = ()

    @property
    def total_s(self) -> float:
        """How long all programs computed, seconds."""
        return _seconds(self.total_ns)

    def of_s(self, workload: str) -> float:
        """Return the most that a workload's programs computed, seconds; if it has none, the time of all programs.

        What orphans and programs without a known end used may belong to any workload. What all programs used before the
        first one of the workload started on the client delayed nothing that the workload measures.
        """
        own = [each for each in self.programs if each.workload == workload]
        if not own:
            return self.total_s
        of_nobody_s = max(self.total_s - sum(_seconds(each.own_ns) for each in self.programs), 0.0)
        before_s = next((_seconds(each.before_ns) for each in own if each.host == "client"), 0.0)
        most_s = sum(_seconds(each.own_ns) for each in own) + of_nobody_s
        return min(most_s, max(self.total_s - before_s, 0.0))


def _seconds(time: str | None) -> float:
    return int(time or 0) / 1e9
