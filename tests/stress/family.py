"""The command line of wavebed, and the engine of the laboratory that it runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.stress.remains import family, subtree

__all__ = ["WAVEBED", "engine_of"]

WAVEBED = (sys.executable, "-m", "wavebed")
"""The command line, by the interpreter that runs the experiment."""
ENGINE_THREAD = "links"
"""The engine is the process with a thread of this name (`engine.rs` in wavebed-path)."""


def engine_of(root: int, *, within_s: float = 60.0) -> int:
    """Return the number of the engine of the laboratory that `root` runs, once it moves packets.

    Raises
    ------
    TimeoutError
        If there is none after `within_s` seconds.
    """
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for pid in subtree(family(), root):
            if any(_name(thread) == ENGINE_THREAD for thread in Path(f"/proc/{pid}/task").glob("*")):
                return pid
        time.sleep(0.02)
    raise TimeoutError(f"no engine among the processes that come from {root} after {within_s:g} s")


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
