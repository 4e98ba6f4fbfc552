"""A function of Python with a laboratory in a guest of virtual time."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

from msgspec import DecodeError, Struct, json, to_builtins

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.lab.tools import Place, function_at, place_of_function
from wavebed.path.lab import Laboratory
from wavebed.path.laboratory import LabPlan, resolve_network
from wavebed.path.model import scene_maps
from wavebed.path.traces import Traces
from wavebed.prepared import prepared
from wavebed.spec.types import Network
from wavebed.virtual.guest import INPUT, OUTPUT, guest_folder, outside_of_path, paths_in, wait_for_begin
from wavebed.virtual.shell import keep, run_shown, with_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.config.data import Json
    from wavebed.path.api import Path
    from wavebed.virtual.guest import GuestFolder

_JOB, _ANSWER = "job.json", "answer.json"
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
        Its further arguments: None, numbers, texts, lists and dicts with texts as keys.
    log, pcap, summary, sample
        As in `Path.up`; the files are copied out of the guest.

    Returns
    -------
    Json
        What the function returned, of the same kinds.

    Raises
    ------
    UserError
        If the function cannot be imported, or the path or a value is wrong.
    MachineError
        If the kernel of virtual time is not installed.
    WavebedError
        If the function raises an error; the traceback is on standard error.
    """
    if why := outside_of_path(path.model):
        raise UserError(f"virtual time: {why}: use path.up()")
    wanted = {"log": log, "pcap": pcap, "summary": summary}
    outputs = {key: os.fspath(given) for key, given in wanted.items() if given is not None}
    place = place_of_function(function)
    traces = Traces()
    try:
        network = json.encode(resolve_network(path.model, traces)).decode()
        with guest_folder() as folder:
            inside = json.decode(with_patterns(network, folder), type=prepared(Network))
            where = [file for file in sys.path if file]
            maps = list(scene_maps(path.model))
            job = _Job(where, place, list(args), inside, maps, path.model.seed, list(outputs), sample)
            return _answer(job, folder, outputs)
    finally:
        traces.close()


class _Job(Struct, frozen=True):
    """What is done in the guest: a function, and the laboratory for it."""

    path: list[str]
    place: Place
    args: list[Any]
    network: Network
    maps: list[Any]
    seed: int
    outputs: list[str]
    sample: bool


def _answer(job: _Job, folder: GuestFolder, outputs: Mapping[str, str]) -> Json:
    """Run the job, keep its outputs, and return what the function returned."""
    try:
        (folder.input / _JOB).write_bytes(json.encode(job))
    except TypeError as error:
        raise UserError(f"{job.place[2]}: {error}: give numbers, texts, lists and dicts") from None
    named = [*job.path, job.place[1], *paths_in(to_builtins(job.network))]
    status = run_shown(folder, [sys.executable, "-m", "wavebed.virtual.call"], job.seed, list(filter(None, named)))
    try:
        answer = json.decode((folder.output / _ANSWER).read_bytes())
    except (OSError, DecodeError):
        raise WavebedError(f"{job.place[2]}: its process ended with {status} and without an answer") from None
    for key, given in outputs.items():
        keep(folder.output / _KEPT[key], given, key)
    if "error" in answer:
        raise _RAISED.get(answer["kind"], WavebedError)(answer["error"])
    return cast("Json", answer["value"])


def main() -> int:
    """Call the function of the job, in a guest, and leave its result or its error."""
    job = json.decode(FilePath(INPUT, _JOB).read_bytes(), type=prepared(_Job))
    sys.path[:] = job.path
    try:
        answer = json.encode({"value": _called(job)})
    except Exception as error:  # noqa: BLE001 - it is raised again by the caller
        kind = type(error).__name__
        if not isinstance(error, WavebedError):
            traceback.print_exc()
        told = str(error) if isinstance(error, WavebedError) else f"{kind}: {error}"
        answer = json.encode({"kind": kind, "error": told})
    FilePath(OUTPUT, _ANSWER).write_bytes(answer)
    return 0


def _called(job: _Job) -> object:
    function = function_at(job.place)
    log, pcap, summary = (FilePath(OUTPUT, _KEPT[key]) if key in job.outputs else None for key in _KEPT)
    plan = LabPlan(
        name="guest",
        seed=job.seed,
        log_dir=log,
        pcap_dir=pcap,
        summary_file=summary if summary is not None else log and log / "summary.json",
        sample=job.sample,
        maps=job.maps,
    )
    wait_for_begin()
    with Laboratory(job.network, plan) as lab:
        return function(lab, *job.args)


if __name__ == "__main__":
    sys.exit(main())
