"""The processors of a device that runs node_exporter: its page of metrics, in the text format of Prometheus."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.forward.cpu.model import Reading, ReadingMeter, Ticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["NodeExporterMeter", "parse_metrics"]

_LIMIT_S = 5.0
_MOST_BYTES = 32 << 20
_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+([^ \t]+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_IDLE = {"idle", "iowait"}
_CPU, _TIME, _START = "node_cpu_seconds_total", "node_time_seconds", "node_boot_time_seconds"
_DROPPED, _SQUEEZED = "node_softnet_dropped_total", "node_softnet_times_squeezed_total"
_FAMILIES = {_CPU, _TIME, _START, _DROPPED, _SQUEEZED}


class NodeExporterMeter(ReadingMeter):
    """Fetches the page at an address, without a proxy."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(self) -> Reading:
        """Fetch the counters now.

        Raises
        ------
        WavebedError
            If there is no page of node_exporter.
        """
        try:
            with self._opener.open(self.source, timeout=_LIMIT_S) as page:
                text = page.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise WavebedError(f"--cpu {self.source}: it answers {error.code}: is the path /metrics?") from None
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise WavebedError(f"--cpu {self.source}: {reason}") from None
        if len(text) > _MOST_BYTES:
            raise WavebedError(f"--cpu {self.source}: the page is longer than {_MOST_BYTES >> 20} MiB")
        try:
            return _reading(text.decode("utf-8", "replace"))
        except WavebedError as error:
            raise WavebedError(f"--cpu {self.source}: {error}") from None


def parse_metrics(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Read the lines of the families that matter: name, labels, value.

    Raises
    ------
    WavebedError
        If such a line is malformed.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if re.split(r"[{ \t]", line, maxsplit=1)[0] not in _FAMILIES:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise WavebedError(f"line {number} is not in the text format of Prometheus")
        name, inside, value = match.groups()
        try:
            yield name, _labels(inside or ""), float(value)
        except ValueError:
            raise WavebedError(f"line {number} is not in the text format of Prometheus") from None


def _labels(text: str) -> dict[str, str]:
    labels = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise ValueError(text)
        labels[match.group(1)] = match.group(2)
        at = match.end()
    return labels


def _reading(text: str) -> Reading:
    modes: dict[int, dict[str, float]] = {}
    single: dict[str, float] = {}
    counts: dict[str, dict[int, int]] = {_DROPPED: {}, _SQUEEZED: {}}
    for name, labels, value in parse_metrics(text):
        core = int(labels["cpu"]) if labels.get("cpu", "").isdigit() else None
        if core is None:
            single[name] = value
        elif name == _CPU:
            modes.setdefault(core, {})[labels.get("mode", "")] = value
        elif name in counts:
            counts[name][core] = int(value)
    if not modes or _TIME not in single:
        raise WavebedError(f"the page lacks {_TIME if modes else _CPU}: is it that of node_exporter on Linux?")
    return Reading(
        single[_TIME],
        {core: _ticks(seconds) for core, seconds in modes.items()},
        started_s=single.get(_START),
        dropped=counts[_DROPPED] or None,
        squeezed=counts[_SQUEEZED] or None,
    )


def _ticks(modes: Mapping[str, float]) -> Ticks:
    total = sum(modes.values())
    idle = sum(seconds for mode, seconds in modes.items() if mode in _IDLE)
    return Ticks(total - idle, modes.get("softirq", 0.0), total, modes.get("steal", 0.0))
