"""The counters of all laboratories in the text format of Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from wavebed.errors import WavebedError
from wavebed.path.control import understood
from wavebed.path.live import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.path.control import DirectionState, LabState, LinkState
    from wavebed.ui.guard import Labs


KIND = "text/plain; version=0.0.4; charset=utf-8"
LAB_S = 1.0
"""Longest wait for the answer of one laboratory, seconds."""
ALL_S = 5.0
"""Longest wait for all answers, seconds. Prometheus itself waits for 10 s."""


class Scraped(NamedTuple):
    """A metric: its name, whether it only grows, its meaning, and its values of one thing by further labels."""

    name: str
    grows: bool
    meaning: str
    values: Callable[..., Iterator[tuple[dict[str, str], float | int | None]]]


def _one(
    value: Callable[..., float | int | None],
) -> Callable[..., Iterator[tuple[dict[str, str], float | int | None]]]:
    def values(thing: LinkState | DirectionState) -> Iterator[tuple[dict[str, str], float | int | None]]:
        yield {}, value(thing)

    return values


def _drops(link: LinkState) -> Iterator[tuple[dict[str, str], float | int | None]]:
    for reason, segments in link.dropped_segments.items():
        yield {"reason": reason}, segments


def _state(link: LinkState) -> Iterator[tuple[dict[str, str], float | int | None]]:
    if link.state is not None:
        yield {"state": link.state}, 1


LINK_METRICS = (
    Scraped("wavebed_link_offered_segments_total", True, "Wire segments that entered the link.",
           _one(lambda link: link.offered_segments)),
    Scraped("wavebed_link_offered_bytes_total", True, "IP bytes that entered the link.",
           _one(lambda link: link.offered_bytes)),
    Scraped("wavebed_link_delivered_segments_total", True, "Wire segments that left at the far end.",
           _one(lambda link: link.delivered_segments)),
    Scraped("wavebed_link_delivered_bytes_total", True, "IP bytes that left at the far end.",
           _one(lambda link: link.delivered_bytes)),
    Scraped("wavebed_link_duplicated_segments_total", True, "Copies made by duplication.",
           _one(lambda link: link.duplicated_segments)),
    Scraped("wavebed_link_dropped_segments_total", True, "Segments dropped, by reason.", _drops),
    Scraped("wavebed_link_marked_segments_total", True, "Segments marked CE.", _one(lambda link: link.marked_segments)),
    Scraped("wavebed_link_blocks_sent_total", True, "Transmissions of radio blocks.",
           _one(lambda link: link.blocks_sent)),
    Scraped("wavebed_link_blocks_failed_total", True, "Failed transmissions of radio blocks.",
           _one(lambda link: link.blocks_failed)),
    Scraped("wavebed_link_air_seconds_total", True, "Air time of radio blocks: of each its part of a slot.",
           _one(lambda link: None if link.air_ns is None else link.air_ns / 1e9)),
    Scraped("wavebed_link_failures_total", True, "Failures of the radio link.", _one(lambda link: link.link_failures)),
    Scraped("wavebed_link_wait_seconds_total", True, "Times in the queue of all segments that left it.",
           _one(lambda link: None if link.waited_ns is None else link.waited_ns / 1e9)),
    Scraped("wavebed_link_wait_segments_total", True, "Segments in wavebed_link_wait_seconds_total.",
           _one(lambda link: link.waited_segments)),
    Scraped("wavebed_link_queued_segments", False, "Segments in the link.", _one(lambda link: link.queued_segments)),
    Scraped("wavebed_link_queued_bytes", False, "IP bytes in the link.", _one(lambda link: link.queued_bytes)),
    Scraped("wavebed_link_rate_bits_per_second", False, "Rate of the link.", _one(lambda link: link.rate_bps)),
    Scraped("wavebed_link_delay_seconds", False, "Delay beside queueing.",
           _one(lambda link: None if link.delay_ns is None else link.delay_ns / 1e9)),
    Scraped("wavebed_link_loss_ratio", False, "Probability of loss.", _one(lambda link: link.loss)),
    Scraped("wavebed_link_sinr_decibels", False, "Effective SINR of the data.", _one(lambda link: link.sinr_db)),
    Scraped("wavebed_link_radio_state", False, "1 for the state of the radio.", _state),
)  # fmt: skip
DIRECTION_METRICS = (
    Scraped("wavebed_direction_transit_seconds_total", True, "Emulated one-way delays of all segments that left.",
           _one(lambda direction: direction.transit_ns / 1e9)),
    Scraped("wavebed_direction_transit_segments_total", True, "Segments in wavebed_direction_transit_seconds_total.",
           _one(lambda direction: direction.transit_segments)),
)  # fmt: skip


def metrics(labs: Labs) -> bytes:
    """Return the metrics of the laboratories that run; one that ends meanwhile or does not answer is left out."""
    end_s = time.monotonic() + ALL_S
    written: list[list[str]] = [[] for _ in (*LINK_METRICS, *DIRECTION_METRICS)]
    for lab in labs.running():
        try:
            with labs.open(lab) as connection:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    break
                found = state(connection, min(LAB_S, left_s))
            with understood(lab.name):
                rows = [[*_written(metric, found, "link", found.links)] for metric in LINK_METRICS]
                rows += [[*_written(metric, found, "direction", found.directions)] for metric in DIRECTION_METRICS]
        except WavebedError:
            continue
        for lines, more in zip(written, rows, strict=True):
            lines.extend(more)
    text: list[str] = []
    for metric, lines in zip((*LINK_METRICS, *DIRECTION_METRICS), written, strict=True):
        text.append(f"# HELP {metric.name} {metric.meaning}")
        text.append(f"# TYPE {metric.name} {'counter' if metric.grows else 'gauge'}")
        text += lines
    return ("\n".join(text) + "\n").encode()


def _written(
    metric: Scraped, found: LabState, kind: str, things: Sequence[LinkState | DirectionState]
) -> Iterator[str]:
    for thing in things:
        for labels, value in metric.values(thing):
            if value is not None:
                named = {"lab": found.name, kind: thing.name, **labels}
                text = ",".join(f'{key}="{_escaped(label)}"' for key, label in named.items())
                yield f"{metric.name}{{{text}}} {value}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
