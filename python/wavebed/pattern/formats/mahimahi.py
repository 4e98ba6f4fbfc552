"""mahimahi: one whole millisecond per line, each an opportunity for 1500 bytes; the last line is the period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions
from wavebed.pattern.formats.deliveries import looks_like_deliveries, read_deliveries, write_deliveries

if TYPE_CHECKING:
    from wavebed.pattern.model import Pattern
    from wavebed.pattern.source import Source

__all__ = ["FORMAT"]

PACKET_BYTES = 1500


def read(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read a mahimahi trace; opportunities of one millisecond become one row."""
    return read_deliveries(source, PACKET_BYTES)


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write a mahimahi trace."""
    return write_deliveries(pattern, options, PACKET_BYTES)


FORMAT = Format(
    name="mahimahi",
    title="mahimahi: one whole millisecond per line, 1500 bytes each",
    sniff=looks_like_deliveries,
    read=read,
    write=write,
    suffixes=(".up", ".down", ".mahimahi", ".mahi"),
)
