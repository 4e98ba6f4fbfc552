"""What programs print, read."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from wavebed.config.data import number_in, table_in, tables_in
from wavebed.errors import WavebedError
from wavebed.workload.model import Metric
from wavebed.workload.probing import EchoProbe
from wavebed.workload.programs import output_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Stamps


Parser: TypeAlias = "Callable[[str], list[Metric]]"
"""Takes standard output; raises `WavebedError` on unexpected output."""

_LINE = re.compile(r"^\s*(?P<name>[^=]*?[^=\s])\s*=\s*(?P<value>\S+)(?:\s+(?P<unit>\S+))?\s*$")
_MISSING = "-"
_PING_SENT = re.compile(r"^(\d+) packets transmitted, (\d+) received\b.*$", re.MULTILINE)
_RTT = re.compile(r"^rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms", re.MULTILINE)


def parse_nothing(text: str) -> list[Metric]:  # noqa: ARG001 - not parsed
    """Return no metrics."""
    return []


def parse_json_numbers(text: str) -> list[Metric]:
    """Return a metric without unit for each member of a flat JSON object; ``null`` is missing."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise WavebedError(f"json-numbers: the output is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise WavebedError('json-numbers: the output is not an object: print one such as {"goodput": 12.5}')
    found = []
    for name, value in document.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise WavebedError(f"json-numbers: {name}: is not a number: print a number or null")
        found.append(_metric("json-numbers", name, value, ""))
    return found


def parse_key_values(text: str) -> list[Metric]:
    """Return a metric for each line ``NAME = NUMBER UNIT``; ``-`` is a missing number, other lines are ignored."""
    found: dict[str, Metric] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, value = match["name"], match["value"]
        try:
            number = None if value == _MISSING else float(value)
        except ValueError:
            continue
        if name in found:
            raise WavebedError(f"key-value: {name}: appears twice: print each name once")
        found[name] = _metric("key-value", name, number, match["unit"] or "")
    if not found:
        raise WavebedError("key-value: the output has no line NAME = NUMBER UNIT")
    return list(found.values())


