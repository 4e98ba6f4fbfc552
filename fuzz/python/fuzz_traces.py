"""Every trace reader on arbitrary text: a pattern that comes back as written, or one line, never anything else."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["wavebed"]):
    from wavebed.errors import UserError
    from wavebed.pattern import FORMATS, read_source, render, to_native
    from wavebed.pattern.formats.base import ReadOptions
    from wavebed.pattern.source import Source

NAMES = [None, *FORMATS]


def test_one_input(data: bytes) -> None:
    if not data:
        return
    name = NAMES[data[0] % len(NAMES)]
    text = data[1:].decode("utf-8", "replace")
    options = ReadOptions(columns=("time=t:s", "rate=r:mbit")) if name == "table" else ReadOptions()
    try:
        pattern = read_source(Source("fuzzed", text), name, options)
    except UserError as error:
        assert "\n" not in str(error).strip(), "one line"
        return
    again = read_source(Source("native", to_native(pattern)), "native")
    assert again.same_series(pattern), "the native format keeps the pattern"


def write_seeds(folder: Path) -> None:
    """Write one small valid file of every format that can be written, with the byte that chooses it in front."""
    pattern = read_source(
        Source(
            "seed",
            "# wavebed pattern 1\n# kind = steps\n# duration_s = 3\n# light_bytes = 9\n# light_idle_s = 0.5\n"
            "time_s,rate_bps,sinr_db,need_db,fallback_rate_bps,light_rate_bps\n"
            "0,12000000,12.5,10,500,7\n1,24000000,-2.5,-0.125,0,0\n",
        )
    )
    for index, name in enumerate(NAMES):
        try:
            text = render(pattern, name or "native")
        except UserError:
            continue
        (folder / f"{name}").write_bytes(bytes([index]) + text.encode())


if __name__ == "__main__":
    seeds = Path(tempfile.mkdtemp(prefix="wavebed-seeds-"))
    write_seeds(seeds)
    sys.argv.append(str(seeds))
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
