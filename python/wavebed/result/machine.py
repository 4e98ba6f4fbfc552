"""Versions of programs, and the machine, for the record of a run."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed import __version__
from wavebed.lab.tools import missing, version

if TYPE_CHECKING:
    from collections.abc import Iterable


def versions(programs: Iterable[str]) -> dict[str, str]:
    """Return the versions of wavebed, the kernel, Python and the installed ones of these programs."""
    names = sorted(set(programs))
    absent = set(missing(names))
    found = {"wavebed": __version__, "kernel": platform.release(), "python": platform.python_version()}
    return found | {name: version(name) for name in names if name not in absent}


def machine() -> dict[str, str]:
    """Return processor, cores and memory of this machine."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_bytes / 2**30:.1f} GiB",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
