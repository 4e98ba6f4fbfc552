"""Take the processors away at random moments, as a hypervisor does: ``python -m tests.stolen_time GAP LEAST MOST``.

Each processor is taken apart from the others, by a process of the highest real-time priority that does not rest: the
kernel does not count that as stolen, and an engine with a real-time priority waits too. A pause comes GAP seconds after
the last one on average, and lasts LEAST to MOST milliseconds. It runs until it is interrupted, or as long as a command
behind ``--``, with whose exit status it ends. Root is needed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing import Process

from tests.interrupts import heed_interrupts


def take(processor: int, gap_s: float, least_s: float, most_s: float) -> None:
    """Take one processor again and again, until the parent ends."""
    parent = os.getppid()
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
    chance = random.Random(processor)
    while os.getppid() == parent:
        time.sleep(chance.expovariate(1 / gap_s))
        end_s = time.monotonic() + chance.uniform(least_s, most_s)
        while time.monotonic() < end_s:
            pass


def main() -> int:
    """Take all processors that this process may use."""
    heed_interrupts()
    parser = argparse.ArgumentParser(prog="python -m tests.stolen_time", description=__doc__)
    parser.add_argument("gap", type=float, help="seconds between two pauses of a processor, on average")
    parser.add_argument("least", type=float, help="milliseconds of the shortest pause")
    parser.add_argument("most", type=float, help="milliseconds of the longest pause")
    parser.add_argument("command", nargs="*", help="what runs meanwhile")
    given = parser.parse_args()
    times_s = (given.gap, given.least / 1e3, given.most / 1e3)
    takers = [Process(target=take, args=(each, *times_s), daemon=True) for each in sorted(os.sched_getaffinity(0))]
    for taker in takers:
        taker.start()
    try:
        if given.command:
            return subprocess.run(given.command, check=False).returncode
        signal.pause()
        return 0
    finally:
        for taker in takers:
            taker.terminate()


if __name__ == "__main__":
    sys.exit(main())
