"""The host's processor time of the programs of a trial in virtual time, in which computing takes no time.

It has a file of its own: it differs from run to run, and the other files of a trial do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from wavebed.foreign import is_file, read_record
from wavebed.result.model import EXACT
from wavebed.result.names import COMPUTING_FILE, INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.result.model import TrialRecord

__all__ = ["Computing", "computing_is_free", "computing_json", "is_exact", "read_computing"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Computing(msgspec.Struct, frozen=True):
    """The content of the file.

    Parameters
    ----------
    host_cpu_ns : dict
        The most processor time in user code of each workload since its first program on the client started,
        nanoseconds; under the empty name the time of all programs.
    """

    host_cpu_ns: dict[str, _Count]

    def of_s(self, workload: str) -> float:
        """Return the most that a workload's programs computed, seconds; if it has none, the time of all programs."""
        return self.host_cpu_ns.get(workload, self.host_cpu_ns.get("", 0)) / 1e9

    @property
    def total_s(self) -> float:
        """How long all programs computed, seconds."""
        return self.host_cpu_ns.get("", 0) / 1e9


def computing_json(host_cpu_ns: Mapping[str, int]) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(Computing(dict(sorted(host_cpu_ns.items()))))


def read_computing(folder: Path) -> Computing | None:
    """Return the processor time of a trial; ``None`` if it was not counted.

    Parameters
    ----------
    folder : pathlib.Path
        Of the trial.

    Raises
    ------
    UserError
        If the file is damaged.
    """
    file = folder / COMPUTING_FILE
    return read_record(file, Computing, INCOMPLETE) if is_file(file) else None


def computing_is_free(trial: TrialRecord) -> bool:
    """Return whether a trial ran in virtual time, with a processor that computes in no time."""
    lab = trial.resolved.get("lab")
    return isinstance(lab, dict) and lab.get("time") == "virtual" and lab.get("processor") != "host"


def is_exact(trial: TrialRecord) -> bool:
    """Return whether another run of a trial gives the same bytes, so that another attempt says nothing new."""
    checked = [check for check in trial.checks if check.code == EXACT]
    return computing_is_free(trial) and bool(checked) and all(check.holds for check in checked)
