"""Leave no half-written trial behind, however this process ends: even by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from wavebed.experiment.disk import held, remove_leftovers
from wavebed.result.names import PARTIAL, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["guarded"]

# It waits until its standard input ends, which the end of this process brings about in any case. The laboratory ends
# for the same reason, and may still write for a moment. Its second argument is the run's own mark: it removes nothing
# of another run in the same folder. It reads by itself: a program that did could be killed alone.
_SCRIPT = f"""trap "" INT TERM HUP
while read -r _; do :; done
for again in 1 2 3 4 5; do
    rm -rf -- "$1"/.*."$2"{PARTIAL} && break
    sleep 0.2
done"""


@contextlib.contextmanager
def guarded(run_folder: Path, mark: str) -> Iterator[None]:
    """Remove the partial trials of the run `mark` when the block is left or the process ends.

    Those that a killed run and its killed guard left in the folder are removed at once. While the block runs, the lock
    of the folder is held, by which others see that the partial trials have a maker.

    Parameters
    ----------
    mark : str
        Part of the name of every partial trial of this run, and of no other's (`wavebed.experiment.store.new_partial`).
    """
    remove_leftovers(run_folder)
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
        with held(run_folder):
            yield
    finally:
        os.close(end)
        guard.wait()
