"""Programs of a workload die in the middle of a trial: it is failed, with the cause, and the run ends in time."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress import remains
from tests.stress.figure import Figure, of_all
from tests.stress.remains import Process, end_all, ended, family, kill, settled, wait_until
from tests.stress.sandbox import WORK, run_all, wavebed_command

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CRASHES", "measure"]

LIMIT_S = 12
ENDS_WITHIN_S = LIMIT_S + 20.0
"""After the crash; a workload has its limit, and then the results are written."""
BEGINS_WITHIN_S = 60.0
SIDE_BY_SIDE = 2
_PATH = '[path]\nrate = "4mbit"\ndelay = "5ms"\n'
_DOWNLOAD = '[[workload]]\nkind = "download"\nsize = "4mb"\n'
_BULK = '[[workload]]\nkind = "bulk"\nduration = "8s"\n'
_PING = '[[workload]]\nkind = "latency"\nduration = "8s"\n'
_IRTT = '[[workload]]\nkind = "latency"\nprobe = "udp"\nduration = "8s"\n'
_WEB = '[[workload]]\nkind = "web"\nsite = "google"\n'
NO_TYPE = "(no --type)"
DEVICE = "wb0"
AMID_PACKETS = 15


@dataclass(frozen=True)
class Crash:
    """A program that dies.

    Parameters
    ----------
    name : str
        What dies.
    scenario : str
        The workload.
    program : str
        The program's name.
    word : str
        One of its arguments; `NO_TYPE`: it is not one of Chromium's helpers.
    """

    name: str
    scenario: str
    program: str
    word: str = ""


CRASHES: Sequence[Crash] = (
    Crash("nginx", _DOWNLOAD, "nginx"),
    Crash("dnsmasq", _DOWNLOAD + 'names = "resolver"\n', "dnsmasq"),
    Crash("caddy", _WEB + 'protocol = "h3"\n', "caddy"),
    Crash("iperf3's server", _BULK, "iperf3", "-s"),
    Crash("irtt's server", _IRTT, "irtt", "server"),
    Crash("curl", _DOWNLOAD, "curl"),
    Crash("iperf3's client", _BULK, "iperf3", "-c"),
    Crash("ping", _PING, "ping"),
    Crash("irtt's client", _IRTT, "irtt", "client"),
    Crash("Chromium", _WEB, "chromium", NO_TYPE),
    Crash("the renderers of Chromium", _WEB, "chromium", "--type=renderer"),
)


def measure(count: int = len(CRASHES)) -> list[Figure]:
    """Let the first `count` programs crash."""
    places = list(range(min(count, len(CRASHES))))
    hands = [{"places": hand} for first in range(SIDE_BY_SIDE) if (hand := places[first::SIDE_BY_SIDE])]
    told = run_all("tests.stress.crashes:crash_each", hands, timeout_s=60 + 90 * len(places))
    results = [each for hand in told for each in hand]
    cases = [(f"{each['name']}: {each['problem']}", not each["problem"]) for each in results]
    longest_s = max((each["took_s"] for each in results), default=0.0)
    state = "met" if longest_s <= ENDS_WITHIN_S else "missed"
    return [
        of_all("crashes amid a trial: failed, with the cause", cases, what="crashes"),
        Figure("crashes amid a trial: the run ends", f"in {ENDS_WITHIN_S:g} s", f"{longest_s:.1f} s at most", state),
    ]


def crash_each(places: Sequence[int]) -> list[dict[str, Any]]:
    """Make cases one after another, in a sandbox."""
    return [crash(CRASHES[place]) for place in places]


def crash(case: Crash) -> dict[str, Any]:
    """Kill the program when time has begun, and return what is wrong with what came of it."""
    folder = WORK / case.name.replace(" ", "-")
    folder.mkdir()
    (folder / "s.toml").write_text(f'{_PATH}{case.scenario}limit = "{LIMIT_S}s"\n')
    before = remains.State.now()
    with (folder / "said").open("wb") as said:
        argv = wavebed_command("run", "s.toml", "-o", "out")
        front = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    victims: list[Process] = []
    wait_until(lambda: ended(front) or victims.extend(_victims(case)) or victims != [], BEGINS_WITHIN_S, every_s=0.02)
    victims = [each for each in victims if kill(each)]
    took_s = wait_until(lambda: ended(front), ENDS_WITHIN_S)
    _, left = settled(before, front.pid, 3.0) if took_s is not None else (None, [])
    end_all()
    front.wait()
    words = (folder / "said").read_text(errors="replace")
    if not victims:
        problem = f"it was not there: {' '.join(words.split())[-200:]}"
    elif took_s is None:
        problem = "the run does not end"
    else:
        problem = _problem(folder, front.returncode, words) or ", ".join(left)
    return {"name": case.name, "problem": problem, "took_s": ENDS_WITHIN_S if took_s is None else took_s}


def _problem(folder: Path, status: int, words: str) -> str:
    record = json.loads(next(folder.glob("out/trials/*/trial.json")).read_text())
    (workload,) = record["workloads"]
    if record["verdict"] != "failed" or status != 1:
        return f"the trial is {record['verdict']}, the exit status {status}"
    if not any(each.startswith(f"{workload['name']}: ") for each in record["reasons"]):
        return f"the reasons do not say it: {record['reasons']}"
    return "a traceback" if "Traceback" in words else ""


def _victims(case: Crash) -> list[Process]:
    """Return the processes to kill, once packets cross the path: before time begins, none do.

    They may be several: a page has one of many renderers. Those see no network: their browser does.
    """
    found = [each for each in family() if each.program == case.program and each.state != "Z" and each.depth]
    if not any(_received(each) >= AMID_PACKETS for each in found):
        return []
    if case.word == NO_TYPE:
        return [each for each in found if not any(one.startswith("--type=") for one in each.arguments)]
    return [each for each in found if not case.word or case.word in each.arguments]


def _received(process: Process) -> int:
    """Return how many packets the process's host has received from the path."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == DEVICE:
                return int(counts.split()[1])
    return 0