def parse_printed(text: str) -> list[Metric]:
    """Return a metric for each line ``NAME = NUMBER UNIT``, if there are any; one that is printed twice is left out."""
    found: dict[str, list[Metric]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        value = None if match is None else _number(match["value"])
        if match is not None and (value is not None or match["value"] == _MISSING):
            found.setdefault(match["name"], []).append(Metric(match["name"], value, match["unit"] or ""))
    return [metrics[0] for metrics in found.values() if len(metrics) == 1]


def _number(text: str) -> float | None:
    """Return the finite number that a text is, or ``None``."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parse_ping(text: str) -> list[Metric]:
    """Return the metrics of the summary of iputils' ping."""
    sent = _PING_SENT.search(text)
    if sent is None:
        raise WavebedError("ping: the output has no line 'N packets transmitted, N received'")
    transmitted, received = int(sent[1]), int(sent[2])
    loss = 100 * (1 - received / transmitted) if transmitted else None
    rtt = _RTT.search(text)
    values = [None] * 4 if rtt is None else [float(value) for value in rtt.groups()]
    return _ping_metrics(values, loss)


def _ping_metrics(values: Sequence[float | None], loss: float | None) -> list[Metric]:
    names = ("rtt min", "rtt average", "rtt max", "rtt mdev")
    return [
        *(Metric(name, value, "ms", "lower", "iputils ping") for name, value in zip(names, values, strict=True)),
        Metric("loss", loss, "%", "lower", "iputils ping: not received / transmitted"),
    ]


def parse_iperf3(text: str) -> list[Metric]:
    """Return goodput at the receiver and retransmissions from the sums at the end of ``iperf3 -J``."""
    error, received_bps, again = read_sums(text)
    if error:
        raise WavebedError(f"iperf3: {error}")
    goodput = None if received_bps is None else received_bps / 1e6
    return _iperf3_metrics(goodput, again)


def _iperf3_metrics(goodput: float | None, again: float | None) -> list[Metric]:
    return [
        Metric("goodput", goodput, "Mbit/s", "higher", "iperf3 end.sum_received"),
        Metric("retransmits", again, "segments", "lower", "iperf3 end.sum_sent"),
    ]


def _metric(parser: str, name: str, value: float | None, unit: str) -> Metric:
    if value is not None and not math.isfinite(value):
        raise WavebedError(f"{parser}: {name}: {value} is not finite: print it as missing")
    return Metric(name, value, unit)


PARSERS: dict[str, Parser] = {
    "none": parse_nothing,
    "json-numbers": parse_json_numbers,
    "key-value": parse_key_values,
    "printed": parse_printed,
    "ping": parse_ping,
    "iperf3": parse_iperf3,
}
"""The parsers by their names in scenarios."""

KNOWN: Mapping[str, Sequence[Metric]] = {
    "none": (),
    "ping": _ping_metrics([None] * 4, None),
    "iperf3": _iperf3_metrics(None, None),
}
"""The metrics of parsers that name them, without values."""


_EARLY_S = 0.5
"""The last interval of a stream may end this long before the planned duration, because of the handshake."""
_NOT_JSON = re.compile(r"(:\s*)[-+]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RateInterval:
    """One interval of one stream at one end; seconds since this end began, ``None`` if not reported.

    Parameters
    ----------
    bytes : float
        Sent or received by the application.
    retransmits, rtt_us, cwnd_bytes : float or None
        Of a TCP sender: retransmitted segments, smoothed round-trip time and window at the end of the interval.
    packets, lost, jitter_ms : float or None
        Of a UDP receiver: datagrams by sequence number, lost datagrams, interarrival jitter.
    """

    start_s: float
    end_s: float
    bytes: float
    retransmits: float | None
    rtt_us: float | None
    cwnd_bytes: float | None
    packets: float | None
    lost: float | None
    jitter_ms: float | None


Stream: TypeAlias = "list[RateInterval]"


@dataclass(slots=True)
class Iperf3End:
    """One end's report.

    Parameters
    ----------
    error : str
        Reason of an early end.
    begun_unix_s : int or None
        Second of the system's clock at the start of the control connection.
    sent, received : list of Stream
        The streams that it sent or received.
    sender_control : str or None
        Congestion control of the sender.
    flows : list of tuple
        Local and remote ``ADDRESS:PORT`` of the streams.
    """

    error: str = ""
    begun_unix_s: int | None = None
    sent: list[Stream] = field(default_factory=list)
    received: list[Stream] = field(default_factory=list)
    sender_control: str | None = None
    flows: list[tuple[str, str]] = field(default_factory=list)


def read_end(text: str) -> Iperf3End:
    """Read the output of one iperf3; text around the JSON is ignored, NaN is missing."""
    document = _document(text)
    if document is None:
        words = text.strip().splitlines()
        return Iperf3End(error=words[-1].strip() if words else "iperf3 printed nothing")
    start, last = table_in(document, "start"), table_in(document, "end")
    begun = number_in(table_in(start, "timestamp"), "timesecs")
    end = Iperf3End(
        error=str(document.get("error") or ""),
        begun_unix_s=None if begun is None else int(begun),
        sender_control=_text(last, "sender_tcp_congestion"),
        flows=[
            (
                f"{each.get('local_host')}:{each.get('local_port')}",
                f"{each.get('remote_host')}:{each.get('remote_port')}",
            )
            for each in tables_in(start, "connected")
        ],
    )
    streams: dict[tuple[bool, float | None], Stream] = {}
    for interval in tables_in(document, "intervals"):
        for each in tables_in(interval, "streams"):
            found = _interval(each)
            if found is not None:
                streams.setdefault((each.get("sender") is True, number_in(each, "socket")), []).append(found)
    for (sender, _), stream in streams.items():
        (end.sent if sender else end.received).append(stream)
    return end


def shortfall(received: Sequence[Stream], streams: int, duration_s: float) -> str:
    """Return one line about missing streams or time at a receiver; empty if nothing is missing."""
    if len(received) < streams:
        return f"{len(received)} of {streams} streams"
    counted_s = min(stream[-1].end_s for stream in received)
    return "" if counted_s >= duration_s - _EARLY_S else f"{counted_s:.1f} of {duration_s:g} s"


def read_sums(text: str) -> tuple[str, float | None, float | None]:
    """Return error, bits per second at the receiver and retransmitted segments from the sums in ``end``."""
    document = _document(text)
    if document is None:
        return "the output is not from iperf3 -J", None, None
    end = table_in(document, "end")
    received, sent = table_in(end, "sum_received"), table_in(end, "sum_sent")
    return str(document.get("error") or ""), number_in(received, "bits_per_second"), number_in(sent, "retransmits")


def _document(text: str) -> dict[str, object] | None:
    text = _NOT_JSON.sub(r"\1null", text)
    decoder = json.JSONDecoder()
    for place in (match.start() for match in re.finditer(r"^\{", text, re.MULTILINE)):
        try:
            document, _ = decoder.raw_decode(text, place)
        except ValueError:
            continue
        if isinstance(document, dict) and "start" in document:
            return document
    return None


def _interval(given: Mapping[str, object]) -> RateInterval | None:
    start_s, end_s, size = (number_in(given, key) for key in ("start", "end", "bytes"))
    if start_s is None or end_s is None or size is None or end_s <= start_s or given.get("omitted") is True:
        return None
    receives = given.get("sender") is not True
    return RateInterval(
        start_s=start_s,
        end_s=end_s,
        bytes=size,
        retransmits=number_in(given, "retransmits"),
        rtt_us=number_in(given, "rtt") or None,
        cwnd_bytes=number_in(given, "snd_cwnd") or None,
        packets=number_in(given, "packets") if receives else None,
        lost=number_in(given, "lost_packets") if receives else None,
        jitter_ms=number_in(given, "jitter_ms") if receives else None,
    )


def _text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    return value if isinstance(value, str) and value else None


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


def read_irtt(file: Path, clock: Stamps) -> list[EchoProbe]:
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


def _probe(trip: Mapping[str, object], clock: Stamps) -> EchoProbe:
    stamps = cast("dict[str, dict[str, dict[str, int]]]", trip["timestamps"])
    delay = cast("dict[str, int]", trip["delay"])
    sent_s = clock.of_unix_s(stamps["client"]["send"]["wall"] / 1e9)
    return EchoProbe(
        number=cast("int", trip["seqno"]),
        sent_s=sent_s,
        rtt_ms=_ms(delay.get("rtt")),
        up_ms=_ms(delay.get("send")),
        down_ms=_ms(delay.get("receive")),
        lost=_LOST[cast("str", trip["lost"])],
    )


def _ms(delay_ns: int | None) -> float | None:
    return None if delay_ns is None else delay_ns / 1e6


_REPLY = re.compile(r"^\[(\d+\.\d+)\] .* icmp_seq=(\d+) .*time=(\d+(?:\.\d+)?) ms$", re.MULTILINE)
_SENT_COUNT = re.compile(r"^(\d+) packets transmitted", re.MULTILINE)
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


def read_ping(text: str, clock: Stamps, start_s: float, interval_s: float) -> list[EchoProbe]:
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
    stated = _SENT_COUNT.search(text)
    last = max([int(stated[1]) if stated else 0, *answers])
    sent_s = _sent_times(answers, last, start_s, interval_s)
    probes = []
    for number in range(1, last + 1):
        rtt_ms = answers[number][1] if number in answers else None
        probes.append(EchoProbe(number, sent_s[number - 1], rtt_ms, lost="" if number in answers else "somewhere"))
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
