"""Scenarios of calls: the files of those that come as text, and what a scenario would do.

``python -m wavebed.mcp.scenarios QUESTION`` answers the second as JSON, for a server that decides whether it may. It is
a process of its own, since a scenario may take any time and memory to read.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field, json

from wavebed.config.data import texts_in
from wavebed.errors import WavebedError
from wavebed.foreign import read_toml
from wavebed.mcp.processes import ToolError
from wavebed.prepared import prepared
from wavebed.run.design import expected_s
from wavebed.run.scenario import parse_change, read_plan
from wavebed.spec.trial import HostsLab

if TYPE_CHECKING:
    from wavebed.run.scenario import Plan

COMMAND_KIND = "command"
_PREFIX = ".wavebed-mcp-"
_SUFFIX = ".toml"


class ScenarioFiles:
    """The scenario files of a server.

    The server holds a lock on each of its files. A file without one is left from a server that was killed; it is
    removed at the start.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._files: dict[Path, IO[str]] = {}
        self._closed = False
        for file in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            _remove_unlocked(file)

    def make(self, text: str) -> Path:
        """Write a scenario to a new file and return the file.

        Raises
        ------
        ToolError
            If the server ends, or the file cannot be written.
        """
        with self._lock:
            if self._closed:
                raise ToolError("the server ends")
            file = self._made()
            path = Path(file.name)
            self._files[path] = file
        try:
            file.write(text)
            file.flush()
        except OSError as error:
            self.remove(path)
            raise ToolError(f"toml: cannot be written to a file: {error.strerror}") from None
        except BaseException:
            self.remove(path)
            raise
        return path

    def _made(self) -> IO[str]:
        """Return a new, locked file."""
        while True:
            file = NamedTemporaryFile(  # noqa: SIM115 - `remove` closes it
                "w", encoding="utf-8", dir=self._folder, prefix=_PREFIX, suffix=_SUFFIX, delete=False
            )
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another server started between both calls, and removed it

    def remove(self, path: Path) -> None:
        """Remove a file, unless it has been removed."""
        with self._lock:
            file = self._files.pop(path, None)
        if file is not None:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # what it holds back when the disk is full
                file.close()

    def close(self) -> None:
        """Remove all files, and make no other one."""
        with self._lock:
            self._closed, left = True, list(self._files)
        for path in left:
            self.remove(path)


def _remove_unlocked(path: Path) -> None:
    """Remove a scenario file on which no server holds a lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # it is gone, or it is no file of a server
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        pass  # a server uses it, or has removed it
    finally:
        os.close(descriptor)


class ScenarioQuestion(Struct):
    """A scenario, and what a call changes in it."""

    scenario: str
    shipped: bool
    set: list[str]
    workloads: list[str]
    trials: int | None
    seed: int | None


class ScenarioFacts(Struct):
    """What a scenario would do.

    Parameters
    ----------
    refused : list of str
        What a server without ``--allow-commands`` refuses.
    error : str
        Why it cannot be read; empty if it can.
    """

    title: str = ""
    trials: int = 0
    expected_s: float = 0.0
    refused: list[str] = field(default_factory=list)
    error: str = ""


def facts_of(asked: ScenarioQuestion) -> ScenarioFacts:
    """Return what a scenario would do; texts are checked before the files that they name are read."""
    try:
        changes = dict(map(parse_change, asked.set))
        given: list[object] = list(changes.values())
        if not asked.shipped:  # the shipped ones name their own files
            given.append(read_toml(asked.scenario, "name a scenario file"))
        elsewhere = [f"{text!r} names a file elsewhere" for text in texts_in(given) if _is_elsewhere(text)]
        if elsewhere:
            return ScenarioFacts(refused=elsewhere)
        return _plan_facts(
            read_plan(
                Path(asked.scenario), overrides=changes, only=asked.workloads, trials=asked.trials, seed=asked.seed
            )
        )
    except WavebedError as error:
        return ScenarioFacts(error=str(error))


def _plan_facts(plan: Plan) -> ScenarioFacts:
    refused = []
    for treatment in plan.treatments:
        commands = [workload.name for workload in treatment.workloads if workload.kind == COMMAND_KIND]
        refused += [f"workload {name} runs a program" for name in commands]
        if isinstance(treatment.lab, HostsLab):
            refused.append("lab.backend is hosts")
        if getattr(treatment.path, "nat", False):
            refused.append("path.nat uses this machine's network")
    total_s = plan.trials * sum(expected_s(treatment) for treatment in plan.treatments)
    return ScenarioFacts(plan.title, plan.trials * len(plan.treatments), total_s, list(dict.fromkeys(refused)))


def _is_elsewhere(text: str) -> bool:
    """Return whether a text may name a file outside the folder of the scenario."""
    return text.startswith(("/", "~")) or ".." in PurePosixPath(text).parts


if __name__ == "__main__":
    sys.stdout.buffer.write(json.encode(facts_of(json.decode(sys.argv[1], type=prepared(ScenarioQuestion)))))
