"""Read the output of ``iperf3 -J``.

Only the intervals are used, each from its own end: the sums at the end mix the times of both ends, and an interrupted
iperf3 has none of its peer. Seen with iperf3 3.12.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from wavebed.config.data import number_in, table_in, tables_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["End", "Interval", "Stream", "read_end", "read_sums", "shortfall"]

_EARLY_S = 0.5
"""The last interval of a stream may end this long before the planned duration, because of the handshake."""
_NOT_JSON = re.compile(r"(:\s*)[-+]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Interval:
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


Stream: TypeAlias = "list[Interval]"


@dataclass(slots=True)
class End:
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


def read_end(text: str) -> End:
    """Read the output of one iperf3; text around the JSON is ignored, NaN is missing."""
    document = _document(text)
    if document is None:
        words = text.strip().splitlines()
        return End(error=words[-1].strip() if words else "iperf3 printed nothing")
    start, last = table_in(document, "start"), table_in(document, "end")
    begun = number_in(table_in(start, "timestamp"), "timesecs")
    end = End(
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


def _interval(given: Mapping[str, object]) -> Interval | None:
    start_s, end_s, size = (number_in(given, key) for key in ("start", "end", "bytes"))
    if start_s is None or end_s is None or size is None or end_s <= start_s or given.get("omitted") is True:
        return None
    receives = given.get("sender") is not True
    return Interval(
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
