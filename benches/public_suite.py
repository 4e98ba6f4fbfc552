"""The test suite of a public HTTP library behind three conditions, from an empty environment to the verdicts.

Usage: python benches/public_suite.py --wheel FILE [--package NAME==VERSION] [--scene NAME]… [--save FILE]

1. Makes a virtual environment; installs wavebed with the extra `report` from the wheel, the plugin from this tree and
   the library with what its tests need; takes its sdist from the index.
2. Runs the suite on loopback, and leaves out what fails there, whatever wavebed does.
3. `wavebed check --scene S -- pytest --wavebed-loopback`: the suite, without a changed line, behind each condition.

The library is httpx, under the BSD licence; nothing of it is kept. Prints the time of each step, the lines that were
changed in the suite (counted by comparing its files with those of the archive), and the verdicts. Three minutes on a
quiet machine; needs root and the package index.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from run import machine

PLUGIN = Path(__file__).parents[1] / "plugins" / "pytest-wavebed"
SCENES = ["walk-past-bus/mmwave", "stadium/mid-band", "walk-past-bus/lte"]
EXTRAS = "[brotli,cli,http2,socks,zstd]"
NEEDED = ["pytest>=8", "uvicorn", "trio", "trustme", "chardet", "anyio", "cryptography"]
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Steps:
    """The steps so far, and what each took."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.took_s: dict[str, float] = {}

    def run(self, name: str, argv: list[str], folder: Path, statuses: tuple[int, ...] = (0,)) -> str:
        began = time.monotonic()
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        self.took_s[name] = round(time.monotonic() - began, 1)
        print(f"{self.took_s[name]:7.1f} s  {name}", flush=True)
        if done.returncode not in statuses:
            sys.exit(f"{name}: ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every Python file below a folder."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*.py"))
        if ".wavebed" not in file.parts
    }


def scene_result(python: str, scene: str, suite: Path, left_out: list[str], steps: Steps, seeds: int) -> dict[str, Any]:
    folder = suite / ".wavebed" / scene.replace("/", "-")
    argv = [python, "-m", "wavebed", "check", "--scene", scene, "--seeds", str(seeds), "--limit", "240s", "--json"]
    argv += [
        "--real-time",
        "-o",
        str(folder),
        "--server",
        f"{python} -m pytest_wavebed.sockets",
        "--require",
        "wall time max < 240 s",
    ]
    argv += ["--", python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--wavebed-loopback", *left_out]
    found = json.loads(steps.run(f"{scene}: {seeds} seeds", argv, suite, (0, 1, 3)))
    return {
        "scene": scene,
        "outcome": found["outcome"],
        "requirements": [
            {key: each[key] for key in ("requirement", "outcome", "value", "unit", "values", "reasons")}
            for each in found["requirements"]
        ],
        "first_verdict_s": round(time.monotonic() - steps.began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", required=True, help="of wavebed, or a folder that installs as one")
    parser.add_argument("--package", default="httpx==0.28.1")
    parser.add_argument("--scene", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    args = parser.parse_args()
    steps = Steps()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        steps.run("virtual environment", [sys.executable, "-m", "venv", "venv"], base)
        python = str(base / "venv" / "bin" / "python")
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        wheel = str(Path(args.wheel).absolute())
        steps.run("pip install wavebed, pytest-wavebed", [*pip, "install", f"{wheel}[report]", str(PLUGIN)], base)
        steps.run(
            "download of the library", [*pip, "download", "--no-deps", "--no-binary", ":all:", args.package], base
        )
        with tarfile.open(next(base.glob("*.tar.gz"))) as archive:
            archive.extractall(base / "source", filter="data")
        (suite,) = (base / "source").iterdir()
        before = digests(suite)
        steps.run("pip install of the library and its tests", [*pip, "install", f"{suite}{EXTRAS}", *NEEDED], base)
        told = steps.run(
            "suite on loopback", [python, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"], suite, (0, 1)
        )
        left_out = [word for each in _FAILED.findall(told) for word in ("--deselect", each)]
        scenes = args.scene or SCENES
        results = [scene_result(python, scene, suite, left_out, steps, args.seeds) for scene in scenes]
        changed = sum(before.get(file) != digest for file, digest in digests(suite).items())
    summary = {
        "package": args.package,
        "on_loopback": told.strip().splitlines()[-1],
        "left_out": left_out[1::2],
        "files_changed": changed,
        "steps_s": steps.took_s,
        "first_verdict_s": results[0]["first_verdict_s"],
        "scenes": results,
    }
    print(json.dumps(summary, indent=2))
    if args.save is not None:
        args.save.write_text(json.dumps({"machine": machine(), **summary}, indent=2) + "\n")


if __name__ == "__main__":
    main()
