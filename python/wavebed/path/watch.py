"""Read the samples of a running laboratory: counters and conditions of every link, each 10 ms or slower.

The laboratory never waits for a reader: samples for which a socket has no room are lost, and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, ValidationError

from wavebed.errors import UserError
from wavebed.path.control import answer_as, understood
from wavebed.path.state import TimelineState  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from wavebed.path.control import Connection

__all__ = ["LEAST_MS", "MOST_MS", "Head", "Sample", "Value", "Watch"]

LEAST_MS, MOST_MS = 10, 10_000
"""Between two samples (`watch.rs`)."""

Value: TypeAlias = int | float | str | None


class Head(Struct, frozen=True):
    """The names that the values of samples have, in their order."""

    links: tuple[str, ...]
    directions: tuple[str, ...]
    link_columns: tuple[str, ...]
    direction_columns: tuple[str, ...]
    every_ms: int
    zero_ns: int
    timeline: TimelineState | None = None
    timeline_columns: tuple[str, ...] = ()


class _Watching(Struct):
    """The answer to ``watch``."""

    watching: Head


class Sample(Struct, frozen=True):
    """The values of all links and directions at one time, a row each.

    Parameters
    ----------
    lost : int
        Samples lost before this one, since the watch began.
    timeline : list or None
        The state of the timeline, by `Head.timeline_columns`; ``None`` without one.
    """

    links: list[list[Value]]
    directions: list[list[Value]]
    lost: int
    timeline: list[int | float | bool] | None = None


class Watch:
    """The samples of one connection, which it takes over.

    Parameters
    ----------
    connection : Connection
        To the laboratory; closing it ends the watch.
    every_ms : int
        Milliseconds between two samples, `LEAST_MS` to `MOST_MS`.

    Raises
    ------
    UserError
        If the time is out of bounds, or the laboratory's time has not begun.
    LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
        If the laboratory does not answer.
    """

    def __init__(self, connection: Connection, every_ms: int = LEAST_MS) -> None:
        if not LEAST_MS <= every_ms <= MOST_MS:
            raise UserError(f"every_ms: {every_ms} is out of range: write a whole number from {LEAST_MS} to {MOST_MS}")
        self._connection = connection
        answer = connection.ask({"do": "watch", "every_ms": every_ms})
        self.head = answer_as(connection.name, answer, _Watching).watching

    def next(self, timeout_s: float | None = None) -> Sample:
        """Wait for the next sample.

        Raises
        ------
        TimeoutError
            If none came in time.
        LaboratoryGoneError
            If the laboratory ended.
        LaboratoryMalformedError
            If it is no sample.
        """
        sample = answer_as(self._connection.name, self._connection.answer(timeout_s), Sample)
        head = self.head
        with understood(self._connection.name):
            for names, columns, rows in (
                (head.links, head.link_columns, sample.links),
                (head.directions, head.direction_columns, sample.directions),
            ):
                if len(rows) != len(names) or any(len(row) != len(columns) for row in rows):
                    raise ValidationError("a sample of another form than its head")
        return sample

    @property
    def name(self) -> str:
        """The laboratory's name."""
        return self._connection.name

    def close(self) -> None:
        """End the watch and its connection."""
        self._connection.close()
