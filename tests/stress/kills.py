"""SIGKILL at a random moment to a random process of a laboratory's family: within 3 s nothing is left of it.

A case is named by its kind and seed. The seed chooses the moment and, among the processes that are there then, one;
which are there depends on the machine, so a seed makes a case likely again, not certain. One is made again by
``inside("tests.stress.kills:kill_each", cases=[["web", 100001]], timeout_s=200)`` of `tests.stress.sandbox`.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress import remains
from tests.stress.figure import Figure, of_all
from tests.stress.remains import Process, end_all, ended, family, gone_within_s, kill, settled, subtree, wait_until
from tests.stress.sandbox import WORK, run_all, wavebed_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.stress.figure import State

__all__ = ["KINDS", "QUICK", "SHARES", "measure"]

SIDE_BY_SIDE = 4
AMID_SHARE = 0.75
"""Share of the kills that wait until there is something beside the front; the others may come before."""
ATTEMPTS = 6
"""How often a case is begun again, with earlier moments, because all had ended before the kill."""
WHOLE = (".site.json",)
"""Names in the cache that begin with a dot and are no drafts."""
LABORATORY = ("core", "init", "engine")

_API = """
import wavebed
with wavebed.Path.of(rate="50mbit", delay="2ms").up() as lab:
    lab.server.start(["sleep", "5"])
    lab.client.run(["ping", "-q", "-i", "0.02", "-c", "15", "server"], capture_output=True)
"""
_PATH = '[path]\nrate = "50mbit"\ndelay = "2ms"\n'
_RUN = _PATH + '[[workload]]\nkind = "download"\nsize = "2mb"\n[[workload]]\nkind = "latency"\n'
_WEB = _PATH + '[[workload]]\nkind = "web"\nsite = "google"\nlimit = "10s"\n'
_PATH_OPTIONS = ("--rate", "50mbit", "--delay", "2ms")
_PING = ("ping", "-q", "-i", "0.02", "-c", "15")


@dataclass(frozen=True)
class Kind:
    """One way of having a laboratory.

    Parameters
    ----------
    argv : list of str
        The front.
    lasts_s : float
        About how long it takes; kills fall into this time.
    ends_within_s : float
        If the front outlives the kill, it ends by itself this much later at most.
    scenario : str
        What is in ``s.toml`` in its folder, if that is a run.
    """

    argv: list[str]
    lasts_s: float
    ends_within_s: float
    scenario: str = ""


KINDS: Mapping[str, Kind] = {
    "shell": Kind(
        wavebed_command("shell", *_PATH_OPTIONS, "--log", "log", "--server", "sleep 5", "--", *_PING, "server"), 0.5, 15
    ),
    "api": Kind([sys.executable, "-c", _API], 0.5, 15),
    "nat": Kind(wavebed_command("shell", "--nat", *_PATH_OPTIONS, "--", *_PING, "{server}"), 0.5, 15),
    "run": Kind(wavebed_command("run", "s.toml", "-o", "out"), 2.5, 60, _RUN),
    "web": Kind(wavebed_command("run", "s.toml", "-o", "out"), 5.0, 90, _WEB),
    "forward": Kind(wavebed_command("forward", "--sizes", "64", "--tests", "overload", "-o", "out"), 6.0, 180),
}
QUICK = {"shell": 80, "api": 70, "nat": 50}
"""Kinds that last a second."""
SHARES = {"shell": 60, "api": 50, "nat": 40, "run": 30, "web": 10, "forward": 10}


def measure(count: int = 200, shares: Mapping[str, int] | None = None, seed: int = 1) -> list[Figure]:
    """Kill `count` times, divided among the kinds by `shares`.

    Returns
    -------
    list of Figure
        For each kind the kills after which nothing was left, and the longest time until it was so.
    """
    parts = SHARES if shares is None else shares
    cases = [
        (kind, seed * 100_000 + number)
        for kind, part in parts.items()
        for number in range(round(count * part / sum(parts.values())))
    ]
    random.Random(seed).shuffle(cases)
    hands = [{"cases": hand} for place in range(SIDE_BY_SIDE) if (hand := cases[place::SIDE_BY_SIDE])]
    told = run_all("tests.stress.kills:kill_each", hands, timeout_s=120 + 15 * count)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in itertools.chain.from_iterable(told):
        by_kind.setdefault(each["kind"], []).append(each)
    return [figure for kind in parts if kind in by_kind for figure in _figures(kind, by_kind[kind])]


def _figures(kind: str, told: list[dict[str, Any]]) -> list[Figure]:
    cases = [
        (f"seed {each['seed']}, {each['victim']} at {each['moment_s']:.2f} s: {', '.join(each['left'])}", each["left"])
        for each in told
    ]
    longest_s = max(each["gone_s"] for each in told)
    found = f"{longest_s:.2f} s at most" if longest_s < math.inf else "not all"
    state: State = "met" if longest_s <= gone_within_s() else "missed"
    return [
        of_all(f"SIGKILL in {kind}, nothing left", [(case, not left) for case, left in cases], what="kills"),
        Figure(f"SIGKILL in {kind}, all gone", f"in {gone_within_s():g} s", found, state),
    ]


def kill_each(cases: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Make cases one after another, in a sandbox."""
    results = []
    before = remains.State.now()
    for kind, seed in cases:
        told = kill_one(kind, seed, before)
        if told["left"]:
            before = remains.State.now()  # what one case leaves is not found again in the next
        results.append(told)
    return results


