"""The file of a trial with the host's processor time of its programs, and which trials are exact.

The processor time has a file of its own: it differs from run to run, and the other files of a trial do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from wavebed.foreign import is_file, read_record
from wavebed.lab.computing import Computing
from wavebed.result.model import EXACT
from wavebed.result.names import COMPUTING_FILE, INCOMPLETE

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.result.model import TrialRecord

__all__ = ["computing_is_free", "computing_json", "is_exact", "read_computing"]


def computing_json(computing: Computing) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(computing)


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
