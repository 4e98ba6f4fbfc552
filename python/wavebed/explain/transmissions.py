"""The transmissions of the blocks of each packet on a radio link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from wavebed.explain.dark import Ints

__all__ = ["Transmissions"]

_NEVER = np.iinfo(np.int64).max // 4
_LONG_AGO = -_NEVER


class Transmissions:
    """For each row of ``packets``: when its data was on air for the first time, and when it had arrived.

    Parameters
    ----------
    blocks : pyarrow.Table
        The table ``blocks`` of the link.
    carried : pyarrow.ChunkedArray
        The numbers of the blocks of each row.
    """

    first_ns: Ints
    """The end of the first transmissions, had none failed."""
    harq_ns: Ints
    """The end of their retransmissions by HARQ: decoded, or given up."""
    arrived_ns: Ints
    """When the last block that was decoded had been, those of RLC included; without one `harq_ns`."""
    awake_ns: Ints
    granted_ns: Ints
    """`awake_ns` and `granted_ns` of the first block; long ago without."""

    def __init__(self, blocks: pa.Table, carried: pa.ChunkedArray) -> None:
        self._starts = np.unique(_column(blocks, "slot_ns"))
        lists = carried.combine_chunks()
        offsets = lists.offsets.to_numpy().astype(np.int64)
        numbers = lists.values.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers, offsets = numbers[offsets[0] :], offsets - offsets[0]
        known = _Blocks(blocks)
        of = known.places(numbers)
        has = of >= 0
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[has]
        of = of[has]
        count = len(offsets) - 1
        # A block that begins after an earlier one of the packet was given up has data that RLC sends again.
        given_up = np.full(count, _NEVER)
        np.minimum.at(given_up, row, np.where(known.good_ns[of] == _NEVER, known.last_ns[of], _NEVER))
        by_rlc = known.slot_ns[of] >= given_up[row]
        self.first_ns = _latest(count, row[~by_rlc], known.first_ns[of][~by_rlc])
        ended = np.where(known.good_ns[of] == _NEVER, known.last_ns[of], known.good_ns[of])
        self.harq_ns = _latest(count, row[~by_rlc], ended[~by_rlc])
        decoded = known.good_ns[of] != _NEVER
        self.arrived_ns = _latest(count, row[decoded], known.good_ns[of][decoded])
        self.awake_ns = np.full(count, _LONG_AGO)
        self.granted_ns = np.full(count, _LONG_AGO)
        first = np.unique(row, return_index=True)[1]
        self.awake_ns[row[first]] = known.awake_ns[of[first]]
        self.granted_ns[row[first]] = known.granted_ns[of[first]]

    def slot_before(self, sent: Ints) -> Ints:
        """Return the begin of the last slot before each of these that this link used; long ago without one."""
        if not len(self._starts):
            return np.full(len(sent), _LONG_AGO)
        place = np.searchsorted(self._starts, sent, side="left") - 1
        return np.where(place >= 0, self._starts[np.maximum(place, 0)], _LONG_AGO)


class _Blocks:
    """The blocks of a link, each once."""

    def __init__(self, blocks: pa.Table) -> None:
        number = _column(blocks, "number")
        order = np.lexsort((_column(blocks, "attempt"), number))
        decoded = _column(blocks, "decoded_ns")[order]
        self._numbers, first, counts = np.unique(number[order], return_index=True, return_counts=True)
        last = first + counts - 1
        self.slot_ns = _column(blocks, "slot_ns")[order][first]
        self.first_ns = decoded[first]
        self.last_ns = decoded[last]
        self.awake_ns = _column(blocks, "awake_ns")[order][first]
        self.granted_ns = _column(blocks, "granted_ns")[order][first]
        failed = blocks["failed"].combine_chunks().to_numpy(zero_copy_only=False).astype(bool)[order]
        self.good_ns = np.full(len(first), _NEVER)
        np.minimum.at(self.good_ns, np.repeat(np.arange(len(first)), counts), np.where(failed, _NEVER, decoded))

    def places(self, numbers: Ints) -> Ints:
        """Return the places of blocks by their numbers; -1 for those that are not in the log."""
        if not len(self._numbers):
            return np.full(len(numbers), -1)
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.where(self._numbers[place] == numbers, place, -1)


def _latest(count: int, row: Ints, at: Ints) -> Ints:
    found = np.full(count, _LONG_AGO)
    np.maximum.at(found, row, at)
    return found


def _column(table: pa.Table, name: str) -> Ints:
    """Return a column of integers; a result of an earlier version may lack it."""
    if name not in table.column_names:
        return np.full(len(table), _LONG_AGO)
    found: Ints = table.column(name).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    return found