def kill_one(kind: str, seed: int, before: remains.State) -> dict[str, Any]:
    """Make a case, and return what was killed, how long until all was gone, and what was left."""
    chance = random.Random(f"{kind} {seed}")
    # Half of the cases have a cache to make.
    os.environ["WAVEBED_CACHE"] = str(WORK / f"cache-{seed}" if seed % 2 else WORK / "cache")
    for attempt in range(ATTEMPTS):
        folder = WORK / f"{kind}-{seed}-{attempt}"
        folder.mkdir()
        told = _strike(KINDS[kind], chance, folder, 2.0**-attempt, before)
        if told["victim"] is not None:
            break
    told["left"] += _half_made(KINDS[kind], folder)
    return {"kind": kind, "seed": seed, **told}


def _strike(kind: Kind, chance: random.Random, folder: Path, part: float, before: remains.State) -> dict[str, Any]:
    """Kill in the first part of its life; the victim is ``None`` if all had ended before."""
    if kind.scenario:
        (folder / "s.toml").write_text(kind.scenario)
    moment_s = chance.uniform(0, kind.lasts_s * part)
    with (folder / "said").open("wb") as said:
        front = subprocess.Popen(kind.argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    if chance.random() < AMID_SHARE:
        wait_until(lambda: _begun(front), max(kind.ends_within_s, gone_within_s()))
    time.sleep(moment_s)
    processes, victim = _killed(front.pid, chance)
    gone_s, left = 0.0, []
    if victim is not None:
        doomed = _doomed(processes, victim.pid, front.pid)
        doomed_s = wait_until(lambda: not _alive(doomed, front), gone_within_s())
        gone_s = math.inf if doomed_s is None else doomed_s
        left += [f"{each.role} outlives it" for each in _alive(doomed, front)]
    limit_s = max(kind.ends_within_s, gone_within_s())
    if wait_until(lambda: ended(front), limit_s) is None:
        left.append(f"the front still runs after {limit_s:g} s")
    else:
        settled_s, remained = settled(before, front.pid, gone_within_s())
        gone_s = max(gone_s, math.inf if settled_s is None else settled_s)
        left += remained
    end_all()
    front.wait()
    words = (folder / "said").read_text(errors="replace")
    left += [f"said {word}" for word in ("Traceback", "panicked") if word in words and kind.argv[1] != "-c"]
    role = None if victim is None else _role(victim, front.pid)
    return {"victim": role, "moment_s": moment_s, "gone_s": gone_s, "left": left}


def _killed(front: int, chance: random.Random) -> tuple[list[Process], Process | None]:
    """Kill a process, and return all that there were; one that ended before it was killed does not count."""
    while True:
        processes = family()
        victim = _chosen(processes, front, chance)
        if victim is None or kill(victim):
            return processes, victim


def _chosen(processes: list[Process], front: int, chance: random.Random) -> Process | None:
    """Choose a role, and a process that has it: a browser's many processes are one among others."""
    by_role: dict[str, list[Process]] = {}
    for each in sorted(processes, key=lambda each: (each.began, each.pid)):
        by_role.setdefault(_role(each, front), []).append(each)
    return chance.choice(by_role[chance.choice(sorted(by_role))]) if by_role else None


def _begun(front: subprocess.Popen[bytes]) -> bool:
    return ended(front) or any(each.pid != front.pid and each.program == "wavebed-core" for each in family())


def _role(process: Process, front: int) -> str:
    return "front" if process.pid == front else process.role


def _doomed(processes: list[Process], victim: int, front: int) -> list[Process]:
    """Return the processes that must end with the victim: those of its laboratory, or all with the front."""
    known = {each.pid: each for each in processes}
    root = victim
    while (above := known.get(known[root].parent)) is not None and known[root].role in LABORATORY[1:]:
        root = above.pid
    below = known if victim == front else subtree(processes, root) if known[victim].role in LABORATORY else {victim}
    return [known[pid] for pid in below]


def _alive(doomed: list[Process], front: subprocess.Popen[bytes]) -> list[Process]:
    ended(front)
    now = {(each.pid, each.began) for each in family() if each.state != "Z"}
    return [each for each in doomed if (each.pid, each.began) in now]


def _half_made(kind: Kind, folder: Path) -> list[str]:
    """Return what is neither whole nor removed: of a trial at once, in the cache after one more run."""
    left = [f"file {path.name}" for path in folder.glob("out/trials/.*")]
    cache = Path(os.environ["WAVEBED_CACHE"])
    if kind.scenario and _drafts(cache):
        again = [*kind.argv[:-1], "again"]
        subprocess.run(again, cwd=folder, capture_output=True, timeout=120, check=False)
        left += [f"cache {name}" for name in _drafts(cache)]
        left += [f"file {path.name}" for path in folder.glob("*/trials/.*")]
    return left


def _drafts(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob(".*") if path.name not in WHOLE)
