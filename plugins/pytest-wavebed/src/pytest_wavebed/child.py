"""A process on a host that calls a function of a test: ``python -m pytest_wavebed.child JOB ANSWER``."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from wavebed.lab.tools import function_at


def main() -> int:
    """Call the function of the job, write what it returned or raised, and return the exit status."""
    job, answer = map(Path, sys.argv[1:3])
    place, path, packed = pickle.loads(job.read_bytes())  # noqa: S301 - written by the test
    sys.path[:] = path
    error, value = None, None
    try:
        function = function_at(place)
        value = function(*pickle.loads(packed))  # noqa: S301 - written by the test
    except BaseException as raised:  # noqa: BLE001 - it is raised again in the test
        raised.__traceback__, error = None, raised
    whole = _packed(error, value)
    partial = answer.with_suffix(".partial")
    partial.write_bytes(whole)
    partial.rename(answer)
    return 0 if error is None else 1


def _packed(error: BaseException | None, value: object) -> bytes:
    try:
        whole = pickle.dumps((error, value))
        pickle.loads(whole)  # noqa: S301 - ours; some errors can be written and not be read
    except Exception as problem:  # noqa: BLE001 - classes of the test may do anything
        said = f"cannot be sent back: {problem}" if error is None else f"{type(error).__name__}: {error}"
        told = RuntimeError(said)
        return pickle.dumps((told, None))
    return whole


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that the function left do not hold the process
