"""Trials on paths that flip bits: what corruption does to packets is the path's, and spoils no trial."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stress.family import WAVEBED
from tests.stress.figure import Figure, of_all

__all__ = ["PROBABILITIES", "measure", "trials"]

PROBABILITIES = ("0.1%", "1%", "5%")
IPV4_TRIALS = 10
IPV6_TRIALS = 2
PATH = '[path]\nrate = "50mbit"\ndelay = "2ms"\ncorrupt = "{probability}"\n\n'
IPV4 = '[[workload]]\nkind = "download"\nsize = "10mb"\nlimit = "40s"\n'
IPV6 = """
[[workload]]
kind = "command"
run = ["iperf3", "-6", "-c", "server", "-p", "{port}", "-n", "5M", "-R", "-J"]
server-run = ["iperf3", "-s", "-1", "-p", "{port}"]
parser = "iperf3"
"""
OF_THE_MACHINE = ("processors", "late", "late-packets", "gaps", "stolen", "clock-step")
"""Checks that a busy machine breaks, whatever the path does."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one trial came to.

    Parameters
    ----------
    case : str
        Version of IP, probability and number.
    verdict : str
        Of `wavebed run`.
    reasons : list of str
        Its reasons.
    of_corruption : list of str
        The checks that did not hold, without those that a busy machine breaks, and the doubts of workloads.
    corrupted, unreadable : int
        Segments with a flipped bit, and those of them that were dropped because no version of IP was left.
    """

    case: str
    verdict: str
    reasons: list[str]
    of_corruption: list[str]
    corrupted: int
    unreadable: int


def trials(probability: str, workload: str, count: int) -> list[Trial]:
    """Run `count` trials of a workload on a path that corrupts, each with a seed of its own."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "corrupt.toml")
        scenario.write_text(PATH.replace("{probability}", probability) + workload)
        argv = [*WAVEBED, "run", scenario, "-o", f"{folder}/out", "--trials", str(count)]
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120 * count, check=False)
        files = sorted(Path(folder, "out", "trials").glob("*/trial.json"))
        records = [json.loads(file.read_text()) for file in files]
    version = "IPv6" if workload is IPV6 else "IPv4"
    return [_trial(f"{version} {probability} no. {number}", record) for number, record in enumerate(records, 1)]


def _trial(case: str, record: dict[str, Any]) -> Trial:
    links = record["engine"].get("links", [])
    broken = [check["code"] for check in record["checks"] if not check["holds"]]
    doubts = [doubt for workload in record["workloads"] for doubt in workload["doubts"]]
    return Trial(
        case,
        record["verdict"],
        record["reasons"],
        [name for name in broken if name not in OF_THE_MACHINE] + doubts,
        sum(link["corrupted_segments"] for link in links),
        sum(link["dropped_segments"].get("corrupted_header", 0) for link in links),
    )


def measure() -> list[Figure]:
    """Run downloads by IPv4 and by IPv6 at each probability."""
    by_version = {
        "IPv4": [trial for each in PROBABILITIES for trial in trials(each, IPV4, IPV4_TRIALS)],
        "IPv6": [trial for each in PROBABILITIES for trial in trials(each, IPV6, IPV6_TRIALS)],
    }
    figures = []
    for version, found in by_version.items():
        expected = len(PROBABILITIES) * (IPV4_TRIALS if version == "IPv4" else IPV6_TRIALS)
        cases = [
            (f"{each.case}: {each.verdict}: {each.reasons}", each.verdict in ("valid", "suspect")) for each in found
        ]
        cases += [("a trial left no record", False)] * (expected - len(found))
        figures.append(of_all(f"trials with corruption that count, {version}", cases, what="trials"))
        unmarked = [(f"{each.case}: {each.of_corruption}", not each.of_corruption) for each in found]
        figures.append(of_all(f"trials that corruption does not mark, {version}", unmarked, what="trials"))
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(each.verdict for each in found).items())
        corrupted, unreadable = sum(each.corrupted for each in found), sum(each.unreadable for each in found)
        said = f"{unreadable} of {corrupted} corrupted segments ({verdicts})"
        state = "met" if unreadable else "inconclusive"
        figures.append(Figure(f"corrupted segments dropped as corrupted_header, {version}", "some", said, state))
    return figures
