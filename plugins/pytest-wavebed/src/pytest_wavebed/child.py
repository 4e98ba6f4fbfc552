"""A process on a host that calls a function of a test: ``python -m pytest_wavebed.child JOB ANSWER``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def main() -> int:
    """Call the function of the job, write what it returned or raised, and return the exit status."""
    job, answer = map(Path, sys.argv[1:3])
    (name, file, function), path, packed = pickle.loads(job.read_bytes())  # noqa: S301 - written by the test
    sys.path[:] = path
    found: object = _module(name, file)
    error, value = None, None
    try:
        for part in function.split("."):
            found = getattr(found, part)
        value = found(*pickle.loads(packed))  # type: ignore[operator] # noqa: S301 - written by the test
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


def _module(name: str, file: str) -> ModuleType:
    """Import a module by its name or, as pytest does with test files, by its file."""
    try:
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    except ModuleNotFoundError:
        pass  # a folder above it is no package
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a module of Python"
    assert spec.loader is not None, "a module of Python"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that the function left do not hold the process
