"""Read Parquet files of folders of results, whoever wrote them: their footer and pages are checked first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.foreign import open_foreign
from wavebed.result.names import INCOMPLETE

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

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


MOST_BYTES = 1 << 31
"""Of a table in memory, with all its texts written out."""
_TEXT_ROW_BYTES = 8
"""Of a text besides its letters: where it ends, and its place among different texts."""
_MOST_RATIO = 1 << 15
"""Of ``zstd``, whose block of 128 KiB takes four bytes; the other codecs here compress less."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
"""Of the values of a kind, in bytes; texts have another."""
_LIST_BYTES = 8
"""Of a value in a list for each level: where the list ends, and whether it is there."""
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "ZSTD")
_THREADED_CELLS = 1 << 22
"""Threads help with larger tables. A process that ends while Arrow starts them is aborted now and then."""


class _Refused(Exception):  # noqa: N818 - it is no error of the program
    """Why a table is not read."""


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a table, or some of its columns.

    Raises
    ------
    UserError
        If it is missing, damaged, too large, or has no such column.
    """
    import pyarrow as pa

    if not file.exists():
        raise UserError(f"{file}: is missing: {INCOMPLETE}")
    try:
        with open_foreign(file, INCOMPLETE) as stream:
            return _read(file, stream, columns)
    except (_Refused, OSError, MemoryError, pa.ArrowException) as error:
        reason = str(error) if isinstance(error, _Refused) else f"cannot be read ({error})"
        raise UserError(f"{file}: {' '.join(reason.split())}: {INCOMPLETE}") from None


def _read(file: Path, stream: io.FileIO, columns: Sequence[str] | None) -> pa.Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as source:
        schema = source.schema_arrow
        known = schema.names
        unknown = [column for column in columns or () if column not in known]
        if unknown:
            raise UserError(f"{file}: no column {unknown[0]!r}: it must be one of {', '.join(known)}")
        if len(set(known)) < len(known):
            raise _Refused("has two columns of one name")
        wanted = known if columns is None else list(columns)
        texts = [name for name in wanted if _is_text(schema.field(name).type)]
        _check_rows(source.metadata, [schema.field(name) for name in wanted])
        _check_pages(stream, source.metadata, set(wanted), set(texts))
        threaded = source.metadata.num_rows * len(known) > _THREADED_CELLS
        if not texts:
            return source.read(columns=wanted, use_threads=threaded)
        # Texts stay numbers of different texts until it is known how long all of them are.
        with pq.ParquetFile(stream, metadata=source.metadata, read_dictionary=texts) as numbered:
            table = numbered.read(columns=wanted, use_threads=threaded)
    return _written_out(table, schema, texts)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind))


def _check_rows(metadata: pq.FileMetaData, fields: Sequence[pa.Field]) -> None:
    """Check the size of all but the letters of texts and what is in lists."""
    import pyarrow as pa

    row_bytes = 0.0
    for field in fields:
        numeric = pa.types.is_primitive(field.type)
        if not (numeric or _is_text(field.type) or pa.types.is_nested(field.type)):
            raise _Refused(f"column {field.name!r} has values of a kind that no table here has ({field.type})")
        row_bytes += field.type.bit_width / 8 if numeric else _TEXT_ROW_BYTES
    rows = sum(metadata.row_group(each).num_rows for each in range(metadata.num_row_groups))
    if max(rows, metadata.num_rows) * row_bytes > MOST_BYTES:
        raise _too_large()


def _check_pages(stream: io.FileIO, metadata: pq.FileMetaData, wanted: set[str], texts: set[str]) -> None:
    """Check the size of what is unpacked and of what is in lists, and that no text is longer than its page."""
    groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
    chunks = [group.column(each) for group in groups if group.num_rows for each in range(group.num_columns)]
    chunks = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted]
    for chunk in chunks:
        if chunk.compression not in _CODECS:
            raise _Refused(f"is compressed by {chunk.compression}, which no table here is")
    small = sum(chunk.total_compressed_size for chunk in chunks) * _MOST_RATIO <= MOST_BYTES
    unpacked = 0
    for chunk in chunks:
        path = chunk.path_in_schema
        nested, is_text = path not in wanted, path in texts
        if small and not nested and not is_text:
            continue
        width = _WIDTHS.get(chunk.physical_type, 0)
        values = longest = 0
        for page in pages_of(stream, chunk):
            unpacked += page.unpacked_bytes
            values += page.values
            longest = max(longest, width, 0 if width else page.unpacked_bytes)
            in_lists = values * (longest + _LIST_BYTES * path.count(".")) if nested else 0
            if unpacked > MOST_BYTES or in_lists > MOST_BYTES:
                raise _too_large()
            if not width and not page.is_plain:
                raise _Refused(f"column {path!r} has texts in an encoding that no table here has")


def _written_out(table: pa.Table, schema: pa.Schema, texts: Sequence[str]) -> pa.Table:
    """Return a table whose texts are of the types in the file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = table.nbytes
    for name in texts:
        for chunk in table.column(name).chunks:
            # A cast from bytes refuses what is not UTF-8; a reader would fail at it later.
            words = chunk.dictionary.cast(pa.binary()).cast(pa.string())
            counts = pc.value_counts(chunk.indices)
            lengths = pc.binary_length(words).take(counts.field("values"))
            total += pc.sum(pc.multiply(lengths.cast(pa.int64()), counts.field("counts"))).as_py() or 0
            if total > MOST_BYTES:
                raise _too_large()
    for name in texts:
        place = table.column_names.index(name)
        field = schema.field(name)
        if table.column(name).type != field.type:
            table = table.set_column(place, field, table.column(name).cast(field.type))
    return table


def _too_large() -> _Refused:
    return _Refused(f"is larger than {MOST_BYTES >> 20} MiB in memory")
