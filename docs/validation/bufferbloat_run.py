"""One laboratory: a bulk transfer over a radio, and echoes before and during it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

from bufferbloat_series import LinkSeries, percentile, read_link_series

from wavebed.errors import WavebedError
from wavebed.path.api import Path as EmulatedPath

if TYPE_CHECKING:
    from wavebed.path.lab import Laboratory

DEEP, SHALLOW = "20mib", "256kib"
DELAY = "10ms"  # each way: a server in the same country
OTHER_RATE = "100mbit"  # of the direction that carries acknowledgements; it is never full
PING_EVERY_S = 0.05
HIGH_MBPS, LOW_MBPS = 300, 60
_BLER = 0.1  # what outer-loop link adaptation aims at: docs/models/link-adaptation.md
_FALL_STEPS = 8
_REPLY = re.compile(r"^\[(\d+\.\d+)\] .* icmp_seq=(\d+) .* time=(\d+(?:\.\d+)?) ms$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Course:
    """When a rate falls, in seconds since the laboratory's time zero."""

    idle_s: float = 1.5
    fall_s: float = 5.0
    low_s: float = 6.5
    back_s: float = 9.0
    end_s: float = 11.5

    def steps(self) -> list[tuple[float, float, str]]:
        """Return time, Mbit/s and state: high, down by equal factors, low, high again."""
        factor = LOW_MBPS / HIGH_MBPS
        rows = [(0.0, float(HIGH_MBPS), "los")]
        for step in range(1, _FALL_STEPS + 1):
            share = step / _FALL_STEPS
            at_s = self.fall_s + (self.low_s - self.fall_s) * (step - 1) / (_FALL_STEPS - 1)
            rows.append((at_s, HIGH_MBPS * factor**share, "nlos"))
        return [*rows, (self.back_s, float(HIGH_MBPS), "los")]

    def pattern(self) -> str:
        """Return the course in the native format."""
        head = f"# wavebed pattern 1\n# kind = steps\n# duration_s = {self.end_s:g}\ntime_s,rate_bps,bler,state\n"
        return head + "".join(f"{at_s:.3f},{mbps * 1e6:.0f},{_BLER},{state}\n" for at_s, mbps, state in self.steps())


