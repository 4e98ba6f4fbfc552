"""The native pattern format, ``docs/reference/pattern-format.md``; the link engine reads no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import ReadOptions, TraceFormat, WriteOptions
from wavebed.pattern.model import (
    MAX_CELL,
    MAX_LIGHT_BYTES,
    MAX_MDB,
    MAX_NS,
    MAX_OPPORTUNITY_BYTES,
    MAX_PACKETS,
    MAX_RATE_BPS,
    STATES,
    Pattern,
)
from wavebed.pattern.source import (
    Rows,
    decimals,
    format_probability,
    format_scaled,
    integers,
    plural,
    probabilities,
    quote,
    split_columns,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.model import Column, Kind
    from wavebed.pattern.source import TraceSource


MAGIC = "# wavebed pattern 1"
MAX_HEADER_LINES = 10_000
_DIGITS = 9
_DECIBEL_DIGITS = 3
_ROWS_AT_ONCE = 1 << 16

_STEPS = ("rate_bps", "delay_s", "loss", "bler", "sinr_db", "need_db", "state", "cell")
_FALLBACK = ("fallback_rate_bps", "fallback_sinr_db", "fallback_need_db")
_LIGHT = "light_rate_bps"
_LIGHT_KEYS = {"light_bytes": "15000", "light_idle_s": "0.1"}
"""The header keys that stand beside that column and only there, each with an example."""
KINDS: dict[str, tuple[Kind, str, str, tuple[str, ...]]] = {
    "steps": ("steps", "duration_s", "time_s", (*_STEPS, *_FALLBACK, _LIGHT)),
    "opportunities": ("opportunities", "duration_s", "time_s", ("bytes",)),
    "packets": ("packets", "packets", "packet", ("loss", "delay_s")),
}
_NEEDS = (
    ("bler", "rate_bps"),
    ("cell", "rate_bps"),
    ("sinr_db", "rate_bps"),
    ("sinr_db", "need_db"),
    ("need_db", "sinr_db"),
    ("fallback_rate_bps", "rate_bps"),
    ("fallback_sinr_db", "fallback_rate_bps"),
    ("fallback_sinr_db", "fallback_need_db"),
    ("fallback_need_db", "fallback_sinr_db"),
    (_LIGHT, "rate_bps"),
)
_DECIBELS = {"sinr_db", "need_db", "fallback_sinr_db", "fallback_need_db"}


def sniff(source: TraceSource) -> bool:
    """Recognise the first words of the first line."""
    return bool(source.head) and source.head[0].startswith("# wavebed pattern")


def _read_header(source: TraceSource) -> tuple[dict[str, tuple[int, str]], int, str]:
    """Return the header, and the line of the column names with its number."""
    first = source.head[0] if source.head else ""
    if first != MAGIC:
        raise source.error(f"the first line is {quote(first)}; it must be {MAGIC!r}", 1)
    header: dict[str, tuple[int, str]] = {}
    for number, line in source.lines(2):
        if not line.startswith("#"):
            return header, number, line
        if len(header) == MAX_HEADER_LINES:
            raise source.error(f"has more than {MAX_HEADER_LINES} header lines; remove some", number)
        key, equals, value = (part.strip() for part in line[1:].partition("="))
        if not equals or not key:
            raise source.error(f"header {quote(line)} is not '# key = value'; write it so or remove it", number)
        if key in header:
            raise source.error(f"header key {key!r} is given twice; keep one of them", number)
        header[key] = (number, value)
    raise source.error("ends before the column names; add a line such as 'time_s,rate_bps' and the rows")


def _required(source: TraceSource, header: dict[str, tuple[int, str]], key: str, example: str) -> tuple[int, str]:
    if key not in header:
        raise source.error(f"has no header key {key!r}; add a line '# {key} = {example}' after the first")
    return header[key]


def _read_columns(source: TraceSource, number: int, line: str, kind: str) -> list[str]:
    _, _, first, allowed = KINDS[kind]
    names = line.split(",")
    rule = f"kind {kind!r} has {first} and then one or more of {', '.join(allowed)}"
    if names[0] != first:
        raise source.error(f"the first column is {quote(names[0])}; {rule}", number)
    for name in names[1:]:
        if name not in allowed:
            raise source.error(f"unknown column {quote(name)}; {rule}", number)
        if names.count(name) > 1:
            raise source.error(f"column {name!r} is given twice; keep one of them", number)
    if len(names) == 1:
        raise source.error(f"has no column of values; {rule}", number)
    for name, other in _NEEDS:
        if name in names and other not in names:
            raise source.error(f"column {name!r} stands without {other}; add {other} or remove {name}", number)
    return names


def _cells(source: TraceSource, number: int, rows: list[str], width: int) -> list[list[str]]:
    """Return the columns of rows; the first row is line `number`."""
    columns = split_columns(rows, width)
    if isinstance(columns, list):
        return columns
    line, text = number + columns, rows[columns]
    if not text:
        raise source.error("the line is blank; remove it", line)
    if text.startswith("#"):
        raise source.error("a '#' line after the column names; move it above them or remove it", line)
    found = plural(text.count(",") + 1, "value")
    raise source.error(f"{found} for {plural(width, 'column')}; write one value for each", line)


class _Columns:
    """The columns of the rows, as they come block by block."""

    def __init__(self, source: TraceSource, names: list[str]) -> None:
        self._source = source
        self._names = names
        self._most = source.count()
        self._whole: dict[str, Rows[np.int64]] = {}
        self._probabilities: dict[str, Rows[np.float64]] = {}
        self._codes: dict[str, Rows[np.uint8]] = {}

    def add(self, begin: int, rows: list[str]) -> None:
        """Read rows; the first row is line `begin`."""

        def line_of(position: int) -> int:
            return begin + position

        most, source = self._most, self._source
        for name, texts in zip(self._names, _cells(source, begin, rows, len(self._names)), strict=True):
            if name in {"loss", "bler"}:
                self._probabilities.setdefault(name, Rows(most, np.float64)).add(
                    probabilities(source, texts, line_of, name)
                )
                continue
            if name == "state":
                codes = words(source, texts, line_of, name, STATES)
                self._codes.setdefault(name, Rows(most, np.uint8)).add(codes)
                continue
            if name in _DECIBELS:
                values = decimals(source, texts, line_of, name, digits=_DECIBEL_DIGITS, most=MAX_MDB, signed=True)
            elif name in _MOST:
                values = integers(source, texts, line_of, name, most=_MOST[name])
            else:
                values = decimals(source, texts, line_of, name, digits=_DIGITS, most=MAX_NS)
            self._whole.setdefault(name, Rows(most, np.int64)).add(values)

    def whole(self, name: str) -> NDArray[np.int64] | None:
        """Return a column of whole numbers, if there are rows with it."""
        return self._whole[name].whole() if name in self._whole else None

    def probabilities(self, name: str) -> NDArray[np.float64] | None:
        """Return a column of probabilities, if there are rows with it."""
        return self._probabilities[name].whole() if name in self._probabilities else None

    def codes(self, name: str) -> NDArray[np.uint8] | None:
        """Return a column of words, if there are rows with it."""
        return self._codes[name].whole() if name in self._codes else None


_MOST = {
    "packet": MAX_PACKETS,
    "bytes": MAX_OPPORTUNITY_BYTES,
    "rate_bps": MAX_RATE_BPS,
    "fallback_rate_bps": MAX_RATE_BPS,
    "cell": MAX_CELL,
    _LIGHT: MAX_RATE_BPS,
}


def read(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read a native pattern.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    header, number, line = _read_header(source)
    kind_line, kind = _required(source, header, "kind", "steps")
    if kind not in KINDS:
        raise source.error(f"kind {quote(kind)} is unknown; it is steps, opportunities or packets", kind_line)
    kind_name, period_key, first, _ = KINDS[kind]
    period = _read_period(source, *_required(source, header, period_key, _PERIODS[period_key]), period_key)
    names = _read_columns(source, number, line, kind)
    light_bytes, light_idle_ns = _read_light(source, header, number, _LIGHT in names)
    columns = _Columns(source, names)
    for begin, rows in source.blocks(number + 1):
        columns.add(begin, rows)
    index = columns.whole(first)
    if index is None:
        raise source.error("has no rows; a pattern has at least one", number)
    _check_order(source, kind_name, first, index, period, number)
    size = columns.whole("bytes")
    if size is not None and (size == 0).any():
        position = int((size == 0).argmax())
        raise source.error("bytes is 0; an opportunity has at least 1 byte, or leave it out", number + 1 + position)
    return Pattern(
        kind_name,
        index,
        period,
        rate_bps=columns.whole("rate_bps"),
        delay_ns=columns.whole("delay_s"),
        loss=columns.probabilities("loss"),
        bler=columns.probabilities("bler"),
        sinr_mdb=columns.whole("sinr_db"),
        need_mdb=columns.whole("need_db"),
        state=columns.codes("state"),
        cell=columns.whole("cell"),
        fallback_rate_bps=columns.whole("fallback_rate_bps"),
        fallback_sinr_mdb=columns.whole("fallback_sinr_db"),
        fallback_need_mdb=columns.whole("fallback_need_db"),
        light_rate_bps=columns.whole(_LIGHT),
        light_bytes=light_bytes,
        light_idle_ns=light_idle_ns,
        size_bytes=size,
        header=tuple(
            (key, value) for key, (_, value) in header.items() if key not in {"kind", period_key, *_LIGHT_KEYS}
        ),
    )


def _read_light(
    source: TraceSource, header: dict[str, tuple[int, str]], number: int, has_column: bool
) -> tuple[int | None, int | None]:
    """Return the bytes and the idle time of the light rate, if there is a column of it."""
    values: list[int] = []
    for key, example in _LIGHT_KEYS.items():
        if not has_column and key in header:
            raise source.error(
                f"header key {key!r} stands without the column {_LIGHT}; add {_LIGHT} or remove {key}", header[key][0]
            )
        if not has_column:
            continue
        if key not in header:
            add = f"add '# {key} = {example}' or remove {_LIGHT}"
            raise source.error(f"column {_LIGHT!r} stands without the header key {key!r}; {add}", number)
        line, text = header[key]
        value = _light_value(source, line, key, text)
        if value == 0:
            raise source.error(f"{key} is 0; it is more than that, as {example}", line)
        values.append(value)
    return (values[0], values[1]) if values else (None, None)


def _light_value(source: TraceSource, line: int, key: str, text: str) -> int:
    def line_of(_: int) -> int:
        return line

    if key == "light_bytes":
        return int(integers(source, [text], line_of, key, most=MAX_LIGHT_BYTES)[0])
    return int(decimals(source, [text], line_of, key, digits=_DIGITS, most=MAX_NS)[0])


def _read_period(source: TraceSource, line: int, text: str, key: str) -> int:
    def line_of(_: int) -> int:
        return line

    if key == "packets":
        period = int(integers(source, [text], line_of, key, most=MAX_PACKETS)[0])
    else:
        period = int(decimals(source, [text], line_of, key, digits=_DIGITS, most=MAX_NS)[0])
    if period == 0:
        raise source.error(f"{key} is 0; a pattern lasts longer than that", line)
    return period


_PERIODS = {"duration_s": "40", "packets": "1000"}


def _check_order(
    source: TraceSource, kind: Kind, first: str, index: NDArray[np.int64], period: int, number: int
) -> None:
    strict = kind != "opportunities"
    digits = 0 if kind == "packets" else _DIGITS

    def say(position: int) -> str:
        return format_scaled(int(index[position]), digits)

    if strict and index[0] != 0:
        raise source.error(f"{first} of the first row is {say(0)}; it must be 0", number + 1)
    steps = index[1:] - index[:-1]
    bad = (steps <= 0) if strict else (steps < 0)
    if bad.any():
        position = int(bad.argmax()) + 1
        rule = "must be greater than" if strict else "must not be less than"
        raise source.error(
            f"{first} {say(position)} {rule} {say(position - 1)}, that of the row before; put the rows in order",
            number + 1 + position,
        )
    beyond = (index >= period) if strict else (index > period)
    if beyond.any():
        position = int(beyond.argmax())
        rule = "less than" if strict else "at most"
        end = format_scaled(period, digits)
        raise source.error(
            f"{first} {say(position)} is past the end; it must be {rule} the period {end}", number + 1 + position
        )


def write(pattern: Pattern, options: WriteOptions) -> str:  # noqa: ARG001
    """Write a pattern; nothing is lost."""
    return "".join(parts(pattern))


def parts(pattern: Pattern) -> Iterator[str]:
    """Yield the text of a pattern in parts, so that only one of them need be in memory.

    Raises
    ------
    UserError
        If a header line cannot be written.
    """
    _, period_key, first, allowed = KINDS[pattern.kind]
    digits = 0 if pattern.kind == "packets" else _DIGITS
    out = [MAGIC, f"# kind = {pattern.kind}", f"# {period_key} = {format_scaled(pattern.period, digits)}"]
    if pattern.light_bytes is not None and pattern.light_idle_ns is not None:
        out.append(f"# light_bytes = {pattern.light_bytes}")
        out.append(f"# light_idle_s = {format_scaled(pattern.light_idle_ns, _DIGITS)}")
    for key, value in pattern.header:
        plain = all(text == text.strip() and "\n" not in text and "\r" not in text for text in (key, value))
        if not key or "=" in key or not plain:
            raise UserError(f"header {key!r} cannot be written: key and value are one line, and a key has no '='")
        out.append(f"# {key} = {value}")
    columns = {name: column for name, column in _columns(pattern) if column is not None}
    names = [name for name in allowed if name in columns]
    out.append(",".join([first, *names]))
    yield "\n".join(out) + "\n"
    for start in range(0, len(pattern), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        texts = [_texts(first, pattern.index[rows]), *(_texts(name, columns[name][rows]) for name in names)]
        yield "\n".join(map(",".join, zip(*texts, strict=True))) + "\n"


def _columns(pattern: Pattern) -> tuple[tuple[str, Column | None], ...]:
    return (
        ("rate_bps", pattern.rate_bps),
        ("delay_s", pattern.delay_ns),
        ("loss", pattern.loss),
        ("bler", pattern.bler),
        ("sinr_db", pattern.sinr_mdb),
        ("need_db", pattern.need_mdb),
        ("state", pattern.state),
        ("cell", pattern.cell),
        ("fallback_rate_bps", pattern.fallback_rate_bps),
        ("fallback_sinr_db", pattern.fallback_sinr_mdb),
        ("fallback_need_db", pattern.fallback_need_mdb),
        (_LIGHT, pattern.light_rate_bps),
        ("bytes", pattern.size_bytes),
    )


def _texts(name: str, values: Column) -> list[str]:
    """Return the text of each value; one that occurs often, as rates and needs do, is written once."""
    _, first, places = np.unique(values, return_index=True, return_inverse=True)
    if len(first) > len(values) / 2:
        return _written(name, values)
    texts = _written(name, values[first])
    return [texts[place] for place in places.tolist()]


def _written(name: str, values: Column) -> list[str]:
    match name:
        case "time_s" | "delay_s":
            return [format_scaled(value, _DIGITS) for value in values.tolist()]
        case "loss" | "bler":
            return [format_probability(value) for value in values.tolist()]
        case _ if name in _DECIBELS:
            return [format_scaled(value, _DECIBEL_DIGITS) for value in values.tolist()]
        case "state":
            return [STATES[code] for code in values.tolist()]
        case _:
            return list(map(str, values.tolist()))


FORMAT = TraceFormat(
    name="native",
    title="wavebed's own pattern format, which the link engine reads",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".csv", ".pattern"),
)
