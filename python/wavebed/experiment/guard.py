"""Remove half-written trials when this process ends, even by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from wavebed.experiment.disk import remove_leftovers
from wavebed.result.names import PARTIAL, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["guarded"]

# The shell waits for the end of its standard input, which comes with any end of this process. The laboratory ends at
# the same time and may still write for a moment. The second argument, the run's mark, protects other runs in the same
# folder. The shell reads by itself: a separate reader could be killed alone.
_SCRIPT = f"""trap "" INT TERM HUP
while read -r _; do :; done
for again in 1 2 3 4 5; do
    rm -rf -- "$1"/.*."$2"{PARTIAL} && break
    sleep 0.2
done"""


@contextlib.contextmanager
def guarded(run_folder: Path, mark: str) -> Iterator[None]:
    """Remove the partial trials of the run `mark` at the end of the block or of the process.

    The caller has claimed the folder (`wavebed.experiment.disk.claimed`), so leftovers of a killed run and its killed
    guard are removed at once.

    Parameters
    ----------
    mark : str
        Unique part of the names of this run's partial trials (`wavebed.experiment.store.new_partial`).
    """
    remove_leftovers(run_folder, ours=True)
    watched, end = os.pipe2(os.O_CLOEXEC)
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str((run_folder / TRIALS_FOLDER).absolute()), mark],
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
        if guard.wait():  # it was killed
            remove_leftovers(run_folder, ours=True)
