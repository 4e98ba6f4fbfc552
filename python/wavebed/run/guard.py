"""Leave no half-written trial behind, however this process ends: even by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from wavebed.result.names import TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["guarded"]

# It waits until its standard input ends, which the end of this process brings about in any case. The laboratory ends
# for the same reason, and may still write for a moment.
_SCRIPT = """trap "" INT TERM HUP
cat >/dev/null
for again in 1 2 3 4 5; do
    rm -rf -- "$1"/.*.partial && break
    sleep 0.2
done"""


@contextlib.contextmanager
def guarded(run_folder: Path) -> Iterator[None]:
    """Remove the partial trials of `run_folder` when the block is left or the process ends."""
    watched, end = os.pipe2(os.O_CLOEXEC)
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str((run_folder / TRIALS_FOLDER).absolute())],
            stdin=watched,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(watched)
    try:
        yield
    finally:
        os.close(end)
        guard.wait()
