"""Patterns: the time series that drive a link, and the trace formats they come from."""

from wavebed.pattern.formats import FORMATS, read_source, read_trace, render, to_native, write_trace
from wavebed.pattern.formats.base import ReadOptions, WriteOptions
from wavebed.pattern.model import Pattern
from wavebed.pattern.source import TraceSource

__all__ = [
    "FORMATS",
    "Pattern",
    "ReadOptions",
    "TraceSource",
    "WriteOptions",
    "read_source",
    "read_trace",
    "render",
    "to_native",
    "write_trace",
]
