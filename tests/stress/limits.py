"""Few descriptors, several laboratories at once, a minute at 1 Gbit/s, and who may read the servers' key."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tests.stress import remains
from tests.stress.family import engine_of
from tests.stress.figure import Figure, of_all
from tests.stress.remains import end_all, ended, family, settled
from tests.stress.sandbox import inside, wavebed_command

from wavebed.path.api import Path as Emulated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.stress.figure import State

    from wavebed.path.lab import Laboratory

__all__ = ["DESCRIPTORS", "measure"]

DESCRIPTORS = (8, 12, 16, 20, 24, 32, 40, 48, 64, 128, 256)
TOGETHER = 3
LEAST_MBPS = 195.0
MOST_BYTES = 64 << 20
PRIVATE_MODE = 0o600
MTU = "9000"
"""With it, 99.4 % of the rate is TCP payload."""
_WEB = '[path]\nrate = "10mbit"\n[[workload]]\nkind = "download"\nsize = "3mb"\nprotocol = "h2"\n'


def measure(duration_s: int = 60, together_s: int = 8) -> list[Figure]:
    """Measure what limits do; `duration_s` is how long 1 Gbit/s lasts, `together_s` the laboratories at once."""
    few = inside("tests.stress.limits:few_descriptors", timeout_s=60 * len(DESCRIPTORS))
    return [
        of_all("few descriptors: it works, or one line", [tuple(each) for each in few], what="limits"),
        _together(inside("tests.stress.limits:together", seconds=together_s, timeout_s=60 + 3 * together_s)),
        *_long(inside("tests.stress.limits:long", seconds=duration_s, timeout_s=60 + 2 * duration_s)),
        _key(inside("tests.stress.limits:key_modes", timeout_s=120)),
    ]


def _busy() -> str:
    """Return why this machine could not tell, if something else uses its processors."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"load {load:.1f} on {cores} processors" if load > 2 * cores else ""


def _together(rates: Sequence[float]) -> Figure:
    busy = _busy()
    state: State = "met" if min(rates) >= LEAST_MBPS else "inconclusive" if busy else "missed"
    return Figure(
        f"{len(rates)} laboratories of 200 Mbit/s at once",
        f"at least {LEAST_MBPS:g} Mbit/s of TCP payload each",
        f"{', '.join(f'{rate:.1f}' for rate in rates)} Mbit/s",
        state,
        busy if state == "inconclusive" else "",
    )


def _long(told: dict[str, Any]) -> list[Figure]:
    missed, rounds, peak = told["missed"], told["rounds"], told["peak_bytes"]
    kept: State = "met" if rounds and not missed else "inconclusive" if _busy() else "missed"
    small: State = "met" if 0 < peak <= MOST_BYTES else "missed"
    name = f"{told['seconds']} s at 1 Gbit/s"
    carried = f"{peak / (1 << 20):.0f} MB, {told['mbps']:.0f} Mbit/s carried"
    why = "" if kept == "met" else _busy()
    return [
        Figure(f"{name}: memory of the engine", f"at most {MOST_BYTES >> 20} MB", carried, small),
        Figure(f"{name}: rounds of the sampler", "0 missed", f"{missed} of {missed + rounds} missed", kept, why),
    ]


def _key(modes: dict[str, int]) -> Figure:
    found = ", ".join(sorted({f"{mode:o}" for mode in modes.values()})) or "no key seen"
    state: State = "met" if modes and all(mode == PRIVATE_MODE for mode in modes.values()) else "missed"
    wrong = ", ".join(path for path, mode in modes.items() if mode != PRIVATE_MODE)
    return Figure("mode of the servers' key while they run", f"{PRIVATE_MODE:o}", found, state, wrong)


def few_descriptors() -> list[tuple[str, bool]]:
    """Run ``shell -- true`` with few descriptors, in a sandbox; nothing is left of those that fail."""
    results = []
    for most in DESCRIPTORS:
        before = remains.State.now()
        front = subprocess.Popen(
            ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", *wavebed_command("shell", "--", "true")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, said = front.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            front.kill()
            said = "it hangs\nit hangs"
        _, left = settled(before, front.pid, 3.0)
        end_all()
        lines = said.strip().splitlines()
        fine = front.returncode == 0 or (front.returncode in (2, 3) and len(lines) == 1)
        told = f"{most}: status {front.returncode}, {', '.join(left)} {lines[-1][:150] if lines else ''}"
        results.append((told, fine and not left))
    return results


def together(seconds: int) -> list[float]:
    """Load several laboratories at once, in a sandbox; return Mbit/s of each."""
    with ExitStack() as stack:
        path = Emulated.of(rate="200mbit", delay="2ms", queue="droptail:2mb", mtu=MTU)
        labs = [stack.enter_context(path.up()) for _ in range(TOGETHER)]
        for lab in labs:
            _serve(lab)
        clients = [lab.client.start(_iperf3(seconds, "-4", "-R"), stdout=subprocess.PIPE) for lab in labs]
        for client in clients:
            client.wait(seconds + 20)
        return [_mbps(client.output()[0]) for client in clients]


def long(seconds: int) -> dict[str, Any]:
    """Carry 1 Gbit/s for a while, in a sandbox; return the engine's peak memory and the sampler's rounds."""
    emulated = Emulated.of(rate="1gbit", delay="5ms", queue="droptail:2mb")
    with emulated.up(log="log", sample=True) as lab:
        _serve(lab)
        done = lab.client.run(_iperf3(seconds, "-4", "-R"), capture_output=True, timeout=seconds + 30)
        status = Path(f"/proc/{engine_of(os.getpid())}/status").read_text()
    peak = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
    sampler = cast("dict[str, int]", (lab.summary or {}).get("sampler") or {"rounds": 0, "missed": 0})
    counts = {key: sampler[key] for key in ("rounds", "missed")}
    return {"seconds": seconds, "peak_bytes": peak, "mbps": _mbps(done.stdout), **counts}


def _serve(lab: Laboratory) -> None:
    lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lab.server.wait_for_port(5201, 60.0)


def _iperf3(seconds: int, *options: str) -> list[str]:
    return ["iperf3", "-c", "server", "-t", str(seconds), "-O", "1", "-J", *options]


def _mbps(output: str | None) -> float:
    end = json.loads(output or "{}").get("end", {})
    received = end.get("sum_received") or end.get("sum") or {"bits_per_second": 0.0}
    return float(received["bits_per_second"]) / 1e6


def key_modes() -> dict[str, int]:
    """Return the modes of all private keys while a web server runs, in a sandbox."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    Path("s.toml").write_text(_WEB)
    argv = wavebed_command("run", "s.toml", "-o", "out")
    front = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    modes: dict[str, int] = {}
    end = time.monotonic() + 60
    while not ended(front) and time.monotonic() < end:
        if any(each.program == "nginx" for each in family()):
            modes |= _keys()
        time.sleep(0.05)
    end_all()
    return modes


def _keys() -> dict[str, int]:
    found = {}
    for path in Path("/tmp").rglob("*"):
        if path.suffix in (".pem", ".key") and path.is_file() and b"PRIVATE KEY" in path.read_bytes():
            found[str(path)] = path.stat().st_mode & 0o777
    return found
