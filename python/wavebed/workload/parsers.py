"""Parsers of the output of a `command`, chosen by the scenario."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, TypeAlias

from wavebed.errors import WavebedError
from wavebed.workload.iperf3 import read_sums
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["KNOWN", "PARSERS", "Parser"]

Parser: TypeAlias = "Callable[[str], list[Metric]]"
"""Takes standard output; raises `WavebedError` on unexpected output."""

_LINE = re.compile(r"^\s*(?P<name>[^=]*?[^=\s])\s*=\s*(?P<value>\S+)(?:\s+(?P<unit>\S+))?\s*$")
_MISSING = "-"
_SENT = re.compile(r"^(\d+) packets transmitted, (\d+) received\b.*$", re.MULTILINE)
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
    sent = _SENT.search(text)
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
