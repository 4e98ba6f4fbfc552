"""Read the output of ``iperf3 -J``.

Only the intervals are used, each from its own end: the sums at the end mix the times of both ends, and an interrupted
iperf3 has none of its peer. Seen with iperf3 3.12.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

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
    start, last = _table(document, "start"), _table(document, "end")
    begun = _number(_table(start, "timestamp"), "timesecs")
    end = End(
        error=str(document.get("error") or ""),
        begun_unix_s=None if begun is None else int(begun),
        sender_control=_text(last, "sender_tcp_congestion"),
        flows=[
            (
                f"{each.get('local_host')}:{each.get('local_port')}",
                f"{each.get('remote_host')}:{each.get('remote_port')}",
            )
            for each in _tables(start, "connected")
        ],
    )
    streams: dict[tuple[bool, float | None], Stream] = {}
    for interval in _tables(document, "intervals"):
        for each in _tables(interval, "streams"):
            found = _interval(each)
            if found is not None:
                streams.setdefault((each.get("sender") is True, _number(each, "socket")), []).append(found)
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
    end = _table(document, "end")
    received, sent = _table(end, "sum_received"), _table(end, "sum_sent")
    return str(document.get("error") or ""), _number(received, "bits_per_second"), _number(sent, "retransmits")


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
    start_s, end_s, size = (_number(given, key) for key in ("start", "end", "bytes"))
    if start_s is None or end_s is None or size is None or end_s <= start_s or given.get("omitted") is True:
        return None
    receives = given.get("sender") is not True
    return Interval(
        start_s=start_s,
        end_s=end_s,
        bytes=size,
        retransmits=_number(given, "retransmits"),
        rtt_us=_number(given, "rtt") or None,
        cwnd_bytes=_number(given, "snd_cwnd") or None,
        packets=_number(given, "packets") if receives else None,
        lost=_number(given, "lost_packets") if receives else None,
        jitter_ms=_number(given, "jitter_ms") if receives else None,
    )


def _number(given: Mapping[str, object], key: str) -> float | None:
    value = given.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    return value if isinstance(value, str) and value else None


def _table(given: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = given.get(key)
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _tables(given: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    value = given.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