@dataclass(frozen=True, slots=True)
class Cell:
    """What is compared: a link (`falling`, or the name of a scene), a direction, a buffer, a congestion control."""

    link: str
    direction: str
    buffer: str
    control: str
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What one laboratory gave. Times are seconds since its time zero.

    Parameters
    ----------
    pings : list of (float, float)
        When an echo was sent, and its round-trip time in milliseconds.
    load_s : (float, float)
        When the transfer began and ended.
    goodput_mbps : float
        Application bits, as iperf3 received them.
    lost_share : float
        Share of the echoes that were sent during the transfer and never answered.
    series : LinkSeries
        The loaded link by the millisecond.
    late_p99_ms : float
        How late the engine handed packets over: the worse direction's 99th percentile.
    doubts : list of str
        What the engine itself finds suspect about the run.
    """

    cell: Cell
    seed: int
    pings: list[tuple[float, float]]
    load_s: tuple[float, float]
    goodput_mbps: float
    lost_share: float
    series: LinkSeries
    late_p99_ms: float
    doubts: list[str]

    def idle_ms(self) -> list[float]:
        """Return the round-trip times of echoes that were answered before the transfer."""
        return [rtt_ms for sent_s, rtt_ms in self.pings if sent_s + rtt_ms / 1e3 < self.load_s[0]]

    def loaded_ms(self) -> list[float]:
        """Return the round-trip times of echoes that were sent during the transfer."""
        return [rtt_ms for sent_s, rtt_ms in self.pings if self.load_s[0] <= sent_s < self.load_s[1]]

    def figures(self) -> dict[str, float]:
        """Return what the table shows: milliseconds, Mbit/s, shares."""
        loaded = self.loaded_ms()
        return {
            "idle_p50": percentile(self.idle_ms(), 0.5) or float("nan"),
            "p50": percentile(loaded, 0.5) or float("nan"),
            "p95": percentile(loaded, 0.95) or float("nan"),
            "max": max(loaded, default=float("nan")),
            "mean": sum(loaded) / len(loaded) if loaded else float("nan"),
            "goodput": self.goodput_mbps,
            "lost": self.lost_share,
            "late_p99": self.late_p99_ms,
        }


def run(cell: Cell, seed: int, course: Course | None = None) -> Result:
    """Bring a laboratory up, ping, add a transfer, and end it.

    Raises
    ------
    WavebedError
        If iperf3 fails, or the kernel used another congestion control.
    """
    course = course or Course()
    with TemporaryDirectory() as name:
        folder = Path(name)
        with _path(cell, seed, course, folder).up(log=folder / "log") as lab:
            before = time.monotonic()
            now_ns = cast("int", lab.show()["now_ns"])
            zero = (before + time.monotonic()) / 2 - now_ns / 1e9
            zero_unix = time.time() - (time.monotonic() - zero)
            server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
            lab.server.wait_for_port(5201)
            ping = lab.client.start(["ping", "-D", "-n", "-i", str(PING_EVERY_S), "server"], stdout=subprocess.PIPE)
            time.sleep(max(0.0, zero + course.idle_s - time.monotonic()))  # echoes of the idle link
            start_s = time.monotonic() - zero
            goodput_mbps = _transfer(lab, cell, course.end_s - course.idle_s)
            end_s = time.monotonic() - zero
            time.sleep(0.5)  # the last echoes come back
            ping.send_signal(signal.SIGINT)
            ping.wait(5)
            server.wait(5)
            text = ping.output()[0] or ""
        summary = json.loads((folder / "log/summary.json").read_text())
        series = read_link_series(folder / f"log/radio.{cell.direction}.csv")
    replies = {int(n): (float(at) - zero_unix - float(rtt) / 1e3, float(rtt)) for at, n, rtt in _REPLY.findall(text)}
    late = max(link["surely_late_p99_us"] for link in summary["departures"]) / 1e3
    lost = _lost(replies, (start_s, end_s))
    return Result(
        cell, seed, list(replies.values()), (start_s, end_s), goodput_mbps, lost, series, late, summary["doubts"]
    )


def _path(cell: Cell, seed: int, course: Course, folder: Path) -> EmulatedPath:
    options: dict[str, object] = {"delay": DELAY, "seed": str(seed), "congestion_control": cell.control}
    if cell.link != "falling":
        return EmulatedPath.of(scene=cell.link, radio={f"{cell.direction}-buffer": cell.buffer}, **options)
    (folder / "falling.csv").write_text(course.pattern())
    other = "up" if cell.direction == "down" else "down"
    options[f"{cell.direction}_trace"] = str(folder / "falling.csv")
    options[f"{other}_rate"] = OTHER_RATE
    return EmulatedPath.of(radio={"preset": "nr-30khz", f"{cell.direction}-buffer": cell.buffer}, **options)


def _transfer(lab: Laboratory, cell: Cell, seconds: float) -> float:
    """Return the goodput in Mbit/s."""
    argv = ["iperf3", "-c", "server", "-J", "-t", f"{seconds:g}", "-C", cell.control, "-P", str(cell.streams)]
    reverse = ["-R"] if cell.direction == "down" else []
    done = lab.client.run([*argv, *reverse], capture_output=True, timeout=seconds + 30)
    report = json.loads(done.stdout or "{}")
    if done.returncode != 0 or "error" in report:
        raise WavebedError(f"iperf3 ended with {done.returncode}: {report.get('error', done.stderr.strip())}")
    used = report["end"]["sender_tcp_congestion"]
    if used != cell.control:
        raise WavebedError(f"iperf3 sent with {used}, not with {cell.control}: the kernel refused it")
    return cast("float", report["end"]["sum_received"]["bits_per_second"]) / 1e6


def _lost(replies: dict[int, tuple[float, float]], load_s: tuple[float, float]) -> float:
    """Return the share of unanswered echoes among those between the first and the last answered one under load."""
    numbers = [n for n, (sent_s, _) in replies.items() if load_s[0] <= sent_s < load_s[1]]
    return 1 - len(numbers) / (max(numbers) - min(numbers) + 1) if numbers else 1.0
