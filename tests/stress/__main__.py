"""Run the experiments and print one table: ``python -m tests.stress [NAME …] [--json FILE]``.

Each module of this package with a function ``measure() -> list[Figure]`` is an experiment. The exit status is 1 if a
figure missed its target.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import time
import traceback
from pathlib import Path

from tests.interrupts import heed_interrupts
from tests.stress.figure import Figure, as_json, table

FOLDER = Path(__file__).parent


def experiments() -> list[str]:
    """Return the names of the modules that measure something."""
    return [
        module.name
        for module in pkgutil.iter_modules([str(FOLDER)])
        if "def measure(" in (FOLDER / f"{module.name}.py").read_text(encoding="utf-8")
        and not module.name.startswith("_")
    ]


def measured(name: str) -> list[Figure]:
    """Return the figures of one experiment; a crash of the experiment is a figure that was missed."""
    try:
        figures: list[Figure] = importlib.import_module(f"tests.stress.{name}").measure()
    except Exception as error:  # noqa: BLE001 - the other experiments go on
        traceback.print_exc()
        return [Figure(name, "the experiment runs", f"{type(error).__name__}: {error}", "missed")]
    return figures


def main() -> int:
    """Run the experiments that were named, or all."""
    heed_interrupts()
    known = experiments()
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*known, []], help="which experiments (default: all)")
    parser.add_argument("--json", type=Path, help="also write the figures and the machine to this file")
    given = parser.parse_args()
    figures: list[Figure] = []
    for name in given.names or known:
        began = time.monotonic()
        print(f"{name} …", file=sys.stderr, flush=True)
        found = measured(name)
        figures += found
        for each in found:
            print(f"  {each.name}: {each.found} ({each.state})", file=sys.stderr, flush=True)
        print(f"  took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(figures))
    if given.json:
        from wavebed.result.machine import machine

        given.json.write_text(json.dumps({"machine": machine(), "figures": as_json(figures)}, indent=1) + "\n")
    return int(any(each.state == "missed" for each in figures))


if __name__ == "__main__":
    sys.exit(main())
