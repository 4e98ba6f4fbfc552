"""Time to repair a packet that the radio lost: TCP end to end, and split at the edge by `wavebed-edge splitter`.

Usage: python benches/repair.py [--rounds N] [--seconds N] [--save FILE] (--help: all options)

The path is that of the cas-mmwave study with a radio of 800 Mbit/s: 80 ms of wired round trip, then a radio of 1 ms
that loses 1 % of the packets. A bulk download runs over it with each system in turn, in random order, and the radio's
packets are captured at its way in and out. A loss is a packet of data that went in and did not come out, whether the
radio or its queue dropped it. Its repair time is from when it would have come out (with the transit of the next packet
that did) to when its first byte came out.

Target: a repair takes at most three radio round trips at p95; end to end it takes at least one wired round trip. The
radio's round trip is that of a ping from the edge before the transfer. Prints JSON and a table. Needs root and tshark.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from run import machine

from wavebed.path.api import Path as EmulatedPath
from wavebed.remedy.edge import Splitter, SplitterOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wavebed.path.lab import LabHost

LONGER = {"end-to-end cubic": 5}
"""It sends so little that its losses are few."""
SYSTEMS = {
    "end-to-end cubic": ("cubic", None),
    "end-to-end bbr": ("bbr", None),
    "split cubic/cubic": ("cubic", "cubic"),
    "split bbr/cubic": ("bbr", "cubic"),
    "split bbr/reno": ("bbr", "reno"),
    "split bbr/bbr": ("bbr", "bbr"),
}
"""Congestion control of the server, and of the splitter towards the client."""

WIRED_RTT_S = 0.08
SCENARIO = """
[path]
congestion-control = "{server}"
[[path.hop]]
name = "wired"
kind = "wired"
rate = "10gbit"
delay = "40ms"
down-loss = "0.01%"
[path.edge]
after = "wired"
[[path.hop]]
name = "wireless"
kind = "radio"
rate = "800mbit"
delay = "500us"
down-loss = "1%"
"""
FIELDS = ("frame.time_epoch", "ip.id", "tcp.dstport", "tcp.seq", "tcp.len")


class Packet(NamedTuple):
    """A packet of data at one point."""

    time_s: float
    identification: str
    port: str
    begin: int
    length: int

    @property
    def name(self) -> tuple[str, str, int, int]:
        """What tells it from others that pass soon before or after."""
        return self[1:]


def packets(file: Path) -> Iterator[Packet]:
    """Read the packets with data of a capture."""
    # Its own analysis of sequences takes minutes for half a million packets, and adds nothing.
    quick = ["-o", "tcp.analyze_sequence_numbers:FALSE", "-o", "tcp.relative_sequence_numbers:FALSE"]
    command = ["tshark", "-n", "-r", str(file), *quick, "-Y", "tcp.len > 0", "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tshark:
        assert tshark.stdout is not None
        for line in tshark.stdout:
            time_s, identification, port, begin, length = line.rstrip("\n").split("\t")
            yield Packet(float(time_s), identification, port, int(begin), int(length))


def repairs(entered: Iterable[Packet], left: Iterable[Packet]) -> list[float]:
    """Return the repair times of the losses of a link that keeps the order, in seconds.

    Parameters
    ----------
    entered, left : iterable of Packet
        Those at its way in and at its way out, in order of time.
    """
    out = iter(left)
    ahead = next(out, None)
    came_out: dict[tuple[str, int], float] = {}
    open_losses: dict[tuple[str, int], float] = {}
    pending: list[Packet] = []
    found: list[float] = []
    for packet in entered:
        if ahead is None or packet.name != ahead.name:
            pending.append(packet)
            continue
        transit_s = ahead.time_s - packet.time_s
        for lost in pending:
            if (lost.port, lost.begin) not in came_out:
                open_losses.setdefault((lost.port, lost.begin), lost.time_s + transit_s)
        pending.clear()
        key = (packet.port, packet.begin)
        came_out.setdefault(key, ahead.time_s)
        if key in open_losses:
            found.append(ahead.time_s - open_losses.pop(key))
        ahead = next(out, None)
    return found


def round_trip_s(host: LabHost) -> float:
    """Return the median round trip of ten pings to the client."""
    done = host.run(["ping", "-4", "-c", "10", "-i", "0.1", "client"], capture_output=True, check=True)
    times = [float(line.split("time=")[1].split()[0]) for line in done.stdout.splitlines() if "time=" in line]
    return statistics.median(times) / 1e3


def once(system: str, seconds: int, seed: int) -> dict[str, float]:
    """Run one transfer and return its figures."""
    server, split = SYSTEMS[system]
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "path.toml")
        scenario.write_text(SCENARIO.format(server=server))
        captures = Path(folder, "captures")
        with EmulatedPath.load(scenario, seed=seed).up(pcap=captures) as lab:
            rtt_s = round_trip_s(lab.edge)
            splitter = split and Splitter(SplitterOptions(down=split)).start(lab, "edge", Path(folder, "log"))
            listener = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
            transfer = ["iperf3", "-4", "-c", "server", "-R", "-J", "-t", str(seconds)]
            done = lab.client.run(transfer, capture_output=True, check=True)
            listener.wait(10)
            if splitter and (problem := splitter.stop()):
                raise SystemExit(problem)
        assert lab.summary is not None
        if lab.summary["capture_dropped_segments"]:
            raise SystemExit(f"{system}: the capture lost segments: use fewer --seconds")
        times = repairs(packets(captures / "wireless.down.in.pcapng"), packets(captures / "wireless.down.out.pcapng"))
        if len(times) < 20:
            raise SystemExit(f"{system}: {len(times)} losses are too few: use more --seconds")
    cuts = statistics.quantiles(times, n=20)
    return {
        "radio_rtt_ms": rtt_s * 1e3,
        "losses": len(times),
        "repair_p50_ms": cuts[9] * 1e3,
        "repair_p95_ms": cuts[18] * 1e3,
        "within_3_radio_rtt_percent": 100 * sum(time <= 3 * rtt_s for time in times) / len(times),
        "goodput_mbps": json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6,
    }


def table(figures: dict[str, list[dict[str, float]]]) -> str:
    """Return the medians over the rounds, a line for each system."""
    head = "system", "losses", "radio RTT, ms", "p50, ms", "p95, ms (range)", "p95 / radio RTT", "Mbit/s"
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for system, runs in figures.items():
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        p95 = [run["repair_p95_ms"] for run in runs]
        cells = (
            system,
            f"{sum(run['losses'] for run in runs):.0f}",
            f"{middle['radio_rtt_ms']:.2f}",
            f"{middle['repair_p50_ms']:.2f}",
            f"{middle['repair_p95_ms']:.2f} ({min(p95):.2f} to {max(p95):.2f})",
            f"{statistics.median(run['repair_p95_ms'] / run['radio_rtt_ms'] for run in runs):.1f}",
            f"{middle['goodput_mbps']:.1f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    chosen = args.systems or list(SYSTEMS)
    if unknown := sorted(set(chosen) - set(SYSTEMS)):
        parser.error(f"{unknown[0]!r} is no system: write one of {', '.join(SYSTEMS)}")
    figures: dict[str, list[dict[str, float]]] = {system: [] for system in chosen}
    order = random.Random(args.seed)
    for turn in range(args.rounds):
        for system in order.sample(chosen, len(chosen)):
            run = once(system, args.seconds * LONGER.get(system, 1), args.seed + turn)
            figures[system].append(run)
            print(f"[{turn + 1}/{args.rounds}] {system}: {run}", file=sys.stderr)
    print(table(figures))
    recorded = {"rounds": args.rounds, "seconds": args.seconds, "seed": args.seed, "wired_rtt_ms": WIRED_RTT_S * 1e3}
    text = json.dumps({"machine": machine(), **recorded, "figures": figures}, indent=2)
    print(text)
    if args.save is not None:
        args.save.write_text(text + "\n")


if __name__ == "__main__":
    main()
