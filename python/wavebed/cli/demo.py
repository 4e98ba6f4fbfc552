"""``wavebed demo``: the main job on shipped input, ending in a report."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Emulate the 5G path of the study kau-e5g and carry a download by curl from nginx, a cubic flow and a bbr flow"
    " of iperf3 across it, with ping beside them. Prints a table and writes report.html. Takes under two minutes."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    from wavebed.units import argument

    parser = subparsers.add_parser("demo", help="the main job on shipped input", description=_DESCRIPTION)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="folder of results (default: runs/demo-TIME)")
    parser.add_argument(
        "--seed", type=argument(_seed), default=1, metavar="N", help="what all luck is keyed by (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")


def _seed(text: str) -> int:
    from wavebed.path.schema import PATH_KEYS

    value = PATH_KEYS["seed"].read(text)
    assert isinstance(value, int), "a seed is a number"
    return value


def run(args: argparse.Namespace) -> int:
    """Run it; the status is 1 when packets are unaccounted for. Lateness is said, and no failure of the run."""
    from wavebed.demo.figures import table
    from wavebed.demo.run import record, run_demo

    # As Ctrl-C: what was begun is cleared away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder, outcome = run_demo(args.output, args.seed)
    status = 0 if outcome.verdicts[0].holds else 1
    if args.json:
        import json

        print(json.dumps({"folder": str(folder), **record(outcome)}))
        return status
    print(table(outcome.rows))
    print()
    print("The study's figure for this download is 245 Mbit/s; the report says why ours differs.")
    for verdict in outcome.verdicts:
        print(f"{'ok  ' if verdict.holds else 'BAD '} {verdict.title}: {verdict.evidence}")
    print(f"report: {folder / 'report.html'}")
    return status
