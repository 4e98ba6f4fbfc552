"""Runs between two hosts that ssh joins, of which a part is killed at a random moment.

Usage: python benches/kills_hosts.py [--kills N] [--seed N] [--save FILE] (--help: all options)

The hosts are network namespaces with an ssh server, joined by a path of wavebed. In each run of two trials one process
of a random part (wavebed, ssh, the ssh server, the agent on either host, a program of a workload) gets SIGKILL at a
random moment. Nothing of it may be left on either host then: no process, mount, namespace or file. At most one trial
has failed, with one line; the run has gone on. Where wavebed itself was killed, the same command is run again and must
complete the run.

Prints JSON; the exit status is 1 if something broke the rule. Needs root.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run import machine

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "path"))

from hosts_state import PARTS, assert_nothing_left, begin, of_part, state
from two_hosts import two_hosts

if TYPE_CHECKING:
    from hosts_state import State
    from two_hosts import TwoHosts

SCENARIO = """
[lab]
backend = "hosts"
server = "ssh://root@server"
[path]
[run]
trials = 2
[[workload]]
kind = "bulk"
duration = "1s"
limit = "20s"
[[workload]]
kind = "latency"
tail = "100ms"
"""
LASTS_S = 4.5
"""About how long a run takes on this path; kills fall into this time."""
ENDS_S = 150.0


class Case:
    """A run in which a part is killed."""

    def __init__(self, hosts: TwoHosts, folder: Path, part: str, moment_s: float, chance: random.Random) -> None:
        self._hosts = hosts
        self._part, self._moment_s, self._chance = part, moment_s, chance
        self._out, self._log = folder / "out", folder / "log"
        folder.mkdir()
        scenario = folder / "s.toml"
        scenario.write_text(SCENARIO)
        self._words = ["run", str(scenario), "-o", str(self._out), "--resume"]
        self.victim = ""
        self.verdicts: list[str] = []

    def run(self, before: State) -> list[str]:
        """Run it, and return what broke the rule."""
        run = begin(self._hosts, self._words, self._log)
        time.sleep(self._moment_s)
        while run.poll() is None and not self._kill():
            time.sleep(0.05)
        faults = []
        try:
            run.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            run.kill()
            return [f"still runs after {ENDS_S:g} s"]
        try:
            assert_nothing_left(self._hosts, before, 30)
        except AssertionError as error:
            faults.append(f"left: {str(error)[:300]}")
        if self._part == "wavebed" and self.victim:
            run = begin(self._hosts, self._words, self._log)
            run.wait(ENDS_S)
        return faults + self._trials()

    def _kill(self) -> bool:
        """Kill one process of the part, if there is one."""
        found = of_part(self._hosts, self._part)
        if not found:
            return False
        one = self._chance.choice(found)
        done = self._hosts.lab.server.run(["kill", "-9", str(one.pid)], capture_output=True)
        self.victim = one.command.split(" ")[0].rpartition("/")[2] if done.returncode == 0 else ""
        return done.returncode == 0

    def _trials(self) -> list[str]:
        faults = []
        told = self._log.read_text()
        if "Traceback" in told or "internal error" in told:
            faults.append(f"said: {told[-300:]}")
        found = [json.loads(file.read_text()) for file in sorted(self._out.glob("trials/[0-9]*/trial.json"))]
        self.verdicts = [trial["verdict"] for trial in found]
        if not found and not told.strip().endswith("report.html"):
            # The first connection of a run tells at once that it is impossible.
            last = told.strip().rpartition("\n")[2]
            return faults if " ended" in last else [*faults, f"no trial: {last}"]
        if len(found) != 2 or self.verdicts.count("failed") > 1:
            faults.append(f"trials: {self.verdicts}, {[trial['reasons'] for trial in found]}")
        faults += [f"{trial['reasons'][0]!r} is no line" for trial in found if "\n" in "".join(trial["reasons"][:1])]
        return faults


def run_all(kills: int, seed: int) -> dict[str, Any]:
    """Kill so often."""
    chance = random.Random(seed)
    victims: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    found: list[str] = []
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="wavebed-kills-") as folder,
        two_hosts(Path(folder), rate="50mbit") as hosts,
    ):
        before = state(hosts)
        number = 0
        while victims.total() < kills:
            number += 1
            part = chance.choice([*PARTS])
            case = Case(hosts, Path(folder) / str(number), part, chance.uniform(0, LASTS_S), chance)
            faults = case.run(before)
            if not case.victim:
                continue  # all had ended before
            victims[part] += 1
            failed[part] += case.verdicts.count("failed")
            found += [f"kill {number} ({part}, {case.victim}): {fault}" for fault in faults]
            print(f"{victims.total()}: {part} ({case.victim}) {faults or ''}", file=sys.stderr)
            if any("left: " in fault for fault in faults):
                before = state(hosts)
    return {
        "kills": kills,
        "seed": seed,
        "seconds": round(time.monotonic() - start, 1),
        "victims": dict(victims),
        "failed trials": dict(failed),
        "faults": found,
    }


def main() -> int:
    """Run as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    figures = run_all(args.kills, args.seed)
    print(json.dumps(figures, indent=2))
    if args.save is not None:
        args.save.write_text(json.dumps({"machine": machine(), **figures}, indent=2) + "\n")
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
