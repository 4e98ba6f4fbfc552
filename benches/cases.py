"""What is measured: one function a case, which runs one system once and returns figures."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import systems
from systems import TOOL, WAVEBED, Outcome, PathSpec, Work

if TYPE_CHECKING:
    from collections.abc import Callable

Figures = dict[str, float | None]
GBIT = 1_000_000_000
IPERF_SERVER = "iperf3 -s -1"
SYSTEMS: dict[str, Callable[[PathSpec, Work], Outcome]] = {
    "wavebed": systems.wavebed,
    "relay": systems.relay,
    "rattan": systems.rattan,
}


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    title: str
    systems: tuple[str, ...]
    measure: Callable[[str], Figures]
    headline: str
    unit: str
    target: str
    holds: Callable[[Figures], bool]


class FailedRunError(Exception):
    """A run that gave no figure."""


def _failed(outcome: Outcome, what: str) -> FailedRunError:
    tail = (outcome.stderr or outcome.stdout).strip().splitlines()[-3:]
    return FailedRunError(f"{what}: status {outcome.status}: {' | '.join(tail)}")


# ---- bulk TCP -------------------------------------------------------------------------------------------------

WARM_UP_S = 5
MEASURED_S = 10


def tcp(path: PathSpec, congestion: str, busy: int = 0) -> Callable[[str], Figures]:
    """One flow from the client, sent without copying; goodput at the receiver after the warm-up."""
    client = f"iperf3 -c {{server}} -Z -O {WARM_UP_S} -t {MEASURED_S} -C {congestion} -J"

    def measure(system: str) -> Figures:
        work = Work((IPERF_SERVER,), client, WARM_UP_S + MEASURED_S, busy)
        outcome = SYSTEMS[system](path, work)
        try:
            result = json.loads(outcome.stdout[outcome.stdout.index("{") :])
            received = result["end"]["sum_received"]
            sent = result["end"]["sum_sent"]
        except (ValueError, KeyError) as error:
            raise _failed(outcome, "iperf3") from error
        carried_gbit = sum(interval["sum"]["bytes"] for interval in result["intervals"]) * 8 / GBIT
        figures: Figures = {
            "goodput_gbps": received["bits_per_second"] / GBIT,
            "cpu_s_per_gbit": outcome.cpu_s / carried_gbit if carried_gbit else None,
            "retransmits": float(sent.get("retransmits", 0)),
        }
        if outcome.summary:
            figures |= _books(outcome)
        return figures

    return measure


def _books(outcome: Outcome) -> Figures:
    summary = outcome.summary or {}
    late = [
        d.get("surely_late_p99_us", d["late_p99_us"]) for d in summary["departures"] if d["late_p99_us"] is not None
    ]
    return {
        "unaccounted": float(sum(abs(link["unaccounted_segments"]) for link in summary["links"])),
        "late_p99_us": max(late, default=None),
        "device_dropped": float(sum(host["device_dropped_packets"] for host in summary["hosts"])),
    }


def radio(path: PathSpec, congestion: str) -> Callable[[str], Figures]:
    """One flow to the client over a radio; the share of its slots that IP bytes fill while it is measured."""

    def measure(system: str) -> Figures:
        seconds = WARM_UP_S + MEASURED_S
        client = f"iperf3 -c {{server}} -R -O {WARM_UP_S} -t {MEASURED_S} -C {congestion} -J"
        outcome = systems.wavebed(path, Work((IPERF_SERVER,), client, seconds), series=True)
        rows = outcome.series.get("radio.down")
        if outcome.status != 0 or not rows or path.rate_bps is None:
            raise _failed(outcome, f"radio on {system}")
        delivered = {int(row["time_ms"]): row["delivered_bytes"] for row in rows}
        start_ms = min(delivered)
        # Left out: slow start and the end; bbr's probe of the round trip, 0.2 s, which is due 10 s after the start.
        probed_ms = range(start_ms + 9_800, start_ms + 11_000)
        measured_ms = [
            at_ms for at_ms in range(start_ms + 1_000, start_ms + (seconds - 1) * 1_000) if at_ms not in probed_ms
        ]
        sent_bytes = sum(delivered.get(at_ms, 0.0) for at_ms in measured_ms)
        return {
            "slot_share": sent_bytes * 8000 / path.rate_bps / len(measured_ms),
            "cpu_s_per_gbit": outcome.cpu_s / (sum(delivered.values()) * 8 / GBIT),
            **_books(outcome),
        }

    return measure


# ---- round-trip times -----------------------------------------------------------------------------------------


def rtt(path: PathSpec, *, beside_udp: bool) -> Callable[[str], Figures]:
    """RTT of small probes by their own time stamps, against the RTT that was asked for."""
    expected_ns = int(path.rtt_ms * 1e6)
    probes, interval_us = 1_000, 5_000
    probe = f"{TOOL} probe {{server}}:7 --count {probes} --interval-us {interval_us} --expected-ns {expected_ns}"
    seconds = probes * interval_us / 1e6

    def measure(system: str) -> Figures:
        servers = [f"{TOOL} echo --port 7"]
        client = probe
        if beside_udp:
            # 1 Gbit/s of IP bytes: 1472 + 28 bytes at 83,333 a second, paced one by one.
            servers.append(f"{TOOL} count --port 9 --quiet-ms 2000")
            flood = f"{TOOL} send {{server}}:9 --payload 1472 --rate-pps 83333 --seconds {seconds + 1}"
            client = f"sh -c '{flood} > /dev/null & sleep 0.5; {probe}; kill %1 2>/dev/null; true'"
        outcome = SYSTEMS[system](path, Work(tuple(servers), client, seconds + 5))
        found = [line for line in outcome.stdout.splitlines() if '"probes"' in line]
        if not found:
            raise _failed(outcome, "probe")
        result = json.loads(found[0])
        return {
            "error_p50_us": result.get("error_p50_us"),
            "error_p99_us": result.get("error_p99_us"),
            "rtt_p50_us": result["rtt_p50_us"],
            "lost": float(result["lost"]),
        }

    return measure


# ---- small packets --------------------------------------------------------------------------------------------


def small(path: PathSpec, segments: int, seconds: float = 5.0) -> Callable[[str], Figures]:
    """UDP of 18 payload bytes (64 bytes on Ethernet), from the client to a counting receiver on the server."""
    client = f"{TOOL} send {{server}}:9 --payload 18 --segments {segments} --seconds {seconds}"

    def measure(system: str) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            counted = Path(folder) / "counted.json"
            script = Path(folder) / "count"
            script.write_text(f"#!/bin/sh\nexec {TOOL} count --port 9 > {counted}\n")
            script.chmod(0o755)
            # The sender ends first; the receiver needs a moment of quiet to end by itself.
            outcome = SYSTEMS[system](path, Work((str(script),), f"sh -c '{client}; sleep 1.5'", seconds + 8))
            sent = json.loads(outcome.stdout.strip().splitlines()[-1]) if outcome.stdout.strip() else None
            text = counted.read_text() if counted.exists() else ""
        if not sent or not text.strip():
            raise _failed(outcome, "small packets")
        received = json.loads(text)
        figures: Figures = {
            "received_mpps": received["received_datagrams"] / received["seconds"] / 1e6,
            "sent_mpps": sent["sent_datagrams"] / sent["seconds"] / 1e6,
        }
        if outcome.summary:
            figures |= _books(outcome)
            figures |= _small_books(outcome, sent["sent_datagrams"], received["received_datagrams"], sent["seconds"])
        return figures

    return measure


def _small_books(outcome: Outcome, sent: int, received: int, seconds: float) -> Figures:
    summary = outcome.summary or {}
    up = next(link for link in summary["links"] if link["name"].endswith(".up"))
    sockets = sum(host["udp_receive_buffer_errors"] for host in summary["hosts"])
    refused = sum(d["refused_segments"] for d in summary["departures"])
    device = sum(host["device_dropped_packets"] for host in summary["hosts"])
    known = sum(up["dropped_segments"].values()) + sockets + refused + up["queued_segments"]
    return {
        "engine_mpps": up["offered_segments"] / seconds / 1e6,
        # With segmentation offload a packet lost at the device is many datagrams: then this is a bound, not a sum.
        "not_in_books": float(sent - received - known) if device == 0 else None,
        "device_dropped": float(device),
        "socket_dropped": float(sockets),
    }


# ---- the pattern ----------------------------------------------------------------------------------------------

PATTERN_STEPS_MBPS = (100, 1_000, 3_000, 500, 2_000, 200, 2_500, 800, 3_000, 100, 1_500, 300)
STEP_S = 1.25
WINDOW_MS = 100
LATE_NS = 250_000


def follows_pattern(_system: str) -> Figures:
    """Bytes handed to the device against the pattern, backlogged, in windows of 100 ms."""
    with tempfile.TemporaryDirectory() as folder:
        pattern = Path(folder) / "steps.csv"
        duration_s = STEP_S * len(PATTERN_STEPS_MBPS)
        rows = [f"{i * STEP_S:g},{rate * 1_000_000}" for i, rate in enumerate(PATTERN_STEPS_MBPS)]
        head = f"# wavebed pattern 1\n# kind = steps\n# duration_s = {duration_s:g}\ntime_s,rate_bps\n"
        pattern.write_text(head + "\n".join(rows) + "\n")
        extra = ("--up-trace", str(pattern), "--down-rate", "1gbit", "--queue", "droptail:2mb")
        client = f"{TOOL} send {{server}}:9 --payload 1472 --segments 43 --rate-pps 290000 --seconds {duration_s}"
        outcome = systems.wavebed(
            PathSpec(rtt_ms=2, extra=extra), Work((f"{TOOL} count --port 9",), client, duration_s + 5), series=True
        )
    if outcome.status != 0 or "departures.server-client.up" not in outcome.series:
        raise _failed(outcome, "pattern")
    departures = outcome.series["departures.server-client.up"]
    link = outcome.series["radio.up"]
    return _windows(departures, link, int(duration_s * 1000))


def _windows(departures: list[dict[str, float]], link: list[dict[str, float]], duration_ms: int) -> Figures:
    handed = dict.fromkeys(range(duration_ms // WINDOW_MS), 0.0)
    late: set[int] = set()
    idle: set[int] = set()
    for row in departures:
        window = int(row["time_ms"]) // WINDOW_MS
        if window in handed:
            handed[window] += row["bytes"]
        if row["late_max_ns"] > LATE_NS:
            # What is late is missing in the window in which it was due, and too much in the one in which it left.
            due_ms = max(0, int(row["time_ms"]) - 1 - int(row["late_max_ns"]) // 10**6)
            late.update(range(due_ms // WINDOW_MS, window + 1))
    for row in link:
        if row["queue_bytes"] == 0:
            idle.add(int(row["time_ms"]) // WINDOW_MS)
    errors, flagged, missed = [], 0, 0
    for window, found in handed.items():
        # The first window fills the queue, the last may end early; a window that ran dry was not backlogged.
        if window in (0, len(handed) - 1) or window in idle:
            continue
        expected = _pattern_bytes(window * WINDOW_MS, (window + 1) * WINDOW_MS)
        error = abs(found / expected - 1)
        errors.append(error)
        flagged += window in late
        missed += error > 0.005 and window not in late
    return {
        "within_half_percent": sum(error <= 0.005 for error in errors) / len(errors),
        "windows": float(len(errors)),
        "worst_error": max(errors),
        "late_windows": float(flagged),
        "unflagged_misses": float(missed),
    }


def _pattern_bytes(from_ms: float, to_ms: float) -> float:
    """Bytes that the pattern allows to leave between two times; the delay of 1 ms shifts it."""
    total = 0.0
    for index, rate in enumerate(PATTERN_STEPS_MBPS):
        start, end = index * STEP_S * 1000 + 1, (index + 1) * STEP_S * 1000 + 1
        total += max(0.0, min(to_ms, end) - max(from_ms, start)) * rate * 1e6 / 8000
    return total


# ---- cost of start and memory ---------------------------------------------------------------------------------


def start_up(_system: str) -> Figures:
    """Whole process, and the binary alone with a ready laboratory file."""
    whole, alone = [], []
    with tempfile.TemporaryDirectory() as folder:
        lab = Path(folder) / "lab.json"
        shown = subprocess.run(
            [str(WAVEBED), "shell", "--rate", "100mbit", "--delay", "5ms", "--print-laboratory", "--", "true"],
            capture_output=True,
            text=True,
            check=True,
        )
        lab.write_text(shown.stdout)
        core = str(WAVEBED.with_name("wavebed-core"))
        for _ in range(11):
            for times, argv in (
                (whole, [str(WAVEBED), "shell", "--rate", "100mbit", "--delay", "5ms", "--", "true"]),
                (alone, [core, "lab", str(lab)]),
            ):
                start = time.monotonic()
                subprocess.run(argv, check=True, capture_output=True)
                times.append(time.monotonic() - start)
    return {"whole_ms": statistics.median(whole) * 1e3, "core_ms": statistics.median(alone) * 1e3}


MEMORY_LAB = "bench-memory"


def memory(_system: str) -> Figures:
    """Resident memory of the engine against the bytes in flight, 10 Gbit/s and 80 ms with a full queue."""
    argv = [
        str(WAVEBED), "shell", "--name", MEMORY_LAB, "--rate", "10gbit", "--delay", "40ms",
        "--queue", "droptail:100mb", "--server", IPERF_SERVER,
        "--", "iperf3", "-c", "server", "-R", "-t", "12", "-C", "cubic",
    ]  # fmt: skip
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    worst_excess, at_worst = float("-inf"), (0.0, 0.0)
    try:
        while running.poll() is None:
            sample = _engine_memory(running.pid)
            if sample:
                resident, in_flight = sample
                excess = resident - in_flight * 1.25
                if excess > worst_excess:
                    worst_excess, at_worst = excess, sample
            time.sleep(0.25)
    finally:
        running.kill()
        running.wait()
    if worst_excess == float("-inf"):
        raise FailedRunError("memory: no sample")
    return {
        "excess_mib": worst_excess / 2**20,
        "resident_mib": at_worst[0] / 2**20,
        "in_flight_mib": at_worst[1] / 2**20,
    }


def _engine_memory(front: int) -> tuple[float, float] | None:
    state = subprocess.run(
        [str(WAVEBED), "ctl", MEMORY_LAB, "show", "--json"], capture_output=True, text=True, check=False
    )
    if state.returncode != 0:
        return None
    in_flight = json.loads(state.stdout).get("in_flight_bytes")
    resident = sum(_resident(pid) for pid in descendants(front) if _command(pid) == "wavebed-core")
    return (resident, float(in_flight)) if in_flight else None


def descendants(front: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, todo = [], [front]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _resident(pid: int) -> int:
    """Memory that only this process has (RssAnon), bytes: the programs' text is shared."""
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


