"""The functions that a Dask worker calls: it takes files, runs a block, and gives the results in pieces."""

from __future__ import annotations

import gzip
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.run.executor.block import RESULTS, BlockResult, BlockTask, NotWantedError, perform_block, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wavebed.run.executor.block import RunTrial, Site

__all__ = ["TASK_FILE", "absent_files", "describe", "forget", "put_piece", "read_piece", "run_task"]

TASK_FILE = "block.json.gz"
_TASKS = msgspec.json.Decoder(BlockTask)
"""Made here: two threads that decode a type for the first time at once crash (msgspec 0.22)."""


def describe(programs: Sequence[str]) -> Site:
    """Return the worker's machine, and what it has installed."""
    return site(programs)


def absent_files(files: Mapping[str, int]) -> list[str]:
    """Return the files that the worker does not have; it removes what is not of this block.

    Parameters
    ----------
    files : mapping
        Size in bytes of each file of the block by name; a name stands for its content.
    """
    folder = _folder()
    folder.mkdir(exist_ok=True)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in files:
            path.unlink()
    return [name for name, size in files.items() if not _has(folder / name, size)]


def put_piece(name: str, offset: int, data: bytes) -> None:
    """Write a piece of a file; pieces come in order."""
    file = _folder() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with _kept(), file.open("r+b" if offset else "wb") as stream:
        stream.seek(offset)
        stream.write(data)


def run_task(run_trial: RunTrial) -> BlockResult:
    """Run the block whose files have arrived."""
    folder = _folder()
    with _kept():
        packed = (folder / TASK_FILE).read_bytes()
    task = _TASKS.decode(gzip.decompress(packed))
    return perform_block(task, folder, _cancelled(), run_trial)


def read_piece(name: str, offset: int, size: int) -> bytes:
    """Return a piece of a packed trial."""
    with _kept(), (_folder() / RESULTS / f"{name}.tar").open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


def forget() -> None:
    """Remove the results."""
    shutil.rmtree(_folder() / RESULTS, ignore_errors=True)


def _folder() -> Path:
    from distributed import get_worker

    return Path(get_worker().local_directory) / "wavebed"


@contextmanager
def _kept() -> Iterator[None]:
    """Raise `NotWantedError` if a file of the block is missing: this worker was started again, and lost its folder."""
    try:
        yield
    except FileNotFoundError:
        raise NotWantedError from None


def _has(file: Path, size: int) -> bool:
    return file.is_file() and file.stat().st_size == size


def _cancelled() -> Callable[[], bool]:
    """Return whether the running task was cancelled, or its worker ends; a client that has gone cancels its tasks."""
    from distributed import Status, get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state != "executing" or worker.status not in (Status.running, Status.paused)

    return cancelled
