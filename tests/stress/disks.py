"""A full disk below every output: one line, an exit status that says so, nothing half-written, the old file intact."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stress.figure import Figure, of_all
from tests.stress.pages import make_run
from tests.stress.sandbox import WORK, inside, mount, wavebed_command

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CASES", "measure"]

SIZE = "400k"
DISK = WORK / "disk"
OLD = "what was there before\n"
WITHIN_S = 120
FAILED = (1, 2, 3)
SAID = "no space left"
_PATTERN_HEAD = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60\ntime_s,rate_bps\n"
_SHELL = ("shell", "--rate", "50mbit")
_PING = ("--", "ping", "-q", "-s", "1400", "-i", "0.01", "-c", "60", "server")
_SECURE = '[path]\n[[workload]]\nkind = "download"\nsize = "10kb"\nprotocol = "h2"\n'
_TWICE = '[path]\n[[workload]]\nkind = "bulk"\nduration = "1s"\n'


@dataclass(frozen=True)
class Case:
    """An output on a full disk.

    Parameters
    ----------
    name : str
        The option.
    argv : tuple of str
        What is run; ``@`` stands for the disk.
    old : str
        A file that was there before.
    spare_bytes : int
        What the disk has left when it begins.
    statuses : tuple of int
        The exit statuses that are right.
    cache : bool
        Whether the cache is on the disk.
    """

    name: str
    argv: tuple[str, ...]
    old: str = ""
    spare_bytes: int = 0
    statuses: Sequence[int] = FAILED
    cache: bool = False


CASES: Sequence[Case] = (
    Case("run -o", ("run", "twice.toml", "-o", "@/out", "--trials", "20"), spare_bytes=150_000),
    Case("shell --summary", (*_SHELL, "--summary", "@/s.json", *_PING), "s.json"),
    Case("shell --log", (*_SHELL, "--log", "@", *_PING)),
    # A capture that is not whole is a doubt of the laboratory: the command's status stays.
    Case("shell --pcap", (*_SHELL, "--pcap", "@", *_PING), statuses=(0,)),
    Case("report -o", ("report", "run", "-o", "@/page.html"), "page.html"),
    Case("trace convert -o", ("trace", "convert", "trace.csv", "-o", "@/pattern.csv"), "pattern.csv"),
    Case("the cache", ("run", "secure.toml", "-o", "secure"), cache=True),
    Case(
        "forward -o", ("forward", "--sizes", "64", "--tests", "overload", "--quick", "-o", "@/out"), spare_bytes=20_000
    ),
)


def measure(count: int = len(CASES)) -> list[Figure]:
    """Fill the disk below the first `count` outputs."""
    told = inside("tests.stress.disks:fill_each", count=count, timeout_s=60 + count * WITHIN_S)
    cases = [(f"{name}: {problem}", not problem) for name, problem in told]
    return [of_all("a full disk: one line, nothing half-written", cases, what="outputs")]


def fill_each(count: int) -> list[tuple[str, str]]:
    """Make cases one after another, in a sandbox; return what was wrong with each."""
    make_run()
    steps = "".join(f"{number / 1000:.3f},{1_000_000 + number}\n" for number in range(40_000))
    Path("trace.csv").write_text(_PATTERN_HEAD + steps)
    Path("secure.toml").write_text(_SECURE)
    Path("twice.toml").write_text(_TWICE)
    return [(case.name, _fill(case)) for case in CASES[:count]]


def _fill(case: Case) -> str:
    DISK.mkdir()
    mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(DISK))
    if case.old:
        (DISK / case.old).write_text(OLD)
    _fill_up(case.spare_bytes)
    argv = wavebed_command(*(word.replace("@", str(DISK)) for word in case.argv))
    variables = os.environ | ({"WAVEBED_CACHE": str(DISK / "cache")} if case.cache else {})
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=variables)
    except subprocess.TimeoutExpired:
        return f"takes more than {WITHIN_S} s"
    problem = ", ".join([*_judged(case, done), *_half_written(case)])
    subprocess.run(["umount", str(DISK)], check=True, timeout=10)
    DISK.rmdir()
    shutil.rmtree("secure", ignore_errors=True)
    return problem


def _fill_up(spare_bytes: int) -> None:
    """Fill the disk but for so many bytes."""
    with (DISK / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)):
                pass
        except OSError:
            filler.truncate(max(filler.tell() - spare_bytes, 0))


def _judged(case: Case, done: subprocess.CompletedProcess[str]) -> list[str]:
    lines = [line for line in done.stderr.splitlines() if SAID in line.lower()]
    errors = [line for line in lines if line.startswith("wavebed")]
    found = [] if done.returncode in case.statuses else [f"status {done.returncode}"]
    if not lines or len(errors) > 1 or (done.returncode and not errors):
        found.append(f"said {done.stderr[-300:]!r}")
    if "Traceback" in done.stderr or "panicked" in done.stderr:
        found.append("a traceback")
    return found


def _half_written(case: Case) -> list[str]:
    found = []
    if case.old and (DISK / case.old).read_text() != OLD:
        found.append(f"{case.old} has changed")
    for path in DISK.rglob("*"):
        if path.name.startswith(".") or path.name.endswith((".part", ".partial")):
            found.append(f"{path.name} is left")
        elif path.suffix == ".json" and path.name != case.old:
            try:
                json.loads(path.read_text())
            except ValueError:
                found.append(f"{path.name} is half-written")
        elif path.is_file() and path.suffix in (".pem", ".html") and path.name != case.old and not path.stat().st_size:
            found.append(f"{path.name} is empty")
    return found
