"""A function of Python with a laboratory in a guest of virtual time."""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, cast

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.lab.functions import function_at, place_of_function
from wavebed.virtual.guest import INPUT, OUTPUT, guest_folder, wait_for_begin
from wavebed.virtual.shell import keep, run_shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.config.data import Json
    from wavebed.path.api import Path

__all__ = ["main", "virtual_time"]

_JOB, _ANSWER = "job", "answer.json"
_KEPT = {"log": "series", "pcap": "pcap", "summary": "summary.json"}
"""The outputs, and their names in the guest."""
_RAISED = {each.__name__: each for each in (UserError, MachineError)}


def virtual_time(
    path: Path,
    function: Callable[..., Json],
    *args: object,
    log: str | os.PathLike[str] | None = None,
    pcap: str | os.PathLike[str] | None = None,
    summary: str | os.PathLike[str] | None = None,
    sample: bool = False,
) -> Json:
    """Bring a path up in virtual time, call ``function(lab, *args)`` there, and return its result.

    The function runs in a guest: it reads the working folder and what ``sys.path`` names, and what it writes is in
    memory. Its output is printed here.

    Parameters
    ----------
    path : Path
        The path.
    function : callable
        One of a module or a script, so that the guest can import it: not a lambda, not one in another function. It gets
        a `Laboratory`.
    *args
        Its further arguments; they are pickled.
    log, pcap, summary, sample
        As in `Path.up`; the files are copied out of the guest.

    Returns
    -------
    Json
        What the function returned: None, numbers, texts, lists and dicts with texts as keys.

    Raises
    ------
    UserError
        If the function cannot be imported, or the path or a value is wrong.
    MachineError
        If the kernel of virtual time is not installed.
    WavebedError
        If the function raises an error; the traceback is on standard error.
    """
    wanted = {"log": log, "pcap": pcap, "summary": summary}
    outputs = {key: os.fspath(given) for key, given in wanted.items() if given is not None}
    job = (place_of_function(function), path, args, list(outputs), sample)
    with guest_folder() as folder:
        (folder.input / _JOB).write_bytes(pickle.dumps([sys.path, pickle.dumps(job)]))
        named = [file for file in (*sys.path, job[0][1]) if file]
        status = run_shown(folder, [sys.executable, "-m", "wavebed.virtual.call"], path.model.seed, named)
        try:
            answer = json.loads((folder.output / _ANSWER).read_bytes())
        except (OSError, ValueError):
            raise WavebedError(f"{function.__name__}: its process ended with {status} and without an answer") from None
        for key, given in outputs.items():
            keep(folder.output / _KEPT[key], given, key)
    if "error" in answer:
        raise _RAISED.get(answer["kind"], WavebedError)(answer["error"])
    return cast("Json", answer["value"])


def main() -> int:
    """Call the function of the job, in a guest, and leave its result or its error."""
    path, packed = pickle.loads(FilePath(INPUT, _JOB).read_bytes())  # noqa: S301 - written by the caller
    sys.path[:] = path
    try:
        answer = json.dumps({"value": _called(packed)})
    except Exception as error:  # noqa: BLE001 - it is raised again by the caller
        kind = type(error).__name__
        if not isinstance(error, WavebedError):
            traceback.print_exc()
        told = str(error) if isinstance(error, WavebedError) else f"{kind}: {error}"
        answer = json.dumps({"kind": kind, "error": told})
    FilePath(OUTPUT, _ANSWER).write_text(answer)
    return 0


def _called(packed: bytes) -> object:
    place, path, args, outputs, sample = pickle.loads(packed)  # noqa: S301 - written by the caller
    function = function_at(place)
    wait_for_begin()
    with ExitStack() as stack:
        lab = stack.enter_context(path.up(**{key: f"{OUTPUT}/{_KEPT[key]}" for key in outputs}, sample=sample))
        return function(lab, *args)


if __name__ == "__main__":
    sys.exit(main())
