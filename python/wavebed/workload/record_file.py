"""What a prober received, as arrays; ``crates/wavebed-probe/src/received.rs`` describes its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["Heavy", "Light", "Received", "read_received"]

_VERSION = 1
_HEAVY = ("d", "u", "f", "g")
_FILLING = ("f", "g")
_FIELDS = {"start": 3, "p": 7, "b": 10, "sent": 4}


@dataclass(frozen=True, slots=True, eq=False)
class Light:
    """Light packets in the order of arrival; times in ns since the start, each on the clock of its end.

    Parameters
    ----------
    arrival_ns, send_ns : int64 array
        Of each packet.
    number : int64 array
        Its number among all light packets of its sender.
    size_bytes : int64 array
        Its payload.
    index, count : int64 array
        Its place in its train, and the train's packets; 0 and 1: a single probe.
    """

    arrival_ns: Integers
    number: Integers
    send_ns: Integers
    size_bytes: Integers
    index: Integers
    count: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Heavy:
    """Heavy load in milliseconds with arrivals, in order; times as those of `Light`.

    Parameters
    ----------
    fills : bool array
        Whether the queue was being filled.
    size_bytes, packets, lost : int64 array
        Payload and packets that arrived, and packets lost before the last of them.
    first_ns, last_ns, first_send_ns, last_send_ns, longest_ns : int64 array
        First and last arrival, sending of these, greatest delay.
    """

    fills: NDArray[np.bool_]
    size_bytes: Integers
    packets: Integers
    lost: Integers
    first_ns: Integers
    last_ns: Integers
    first_send_ns: Integers
    last_send_ns: Integers
    longest_ns: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """What one end received, and what it sent itself.

    Parameters
    ----------
    sent_light, sent_heavy, refused : int
        Packets that this end sent, and calls that its own interface refused.
    """

    light: Light
    heavy: Heavy
    sent_light: int
    sent_heavy: int
    refused: int


def read_received(text: str, name: str) -> Received:
    """Return what a prober wrote.

    Raises
    ------
    WavebedError
        If it is not complete, or has a line of another form.
    """
    rows: dict[str, list[list[str]]] = {kind: [] for kind in _FIELDS}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(",")
        if len(words) != _FIELDS.get(words[0]):
            raise WavebedError(f"{name}: line {number} of its recording is none of a prober")
        rows[words[0]].append(words[1:])
    if len(rows["start"]) != 1 or len(rows["sent"]) != 1:
        raise WavebedError(f"{name}: its recording is not complete")
    if rows["start"][0][0] != str(_VERSION):
        raise WavebedError(f"{name}: its recording has version {rows['start'][0][0]}, not {_VERSION}")
    try:
        light = Light(*_columns(rows["p"], 6))
        heavy_rows = [row for row in rows["b"] if row[0] in _HEAVY]
        fills = np.array([row[0] in _FILLING for row in heavy_rows], dtype=np.bool_)
        heavy = Heavy(fills, *_columns([row[1:] for row in heavy_rows], 8))
        sent = [int(word) for word in rows["sent"][0]]
    except ValueError:
        raise WavebedError(f"{name}: its recording has a value that is no whole number") from None
    return Received(light, heavy, *sent)


def _columns(rows: Sequence[Sequence[str]], width: int) -> list[Integers]:
    table = np.array([[int(word) for word in row] for row in rows], dtype=np.int64).reshape(-1, width)
    return [table[:, column].copy() for column in range(width)]
