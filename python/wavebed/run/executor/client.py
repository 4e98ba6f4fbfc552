"""Dask's client as the front uses it: nothing that a scheduler or worker sends becomes an object, code or much memory.

Dask unpickles results, errors, the types of results, and events. `_guard` shuts all of these doors in this process.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import distributed
from distributed.comm import tcp
from distributed.protocol import core
from distributed.protocol.serialize import families

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 32 << 20
"""Of one message; a piece of results has 8 MiB."""


_OPEN: set[int] = set()
"""The clients that are connected; without one, this process may unpickle what it likes."""


class RefusedError(TypeError, OSError):
    """What came is not read."""


class Client(distributed.Client):
    """A client that ignores events, and takes bytes only.

    Parameters
    ----------
    address : str
        Of the scheduler.
    timeout : float
        Seconds in which it has to answer.
    """

    def __init__(self, address: str, timeout: float) -> None:
        _guard()
        self._has_ended = False
        _OPEN.add(id(self))
        try:
            super().__init__(  # type: ignore[no-untyped-call]
                address,
                timeout=timeout,
                set_as_default=False,
                direct_to_workers=False,
                deserializers=["msgpack", "error"],
            )
        except BaseException:
            _OPEN.discard(id(self))
            raise

    def close(self, timeout: float = 2.0) -> None:
        """Disconnect."""
        try:
            super().close(timeout=timeout)  # type: ignore[no-untyped-call]
        finally:
            _OPEN.discard(id(self))

    @property
    def is_over(self) -> bool:
        """Whether it hears nothing more."""
        return self.status == "closed" or self._has_ended

    def _handle_task_erred(self, key: object = None, exception: object = None, traceback: object = None) -> None:
        del exception, traceback  # where they are no such objects, Dask would keep the caller waiting for ever
        super()._handle_task_erred(key, _Refused(), None)  # type: ignore[no-untyped-call]

    async def _handle_event(self, topic: str, event: object) -> None:
        """Ignore an event: Dask would print events of ``print`` and ``warn``, and unpickle what they hold."""

    async def _handle_report(self) -> None:
        try:
            await super()._handle_report()
        except Exception:  # noqa: BLE001 - whatever was wrong with a message, the front connects again
            self._has_ended = True


class _Refused(Exception):  # noqa: N818 - it stands for any object
    """Stands in the place of an object that was not unpickled."""

    def __init__(self, *_: object) -> None:
        super().__init__("an object came that is not read here")


@functools.cache
def _guard() -> None:
    """Keep this process from unpickling classes and functions, and Dask from large or compressed messages."""
    sys.addaudithook(_refuse_classes)
    for family in ("pickle", "dask"):
        dumps, _, wants_context = families[family]
        assert dumps is not None
        families[family] = (dumps, _Refused, wants_context)
    messages: Any = core
    messages.decompress = _refuse_compressed
    streams: Any = tcp
    read, unpack = streams.read_bytes_rw, streams.unpack_frames

    async def read_bounded(stream: object, size: int) -> object:
        _check_size(size)
        return await read(stream, size)

    def unpack_bounded(frames: object, *, partial: bool) -> object:
        found = unpack(frames, partial=partial)
        _check_size(sum(found[1]) if partial else 0)
        return found

    streams.read_bytes_rw, streams.unpack_frames = read_bounded, unpack_bounded


def _refuse_classes(event: str, _: object) -> None:
    if event == "pickle.find_class" and _OPEN:
        raise RefusedError("a pickle came with a class, and is not read here")


def _refuse_compressed(header: dict[str, Sequence[object]], frames: Sequence[object]) -> list[object]:
    if any(header["compression"]):
        raise RefusedError("a compressed message came: switch distributed.comm.compression off")
    return list(frames)


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise RefusedError(f"a message of {size} bytes came, and may have {MOST_BYTES}")
