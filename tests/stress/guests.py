"""Kills of a guest of virtual time, of its owner and of a process in it, at random moments: nothing may be left."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stress.figure import Figure, of_all
from tests.stress.remains import gone_within_s

from wavebed.lab.tools import cache_folder
from wavebed.virtual.guest import guest_folder
from wavebed.virtual.kernel import needed_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["measure"]

KILLS = 200
SEED = 35
VICTIMS = ("front", "kernel", "first process", "another process")
SCENARIO = """
title = "ping"
[path]
rate = "100mbit"
delay = "10ms"
[[workload]]
kind = "latency"
duration = "60s"
"""
ENDS_WITHIN_S = 60.0
"""The limit of a run whose guest was killed, on a busy machine."""


def measure() -> list[Figure]:
    """Kill, and look at what is left."""
    return [kills(int(os.environ.get("WAVEBED_STRESS_KILLS", KILLS)))]


def kills(number: int) -> Figure:
    """Kill that many guests at moments that are drawn from a seed."""
    draw = random.Random(SEED)
    cases, slowest_s = [], 0.0
    with tempfile.TemporaryDirectory() as place, _own_cache(Path(place) / "cache"):
        file = Path(place) / "ping.toml"
        file.write_text(SCENARIO)
        began = time.monotonic()
        _started(file, Path(place) / "whole").communicate()
        whole_s = time.monotonic() - began
        for each in range(number):
            victim, moment = VICTIMS[each % len(VICTIMS)], draw.random()
            problem, gone_s = _kill(file, Path(place) / f"run-{each}", victim, moment * whole_s, draw)
            cases.append((f"{victim} at {moment * whole_s:.2f} s: {problem}", not problem))
            slowest_s = max(slowest_s, gone_s)
        problem = _folders()
        cases.append((f"folders: {problem}", not problem))
    figure = of_all(f"SIGKILL of a guest: no trace, ended in {gone_within_s():g} s", cases, what="kills")
    return Figure(figure.name, figure.target, f"{figure.found}, {slowest_s:.2f} s at most", figure.state, figure.why)


@contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """Keep the guests of others apart: only what is in this cache is looked for."""
    kernel, _ = needed_kernel()
    shutil.copytree(kernel.parent, folder / "kernel" / kernel.parent.name)
    before = os.environ.get("WAVEBED_CACHE")
    os.environ["WAVEBED_CACHE"] = str(folder)
    try:
        yield
    finally:
        del os.environ["WAVEBED_CACHE"]
        if before is not None:
            os.environ["WAVEBED_CACHE"] = before


def _started(file: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "wavebed", "run", str(file), "--trials", "1", "--virtual-time", "-o", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _kill(file: Path, folder: Path, victim: str, after_s: float, draw: random.Random) -> tuple[str, float]:
    """Kill one run; return what is wrong then, and how long it took until all had ended."""
    before = set(_guests())
    run = _started(file, folder)
    time.sleep(after_s)
    found = _pid(victim, run.pid, before, draw)
    if found is None:  # it has not begun, or has ended
        found = run.pid
    with suppress(ProcessLookupError):
        os.kill(found, signal.SIGKILL)
    killed = time.monotonic()
    try:
        said, _ = run.communicate(timeout=ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        run.kill()
        return "the run goes on", ENDS_WITHIN_S
    if b"Traceback" in said:
        return said.decode(errors="replace").splitlines()[-1], 0.0
    while left := set(_guests()) - before:
        if time.monotonic() - killed > max(gone_within_s(), ENDS_WITHIN_S if found != run.pid else 0.0):
            return f"{len(left)} processes are left", time.monotonic() - killed
        time.sleep(0.02)
    return "", time.monotonic() - killed


def _guests() -> dict[int, str]:
    """Return the processes of guests, the oldest first: those whose working folder is a guest's."""
    places = cache_folder().absolute() / "guests"
    found = {}
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        try:
            if (entry / "cwd").readlink().is_relative_to(places):
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue
    return found


def _pid(victim: str, front: int, before: set[int], draw: random.Random) -> int | None:
    guests = {pid: name for pid, name in _guests().items() if pid not in before}
    kernels = [pid for pid, name in guests.items() if name == "linux"]
    inside = [pid for pid, name in guests.items() if name == "uml-userspace"]
    match victim:
        case "front":
            return front
        case "kernel":
            return kernels[0] if kernels else None
        case "first process":
            return inside[0] if inside else None
        case _:
            return draw.choice(inside) if inside else None


def _folders() -> str:
    """Return what is left of folders, once the next guest has made its own; empty: nothing."""
    time.sleep(1.1)  # a younger folder may belong to a guest that begins
    with guest_folder() as made:
        left = [each.name for each in made.folder.parent.glob(".new-*") if each != made.folder]
    return f"{len(left)} are left" if left else ""
