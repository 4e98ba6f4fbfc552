"""Random packet logs of a link whose times are complete, and the tables that `wavebed.explain` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from wavebed.explain.dark import Dark
from wavebed.explain.layout import LinkLayout
from wavebed.result.packets import LOG_SCHEMAS

if TYPE_CHECKING:
    from wavebed.explain.causes import Cause

MOST_NS = 1000


class Log(NamedTuple):
    """A link and what it recorded."""

    layout: LinkLayout
    packets: list[dict[str, object]]
    blocks: list[dict[str, object]]
    dark: dict[Cause, Dark]


def tables(log: Log) -> tuple[pa.Table, pa.Table]:
    """Return the tables ``packets`` and ``blocks``."""
    rows = {"packets": log.packets, "blocks": log.blocks}
    packets, blocks = (
        pa.Table.from_pylist([{"link": log.layout.name, **row} for row in rows[name]], schema=LOG_SCHEMAS[name])
        for name in ("packets", "blocks")
    )
    return packets, blocks


def dark(*spans: tuple[int, int]) -> Dark:
    """Return the times without a rate."""
    return Dark(np.array([start for start, _ in spans], np.int64), np.array([end for _, end in spans], np.int64))


@st.composite
def logs(draw: st.DrawFn, name: str = "radio.down", entered: dict[int, int] | None = None) -> Log:
    """A link of any stages, and packets of one segment; `entered` says when they came, by their numbers."""
    queue = draw(st.sampled_from([[], ["server"], ["opportunities"], ["wifi"], ["radio"]]))
    before = draw(st.lists(st.just("ue"), max_size=1)) if queue != [] else []
    after = draw(st.lists(st.sampled_from(["ue", "delay", "reorder"]), max_size=3, unique=True))
    layout = LinkLayout(name, [*before, *queue, *after])
    numbers = range(1, 1 + draw(st.integers(1, 6))) if entered is None else entered
    blocks: list[dict[str, object]] = []
    packets = []
    for number in numbers:
        at = draw(st.integers(0, MOST_NS)) if entered is None else entered[number]
        packets.append(_packet(draw, layout, number, at, blocks))
    spans = sorted(draw(st.sets(st.integers(0, 4 * MOST_NS), max_size=8)))
    pairs = list(zip(spans[::2], spans[1::2], strict=False))
    return Log(layout, packets, blocks, {"outage": dark(*pairs[::2]), "handover": dark(*pairs[1::2])})


def _packet(
    draw: st.DrawFn, layout: LinkLayout, number: int, entered: int, blocks: list[dict[str, object]]
) -> dict[str, object]:
    row: dict[str, object] = {
        "packet": number, "is_copy": False, "first": 0, "segments": 1, "bytes": 100, "flow": 1, "entered_ns": entered,
        "blocks": [],
    }  # fmt: skip
    at, passed = entered, []

    def later() -> int:
        return at + draw(st.integers(0, MOST_NS))

    for place, kind in enumerate(layout.stages):
        if place == layout.logged:
            at = row["dequeued_ns"] = later()
            if kind == "radio":
                at = row["sent_ns"] = later()
                at = _blocks(draw, at, row, blocks)
            at = row["released_ns"] = later()
        else:
            at = later()
            if place < len(layout.stages) - 1:
                passed.append(at)
    row["passed_ns"] = passed
    if draw(st.integers(0, 9)) == 0:
        row |= {"dropped_ns": at, "drop_reason": "loss"}
    else:
        row |= {"delivered_ns": at}
        if draw(st.booleans()):
            row["written_ns"] = at + draw(st.integers(0, MOST_NS))
    return row


def _blocks(draw: st.DrawFn, sent: int, row: dict[str, object], blocks: list[dict[str, object]]) -> int:
    """Send a packet in one to three blocks, each with one to three transmissions, and return when it had arrived."""
    at, carried = sent, []
    for _ in range(draw(st.integers(1, 3))):
        number = len({block["number"] for block in blocks})
        carried.append(number)
        attempts = draw(st.integers(1, 3))
        for attempt in range(1, attempts + 1):
            decoded = at + draw(st.integers(1, MOST_NS))
            failed = attempt < attempts or (draw(st.booleans()) and attempts == 3)
            blocks.append(
                {
                    "slot_ns": at, "decoded_ns": decoded, "number": number, "attempt": attempt, "process": 0,
                    "carrier": 0, "is_fallback": False, "bytes": 100, "failed": failed, "misheard": False,
                    "awake_ns": draw(st.integers(0, 2 * MOST_NS)), "granted_ns": draw(st.integers(0, 3 * MOST_NS)),
                    "rate_bps": 1000,
                }
            )  # fmt: skip
            at = decoded
    row |= {"blocks": carried, "transmissions": 1}
    return at
