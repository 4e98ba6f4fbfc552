"""The effect of coalescing on a connection."""

from __future__ import annotations

from typing import Any, cast

from programs import transfer

from wavebed.path.api import Path

SIZE = 10_000_000


def _acknowledgements_per_segment(coalesce: str) -> float:
    with Path.of(rate="1gbit", delay="2ms", queue="droptail:5mb", coalesce=coalesce).up() as lab:
        transfer(lab, SIZE)
    assert lab.summary is not None
    down, up = cast("list[dict[str, Any]]", lab.summary["links"])
    return float(up["offered_segments"] / down["delivered_segments"])


def test_coalesced_segments_are_acknowledged_together() -> None:
    apart = _acknowledgements_per_segment("off")
    together = _acknowledgements_per_segment("5ms")
    # At most one for each segment, and every second one is acknowledged at least (RFC 5681, section 4.2), unless the
    # client's host finds several at once: 0.27 to 0.56 on a machine with two cores. Super-packets of 45 segments have
    # one acknowledgement each.
    assert apart < 1.1
    assert together < 2 / 45
    assert together < apart / 3
