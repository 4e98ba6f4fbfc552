"""A sandbox for an experiment: its own processes, network, mounts and temporary folders; it ends as a whole.

What an experiment starts is alone in there, so that whatever is left of it can be found by looking, and other work of
the machine neither disturbs nor is disturbed.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.stress.family import WAVEBED
from tests.stress.remains import TEMPORARY

import wavebed

__all__ = ["FAILED", "WORK", "Inside", "inside", "run_all", "start", "wavebed_command"]

WORK = Path("/tmp/experiment")
"""Where the programs in a sandbox work: in its own /tmp."""

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(wavebed.__file__).resolve().parents[1]
FAILED = "the sandbox failed"
UNSHARE = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
"""It ends with whoever made it, and everything inside with it."""


class Inside:
    """A function that runs in a sandbox of its own."""

    def __init__(self, function: str, given: dict[str, Any]) -> None:
        self.function = function
        self._answer = os.fdopen(os.memfd_create("answer"), "rb")
        variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE), str(ROOT)])}
        self._process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-m", __name__, function, str(self._answer.fileno())],
            stdin=subprocess.PIPE,
            env=variables,
            pass_fds=[self._answer.fileno()],
            cwd="/",
        )
        assert self._process.stdin is not None, "it was asked for"
        with self._process.stdin as stream:
            stream.write(json.dumps(given).encode())

    def result(self, timeout_s: float) -> Any:
        """Return what the function returned.

        Raises
        ------
        RuntimeError
            If it failed or took too long; nothing of it is left then.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{FAILED}: {self.function} took more than {timeout_s:g} s") from None
        finally:
            self.end()
        with self._answer as memory:
            memory.seek(0)
            answer = memory.read()
        if not answer:
            raise RuntimeError(f"{FAILED}: {self.function} ended with {self._process.returncode}")
        return json.loads(answer)

    def end(self) -> None:
        """End it, and everything inside."""
        self._process.kill()
        self._process.wait()


def start(function: str, **given: Any) -> Inside:
    """Call a function (``module:name``) in a new sandbox, with values that JSON can carry; return at once."""
    return Inside(function, given)


def inside(function: str, *, timeout_s: float, **given: Any) -> Any:
    """Call a function in a new sandbox and return what it returns."""
    return start(function, **given).result(timeout_s)


def run_all(function: str, each: list[dict[str, Any]], *, timeout_s: float) -> list[Any]:
    """Call a function once for each set of values, in sandboxes side by side; return the results in this order."""
    begun = [start(function, **given) for given in each]
    try:
        return [one.result(timeout_s) for one in begun]
    finally:
        for one in begun:
            one.end()


def wavebed_command(*arguments: str) -> list[str]:
    """Return the command line of ``wavebed`` with these arguments."""
    return [*WAVEBED, *arguments]


def furnish() -> None:
    """Make this sandbox's temporary folders and loopback; what is needed of the ones behind them stays in its place."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    needed = {str(ROOT), str(PACKAGE), sys.prefix, str(Path(os.environ.get("WAVEBED_CORE", "/")).parent)}
    kept = [
        (path, os.open(path, os.O_PATH))
        for path in sorted(needed)
        if any(Path(path).is_relative_to(folder) for folder in TEMPORARY)
    ]
    for folder in TEMPORARY:
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder)
    for path, descriptor in kept:
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("--no-canonicalize", "--bind", f"/proc/self/fd/{descriptor}", path, descriptor=descriptor)
        os.close(descriptor)
    os.environ.update({"TMPDIR": "/tmp", "HOME": "/tmp/home", "WAVEBED_CACHE": "/tmp/cache"})
    for name in ("home", "cache", WORK.name):
        Path("/tmp", name).mkdir()
    os.chdir(WORK)


def mount(*arguments: str, descriptor: int | None = None) -> None:
    """Mount something, in this sandbox alone."""
    passed = () if descriptor is None else (descriptor,)
    subprocess.run(["mount", *arguments], check=True, timeout=60, pass_fds=passed)


def main() -> None:
    """Be the first process of a sandbox: furnish it, call the function, write what it returned."""
    function, descriptor = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    given = json.load(sys.stdin)
    sys.stdin.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    furnish()
    module, _, name = function.partition(":")
    result = getattr(importlib.import_module(module), name)(**given)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(json.dumps(result).encode())


if __name__ == "__main__":
    main()
