"""A campaign that is killed again and again and resumed at once ends like one that was not disturbed.

The kills fall on the front, its process group, the laboratory, the guard that removes unfinished trials, the guard and
then the front, and on the front while it writes: a trial before and after its rename, the metrics of a block, all
metrics at the end, and while it begins.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress import remains
from tests.stress.campaign_files import CELLS, RUN, WHOLE, argv, damage, stored, write_files
from tests.stress.figure import Figure, of_all
from tests.stress.remains import Process, end_all, ended, family, gone_within_s, kill, settled, wait_until
from tests.stress.sandbox import inside

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["measure"]

KILLS = 50
TRIALS = 60
LIFE_S = 120.0
"""A campaign that neither ends nor can be killed within this time is stuck."""
LOOK_S = 0.002
WRITING_S = 0.1
"""About how long a trial's tables, raw outputs and records take."""
STORED, BLOCKS = "trials/[0-9]*", "metrics/block-*"
TARGETS = (
    "front",
    "group",
    "laboratory",
    "guard",
    "guard and front",
    "while beginning",
    "while a trial is written",
    "after the rename of a trial",
    "after the metrics of a block",
)
AT_THE_END = "after the metrics of all blocks"


def measure(kills: int = KILLS, trials: int = TRIALS, seed: int = 1) -> list[Figure]:
    """Kill a campaign of real laboratories `kills` times."""
    timeout_s = 120 + 20 * kills + 5 * trials
    told = inside("tests.stress.campaigns:disturb", kills=kills, trials=trials, seed=seed, timeout_s=timeout_s)
    cases = [(f"{target}: {problem}", not problem) for target, problem in told["kills"]]
    differs: list[str] = told["damage"]
    said = "as undisturbed" if not differs else "; ".join(differs)
    done = f"{said}: {told['attempts']} attempts at {trials} trials, {told['took_s']:.0f} s, undisturbed"
    return [
        of_all("SIGKILL to a campaign, resumed at once", cases, what="kills"),
        Figure(
            "a killed campaign: order, seeds, metric, none lost or twice, nothing left",
            "as undisturbed",
            f"{done} {told['whole_s']:.0f} s",
            "missed" if differs else "met",
        ),
    ]


