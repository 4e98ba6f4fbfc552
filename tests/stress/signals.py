"""Signals to whoever has a laboratory: the documented status, and nothing left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.stress import remains
from tests.stress.figure import Figure, of_all
from tests.stress.remains import end_all, ended, family, gone_within_s, settled, wait_until
from tests.stress.sandbox import WORK, run_all, wavebed_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KINDS", "SIGNALS", "measure"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)
ENDS_WITHIN_S = 30.0
UP_WITHIN_S = 60.0
SIDE_BY_SIDE = 3
_API = """
import wavebed
with wavebed.Path.of(rate="50mbit", delay="2ms").up() as lab:
    lab.client.run(["sleep", "40"])
"""
_RUN = '[path]\nrate = "50mbit"\n[[workload]]\nkind = "bulk"\nduration = "30s"\n'
_SHELL = wavebed_command("shell", "--rate", "50mbit")


@dataclass(frozen=True)
class Kind:
    """One way of having a laboratory.

    Parameters
    ----------
    argv : list of str
        What gets the signal.
    program : str
        It is up when this program runs inside.
    documented : tuple of int
        The signals for which 128 + N is documented; for others it may also end by the signal itself.
    settle_s : float
        How long it is left alone before the signal.
    """

    argv: list[str]
    program: str
    documented: Sequence[int]
    settle_s: float = 0.3


KINDS: Mapping[str, Kind] = {
    "shell with a command": Kind([*_SHELL, "--", "sleep", "40"], "sleep", SIGNALS[:4]),
    "shell without a terminal": Kind(_SHELL, "sh", SIGNALS[:4]),
    "run": Kind(wavebed_command("run", "s.toml", "-o", "out"), "iperf3", SIGNALS[:2], 1.0),
    "Python": Kind([sys.executable, "-c", _API], "sleep", ()),
    "forward": Kind(wavebed_command("forward", "--sizes", "64", "-o", "out"), "wavebed-core", SIGNALS[:2], 3.0),
}


def measure(count: int = len(KINDS) * len(SIGNALS)) -> list[Figure]:
    """Send `count` signals: each to each kind once, then again."""
    wanted = [
        (list(KINDS)[number % len(KINDS)], int(SIGNALS[number // len(KINDS) % len(SIGNALS)])) for number in range(count)
    ]
    hands = [{"wanted": hand} for place in range(SIDE_BY_SIDE) if (hand := wanted[place::SIDE_BY_SIDE])]
    told = run_all("tests.stress.signals:send_each", hands, timeout_s=60 + count * (ENDS_WITHIN_S + 30))
    results = [each for hand in told for each in hand]
    cases = [(f"{each['name']}: {each['problem']}", not each["problem"]) for each in results]
    longest_s = max((each["took_s"] for each in results), default=0.0)
    within = f"in {ENDS_WITHIN_S:g} s"
    state = "met" if longest_s < ENDS_WITHIN_S else "missed"
    return [
        of_all("signals: documented status, nothing left", cases),
        Figure("signals: everything has ended", within, f"{longest_s:.2f} s at most", state),
    ]


def send_each(wanted: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Make cases one after another, in a sandbox."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["SHELL"] = "/bin/sh"
    return [_send(name, number, place) for place, (name, number) in enumerate(wanted)]


def _send(name: str, number: int, place: int) -> dict[str, Any]:
    kind = KINDS[name]
    folder = WORK / str(place)
    folder.mkdir()
    (folder / "s.toml").write_text(_RUN)
    before = remains.State.now()
    with (folder / "said").open("wb") as said:
        front = subprocess.Popen(kind.argv, cwd=folder, stdin=subprocess.PIPE, stdout=said, stderr=said)
    up_s = wait_until(lambda: ended(front) or _is_up(kind, front.pid), UP_WITHIN_S, every_s=0.02)
    time.sleep(kind.settle_s)
    front.send_signal(number)
    took_s = wait_until(lambda: ended(front), ENDS_WITHIN_S)
    _, left = settled(before, front.pid, gone_within_s()) if took_s is not None else (None, ["the front still runs"])
    end_all()
    front.wait()
    left += [f"file {path.name}" for path in folder.glob("out/trials/.*")]
    expected = {-number} if number == signal.SIGKILL else {128 + number}
    if number not in kind.documented:
        expected.add(-number)
    words = (folder / "said").read_text(errors="replace")
    if up_s is None:
        left.append("it did not come up")
    if front.returncode not in expected:
        left.append(f"status {front.returncode}: {words[-200:]}")
    if name != "Python" and ("Traceback" in words or "panicked" in words):
        left.append(f"said {words[-200:]}")
    told_s = ENDS_WITHIN_S if took_s is None else took_s
    return {"name": f"{signal.Signals(number).name} to {name}", "problem": ", ".join(left), "took_s": told_s}


def _is_up(kind: Kind, front: int) -> bool:
    return any(each.program == kind.program and each.pid != front and each.depth for each in family())
