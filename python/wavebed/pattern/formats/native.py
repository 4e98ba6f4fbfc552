"""The native pattern format, ``docs/reference/pattern-format.md``; the link engine reads no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions
from wavebed.pattern.model import MAX_NS, MAX_OPPORTUNITY_BYTES, MAX_PACKETS, MAX_RATE_BPS, STATES, Pattern
from wavebed.pattern.numbers import (
    decimals,
    format_scaled,
    format_share,
    integers,
    joined,
    shares,
    split_columns,
    words,
)
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wavebed.pattern.model import Column, Kind
    from wavebed.pattern.numbers import LineOf
    from wavebed.pattern.source import Source

__all__ = ["FORMAT"]

MAGIC = "# wavebed pattern 1"
MAX_HEADER_LINES = 10_000
_DIGITS = 9

KINDS: dict[str, tuple[Kind, str, str, tuple[str, ...]]] = {
    "steps": ("steps", "duration_s", "time_s", ("rate_bps", "delay_s", "loss", "bler", "state")),
    "opportunities": ("opportunities", "duration_s", "time_s", ("bytes",)),
    "packets": ("packets", "packets", "packet", ("loss", "delay_s")),
}


def sniff(source: Source) -> bool:
    """Recognise the first words of the first line."""
    return bool(source.head) and source.head[0].startswith("# wavebed pattern")


def _read_header(source: Source) -> tuple[dict[str, tuple[int, str]], int, str]:
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


def _required(source: Source, header: dict[str, tuple[int, str]], key: str, example: str) -> tuple[int, str]:
    if key not in header:
        raise source.error(f"has no header key {key!r}; add a line '# {key} = {example}' after the first")
    return header[key]


def _read_columns(source: Source, number: int, line: str, kind: str) -> list[str]:
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
    if "bler" in names and "rate_bps" not in names:
        raise source.error("column 'bler' stands without rate_bps; add rate_bps or remove bler", number)
    return names


def _cells(source: Source, number: int, rows: list[str], width: int) -> list[list[str]]:
    """Return the columns of rows of which the first is line `number`."""
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


def _values(source: Source, name: str, texts: list[str], line_of: LineOf) -> Column:
    """Read some values of a column."""
    match name:
        case "time_s" | "delay_s":
            return decimals(source, texts, line_of, name, digits=_DIGITS, most=MAX_NS)
        case "loss" | "bler":
            return shares(source, texts, line_of, name)
        case "state":
            return words(source, texts, line_of, name, STATES)
        case _:
            return integers(source, texts, line_of, name, most=_MOST[name])


_MOST = {"packet": MAX_PACKETS, "bytes": MAX_OPPORTUNITY_BYTES, "rate_bps": MAX_RATE_BPS}


def read(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
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
    parts: dict[str, list[Column]] = {name: [] for name in names}
    for begin, rows in source.blocks(number + 1):
        for name, texts in zip(names, _cells(source, begin, rows, len(names)), strict=True):
            parts[name].append(_values(source, name, texts, lambda position, begin=begin: begin + position))
    if not parts[first]:
        raise source.error("has no rows; a pattern has at least one", number)
    index = joined(parts[first])
    _check_order(source, kind_name, first, index, period, number)
    columns = {name: joined(parts[name]) for name in names[1:]}
    size = columns.get("bytes")
    if size is not None and (size == 0).any():
        position = int((size == 0).argmax())
        raise source.error(
            "bytes is 0; an opportunity has at least 1 byte, or leave it out", number + 1 + position
        )
    return Pattern(
        kind_name,
        index,
        period,
        rate_bps=columns.get("rate_bps"),
        delay_ns=columns.get("delay_s"),
        loss=columns.get("loss"),
        bler=columns.get("bler"),
        state=columns.get("state"),
        size_bytes=size,
        header=tuple((key, value) for key, (_, value) in header.items() if key not in {"kind", period_key}),
    )


def _read_period(source: Source, line: int, text: str, key: str) -> int:
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


def _check_order(source: Source, kind: Kind, first: str, index: NDArray[np.int64], period: int, number: int) -> None:
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
    _, period_key, first, allowed = KINDS[pattern.kind]
    digits = 0 if pattern.kind == "packets" else _DIGITS
    out = [MAGIC, f"# kind = {pattern.kind}", f"# {period_key} = {format_scaled(pattern.period, digits)}"]
    for key, value in pattern.header:
        plain = all(text == text.strip() and "\n" not in text and "\r" not in text for text in (key, value))
        if not key or "=" in key or not plain:
            raise UserError(f"header {key!r} cannot be written: key and value are one line, and a key has no '='")
        out.append(f"# {key} = {value}")
    texts: dict[str, list[str]] = {
        first: [format_scaled(value, digits) for value in pattern.index.tolist()]
        if digits
        else list(map(str, pattern.index.tolist()))
    }
    if pattern.rate_bps is not None:
        texts["rate_bps"] = list(map(str, pattern.rate_bps.tolist()))
    if pattern.delay_ns is not None:
        texts["delay_s"] = [format_scaled(value, _DIGITS) for value in pattern.delay_ns.tolist()]
    if pattern.loss is not None:
        texts["loss"] = [format_share(value) for value in pattern.loss.tolist()]
    if pattern.bler is not None:
        texts["bler"] = [format_share(value) for value in pattern.bler.tolist()]
    if pattern.state is not None:
        texts["state"] = [STATES[code] for code in pattern.state.tolist()]
    if pattern.size_bytes is not None:
        texts["bytes"] = list(map(str, pattern.size_bytes.tolist()))
    names = [first, *(name for name in allowed if name in texts)]
    out.append(",".join(names))
    out.extend(map(",".join, zip(*(texts[name] for name in names), strict=True)))
    return "\n".join(out) + "\n"


FORMAT = Format(
    name="native",
    title="wavebed's own pattern format, which the link engine reads",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".csv", ".pattern"),
)
