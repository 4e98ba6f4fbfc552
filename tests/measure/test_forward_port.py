"""Ports of the tester, by their protocol: two of them back to back, in a sandbox."""

from __future__ import annotations

from tests.lab.test_forward_port import RECEIVERS, SENDERS, Pair, pair  # noqa: F401 - pair is a fixture

COUNTS = ("unique", "duplicates", "stale", "other_trial", "damaged", "reordered", "receiver_lost")


def test_the_ceiling_is_measured_apart_from_the_interface(pair: Pair) -> None:
    before = pair.ask("left", "counters")
    for sizes in ([64], [64, 1518], [9018]):
        ceiling = pair.ask("left", "ceiling", size_bytes=sizes, flows=256, seconds=0.2, sender=None, receiver=None)
        assert ceiling["sender"] in SENDERS
        assert ceiling["receiver"] in RECEIVERS
        # On one processor nothing is lost on the way.
        assert 0 < ceiling["received"] <= ceiling["sent"]
        assert ceiling["pps"] <= ceiling["received"] / 0.15
    after = pair.ask("left", "counters")
    # The kernel may solicit routers in the meantime.
    assert after["tx_packets"] - before["tx_packets"] < 10, "its own interface saw none of it"
