"""Run the study's iperf3 commands through the same device, and count the frames that arrive.

The study (small-packets) ran ``iperf3 -u -c SERVER -b 1000M -P 10 -i 1`` with a payload of 1472 B, and the same with
``-l 18``. iperf3 needs a host with an address on each side of the device; here they are network namespaces of this
machine. It prints payload; the frames are counted at the interface of the receiving port.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.frames import ETHERNET_BYTES, FCS_BYTES, Headers, StudyConversion, study_conversion
from wavebed.forward.model import PlainValue, to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.config.data import Json
    from wavebed.forward.model import InterfaceCounters
    from wavebed.forward.parts import OverloadName

STUDY_TESTS: Mapping[OverloadName, int] = {"throughput": 1472, "overload": 18}
"""Payload in bytes of either test: frames of 1518 and 64 B."""

_READY_S = 5.0
_BEYOND_S = 15.0
"""iperf3 ends within this after the time that it was given, or it is ended."""
_SIZE_WITHIN = 0.05
"""iperf3's own TCP connection carries a few kB: the mean size may be off by this fraction."""


@dataclass(frozen=True, slots=True)
class Iperf3Host:
    """One end: a namespace with an address.

    Parameters
    ----------
    namespace : str
        As ``ip netns`` names it.
    core : int, optional
        The processor that iperf3 is kept on there.
    """

    namespace: str
    address: str
    core: int | None = None

    def command(self, program: list[str]) -> list[str]:
        """Return the command that runs a program there."""
        pinned = [] if self.core is None else ["taskset", "-c", str(self.core)]
        return ["ip", "netns", "exec", self.namespace, *pinned, *program]


class Iperf3Run(PlainValue, frozen=True):
    """The outcome of one command.

    Parameters
    ----------
    command : tuple of str
        As the study wrote it.
    seconds : float
        How long iperf3 sent, by its own account.
    frames : int
        That arrived at the receiving port's interface, counted there; the frames of iperf3's control connection, some
        tens, are among them.
    pps : float
        `frames` over `seconds`.
    frame_bytes_mean : float or None
        Mean size with FCS at the interface.
    claimed_mbps : float
        The rate that iperf3 prints: payload received.
    claimed_pps : float
        Its own count of datagrams received, per second.
    conversion : StudyConversion
        The study's formula on `claimed_mbps`, and the right one.
    doubt : str
        The reason to doubt it; empty if there is none.
    """

    test: OverloadName
    command: tuple[str, ...]
    version: str
    payload_bytes: int
    seconds: float
    frames: int
    pps: float
    frame_bytes_mean: float | None
    claimed_mbps: float
    claimed_pps: float
    conversion: StudyConversion
    doubt: str
    output: str

    def for_record(self) -> dict[str, Json]:
        """Return the run for the record; the output is kept as a file."""
        plain = to_plain(self)
        del plain["output"]
        return {**plain, "command": " ".join(self.command)}


def study_command(server: str, payload_bytes: int, seconds: int) -> list[str]:
    """Return the study's command, with its length in time and its payload said, and its result as JSON."""
    return [
        *("iperf3", "-u", "-c", server, "-b", "1000M", "-P", "10", "-i", "1"),
        *("-l", str(payload_bytes), "-t", str(seconds), "-J"),
    ]


def run_study_command(
    test: OverloadName,
    client: Iperf3Host,
    server: Iperf3Host,
    counters: Callable[[], InterfaceCounters],
    seconds: int = 10,
) -> Iperf3Run:
    """Run one of the study's two commands.

    Parameters
    ----------
    counters : callable
        Reads the counters of the receiving port's interface.

    Raises
    ------
    MachineError
        If iperf3 is missing.
    WavebedError
        If it fails.
    """
    payload = STUDY_TESTS[test]
    command = study_command(server.address, payload, seconds)
    listening = _start_server(server)
    try:
        before = counters()
        output = _run_client(client.command(command), seconds + _BEYOND_S)
        after = _settled(counters)
    finally:
        _end(listening)
    told = _told(output)
    frames = after.rx_packets - before.rx_packets
    size = _size((after.rx_bytes - before.rx_bytes) / frames, payload) if frames else None
    return Iperf3Run(
        test=test,
        command=tuple(command),
        version=told.version,
        payload_bytes=payload,
        seconds=told.seconds,
        frames=frames,
        pps=frames / told.seconds,
        frame_bytes_mean=size,
        claimed_mbps=told.mbps,
        claimed_pps=told.packets / told.seconds,
        conversion=study_conversion(told.mbps, payload),
        doubt=_doubt(size, payload),
        output=output,
    )


