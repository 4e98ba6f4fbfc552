"""The parts of the demonstration, each in a laboratory of its own so that the pattern starts at zero."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from wavebed.demo.series import LinkSeries, read_link_series
from wavebed.demo.tools import nginx_configuration, sparse_file
from wavebed.errors import WavebedError
from wavebed.path.api import Path as EmulatedPath

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.path.lab import Laboratory
    from wavebed.path.laboratory import Json
    from wavebed.path.process import LabProcess

__all__ = ["Bulk", "Phase", "Ping", "run_bulk", "run_download"]

DOWNLOAD_BYTES = 200_000_000
DOWNLOAD_TIMEOUT_S = 40.0
IDLE_S = 5.0
BULK_S = 39
PING_EVERY_S = 0.05
_LINK = "radio.down"
_REPLY = re.compile(r"^\[(\d+\.\d+)\] .* time=(\d+(?:\.\d+)?) ms$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ping:
    """One echo: when it was sent, seconds since time zero, and its round-trip time, milliseconds."""

    sent_s: float
    rtt_ms: float


@dataclass(frozen=True, slots=True)
class Bulk:
    """One transfer from the server to the client.

    Parameters
    ----------
    start_s, end_s : float
        When it began and ended, seconds since time zero.
    goodput_bps : float
        Application bits per second, as the tool itself reports.
    retransmitted_segments : int
        Segments that the server's TCP sent again.
    """

    start_s: float
    end_s: float
    goodput_bps: float
    retransmitted_segments: int


@dataclass(frozen=True, slots=True)
class Phase:
    """What one laboratory gave.

    Parameters
    ----------
    name : str
        ``download``, ``cubic`` or ``bbr``.
    bulk : Bulk
        The transfer.
    pings : list of Ping
        The echoes beside it (and after it).
    series : LinkSeries
        The downlink of the radio.
    summary : dict
        The engine's books.
    """

    name: str
    bulk: Bulk
    pings: list[Ping]
    series: LinkSeries
    summary: dict[str, Json]


class _Watch:
    """Time since the laboratory's time zero, by this machine's clocks."""

    def __init__(self, lab: Laboratory) -> None:
        before = time.monotonic()
        now_ns = lab.show()["now_ns"]
        after = time.monotonic()
        assert isinstance(now_ns, int), "time is a number of nanoseconds"
        self._zero = (before + after) / 2 - now_ns / 1e9
        self.zero_unix_s = time.time() - self.now_s()

    def now_s(self) -> float:
        return time.monotonic() - self._zero


def run_download(scenario: Path, folder: Path, tools: dict[str, str], seed: int, site: Path) -> Phase:
    """Download 200 MB by curl from nginx, as the study did, and ping on for a while when it is over.

    Raises
    ------
    WavebedError
        If a tool fails.
    """
    sparse_file(_www(site) / "200MB.bin", DOWNLOAD_BYTES)
    configuration = nginx_configuration(site)
    path = EmulatedPath.load(scenario, congestion_control="cubic", seed=str(seed))
    with path.up(log=folder) as lab:
        watch = _Watch(lab)
        with (folder / "nginx.log").open("w") as log:
            web = lab.server.start([tools["nginx"], "-c", configuration, "-p", site], stdout=log, stderr=log)
        _await_web(lab, web, folder / "nginx.log")
        ping = _Pinger(lab, folder, tools["ping"])
        sent_before = _retransmitted(lab)
        start_s = watch.now_s()
        done = lab.client.run(
            [tools["curl"], "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{json}", "http://server/200MB.bin"],
            capture_output=True,
            timeout=DOWNLOAD_TIMEOUT_S,
        )
        end_s = watch.now_s()
        (folder / "curl.json").write_text(done.stdout)
        if done.returncode != 0:
            raise WavebedError(f"curl ended with {done.returncode}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        resent = _retransmitted(lab) - sent_before
        time.sleep(IDLE_S)
        pings = ping.stop(watch)
        web.terminate()
    goodput_bps = report["size_download"] * 8 / report["time_total"]
    return _phase("download", folder, Bulk(start_s, end_s, goodput_bps, resent), pings)


def _await_web(lab: Laboratory, web: LabProcess, log: Path) -> None:
    try:
        lab.server.wait_for_port(80)
    except TimeoutError:
        status = web.poll()
        reason = log.read_text(errors="replace").strip() or "it said nothing"
        state = "does not listen" if status is None else f"ended with {status}"
        raise WavebedError(f"nginx {state}: {reason}") from None


def run_bulk(control: str, scenario: Path, folder: Path, tools: dict[str, str], seed: int) -> Phase:
    """Send one flow of iperf3 from the server to the client through the whole pattern, with ping beside it.

    Raises
    ------
    WavebedError
        If a tool fails, or the kernel used another congestion control.
    """
    path = EmulatedPath.load(scenario, congestion_control=control, seed=str(seed))
    with path.up(log=folder) as lab:
        watch = _Watch(lab)
        server = lab.server.start([tools["iperf3"], "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201)
        ping = _Pinger(lab, folder, tools["ping"])
        sent_before = _retransmitted(lab)
        start_s = watch.now_s()
        done = lab.client.run(
            [tools["iperf3"], "-c", "server", "-R", "-t", str(BULK_S), "-i", "0.5", "-J"],
            capture_output=True,
            timeout=BULK_S + 20,
        )
        (folder / "iperf3.json").write_text(done.stdout)
        report = _iperf3_report(done, control)
        resent = _retransmitted(lab) - sent_before
        pings = ping.stop(watch)
        server.wait(5)
    received = report["end"]["sum_received"]
    bulk = Bulk(start_s, start_s + received["seconds"], received["bits_per_second"], resent)
    return _phase(control, folder, bulk, pings)


def _iperf3_report(done: subprocess.CompletedProcess[str], control: str) -> dict[str, dict[str, dict[str, float]]]:
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"error": done.stderr.strip() or "it printed nothing"}
    if done.returncode != 0 or "error" in report:
        raise WavebedError(f"iperf3 ended with {done.returncode}: {report.get('error', 'no reason given')}")
    used = report["end"].get("sender_tcp_congestion", control)
    if used != control:
        raise WavebedError(f"iperf3 sent with {used}, not with {control}: the kernel refused it")
    return cast("dict[str, dict[str, dict[str, float]]]", report)


def _www(site: Path) -> Path:
    (site / "www").mkdir(exist_ok=True)
    return site / "www"


class _Pinger:
    """A ping that runs until it is stopped."""

    def __init__(self, lab: Laboratory, folder: Path, ping: str) -> None:
        self._file = folder / "ping.txt"
        with self._file.open("w") as output:
            self._process = lab.client.start([ping, "-D", "-n", "-i", str(PING_EVERY_S), "server"], stdout=output)

    def stop(self, watch: _Watch) -> list[Ping]:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(5)
        replies = _REPLY.findall(self._file.read_text())
        return [Ping(float(at) - watch.zero_unix_s - float(rtt) / 1e3, float(rtt)) for at, rtt in replies]


def _retransmitted(lab: Laboratory) -> int:
    """Return how many segments the server's TCP has sent again."""
    text = lab.server.run(["cat", "/proc/net/snmp"], capture_output=True, check=True).stdout
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def _phase(name: str, folder: Path, bulk: Bulk, pings: list[Ping]) -> Phase:
    summary = json.loads((folder / "summary.json").read_text())
    series = read_link_series(folder / f"{_LINK}.csv")
    for file in folder.glob("*.csv"):
        with file.open("rb") as plain, gzip.open(f"{file}.gz", "wb", compresslevel=1) as packed:
            shutil.copyfileobj(plain, packed)
        file.unlink()
    return Phase(name, bulk, pings, series, summary)
