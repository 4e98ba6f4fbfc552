"""The functions that a Dask worker calls: it takes files, runs a block, and gives the results in pieces.

The front gets bytes from `answer`, which it decodes by the type of the function in `ANSWERS`: no object of a worker is
unpickled.
"""

from __future__ import annotations

import gzip
import shutil
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.errors import MachineError, WavebedError
from wavebed.prepared import prepared
from wavebed.run.executor.block import (
    RESULTS,
    TASK_FILE,
    BlockResult,
    BlockTask,
    NotWantedError,
    WorkerMachine,
    perform_block,
    read_packed,
    site,
)
from wavebed.stranger import Line, StrangerError, decode, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wavebed.run.executor.block import RunTrial

_TASKS = msgspec.json.Decoder(prepared(BlockTask))
_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - the addresses that a worker should not have


class LostError(Exception):
    """The worker, or the scheduler, is lost or was given up."""


class FailedError(Exception):
    """The called function failed on the worker."""


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a call: its value, or why there is none."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: Line = ""
    lost: bool = False


_ANSWER = msgspec.msgpack.Decoder(prepared(_Answer))


def answer(function: Callable[..., object], *given: object) -> bytes:
    """Call one of the functions below, and return its result or its error as bytes."""
    try:
        return msgspec.msgpack.encode(_Answer(msgspec.Raw(msgspec.msgpack.encode(function(*given)))))
    except NotWantedError:
        told = _Answer(lost=True)
    except WavebedError as error:
        told = _Answer(error=one_line(str(error)))
    except Exception as error:  # noqa: BLE001 - the front tells it
        told = _Answer(error=one_line(f"{type(error).__name__}: {error}"))
    return msgspec.msgpack.encode(told)


def given_back(name: str, data: object) -> object:
    """Return the result of the function `name` from what `answer` returned on a worker.

    Raises
    ------
    LostError
        If the worker does not want the block any more.
    FailedError
        If the function failed, or the answer has not its type.
    """
    if not isinstance(data, bytes):
        raise FailedError(f"{name}: the worker's answer is no bytes")
    try:
        told = decode(data, _ANSWER, f"{name}: the worker's answer")
        value = None if told.lost or told.error else decode(told.value, _ANSWERS[name], f"{name}: the worker's answer")
    except StrangerError as error:
        raise FailedError(str(error)) from None
    if told.lost:
        raise LostError(name)
    if told.error:
        raise FailedError(one_line(told.error))
    return value


def describe(programs: Sequence[str]) -> WorkerMachine:
    """Return the worker's machine, and what it has installed."""
    _check_doors()
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
    _check_doors()
    folder = _folder()
    with _kept():
        packed = (folder / TASK_FILE).read_bytes()
    task = _TASKS.decode(gzip.decompress(packed))
    return perform_block(task, folder, _cancelled(), run_trial)


def read_piece(name: str, offset: int, size: int) -> bytes:
    """Return a piece of a packed trial."""
    with _kept():
        return read_packed(_folder() / RESULTS, name, offset, size)


def forget() -> None:
    """Remove the results."""
    shutil.rmtree(_folder() / RESULTS, ignore_errors=True)


_ANSWERS: dict[str, msgspec.msgpack.Decoder[object]] = {
    "describe": msgspec.msgpack.Decoder(prepared(WorkerMachine)),
    "absent_files": msgspec.msgpack.Decoder(list[str]),
    "put_piece": msgspec.msgpack.Decoder(None),
    "run_task": msgspec.msgpack.Decoder(prepared(BlockResult)),
    "read_piece": msgspec.msgpack.Decoder(bytes),
    "forget": msgspec.msgpack.Decoder(None),
}


def _check_doors() -> None:
    """Raise a `MachineError` if whoever reaches this machine can look into this worker, or run programs on it."""
    from distributed import get_worker

    worker = get_worker()
    if getattr(worker, "_dashboard", False):
        raise MachineError("has a dashboard, which asks nobody who he is: start it with --no-dashboard")
    sockets = worker.http_server._sockets.values()  # noqa: SLF001 - older versions of Dask tell the port alone
    if not all(ip_address(each.getsockname()[0]).is_loopback for each in sockets):
        raise MachineError(
            "answers everybody by HTTP, with --no-dashboard too: start it with --dashboard-address 127.0.0.1:0"
        )
    for listener in worker.listeners:
        if getattr(listener, "ip", "") in _ANYWHERE and not getattr(listener, "encrypted", False):
            raise MachineError("listens on every address without TLS: start it with --host ADDRESS, or with TLS")


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
