"""The headers of the pages of a Parquet file, which say how large a page becomes; Arrow believes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    import pyarrow.parquet as pq

__all__ = ["Page", "pages_of"]

_HEADER_BYTES = 1 << 16
"""The smallest and the largest value of a page are in its header."""
_PLAIN = (0, 2, 3, 8)  # PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY
_UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
"""Fields of a page's header."""
_ENCODING = {_DATA: 2, _DICTIONARY: 2, _DATA_2: 4}
"""The field of the encoding in each of its tables."""
_VALUES = 1
_TRUE, _FALSE, _DOUBLE, _BYTES, _LIST, _SET, _STRUCT = 1, 2, 7, 8, 9, 10, 12
_NUMBERS = (3, 4, 5, 6)
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Parameters
    ----------
    unpacked_bytes : int
        Its size when it is unpacked.
    values : int
        How many values its rows have in the column; none if it is a page of the different values.
    is_plain : bool
        Whether each of its values stands in it, or in the page of the different values, as it is.
    """

    unpacked_bytes: int
    values: int
    is_plain: bool


def pages_of(stream: io.FileIO, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Yield the pages of a column in a group of rows.

    Raises
    ------
    OSError
        If a header is damaged.
    """
    begin = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None and 0 < chunk.dictionary_page_offset < begin:
        begin = chunk.dictionary_page_offset
    end = begin + chunk.total_compressed_size
    while begin < end:
        stream.seek(begin)
        header = _Header(stream.read(min(_HEADER_BYTES, end - begin)))
        try:
            fields = header.struct()
            unpacked, packed = fields[_UNPACKED], fields[_PACKED]
            tables = {key: table for key, table in fields.items() if isinstance(table, dict)}
            encodings = [table[_ENCODING[key]] for key, table in tables.items()]
            values = sum(table[_VALUES] for key, table in tables.items() if key != _DICTIONARY)
        except (IndexError, KeyError, RecursionError):
            raise OSError("the header of a page is damaged") from None
        if not (isinstance(unpacked, int) and isinstance(packed, int)) or min(unpacked, packed, values) < 0:
            raise OSError("the header of a page is damaged")
        yield Page(unpacked, values, all(encoding in _PLAIN for encoding in encodings))
        begin += header.at + packed


class _Header:
    """A reader of Thrift's compact protocol, for numbers and tables; all else is skipped."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, int | dict[int, int]]:
        """Return the numbers of a table by their fields, and the tables of encodings in it."""
        found: dict[int, int | dict[int, int]] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            if kind in _NUMBERS:
                found[number] = self._byte() if kind == 3 else self._signed()
            elif kind == _STRUCT and depth == 0 and number in _ENCODING:
                found[number] = {key: value for key, value in self.struct(1).items() if isinstance(value, int)}
            else:
                self._skip(kind, depth)
        return found

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise RecursionError
        if kind in (_TRUE, _FALSE):
            return
        if kind in _NUMBERS:
            self._signed()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BYTES:
            length = self._unsigned()
            self.at += length
        elif kind == _STRUCT:
            self.struct(depth + 1)
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            if count > len(self._data):
                raise IndexError
            for _ in range(count):
                self._skip(head & 15, depth + 1)
        else:
            raise KeyError(kind)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise IndexError

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
