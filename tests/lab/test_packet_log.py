"""The packet log of a laboratory has what its counters have, packet by packet and block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from programs import transfer

from wavebed.path.api import Path
from wavebed.result.packets import packet_tables

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    import pandas as pd

TIMES = ["entered_ns", "dequeued_ns", "released_ns", "delivered_ns"]
RADIO = {"preset": "nr-120khz", "bler": "10%"}


@pytest.mark.parametrize("link", [{"radio": RADIO}, {"queue": "droptail:40kb"}], ids=["radio", "wired"])
def test_the_packet_log_agrees_with_the_counters_of_each_link(tmp_path: FilePath, link: dict[str, object]) -> None:
    path = Path.of(rate="100mbit", delay="2ms", loss="0.5%", duplicate="0.5%", packet_log=True, **link)
    with path.up(log=tmp_path) as lab:
        transfer(lab, 2_000_000)
    assert lab.summary is not None
    tables = packet_tables(tmp_path)
    packets, blocks = (tables[name].to_pandas() for name in ("packets", "blocks"))
    for counted in cast("list[dict[str, Any]]", lab.summary["links"]):
        found = packets[packets["link"] == counted["name"]]
        originals = found[~found["is_copy"]]
        assert originals["segments"].sum() == counted["offered_segments"]
        assert originals["bytes"].sum() == counted["offered_bytes"]
        assert found["segments"].sum() == counted["offered_segments"] + counted["duplicated_segments"]
        assert found[found["delivered_ns"].notna()]["segments"].sum() == counted["delivered_segments"]
        dropped = found.groupby("drop_reason")["segments"].sum().to_dict()
        assert dropped == {reason: count for reason, count in counted["dropped_segments"].items() if count}
        sent = blocks[blocks["link"] == counted["name"]]
        assert (len(sent), sent["failed"].sum()) == (counted["blocks_sent"], counted["blocks_failed"])
        assert_in_order(found, sent)


def assert_in_order(packets: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """No time is before one of an earlier step, and what was delivered was in a block that was decoded."""
    for place, later in enumerate(TIMES[1:], 1):
        for earlier in TIMES[:place]:
            both = packets[[earlier, later]].dropna()
            assert (both[earlier] <= both[later]).all(), (earlier, later)
    decoded = blocks[~blocks["failed"]].groupby("number")["decoded_ns"].min()
    of_delivered = packets[packets["delivered_ns"].notna() & ~packets["is_copy"]]
    for numbers, released_ns in zip(of_delivered["blocks"], of_delivered["released_ns"], strict=True):
        if len(blocks):
            assert decoded.reindex(numbers).min() <= released_ns
