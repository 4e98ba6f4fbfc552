"""Run the applications of `applications.md` and print its tables.

Usage: python docs/validation/applications.py [downloads|outages|ping]… [--trials N] [-o DIR]

With ``-o`` each scenario is a run in a folder of DIR, for `wavebed report` and `wavebed compare`; a repeated call reads
complete runs and continues after them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from experiments import add_output, output_folder, results_of, spread, table, values

from wavebed.stats.intervals import paired_difference

if TYPE_CHECKING:
    from pathlib import Path

KAU: Final = """
congestion-control = "cubic"

[[path.hop]]
name = "internet"
kind = "wired"
delay = "11ms"

[[path.hop]]
name = "radio"
kind = "radio"
trace = "PATTERNS/kau-e5g-{scene}.csv"
queue = "droptail:1000p"
"""
DOWNLOAD: Final = """
[[workload]]
kind = "download"
size = "{size}"
start = "{start}s"
limit = "40s"
"""
PUBLISHED: Final = {
    (1, 0): (52, 135, 245),
    (1, 1): (52, 130, 232),
    (1, 2): (52, 135, 245),
    (2, 0): (80, 290, 207),
    (2, 1): (60, 100, 208),
    (2, 2): (60, 100, 208),
}
"""Median goodput, Mbit/s, of 2, 20 and 200 MB, by scene and start: read off figure 6 of kau-e5g, ±5."""
EXIT_SEGMENTS: Final = 100
EARLY_EXIT: Final = f"""
[path.server.sysctl]
"net.ipv4.tcp_no_metrics_save" = 0
"net.ipv4.tcp_no_ssthresh_metrics_save" = 0

# The kernel uses a route's ssthresh only for a known peer: a first small transfer makes it known.
[[workload]]
kind = "download"
name = "first"
size = "2kb"

[[workload]]
kind = "command"
server-run = "ip route change $(ip route show | head -n 1) ssthresh lock {EXIT_SEGMENTS}"
run = ["true"]
confined = false
"""


def downloads(folder: Path, trials: int) -> None:
    """Print the downloads of kau-e5g: as described, and with a slow start that ends early."""
    rows = [["scene", "start", "size", "published", "ours", "ratio", "slow start ends early", "ratio"]]
    for (scene, start), published in PUBLISHED.items():
        base = KAU.format(scene=scene)
        for size, theirs in zip(("2mb", "20mb", "200mb"), published, strict=True):
            name = f"scene-{scene}-{start}s-{size}"
            plain = f"[path]\n{base}" + DOWNLOAD.format(size=size, start=start)
            # The first small transfer runs in the last second before the pattern begins again.
            early = f"[path]\n{base}start-at = '39s'\n{EARLY_EXIT}" + DOWNLOAD.format(size=size, start=start + 1)
            cells = []
            for file, text in ((name, plain), (f"{name}-early", early)):
                found = values(results_of(folder, file, text, trials), "download", "goodput")
                cells += [spread(found), f"{sorted(found)[len(found) // 2] / theirs:.2f}" if found else "–"]
            rows.append([str(scene), f"{start} s", size, str(theirs), *cells])
    print(table(rows))


OUTAGES: Final = {
    "outage holds, 4.19": {"outage": "hold", "linear": 0},
    "outage drops, 4.19": {"outage": "drop", "linear": 0},
    "outage drops, today": {"outage": "drop", "linear": 4},
}
METRICS: Final = ("ttfb", "first visual change", "dom interactive", "on load", "speed index")


def outages(folder: Path, trials: int) -> None:
    """Print the web pages of scene 4 that begin at chosen times, with outages that hold and that drop."""
    # At 0 s the link is up; at 1 s a SYN meets an outage, at 6.8 s its first retry meets another one; at 7 s the outage
    # has ended when Chromium tries a second connection, 250 ms later; at 15 s the next one comes during the handshake.
    starts = [0, 1, 6.8, 7, 15]
    rows = [["outage and SYN timing", "start", *(f"{name}, ms" for name in METRICS)]]
    for name, how in OUTAGES.items():
        for start in starts:
            text = (
                f"[path]\n{KAU.format(scene=4)}outage = '{how['outage']}'\n"
                f"[path.client.sysctl]\n'net.ipv4.tcp_syn_linear_timeouts' = {how['linear']}\n"
                f"[[workload]]\nkind = 'web'\nsite = 'google'\nstart = '{start}s'\nlimit = '40s'\n"
            )
            run = results_of(folder, f"{name.replace(', ', '-').replace(' ', '-')}-{start}s", text, trials)
            rows.append([name, f"{start} s", *(spread(values(run, "web", metric)) for metric in METRICS)])
    print(table(rows))


PING: Final = """
[path]
[[path.hop]]
name = "internet"
kind = "wired"
delay = "8ms"

[[path.hop]]
name = "radio"
kind = "radio"
scene = "{scene}"

[[workload]]
kind = "latency"
interval = "50ms"
tail = "2s"

[[workload]]
kind = "bulk"
streams = 4
duration = "10s"
start = "1s"

[[treatment]]
name = "cubic"
set = {{ "path.congestion-control" = "cubic" }}

[[treatment]]
name = "bbr"
set = {{ "path.congestion-control" = "bbr" }}
"""
PHONES: Final = {"bbr-5g-phone-unicom": "China Unicom, phone", "bbr-5g-phone-mobile": "China Mobile, phone"}
PING_METRICS: Final = {
    "speed, Mbit/s": ("bulk", "goodput"),
    "average ping, ms": ("latency", "rtt loaded average"),
    "mdev, ms": ("latency", "rtt loaded mdev"),
}


def ping(folder: Path, trials: int) -> None:
    """Print the table of bbr-5g: four flows of cubic against four of bbr, ping beside them, the same seeds."""
    rows = [["operator, UE", "figure", "cubic", "bbr", "bbr − cubic, paired, with 95 % interval"]]
    for scene, name in PHONES.items():
        run = results_of(folder, scene, PING.format(scene=scene), trials)
        for label, (workload, metric) in PING_METRICS.items():
            cubic, bbr = (values(run, workload, metric, each) for each in ("cubic", "bbr"))
            difference = paired_difference(cubic, bbr) if len(cubic) == len(bbr) else None
            told = "–"
            if difference is not None and difference.estimate is not None:
                told = f"{difference.estimate:+.0f}"
                if difference.low is not None and difference.high is not None:
                    told += f" [{difference.low:+.0f}, {difference.high:+.0f}]"
            rows.append([name, label, *(" ".join(f"{value:.0f}" for value in each) for each in (cubic, bbr)), told])
    print(table(rows))


PARTS: Final = {"downloads": (downloads, 3), "outages": (outages, 3), "ping": (ping, 6)}


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--trials", type=int, metavar="N", help="trials of each treatment")
    add_output(parser)
    arguments = parser.parse_args()
    with output_folder(arguments.output) as folder:
        for name in arguments.parts or PARTS:
            part, trials = PARTS[name]
            print(f"\n## {name}\n")
            part(folder, arguments.trials or trials)


if __name__ == "__main__":
    main()