# ---- the list -------------------------------------------------------------------------------------------------


def _at_least(key: str, value: float) -> Callable[[Figures], bool]:
    return lambda figures: (figures.get(key) or 0) >= value


def _at_most(limits: dict[str, float]) -> Callable[[Figures], bool]:
    return lambda figures: all(
        figures.get(key) is not None and (figures[key] or 0) <= limit for key, limit in limits.items()
    )


TEN = PathSpec(rtt_ms=10, rate_bps=10 * GBIT, queue_bytes=25_000_000)
TWENTY = PathSpec(rtt_ms=10, rate_bps=20 * GBIT, queue_bytes=50_000_000)
LONG = PathSpec(rtt_ms=80, rate_bps=10 * GBIT, queue_bytes=200_000_000)
LOSSY = PathSpec(rtt_ms=10, rate_bps=10 * GBIT, queue_bytes=25_000_000, loss=0.0001)
PLAIN = PathSpec(rtt_ms=10, rate_bps=2_500_000_000, queue_bytes=6_250_000, coalesce="off")
THREE = PathSpec(rtt_ms=10, rate_bps=3 * GBIT, queue_bytes=7_500_000)
WIDE = PathSpec(rtt_ms=10, rate_bps=10 * GBIT, queue_bytes=100_000_000)
SLOTTED = PathSpec(rtt_ms=8, rate_bps=3 * GBIT,
                   extra=("--up-rate", "300mbit", "--radio", '{preset = "nr-120khz", frame = "fdd"}'))  # fmt: skip