def _size(counted: float, payload: int) -> float:
    """Return the size of a frame with FCS from the interface's count, which has none.

    A veth interface with NAPI counts without the Ethernet header, too.
    """
    expected = Headers().frame_bytes(payload)
    without = expected - FCS_BYTES - ETHERNET_BYTES
    if abs(counted - without) <= _SIZE_WITHIN * without:
        return counted + ETHERNET_BYTES + FCS_BYTES
    return counted + FCS_BYTES


def _doubt(size: float | None, payload: int) -> str:
    expected = Headers().frame_bytes(payload)
    if size is None:
        return "no frame arrived at the interface"
    if abs(size - expected) > _SIZE_WITHIN * expected:
        return (
            f"frames of {size:.0f} B on average arrived, not of {expected} B: super-packets or other traffic, so the"
            " count is not one of such frames (turn the sender's tx-udp-segmentation off)"
        )
    return ""


def _start_server(server: Iperf3Host) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            server.command(["iperf3", "-s", "-1", "-B", server.address, "--forceflush"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise MachineError(f"--with iperf3: {error.filename}: {error.strerror}: install iproute2 and iperf3") from None
    assert process.stdout is not None
    said = b""
    end_s = time.monotonic() + _READY_S
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while b"listening" not in said:
            more = os.read(process.stdout.fileno(), 4096) if ready.select(max(0.0, end_s - time.monotonic())) else b""
            said += more
            if not more:
                _end(process)
                raise _unusable(said.decode("utf-8", "replace"))
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.stdout is not None, "it was asked for"
    # Not communicate(), which would wait for whatever else holds the pipe.
    process.stdout.close()
    process.wait()


def _unusable(said: str) -> WavebedError:
    lines = said.strip().splitlines()
    reason = lines[-1] if lines else f"its server does not listen within {_READY_S:.0f} s"
    if "No such file" in reason:
        return MachineError("--with iperf3: there is no program iperf3: install the package iperf3")
    return WavebedError(f"--with iperf3: {reason}")


def _run_client(command: list[str], limit_s: float) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise WavebedError(f"--with iperf3: it did not end within {limit_s:.0f} s, and was ended") from None
    if not done.stdout.strip():
        raise _unusable(done.stderr or f"it ended with status {done.returncode}, without a word")
    return done.stdout


def _settled(counters: Callable[[], InterfaceCounters], within_s: float = 2.0) -> InterfaceCounters:
    """Read the counters when nothing comes any more."""
    end_s = time.monotonic() + within_s
    last = counters()
    while time.monotonic() < end_s:
        time.sleep(0.2)
        now = counters()
        if now.rx_packets == last.rx_packets:
            return now
        last = now
    return last


@dataclass(frozen=True, slots=True)
class _Told:
    version: str
    seconds: float
    mbps: float
    packets: float


def _told(output: str) -> _Told:
    """Read the figures of iperf3's receiver."""
    try:
        told = json.loads(output)
        if "error" in told:
            raise WavebedError(f"--with iperf3: {told['error']}")
        end = told["end"]
        # Until 3.6 or so there is one sum, and the loss has to be subtracted from it.
        received = end.get("sum_received") or end["sum"]
        seconds, bits = float(received["seconds"]), float(received["bits_per_second"])
        packets = float(received["packets"]) - float(received["lost_packets"])
        version = str(told["start"]["version"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WavebedError("--with iperf3: its output is not the JSON of iperf3") from None
    if seconds <= 0:
        raise WavebedError("--with iperf3: it sent for no time at all")
    return _Told(version, seconds, bits / 1e6, packets)
