"""Every trace reader on arbitrary text: a pattern that comes back as written, or one line, never anything else.

The first line of an input is the name of its format; any other name leaves the choice to the reader.
"""

from __future__ import annotations

from wavebed.errors import UserError
from wavebed.pattern import FORMATS, read_source, to_native
from wavebed.pattern.formats.base import ReadOptions
from wavebed.pattern.source import TraceSource


def test_one_input(data: bytes) -> None:
    first, _, text = data.decode("utf-8", "replace").partition("\n")
    name = first if first in FORMATS else None
    options = ReadOptions(columns=("time=t:s", "rate=r:mbit")) if name == "table" else ReadOptions()
    try:
        pattern = read_source(TraceSource("fuzzed", text), name, options)
    except UserError as error:
        assert "\n" not in str(error).strip(), "one line"
        return
    again = read_source(TraceSource("native", to_native(pattern)), "native")
    assert again.same_series(pattern), "the native format keeps the pattern"
