"""The processes of a laboratory, found from outside by their parents and threads."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path

__all__ = ["WAVEBED", "descendants", "engine_of"]

WAVEBED = (sys.executable, "-m", "wavebed")
"""The command line, by the interpreter that runs the experiment."""
ENGINE_THREAD = "links"
"""The engine is the process with a thread of this name (`engine.rs` in wavebed-path)."""


def descendants(root: int) -> list[int]:
    """Return the numbers of the process `root` and of all that come from it, parents first."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            # The name, in brackets, may hold anything; the parent is the second value behind it.
            children[int(stat.rpartition(")")[2].split()[1])].append(int(folder.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def engine_of(root: int, *, within_s: float = 20.0) -> int:
    """Return the number of the engine of the laboratory that `root` runs, once it moves packets.

    Raises
    ------
    TimeoutError
        If there is none after `within_s` seconds.
    """
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for pid in descendants(root):
            if any(_name(thread) == ENGINE_THREAD for thread in Path(f"/proc/{pid}/task").glob("*")):
                return pid
        time.sleep(0.02)
    raise TimeoutError(f"no engine among the processes that come from {root} after {within_s:g} s")


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
