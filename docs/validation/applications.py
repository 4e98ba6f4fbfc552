"""Run the pages in outages of `applications.md` and print their table.

Usage: python docs/validation/applications.py [--trials N] [-o DIR]

With ``-o`` each scenario is a run in a folder of DIR, for `wavebed report` and `wavebed compare`; a repeated call reads
complete runs and continues after them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from experiments import add_output, output_folder, results_of, spread, table, values

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


def main() -> None:
    """Run the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, metavar="N", default=3, help="trials of each treatment")
    add_output(parser)
    arguments = parser.parse_args()
    with output_folder(arguments.output) as folder:
        outages(folder, arguments.trials)


if __name__ == "__main__":
    main()
