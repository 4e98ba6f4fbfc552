"""The tester of `wavebed forward` against what it has to reach, and beside the study's iperf3 command.

Usage: python benches/forward.py [CASE]... [--save FILE] [--rounds N] [--frames N]

Cases:
  ceiling   the tester alone on one core, 64 B (target: 1.488 Mpps)
  iperf3    64 B through a Linux router on veth, in turn with the study's command (target: 3 times its frames)
  shaped    a router with a known packet rate: the loss-free rates found at seven sizes (target: within 1 %)
  latency   a relay that adds a known delay: the median found (target: within 20 us)
  frame_counters  every frame of a long trial is counted, and at the interfaces (--frames, target: 10^8)

Prints JSON and a table. Runs as root, in a sandbox of which nothing is left.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from run import machine

from wavebed._core import find_core
from wavebed.forward.iperf3 import run_study_command
from wavebed.forward.model import to_plain
from wavebed.forward.run import emulated_device
from wavebed.forward.sandbox import inside
from wavebed.forward.settings import EmulatedDevice, ForwardSettings, ForwardSpec
from wavebed.forward.suite import About, run_suite
from wavebed.forward.tester import Tester

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.forward.model import ForwardTrial
    from wavebed.forward.run import Setup

SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
SHAPED_PPS = 60_000
LOADS_PPS = (750_000.0, 800_000.0, 850_000.0)
DELAYS_US = (0, 100, 500, 1000)
TRIAL_S = 2.0
RELAY_PPS = 2000.0


@contextmanager
def emulated(device: str) -> Iterator[tuple[Setup, Tester]]:
    """Yield an emulated device, and a tester of it."""
    with ExitStack() as stack:
        spec = ForwardSpec(
            target=EmulatedDevice(device.partition(":")[0], device), settings=ForwardSettings(), name=device
        )
        setup = stack.enter_context(emulated_device(spec, spec.target))
        yield setup, Tester(setup.tx, setup.rx, setup.layout)


def words(trial: ForwardTrial) -> list[str]:
    """Return what speaks against a trial."""
    return [f"{refusal.code}: {refusal.reason}" for refusal in trial.refusals]


def ceiling(rounds: int, _frames: int) -> dict[str, object]:
    """Measure the tester through its own pair of interfaces, sender and receiver on one core."""
    found: dict[str, list[float]] = {}
    with emulated("routing") as (setup, _tester):
        for _ in range(rounds):
            for sender in ("live_frames", "af_xdp_copy", "tx_ring", "sendmmsg"):
                found.setdefault(sender, []).append(setup.tx.ceiling((64,), 256, sender=sender).pps / 1e6)
    return {f"{sender}_mpps": values for sender, values in found.items()}


def iperf3(rounds: int, _frames: int) -> dict[str, object]:
    """Load the same router by turns: 64 B frames from the tester, and the study's command.

    Ours is the maximum forwarding rate of RFC 2285, section 3.6.2: the most that came through at any offered load.
    """
    most: list[float] = []
    overload: list[float] = []
    theirs: list[float] = []
    refused: list[str] = []
    with emulated("routing") as (setup, tester):
        tester.prepare()
        hosts = setup.hosts
        assert hosts is not None
        client, server = hosts()
        for _ in range(rounds):
            trials = [tester.trial("forwarding", (64,), load, TRIAL_S) for load in (*LOADS_PPS, None)]
            refused += [line for trial in trials for line in words(trial)]
            got = [trial.received_pps / 1e6 for trial in trials if not trial.refusals]
            run = run_study_command("overload", client, server, setup.rx.counters, seconds=round(TRIAL_S))
            if got:
                most.append(max(got))
                overload.append(trials[-1].received_pps / 1e6)
                theirs.append(run.pps / 1e6)
    ratios = [one / other for one, other in zip(most, theirs, strict=True)]
    return {
        "wavebed_maximum_mpps": most,
        "wavebed_overload_mpps": overload,
        "iperf3_mpps": theirs,
        "ratios": ratios,
        "refused": refused,
    }


def shaped(_rounds: int, _frames: int) -> dict[str, object]:
    """Search the rates of a router that takes so many packets per second, whatever their size."""
    with emulated(f"shaped:rate={SHAPED_PPS}") as (_setup, tester):
        goals = ForwardSettings().quick().goals
        settings = ForwardSettings(
            parts=("search",), sizes_bytes=SIZES, mixes={}, link_mbps=1000.0, goals=goals, warm_up_s=1.0
        )
        ready = tester.prepare()
        about = About("shaped", "shaped", ready.tx, ready.rx, sender=ready.sender, receiver_kind=ready.receiver)
        result = run_suite(tester, settings, about)
    sizes = {
        finding.name: {
            goal.goal.name: None if goal.lower is None else goal.lower.offered.pps for goal in finding.goals
        } | {"refused": [goal.refusal.reason for goal in finding.goals if goal.refusal]}
        for finding in result.sizes
    }  # fmt: skip
    return {"rate_pps": SHAPED_PPS, "sizes": sizes, "plan": [to_plain(part) for part in result.plan]}


def latency(_rounds: int, _frames: int) -> dict[str, object]:
    """Measure the delay that a relay adds by busy polling."""
    found = {}
    for delay in DELAYS_US:
        with emulated(f"relay:delay={delay}us") as (_setup, tester):
            trial = tester.trial("latency", (64,), RELAY_PPS, 2 * TRIAL_S)
            got = trial.counters.latency if trial.counters else None
            found[delay] = {
                "median_us": None if got is None else got.p50_s * 1e6,
                "p99_us": None if got is None or got.p99_s is None else got.p99_s * 1e6,
                "refused": words(trial),
            }
    return {"delay_us": found}


def frame_counters(_rounds: int, frames: int) -> dict[str, object]:
    """Send very many frames through a router, somewhat above its loss-free rate, and reconcile all counts."""
    with emulated("routing") as (_setup, tester):
        pps = 600_000.0
        began = time.monotonic()
        trial = tester.trial("frame counters", (64,), pps, frames / pps)
        assert trial.tx is not None
        assert trial.rx is not None
        assert trial.counters is not None
        return {
            "sent": trial.sent,
            "received": trial.received,
            "lost": trial.lost,
            "duplicates": trial.counters.duplicates,
            "sent_equals_received_plus_lost": trial.sent == trial.received + trial.lost,
            "tx0_packets": trial.tx.tx_packets,
            "tx0_dropped": trial.tx.tx_dropped,
            "rx0_packets": trial.rx.rx_packets,
            "rx0_dropped": trial.rx.rx_dropped,
            "foreign": trial.counters.foreign,
            "took_s": time.monotonic() - began,
            "refused": words(trial),
        }


CASES = {case.__name__: case for case in (ceiling, iperf3, shaped, latency, frame_counters)}


def table(case: str, found: dict[str, object]) -> None:
    """Print what was found, a line each; lists as median, least and greatest."""
    print(case)
    for name, value in found.items():
        if isinstance(value, list) and value and all(isinstance(one, float) for one in value):
            text = f"median {statistics.median(value):.3f}, {min(value):.3f} to {max(value):.3f}, n = {len(value)}"
        else:
            text = json.dumps(value)
        print(f"  {name}: {text}")


def main() -> None:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--frames", type=int, default=100_000_000)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    if not inside():
        core = find_core()
        os.execv(core, [core, "sandbox", "--", sys.executable, *sys.argv])
    results: dict[str, object] = {"machine": machine()}
    for case in arguments.cases or CASES:
        found = CASES[case](arguments.rounds, arguments.frames)
        table(case, found)
        results[case] = found
    print(json.dumps(results))
    if arguments.save:
        arguments.save.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