PLAIN_POSSIBLE = 2.5 * 1448 / 1500

CASES = [
    Case("cubic-10g", "1 CUBIC flow, 10 ms, 10 Gbit/s (9.65 possible)", ("wavebed", "relay", "rattan"),
         tcp(TEN, "cubic"), "goodput_gbps", "Gbit/s", "≥ 9.5, ≥ 10 × Rattan", _at_least("goodput_gbps", 9.5)),
    Case("cubic-20g", "1 CUBIC flow, 10 ms, 20 Gbit/s", ("wavebed", "relay"),
         tcp(TWENTY, "cubic"), "goodput_gbps", "Gbit/s", "≥ 15, ≥ 0.85 × relay", _at_least("goodput_gbps", 15)),
    Case("cubic-10g-80ms", "1 CUBIC flow, 80 ms, 10 Gbit/s", ("wavebed", "relay"),
         tcp(LONG, "cubic"), "goodput_gbps", "Gbit/s", "≥ 9", _at_least("goodput_gbps", 9)),
    Case("bbr-10g-80ms", "1 BBR flow, 80 ms, 10 Gbit/s", ("wavebed", "relay"),
         tcp(LONG, "bbr"), "goodput_gbps", "Gbit/s", "≥ 9", _at_least("goodput_gbps", 9)),
    Case("bbr-10g-loss", "1 BBR flow, 10 ms, 10 Gbit/s, 0.01 % loss", ("wavebed",),
         tcp(LOSSY, "bbr"), "goodput_gbps", "Gbit/s", "≥ 8", _at_least("goodput_gbps", 8)),
    Case("join-off", "1 CUBIC flow, 10 ms, 2.5 Gbit/s, --coalesce off (2.413 possible)", ("wavebed", "rattan"),
         tcp(PLAIN, "cubic"), "goodput_gbps", "Gbit/s", "≥ 98 % of possible",
         _at_least("goodput_gbps", 0.98 * PLAIN_POSSIBLE)),
    Case("radio-3g", "share of 125 µs slots that 1 BBR flow fills, 8 ms, 3 Gbit/s (0.993 possible)", ("wavebed",),
         radio(SLOTTED, "bbr"), "slot_share", "", "≥ 0.98", _at_least("slot_share", 0.98)),
    Case("rtt-idle", "RTT error, idle", ("wavebed", "relay", "rattan"),
         rtt(WIDE, beside_udp=False), "error_p50_us", "µs", "p50 ≤ 150, p99 ≤ 500",
         _at_most({"error_p50_us": 150, "error_p99_us": 500})),
    Case("rtt-loaded", "RTT error beside 1 Gbit/s of paced UDP", ("wavebed", "relay"),
         rtt(WIDE, beside_udp=True), "error_p50_us", "µs", "p50 ≤ 250, p99 ≤ 1000",
         _at_most({"error_p50_us": 250, "error_p99_us": 1000})),
    Case("late-busy", "lateness p99 at 3 Gbit/s beside 2 busy processes", ("wavebed",),
         tcp(THREE, "cubic", busy=2), "late_p99_us", "µs", "≤ 250", _at_most({"late_p99_us": 250})),
    Case("pattern", "share of 100 ms windows within 0.5 % of the pattern, 0.1 to 3 Gbit/s", ("wavebed",),
         follows_pattern, "within_half_percent", "", "≥ 0.99, misses flagged",
         lambda f: (f["within_half_percent"] or 0) >= 0.99 and f["unflagged_misses"] == 0),
    Case("udp-single", "64-byte UDP, one datagram at a time", ("wavebed", "relay"),
         small(WIDE, 1), "received_mpps", "M/s", "≥ 0.8 × relay", _at_most({"unaccounted": 0})),
    Case("udp-gso", "64-byte UDP by segmentation offload, wire segments", ("wavebed", "relay"),
         small(WIDE, 64), "received_mpps", "M/s", "≥ 5", _at_least("received_mpps", 5)),
    Case("start", "wavebed shell -- true; wavebed-core alone", ("wavebed",),
         start_up, "whole_ms", "ms", "≤ 400; core ≤ 60", _at_most({"whole_ms": 400, "core_ms": 60})),
    Case("memory", "memory beyond 1.25 × bytes in flight, 10 Gbit/s, 80 ms", ("wavebed",),
         memory, "excess_mib", "MiB", "≤ 64", _at_most({"excess_mib": 64})),
]  # fmt: skip

#: Ratios that a target names: case, other system, least ratio of headline figures.
RATIOS = {
    ("cubic-10g", "rattan"): 10.0,
    ("cubic-20g", "relay"): 0.85,
    ("udp-single", "relay"): 0.8,
}
