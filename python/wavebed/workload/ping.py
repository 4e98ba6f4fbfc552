"""ICMP echo by iputils' ping: its command line and its output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.workload.latency_windows import Probe

if TYPE_CHECKING:
    from wavebed.lab.protocol import Host, Stamps

__all__ = ["ping_command", "read_ping", "summary_line"]

_REPLY = re.compile(r"^\[(\d+\.\d+)\] .* icmp_seq=(\d+) .*time=(\d+(?:\.\d+)?) ms$", re.MULTILINE)
_SENT = re.compile(r"^(\d+) packets transmitted", re.MULTILINE)
_SUMMARY = re.compile(r"^rtt min/avg/max/mdev = .*$", re.MULTILINE)
_SEQUENCE = 1 << 16


def ping_command(client: Host, name: str, interval_s: float) -> list[str]:
    """Return the command of a host that pings the host of a name over IPv4 until SIGINT.

    Raises
    ------
    MachineError
        If it has no ping.
    """
    return [client.program("ping"), "-4", "-D", "-n", "-i", f"{interval_s:g}", name]


def read_ping(text: str, clock: Stamps, start_s: float, interval_s: float) -> list[Probe]:
    """Return every probe of ping in order; unanswered ones have no round-trip time.

    ping stamps the arrival of an answer by the system's clock, so the probe was sent one round trip before. The time of
    an unanswered probe is interpolated between its neighbours. Duplicate answers are ignored.

    Parameters
    ----------
    text : str
        Output of ``ping -D``.
    start_s, interval_s : float
        Its start and its interval, used if there are no answers.
    """
    answers: dict[int, tuple[float, float]] = {}
    number = 0
    for at, sequence, rtt in _REPLY.findall(text):
        # The number on the wire has 16 bits; choose the nearest full number.
        number += (int(sequence) - number + _SEQUENCE // 2) % _SEQUENCE - _SEQUENCE // 2
        answers.setdefault(number, (clock.of_unix_s(float(at)) - float(rtt) / 1e3, float(rtt)))
    stated = _SENT.search(text)
    last = max([int(stated[1]) if stated else 0, *answers])
    sent_s = _sent_times(answers, last, start_s, interval_s)
    probes = []
    for number in range(1, last + 1):
        rtt_ms = answers[number][1] if number in answers else None
        probes.append(Probe(number, sent_s[number - 1], rtt_ms, lost="" if number in answers else "somewhere"))
    return probes


def _sent_times(answers: dict[int, tuple[float, float]], last: int, start_s: float, interval_s: float) -> list[float]:
    if not answers:
        return [start_s + interval_s * index for index in range(last)]
    known = sorted(answers)
    known_s = [answers[number][0] for number in known]
    pace_s = (known_s[-1] - known_s[0]) / (known[-1] - known[0]) if len(known) > 1 else interval_s
    ends = [known[0] - last - 1, *known, known[-1] + last + 1]
    ends_s = [known_s[0] - pace_s * (last + 1), *known_s, known_s[-1] + pace_s * (last + 1)]
    return [float(at_s) for at_s in np.interp(np.arange(1, last + 1), ends, ends_s)]


def summary_line(text: str) -> str:
    """Return ping's last line with minimum, average, maximum and mdev, or an empty text."""
    found = _SUMMARY.search(text)
    return found[0] if found else ""
