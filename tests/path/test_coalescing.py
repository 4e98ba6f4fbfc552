"""The effect of coalescing on a connection."""

from __future__ import annotations

from typing import Any, cast

import pytest
from programs import transfer

from wavebed.path.api import Path

SIZE = 10_000_000


def _acknowledgements_per_segment(coalesce: str) -> float:
    with Path.of(rate="1gbit", delay="2ms", queue="droptail:5mb", coalesce=coalesce).up() as lab:
        transfer(lab, SIZE)
    assert lab.summary is not None
    down, up = cast("list[dict[str, Any]]", lab.summary["links"])
    return float(up["offered_segments"] / down["delivered_segments"])


@pytest.mark.timed
def test_coalesced_segments_are_acknowledged_together() -> None:
    apart = _acknowledgements_per_segment("off")
    together = _acknowledgements_per_segment("5ms")
    # Every second segment is acknowledged (RFC 5681, section 4.2), more often while the window is small;
    # a machine that is late hands the client several at once.
    assert 0.3 < apart < 1.1
    assert together < apart / 3
