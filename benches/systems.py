"""The systems that are compared: wavebed, the bare relay, Rattan. Each runs one command across the same path."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
WAVEBED = ROOT / ".venv/bin/wavebed"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TOOL = str(TARGET / "release/wavebed-bench")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
QUIET: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True)
class PathSpec:
    """One segment, the same in both directions."""

    rtt_ms: float
    rate_bps: int | None = None
    queue_bytes: int | None = None
    loss: float = 0.0
    coalesce: str | None = None
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """Commands on the server, in the background, and one on the client."""

    servers: tuple[str, ...]
    client: str
    seconds: float
    busy: int = 0


@dataclass
class Outcome:
    """What a run printed and cost."""

    stdout: str
    stderr: str
    status: int
    wall_s: float
    cpu_s: float
    summary: dict[str, Any] | None = None
    series: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def rattan_program() -> str | None:
    """Find Rattan, which `make bench` offers to install."""
    return os.environ.get("RATTAN") or shutil.which("rattan") or _existing(Path.home() / ".cargo/bin/rattan")


def _existing(path: Path) -> str | None:
    return str(path) if path.exists() else None


def busy_seconds() -> float:
    """Return processor time that the whole machine has spent, softirq included, seconds."""
    values = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = values
    return (user + nice + system + irq + softirq) / CLOCK_TICKS


def run(argv: list[str], work: Work, env: dict[str, str] | None = None) -> Outcome:
    """Run one command with its busy neighbours; everything ends with it."""
    hogs = [subprocess.Popen([TOOL, "hog", "--seconds", str(int(work.seconds + 5))]) for _ in range(work.busy)]
    before, start = busy_seconds(), time.monotonic()
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=work.seconds + 60,
            check=False,
            env={**os.environ, **(env or {})},
        )
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    return Outcome(done.stdout, done.stderr, done.returncode, time.monotonic() - start, busy_seconds() - before)


def wavebed(path: PathSpec, work: Work, *, series: bool = False) -> Outcome:
    """Run across wavebed."""
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary.json"
        argv = [str(WAVEBED), "shell", "--summary", str(summary), "--delay", f"{path.rtt_ms * 500:.0f}us"]
        if path.rate_bps:
            argv += ["--rate", f"{path.rate_bps // 1_000_000}mbit"]
        if path.queue_bytes:
            argv += ["--queue", f"droptail:{path.queue_bytes // 1000}kb"]
        if path.loss:
            argv += ["--up-loss", f"{path.loss * 100:g}%"]
        if path.coalesce:
            argv += ["--coalesce", path.coalesce]
        if series:
            argv += ["--log", folder]
        argv += path.extra
        for server in work.servers:
            argv += ["--server", server]
        outcome = run([*argv, "--", *shlex.split(work.client)], work)
        if summary.exists():
            outcome.summary = json.loads(summary.read_text())
        for table in Path(folder).glob("*.csv"):
            outcome.series[table.stem] = _rows(table)
        return outcome


def _rows(table: Path) -> list[dict[str, float]]:
    lines = table.read_text().splitlines()
    names = lines[0].split(",")
    return [
        {name: float(value) for name, value in zip(names, line.split(","), strict=True) if value} for line in lines[1:]
    ]


def relay(path: PathSpec, work: Work) -> Outcome:
    """Run across the bare relay: fixed delay and rate, no headers read."""
    return run([*relay_argv(path, work.servers), *shlex.split(work.client)], work)


def relay_argv(path: PathSpec, servers: Sequence[str]) -> list[str]:
    """Return the command of the relay, before the client's."""
    argv = [TOOL, "relay", "--delay-ns", str(int(path.rtt_ms * 500_000))]
    if path.rate_bps:
        argv += ["--rate-bps", str(path.rate_bps)]
    for server in servers:
        argv += ["--server", server]
    return [*argv, "--"]


def rattan(path: PathSpec, work: Work) -> Outcome:
    """Run across Rattan in its compatible mode, whose far end is this machine's namespace."""
    argv = rattan_argv(path)
    servers = [subprocess.Popen(shlex.split(server), stdout=subprocess.DEVNULL) for server in work.servers]
    try:
        client = work.client.replace("{server}", "$RATTAN_BASE")
        return run([*argv, "sh", "-c", client], work, {"RUST_LOG": "error"})
    finally:
        for server in servers:
            server.kill()
            server.wait()


def rattan_argv(path: PathSpec) -> list[str]:
    """Return the command of Rattan, before the client's."""
    program = rattan_program()
    if program is None:
        raise LookupError("rattan is not installed")
    argv = [program, "link"]
    for side in ("uplink", "downlink"):
        argv += [f"--{side}-delay", f"{path.rtt_ms / 2}ms", f"--{side}-queue", "infinite"]
        if path.rate_bps:
            argv += [f"--{side}-bandwidth", f"{path.rate_bps // 1_000_000}Mbps"]
    return [*argv, "--"]
