"""Isochronous UDP by irtt, which measures the delay of each direction: its command lines and its output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, cast

from wavebed.errors import WavebedError
from wavebed.workload.latency_windows import Probe
from wavebed.workload.waiting import output_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.lab.protocol import Host, Stamps

__all__ = ["LEAST_LENGTH", "irtt_client", "irtt_server", "read_irtt"]

LEAST_LENGTH = 44
"""Bytes of irtt 0.9's header, server time stamps and reception record in a packet."""

LONGEST = "24h"
_WAIT = "1s"
_LOST: dict[str, Literal["", "up", "down", "somewhere"]] = {
    "false": "",
    "true": "somewhere",
    "true_up": "up",
    "true_down": "down",
}


def irtt_server(host: Host, port: int) -> list[str]:
    """Return the command of a server on UDP `port` of a host without a minimum interval.

    Raises
    ------
    MachineError
        If the host has no irtt.
    """
    return [host.program("irtt"), "server", "-b", f"0.0.0.0:{port}", "-i", "0"]


def irtt_client(client: Host, server: Host, port: int, interval_s: float, length: int, output: Path) -> list[str]:
    """Return the command that sends over IPv4 until SIGINT, and then writes `output` (``.json``).

    Parameters
    ----------
    length : int
        Bytes of UDP payload, the same in both directions; at least `LEAST_LENGTH` are sent.

    Raises
    ------
    MachineError
        If the host has no irtt.
    """
    options = ["-4", "-Q", "-i", f"{round(interval_s * 1e6)}us", "-l", str(length), "-d", LONGEST, f"--wait={_WAIT}"]
    stamps = ["--clock=wall", "--tstamp=both", "--stats=both"]
    return [client.program("irtt"), "client", *options, *stamps, "-o", str(output), f"{server.name}:{port}"]


def read_irtt(file: Path, clock: Stamps) -> list[Probe]:
    """Return every probe, in order. Both hosts have one clock: the delay of each direction is exact.

    Raises
    ------
    WavebedError
        If `file` is not an output of irtt.
    """
    try:
        trips = cast("list[dict[str, object]]", json.loads(output_of(file))["round_trips"])
        return [_probe(trip, clock) for trip in trips]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WavebedError(f"irtt left no readable result: {error}") from None


def _probe(trip: Mapping[str, object], clock: Stamps) -> Probe:
    stamps = cast("dict[str, dict[str, dict[str, int]]]", trip["timestamps"])
    delay = cast("dict[str, int]", trip["delay"])
    sent_s = clock.of_unix_s(stamps["client"]["send"]["wall"] / 1e9)
    return Probe(
        number=cast("int", trip["seqno"]),
        sent_s=sent_s,
        rtt_ms=_ms(delay.get("rtt")),
        up_ms=_ms(delay.get("send")),
        down_ms=_ms(delay.get("receive")),
        lost=_LOST[cast("str", trip["lost"])],
    )


def _ms(delay_ns: int | None) -> float | None:
    return None if delay_ns is None else delay_ns / 1e6