def disturb(kills: int, trials: int, seed: int) -> dict[str, Any]:
    """Run a campaign undisturbed, and another with kills; in a sandbox."""
    write_files(trials // CELLS)
    before = remains.State.now()
    began = time.monotonic()
    whole = _begin(WHOLE)
    wait_until(lambda: ended(whole), LIFE_S + 5 * trials)
    whole_s = time.monotonic() - began
    began = time.monotonic()
    disturbance = _Disturbance(kills, trials, seed)
    told, differs = disturbance.all(), disturbance.end()
    took_s = time.monotonic() - began
    _, left = settled(before, 0, gone_within_s())
    end_all()
    differs += [*left, *(damage(RUN, WHOLE) if (RUN / "metrics.parquet").exists() else ["it has not ended"])]
    return {
        "kills": told,
        "damage": differs,
        "attempts": len(stored(RUN)),
        "took_s": took_s,
        "whole_s": whole_s,
    }


def _begin(folder: Path) -> subprocess.Popen[bytes]:
    with Path(f"{folder}.said").open("ab") as said:
        return subprocess.Popen(
            argv(folder), stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )


class _Disturbance:
    """A campaign that is killed `kills` times before it may end."""

    def __init__(self, kills: int, trials: int, seed: int) -> None:
        self._chance = random.Random(seed)
        targets = [TARGETS[number % len(TARGETS)] for number in range(kills - 1)]
        self._chance.shuffle(targets)
        self._targets = [*targets, AT_THE_END]
        self._trials = trials
        self._front: subprocess.Popen[bytes] | None = None
        self._guard_was_killed = False

    def all(self) -> list[tuple[str, str]]:
        """Kill and resume; return each target and what was wrong."""
        told = []
        for number, target in enumerate(self._targets):
            told.append((f"{target}, {_count(STORED)} trials stored", self._one(target, number)))
        return told

    def _one(self, target: str, number: int) -> str:
        if self._guard_was_killed and target == "guard":
            target = "guard and front"
        front = self._front = self._front or _begin(RUN)
        # In step with the trials, so that the last kill meets the last ones; a block that must end takes some ahead.
        now, due = _count(STORED), (self._trials - 3 * CELLS) * number / len(self._targets)
        least = now + (self._chance.randint(0, 2) if now < due else 0)
        if target == "while beginning":
            time.sleep(self._chance.uniform(0, 1.5))
        elif target != AT_THE_END and wait_until(lambda: ended(front) or _count(STORED) >= least, LIFE_S) is None:
            return "it is stuck"
        if wait_until(self._moment(target), LIFE_S, LOOK_S) is None:
            return "the moment does not come"
        if target == "while a trial is written":
            time.sleep(self._chance.uniform(0, WRITING_S))
        while not (killed := [kill(each) for each in self._victims(target)]) and not ended(front):
            pass  # a laboratory that has just ended: the next one
        if not any(killed):
            words = Path(f"{RUN}.said").read_text(errors="replace")
            return f"nothing was there to kill: {' '.join(words.split())[-200:]}"
        self._guard_was_killed = target == "guard" or (self._guard_was_killed and target == "laboratory")
        if target in ("laboratory", "guard"):
            return ""
        front.wait()
        self._front = None
        return ""

    def _moment(self, target: str) -> Callable[[], bool]:
        front = self._front
        assert front is not None, "it was begun"
        known = {name: _count(name) for name in (STORED, BLOCKS)}
        wait_s = time.monotonic() + self._chance.uniform(0, 0.8)
        moments: dict[str, Callable[[], bool]] = {
            "while beginning": lambda: True,
            "while a trial is written": lambda: _count("trials/.*/raw/laboratory.log*") > 0,
            "after the rename of a trial": lambda: _count(STORED) > known[STORED],
            "after the metrics of a block": lambda: _count(BLOCKS) > known[BLOCKS],
            "laboratory": lambda: bool(_laboratory()),
            "guard": lambda: bool(_guard()),
            "guard and front": lambda: self._guard_was_killed or bool(_guard()),
            AT_THE_END: (RUN / "metrics.parquet").exists,
        }
        its = moments.get(target, lambda: True)
        late = target in ("front", "group", "laboratory", "guard", "guard and front")
        return lambda: ended(front) or (its() and (not late or time.monotonic() >= wait_s))

    def _victims(self, target: str) -> list[Process]:
        front = self._front
        assert front is not None, "it was begun"
        if ended(front):
            return []
        if target == "laboratory":
            return [self._chance.choice(found)] if (found := _laboratory()) else []
        if target == "guard":
            return _guard()
        mine = [each for each in family() if each.pid == front.pid]
        if target == "guard and front":
            return [*_guard(), *mine]
        if target == "group":
            return [each for each in family() if _group(each.pid) == front.pid]
        return mine

    def end(self) -> list[str]:
        """Let the campaign end, and return what is wrong with that."""
        front = self._front or _begin(RUN)
        if wait_until(lambda: ended(front), LIFE_S + 5 * self._trials) is None:
            return ["it does not end"]
        words = Path(f"{RUN}.said").read_text(errors="replace")
        found = [f"it said {word}" for word in ("Traceback", "panicked", "damaged") if word in words]
        return found if front.returncode == 0 else [*found, f"status {front.returncode}"]


def _count(pattern: str) -> int:
    return sum(1 for _ in RUN.glob(pattern))


def _laboratory() -> list[Process]:
    return [each for each in family() if each.program == "wavebed-core" and each.state != "Z"]


def _guard() -> list[Process]:
    return [each for each in family() if each.program == "sh" and any(".partial" in word for word in each.arguments)]


def _group(pid: int) -> float:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return math.nan
