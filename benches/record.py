"""Recordings of emulated radio accesses, judged: live trials on other minutes beside trials over the recording.

Server and client are namespaces that wavebed joins by a scene, which goes on all the time, and an ssh server runs on
the server, over a cable of its own: the access is one that ``wavebed record`` does not know. For each scene, ``wavebed
record --judge`` records and runs a page, a call and probes live in turn, then replays them over the recording, and over
its rate alone. Prints the tables, and JSON with --save.

Root, irtt, Chromium, ssh and dropbear are needed. A round takes some two minutes.

Usage: python benches/record.py [--scenes NAME,NAME] [--rounds N] [--keep DIR] [--save FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from run import machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "path"))

from two_hosts import two_hosts  # noqa: E402

from wavebed.lab.tools import cache_folder  # noqa: E402
from wavebed.run.checks import engine_checks  # noqa: E402

SCENES = ROOT / "python" / "wavebed" / "scenarios" / "scenes"
DELAY = "10ms"
"""Between the server and the base station, each way."""
SCENARIO = """title = "{title}"
[lab]
backend = "hosts"
server = "ssh://root@{server}"
server-address = "{address}"
[path]
[[workload]]
kind = "latency"
probe = "udp"
duration = "5s"
limit = "15s"
[[workload]]
kind = "web"
site = "google"
start = "1s"
after = "latency"
limit = "30s"
[[workload]]
kind = "call"
start = "1s"
after = "web"
duration = "10s"
limit = "40s"
"""
RECORDING = ("--duration", "25s", "--fill", "1s")


def judged(scene: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Record and judge one scene; return the judgement, and how late the emulated access was.

    Raises
    ------
    SystemExit
        If it failed.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wavebed-record-")))
        hosts = stack.enter_context(two_hosts(home, scene=str(SCENES / f"{scene}.toml"), delay=DELAY))
        server, address = hosts.reached(beside=True)
        file = folder / f"{scene}.toml"
        file.write_text(SCENARIO.format(title=scene, server=server, address=address))
        argv = [sys.executable, "-m", "wavebed", "record", str(file), "--judge", "--rounds", str(rounds), *RECORDING]
        variables = {**hosts.variables, "WAVEBED_CACHE": str(cache_folder())}
        process = hosts.lab.client.start(
            [*argv, "-o", str(folder / scene)], env=variables, stdout=subprocess.PIPE, stderr=sys.stderr
        )
        process.wait(rounds * 300)
        output = process.output()[0] or ""
        if process.returncode:
            raise SystemExit(f"{scene}: wavebed record ended with {process.returncode}")
        lab = hosts.lab
        stack.pop_all().close()
    print(f"\n## {scene}\n\n{output}", flush=True)
    return {
        "scene": scene,
        "rounds": rounds,
        "wall_s": round(time.monotonic() - began, 1),
        "access": [check.evidence for check in engine_checks(lab.summary or {}, "") if not check.holds],
        "recording": json.loads((folder / scene / "recording" / "recording.json").read_text()),
        **json.loads((folder / scene / "judgement.json").read_text()),
    }


def main() -> None:
    """Judge each scene."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenes", default="street-canyon-bus,loop-mmwave")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="a new folder for all results")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="wavebed-judged-"))
    folder.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(), "scenes": [judged(each, args.rounds, folder) for each in args.scenes.split(",")]}
    if args.save:
        args.save.write_text(json.dumps(found, indent=1) + "\n")
    if not args.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
