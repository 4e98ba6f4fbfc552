"""The processes of a sandbox, and what is left when they have ended."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable

__all__ = ["Process", "State", "end_all", "ended", "family", "gone_within_s", "settled", "subtree", "wait_until"]

LOOK_EVERY_S = 0.01
TEMPORARY = tuple(folder for folder in ("/tmp", "/var/tmp", "/dev/shm") if Path(folder).is_dir())
ABSENT = "(absent)"
VOLATILE = ("count", "flush", "entries", "stat", "random", "uuid")
"""Parts of names of settings whose values change by themselves."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this sandbox."""

    pid: int
    parent: int
    state: str
    began: int
    depth: int
    """In how many PID namespaces below the sandbox's it is."""
    number: int
    """What the innermost of them calls it."""
    program: str
    arguments: tuple[str, ...]

    @property
    def role(self) -> str:
        """What it is to a laboratory."""
        if self.program == "wavebed-core" and "lab" in self.arguments[:2]:
            return "core" if self.depth == 0 else "init" if self.number == 1 else "engine"
        kind = next((each.partition("=")[2] for each in self.arguments if each.startswith("--type=")), "")
        return f"{self.program} {kind}".strip()


def gone_within_s() -> float:
    """Return the time in which all is gone after a kill or a second signal; tests on a busy machine allow more."""
    return float(os.environ.get("WAVEBED_STRESS_GONE_WITHIN_S", "3"))


def process(pid: int) -> Process | None:
    """Return what is known of a process; nothing if it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        text = (folder / "stat").read_text()
        fields = text.rpartition(")")[2].split()
        status = (folder / "status").read_text()
        arguments = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except (OSError, ValueError):
        return None
    numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    if len(arguments) == 1:
        arguments = arguments[0].split(" ")  # as Chromium's zygote writes those of its children
    program = text.partition("(")[2].rpartition(")")[0]
    if arguments and (named := arguments[0].rpartition("/")[2]).startswith(program):
        program = named.partition(" ")[0]
    return Process(
        pid, int(fields[1]), fields[0], int(fields[19]), len(numbers) - 1, int(numbers[-1]), program, tuple(arguments)
    )


def _numbers() -> list[int]:
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and entry.name != str(os.getpid())
    ]


def family() -> list[Process]:
    """Return all processes of this sandbox but this one; those that have ended and are this one's are reaped."""
    found = []
    for pid in _numbers():
        each = process(pid)
        if each is not None and not (each.state == "Z" and each.parent == os.getpid()):
            found.append(each)
    return found


def reap(front: int) -> None:
    """Take the status of processes that lost their parents; `front` is somebody else's to wait for."""
    for pid in _numbers():
        if pid != front:
            each = process(pid)
            if each is not None and each.state == "Z" and each.parent == os.getpid():
                os.waitpid(each.pid, os.WNOHANG)


def ended(front: subprocess.Popen[bytes]) -> bool:
    """Return whether a process that was started here has ended."""
    reap(front.pid)
    return front.poll() is not None


def subtree(processes: Iterable[Process], root: int) -> set[int]:
    """Return the numbers of a process and everything below it."""
    known = list(processes)
    found = {root}
    while more := {each.pid for each in known if each.parent in found} - found:
        found |= more
    return found


def wait_until(holds: Callable[[], bool], within_s: float, every_s: float = LOOK_EVERY_S) -> float | None:
    """Return the seconds after which something held; ``None`` if it did not in time."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > within_s:
            return None
        time.sleep(every_s)
    return time.monotonic() - began


@dataclass(frozen=True)
class State:
    """What an experiment may leave behind, besides processes."""

    interfaces: frozenset[str]
    mounts: frozenset[str]
    sockets: frozenset[str]
    files: frozenset[str]
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def now(cls, *, settings: bool = True) -> State:
        """Look at this sandbox; its settings are many, and looked at if asked for."""
        sockets = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "@" in line}
        files = {str(file) for folder in TEMPORARY for file in Path(folder).iterdir()}
        return cls(
            interfaces=_interfaces(),
            mounts=frozenset(line.split(" ", 6)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
            sockets=frozenset(sockets),
            files=frozenset(files),
            settings=tuple(_settings()) if settings else (),
        )

    def beyond(self, before: State) -> list[str]:
        """Return what is there now and was not before, or has changed."""
        found = [f"interface {name}" for name in sorted(self.interfaces ^ before.interfaces)]
        found += [f"mount {place}" for place in sorted(self.mounts ^ before.mounts)]
        found += [f"socket {name}" for name in sorted(self.sockets - before.sockets)]
        found += [f"file {name}" for name in sorted(self.files - before.files)]
        if self.settings and before.settings:
            old, new = dict(before.settings), dict(self.settings)
            changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
            found += [f"sysctl {key}: {old.get(key, ABSENT)} → {new.get(key, ABSENT)}" for key in changed]
        return found


def _interfaces() -> frozenset[str]:
    rows = Path("/proc/net/dev").read_text().splitlines()[2:]
    return frozenset(row.partition(":")[0].strip() for row in rows)


def _settings() -> Iterable[tuple[str, str]]:
    for folder, _, names in os.walk("/proc/sys/net"):
        for name in names:
            if any(part in name for part in VOLATILE):
                continue
            file = Path(folder, name)
            with suppress(OSError):
                yield str(file), file.read_bytes().decode(errors="replace").strip()


def settled(before: State, front: int, within_s: float) -> tuple[float | None, list[str]]:
    """Wait until every process has ended and nothing else is left; return how long it took, and what is left."""

    def gone() -> bool:
        reap(front)
        return not family() and not State.now(settings=False).beyond(before)

    took_s = wait_until(gone, within_s)
    left = [f"process {each.role} ({each.pid})" for each in family()]
    return took_s, left + State.now().beyond(before)


def end_all() -> None:
    """End what is left of the processes of this sandbox."""
    while remaining := family():
        for each in remaining:
            kill(each)
        time.sleep(LOOK_EVERY_S)


def kill(each: Process) -> bool:
    """Send SIGKILL, and return whether the process was still there."""
    try:
        os.kill(each.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
