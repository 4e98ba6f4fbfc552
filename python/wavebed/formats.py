"""The formats of files that wavebed writes or reads, their versions, and the line that refuses another version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Format:
    """One format of files with a version.

    Parameters
    ----------
    name : str
        What the files are, in the plural.
    files : str
        Their names.
    key : str
        Where the version is in them.
    version : int
        The version that this wavebed writes.
    reads : tuple of int
        The versions that it reads.
    page : str
        The page of the documentation that describes it.
    """

    name: str
    files: str
    key: str
    version: int
    reads: tuple[int, ...]
    page: str


RESULTS = Format(
    name="results of runs and campaigns",
    files="`run.json`, `trials/*/trial.json`; `journal.jsonl` and the tables beside them follow `run.json`",
    key="`schema`; in the tables of `series/` the metadata `wavebed_schema`",
    version=1,
    reads=(1,),
    page="results.md",
)
FORWARD = Format(
    name="results of forwarding tests",
    files="`run.json` with `kind` = `forward`; the tables of `series/` follow it",
    key="`schema`, and `version` of its `result`",
    version=2,
    reads=(1, 2),
    page="forwarding-results.md",
)
TRIAL = Format(
    name="specifications of trials",
    files="`spec.json`, the output of `wavebed resolve`",
    key="`version`",
    version=1,
    reads=(1,),
    page="results.md",
)
PATTERN = Format(
    name="patterns",
    files="`*.csv`",
    key="the first line, `# wavebed pattern 1`",
    version=1,
    reads=(1,),
    page="pattern-format.md",
)
MAP = Format(name="maps of walks", files="`*.json`", key="`wavebed-map`", version=2, reads=(1, 2), page="map-format.md")
FORMATS = (RESULTS, FORWARD, TRIAL, PATTERN, MAP)


def require_version(file: Path | str, found: object, wanted: Format, word: str = "version") -> None:
    """Refuse a file of a version that this wavebed does not read.

    Parameters
    ----------
    file : pathlib.Path or str
        For the message.
    found : object
        The value of the file's key.
    wanted : Format
        The format of the file.
    word : str
        The name of that key.

    Raises
    ------
    UserError
        If the version is none that is read.
    """
    if found in wanted.reads and type(found) is int:
        return
    is_newer = type(found) is int and found > wanted.version
    remedy = "install a newer wavebed" if is_newer else "use the version that wrote it"
    raise UserError(f"{file}: is of {word} {found}; this wavebed reads {word} {wanted.version}: {remedy}")
