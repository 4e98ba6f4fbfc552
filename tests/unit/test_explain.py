"""What a trial's packets waited for: causes, losses, and coarse figures without a packet log."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.explain.model import CAUSES, MEANINGS, PLACE, Turn
from wavebed.explain.records import Dark, LinkLayout, dark_times, directions
from wavebed.explain.split import MISSING, Fates, LinkSplit, coarse_fates, follow, split_link
from wavebed.explain.summary import moment, of_direction, windows, worst_delays, worst_losses
from wavebed.result.tables import LOG_SCHEMAS, SCHEMAS
from wavebed.spec.types import Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.explain.model import Cause
    from wavebed.spec.types import Network


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
                    "rate_bps": 1000, **draw(_turns()),
                }
            )  # fmt: skip
            at = decoded
    row |= {"blocks": carried, "transmissions": 1}
    return at


def _turns() -> st.SearchStrategy[dict[str, int]]:
    times = st.lists(st.integers(1, 3 * MOST_NS), min_size=2, max_size=2).map(sorted)
    some = st.builds(lambda at, of: {"turn_ns": at[0], "turn_last_ns": at[1], "turn_of": of}, times, st.integers(-1, 3))
    return st.just({"turn_ns": 0, "turn_last_ns": 0, "turn_of": -1}) | some


MS = 1_000_000
NEVER = dark()


def split(log: Log) -> LinkSplit:
    return split_link(log.layout, *tables(log), log.dark)


def fates(*given: Log) -> Fates:
    return follow([log.layout.name for log in given], [split(log) for log in given])


@given(logs())
def test_the_causes_of_each_packet_sum_to_its_delay(log: Log) -> None:
    found = fates(log)
    by_packet = {int(row["packet"]): row for row in log.packets}  # type: ignore[call-overload]
    assert len(found.at_ns) == len(by_packet)
    for place, number in enumerate(sorted(by_packet)):
        row: dict[str, Any] = by_packet[number]
        if row.get("delivered_ns") is None:
            assert (found.total_ns[place], found.lost_reason[place]) == (MISSING, "loss")
            continue
        assert found.total_ns[place] == row.get("written_ns", row["delivered_ns"]) - row["entered_ns"]
        assert found.ns[place].sum() == found.total_ns[place]
        assert found.ns[place].min() >= 0
        assert found.ns[place, PLACE["unexplained"]] == 0
        lit = found.ns[place, PLACE["outage"]] + found.ns[place, PLACE["handover"]]
        assert lit <= sum(
            each.within(*np.array([[row["entered_ns"]], [row["delivered_ns"]]]))[0] for each in log.dark.values()
        )


@given(st.data())
def test_the_causes_of_a_path_of_two_links_sum_to_its_delay(data: st.DataObject) -> None:
    first = data.draw(logs("internet.down"))
    arrivals = {int(row["packet"]): row["delivered_ns"] for row in first.packets if row.get("delivered_ns") is not None}  # type: ignore[call-overload]
    second = data.draw(logs("radio.down", arrivals))
    found = fates(first, second)
    arrived = found.total_ns != MISSING
    assert arrived.sum() == sum(row.get("delivered_ns") is not None for row in second.packets)
    assert (found.ns[arrived].sum(axis=1) == found.total_ns[arrived]).all()
    assert (found.ns[:, PLACE["unexplained"]] == 0).all()


@given(logs(), st.data())
def test_what_the_log_lacks_is_unexplained_and_the_sum_still_holds(log: Log, data: st.DataObject) -> None:
    for row in log.packets:
        for name in data.draw(st.sets(st.sampled_from(["dequeued_ns", "sent_ns", "released_ns"]))):
            row.pop(name, None)
        row["passed_ns"] = [data.draw(st.sampled_from([at, None])) for at in row["passed_ns"]]  # type: ignore[attr-defined]
    found = fates(log)
    arrived = found.total_ns != MISSING
    assert (found.ns[arrived].sum(axis=1) == found.total_ns[arrived]).all()
    assert (found.ns >= 0).all()


def test_a_lost_event_makes_the_time_around_it_unexplained() -> None:
    row = packet(entered_ns=0, dequeued_ns=None, released_ns=70, delivered_ns=100)
    assert causes(Log(LinkLayout("a.down", ["server", "delay"]), [row], [], {})) == {
        "unexplained": 70,
        "propagation": 30,
    }


def packet(**values: object) -> dict[str, object]:
    return {
        "packet": 1, "is_copy": False, "first": 0, "segments": 1, "bytes": 100, "flow": 1, "blocks": [],
        "passed_ns": [], **values,
    }  # fmt: skip


def block(
    number: int, attempt: int, slot: int, decoded: int, *, failed: bool = False, **values: int
) -> dict[str, object]:
    return {
        "slot_ns": slot, "decoded_ns": decoded, "number": number, "attempt": attempt, "process": 0, "carrier": 0,
        "is_fallback": False, "bytes": 100, "failed": failed, "misheard": False, "awake_ns": 0, "granted_ns": 0,
        "rate_bps": 1000, **values,
    }  # fmt: skip


def causes(log: Log, row: int = 0) -> dict[Cause, int]:
    found = fates(log)
    return {cause: int(found.ns[row, PLACE[cause]]) for cause in CAUSES if found.ns[row, PLACE[cause]]}


def radio(packets: list[dict[str, object]], blocks: list[dict[str, object]], **times: object) -> Log:
    return Log(LinkLayout("radio.up", ["radio"]), packets, blocks, times)  # type: ignore[arg-type]


def test_a_radio_tells_queue_sleep_grant_slot_transmission_harq_rlc_and_order_apart() -> None:
    # Slot 50 sends others' data. The packet's block is built at 190 for slot 200, fails twice in HARQ and is given up;
    # RLC sends the packet again in block 2; it waits for an earlier packet until 900.
    blocks = [
        block(0, 1, 50, 60),
        block(1, 1, 200, 215, failed=True, awake_ns=70, granted_ns=150),
        block(1, 2, 300, 315, failed=True),
        block(2, 1, 500, 515),
    ]
    row = packet(entered_ns=10, dequeued_ns=190, sent_ns=200, released_ns=900, delivered_ns=900, blocks=[1, 2])
    assert causes(radio([row], blocks)) == {
        "queue": 30,  # until 40, when the slot before was built
        "connection": 30,
        "grant": 80,
        "slot": 50,
        "transmission": 15,
        "harq": 100,
        "rlc": 200,
        "reordering": 385,
    }


def test_slots_that_went_to_others_while_the_packet_was_first_are_its_turn() -> None:
    # Blocks are built 10 before their slot. Slots 180 to 240 went to others, most of them to device 2.
    turn = {"turn_ns": 180, "turn_last_ns": 240, "turn_of": 2}
    blocks = [block(0, 1, 50, 60), block(1, 1, 260, 275, awake_ns=70, granted_ns=150, **turn)]
    rows = [
        packet(entered_ns=10, dequeued_ns=250, sent_ns=260, released_ns=275, delivered_ns=275, blocks=[1]),
        # It came when the last of them was built already, and when all but the last one were.
        packet(entered_ns=235, dequeued_ns=250, sent_ns=260, released_ns=275, delivered_ns=275, blocks=[1], packet=2),
        packet(entered_ns=225, dequeued_ns=250, sent_ns=260, released_ns=275, delivered_ns=275, blocks=[1], packet=3),
    ]
    log = radio(rows, blocks)
    assert causes(log) == {
        "queue": 30, "connection": 30, "grant": 80, "slot": 30, "turn": 80, "transmission": 15,
    }  # fmt: skip
    assert causes(log, 1) == {"slot": 25, "transmission": 15}
    assert causes(log, 2) == {"turn": 35, "transmission": 15}
    assert fates(log).turn_of.tolist() == [2, MISSING, 2]


def test_a_grant_after_the_slots_of_others_leaves_no_turn() -> None:
    turn = {"turn_ns": 80, "turn_last_ns": 120, "turn_of": 2}
    row = packet(entered_ns=10, dequeued_ns=250, sent_ns=260, released_ns=275, delivered_ns=275, blocks=[0])
    assert causes(radio([row], [block(0, 1, 260, 275, granted_ns=200, **turn)])) == {
        "grant": 190,
        "slot": 60,
        "transmission": 15,
    }


def test_the_turn_is_told_by_the_device_that_was_served() -> None:
    late = rows_of(30, 38, 8)
    ns = np.zeros_like(late.ns)
    ns[:, PLACE["propagation"]] = 5 * MS
    ns[:, PLACE["turn"]] = np.array([30, 38, 8]) * MS
    late = replace(late, ns=ns, turn_of=np.array([MISSING, 1, 1]))
    found = of_direction(
        "server-phone-1.down", ["cell.phone-1.down"], late, {"blocks_sent": 3, "blocks_failed": 0, "link_failures": 0},
        span=(0, 150 * MS), step_ns=100 * MS, most=1, whole=True, devices=("phone-1", "phone-3"),
    )  # fmt: skip
    assert found.turns == [
        Turn(device="phone-3", segments=2, mean_ms=15.333333, max_ms=38.0),
        Turn(device=None, segments=1, mean_ms=10.0, max_ms=30.0),
    ]
    assert found.worst_delays[0].turn_of == "phone-3"
    assert found.worst_delays[0].text == "0.0–0.1 s: up to 38 ms late: turn 38 ms behind phone-3"


def test_each_device_of_a_cell_has_its_directions() -> None:
    radios = ({"stage": "delay", "delay": {"kind": "constant", "delay_ns": 1}},)
    hop = {"name": "wan", "down": radios, "up": radios}
    devices = [{"host": name, "down": radios, "up": radios} for name in ("phone-1", "phone-2")]
    leg = SimpleNamespace(start="server", end="phone-1", hops=[_stages(hop)])
    cell = SimpleNamespace(name="mast", devices=[_stages(each) for each in devices])
    found = directions(cast("Network", SimpleNamespace(legs=[leg], cell=cell)))
    assert [(each.name, [layout.name for layout in each.links], each.own) for each in found] == [
        ("server-mast.down", ["wan.down"], None),
        ("server-mast.up", ["wan.up"], None),
        ("server-phone-1.down", ["wan.down", "mast.phone-1.down"], "mast.phone-1.down"),
        ("server-phone-1.up", ["mast.phone-1.up", "wan.up"], "mast.phone-1.up"),
        ("server-phone-2.down", ["wan.down", "mast.phone-2.down"], "mast.phone-2.down"),
        ("server-phone-2.up", ["mast.phone-2.up", "wan.up"], "mast.phone-2.up"),
    ]


def _stages(given: Mapping[str, Any]) -> SimpleNamespace:
    of_sides = {side: msgspec.convert(given[side], tuple[Stage, ...]) for side in ("down", "up")}
    return SimpleNamespace(**{**given, **of_sides})


def test_pieces_of_a_packet_in_two_slots_are_its_transmission() -> None:
    blocks = [block(0, 1, 100, 110), block(1, 1, 200, 210)]
    row = packet(entered_ns=100, dequeued_ns=100, sent_ns=100, released_ns=210, delivered_ns=210, blocks=[0, 1])
    assert causes(radio([row], blocks)) == {"transmission": 110}


def test_time_without_a_rate_is_outage_whatever_the_packet_waited_for() -> None:
    blocks = [block(0, 1, 100, 110, failed=True), block(0, 2, 300, 310)]
    row = packet(entered_ns=0, dequeued_ns=100, sent_ns=100, released_ns=310, delivered_ns=310, blocks=[0])
    log = radio([row], blocks, outage=dark((20, 60), (120, 220)), handover=dark((220, 230)))
    assert causes(log) == {"slot": 60, "transmission": 10, "outage": 140, "handover": 10, "harq": 90}


def test_a_link_of_opportunities_waits_for_one_when_the_packet_is_first() -> None:
    rows = [
        packet(entered_ns=0, dequeued_ns=40, released_ns=40, delivered_ns=40),
        packet(entered_ns=0, dequeued_ns=90, released_ns=90, delivered_ns=90, packet=2),
    ]
    log = Log(LinkLayout("a.down", ["opportunities"]), rows, [], {})
    assert causes(log) == {"slot": 40}
    assert causes(log, 1) == {"queue": 40, "slot": 50}


def test_the_shortest_delay_is_the_base_and_the_rest_is_jitter() -> None:
    rows = [packet(entered_ns=0, delivered_ns=40), packet(entered_ns=10, delivered_ns=75, packet=2)]
    log = Log(LinkLayout("a.down", ["delay"]), rows, [], {})
    assert (causes(log), causes(log, 1)) == ({"propagation": 40}, {"propagation": 40, "jitter": 25})


def test_the_time_until_a_packet_is_written_is_the_hosts() -> None:
    row = packet(entered_ns=0, delivered_ns=40, written_ns=47)
    log = Log(LinkLayout("a.down", ["delay"]), [row], [], {})
    assert causes(log) == {"propagation": 40, "host": 7}
    assert fates(log).total_ns.tolist() == [47]


def test_a_packet_that_the_next_link_divides_is_followed_by_segment() -> None:
    whole = packet(entered_ns=0, delivered_ns=10, segments=3)
    parts = [
        packet(entered_ns=10, delivered_ns=20, segments=2),
        packet(entered_ns=10, dropped_ns=15, drop_reason="loss", first=2),
    ]
    first = Log(LinkLayout("a.down", ["delay"]), [whole], [], {})
    found = fates(first, Log(LinkLayout("b.down", ["delay"]), parts, [], {}))
    assert found.segments.tolist() == [2, 1]
    assert found.total_ns.tolist() == [20, MISSING]
    assert list(zip(found.lost_link, found.lost_reason, strict=True)) == [(None, None), ("b.down", "loss")]


def test_copies_are_left_out() -> None:
    rows = [packet(entered_ns=0, delivered_ns=10), packet(entered_ns=5, delivered_ns=10, is_copy=True)]
    assert fates(Log(LinkLayout("a.down", ["delay"]), rows, [], {})).segments.tolist() == [1]


def test_a_log_of_an_earlier_version_is_explained_without_grant_and_host() -> None:
    blocks = [block(0, 1, 200, 215)]
    row = packet(entered_ns=10, dequeued_ns=190, sent_ns=200, released_ns=215, delivered_ns=215, blocks=[0])
    packets, of_blocks = tables(radio([row], blocks))
    old = split_link(
        LinkLayout("radio.up", ["radio"]),
        packets.drop_columns(["written_ns", "passed_ns"]),
        of_blocks.drop_columns(["awake_ns", "granted_ns"]),
        {},
    )
    found = follow(["radio.up"], [old])
    assert {cause: int(found.ns[0, PLACE[cause]]) for cause in CAUSES if found.ns[0].tolist()[PLACE[cause]]} == {
        "slot": 190,
        "transmission": 15,
    }


def test_outages_and_handovers_are_read_from_the_capacity() -> None:
    rows = [
        {"time_s": 0.0, "link": "r.down", "rate_bps": 10, "state": "los"},
        {"time_s": 1.0, "link": "r.down", "rate_bps": 0, "state": "outage"},
        {"time_s": 2.0, "link": "r.down", "rate_bps": 0, "state": "handover"},
        {"time_s": 3.0, "link": "r.down", "rate_bps": None, "state": None},
        {"time_s": 0.0, "link": "r.up", "rate_bps": 0, "state": None},
    ]
    found = dark_times(pa.Table.from_pylist(rows, schema=SCHEMAS["capacity"]), "r.down")
    begin, end = np.array([0, 1_500 * MS]), np.array([5_000 * MS, 2_500 * MS])
    assert found["outage"].within(begin, end).tolist() == [1_000 * MS, 500 * MS]
    assert found["handover"].within(begin, end).tolist() == [1_000 * MS, 500 * MS]


def rows_of(*late_ms: float, every_ms: int = 50, lost: tuple[int, ...] = ()) -> Fates:
    """Packets sent at equal intervals, each late by its queue; those at the places of `lost` are dropped."""
    count = len(late_ms)
    ns = np.zeros((count, len(CAUSES)), np.int64)
    ns[:, PLACE["queue"]] = np.round(np.array(late_ms) * MS)
    ns[:, PLACE["propagation"]] = 5 * MS
    reasons = np.array(["overflow" if place in lost else None for place in range(count)], object)
    ns[list(lost)] = 0
    total = np.where(reasons == None, ns.sum(axis=1), MISSING)  # noqa: E711 - an array
    links = np.array(["a.down" if reason else None for reason in reasons], object)
    return Fates(
        np.arange(count) * every_ms * MS, np.ones(count, np.int64), total, ns, links, reasons, np.full(count, MISSING)
    )


def test_a_worst_moment_grows_while_its_neighbours_are_half_as_late() -> None:
    found = worst_delays(rows_of(1, 1, 40, 40, 80, 80, 41, 45, 2, 2, 30, 30), (0, 600 * MS), 2)
    assert [(each.start_s, each.end_s, each.late_max_ms) for each in found] == [(0.1, 0.4, 80.0), (0.5, 0.6, 30.0)]
    assert found[0].text == "0.1–0.4 s: up to 80 ms late: queue 80 ms"
    assert found[0].late_ms_by_cause == {"queue": 80.0}


def test_nothing_late_has_no_worst_moment() -> None:
    assert worst_delays(rows_of(0.1, 0.2, 0.1), (0, 200 * MS), 5) == []


def test_losses_are_listed_by_link_and_reason() -> None:
    found = worst_losses(rows_of(*[0.0] * 12, lost=(3, 4, 5, 9)), (0, 600 * MS), 5)
    assert [(each.start_s, each.end_s, each.lost_segments) for each in found] == [(0.1, 0.3, 3), (0.4, 0.5, 1)]
    assert found[0].text == "0.1–0.3 s: 3 segments lost: 3 overflow (a.down)"
    assert [(each.reason, each.cause) for each in found[0].lost] == [("overflow", "queue")]


def test_a_moment_in_which_nothing_arrived_has_no_lateness() -> None:
    found = moment(rows_of(0.0, 0.0, lost=(0, 1)), (0, 100 * MS))
    assert (found.late_max_ms, found.late_mean_ms, found.lost_segments) == (None, None, 2)


def test_windows_have_the_mean_by_cause_and_leave_out_silence() -> None:
    found = windows(rows_of(2, 4, 0, 7, every_ms=100, lost=(2,)), (0, 500 * MS), 200 * MS)
    assert [(each.start_s, each.segments, each.lost_segments, each.delay_mean_ms) for each in found] == [
        (0.0, 2, 0, 8.0),
        (0.2, 2, 1, 12.0),
    ]
    assert found[0].mean_ms_by_cause == {"propagation": 5.0, "queue": 3.0}


def test_the_series_tell_queue_outage_and_drops() -> None:
    row = {**dict.fromkeys(SCHEMAS["links"].names, 0), "link": "r.down"}
    rows = [
        {**row, "time_ms": 10, "delivered_segments": 4, "sojourn_mean_ns": 6 * MS, "sojourn_max_ns": 8 * MS},
        {**row, "time_ms": 11, "sojourn_mean_ns": None, "sojourn_max_ns": None, "dropped_overflow_segments": 3},
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMAS["links"])
    found = coarse_fates("r.down", table, {"outage": dark((5 * MS, 7 * MS))}, (0, 100 * MS))
    assert found.total_ns.tolist() == [6 * MS, 8 * MS, MISSING]
    assert found.segments.tolist() == [4, 0, 3]
    assert found.ns[:, PLACE["queue"]].tolist() == [4 * MS, 6 * MS, 0]
    assert found.ns[:, PLACE["outage"]].tolist() == [2 * MS, 2 * MS, 0]
    assert found.lost_reason.tolist() == [None, None, "overflow"]


def test_every_cause_has_a_meaning() -> None:
    assert tuple(MEANINGS) == CAUSES


@pytest.mark.parametrize("stages", [["ue", "radio", "delay"], ["radio", "ue", "delay"]])
def test_the_limit_of_the_ue_is_a_cause_on_either_side_of_the_radio(stages: list[Any]) -> None:
    before = stages[0] == "ue"
    radio_ns = 30 if before else 0
    row = packet(
        entered_ns=0, passed_ns=[30 if before else 60], dequeued_ns=radio_ns, sent_ns=radio_ns,
        released_ns=radio_ns + 10, delivered_ns=100, blocks=[0],
    )  # fmt: skip
    log = Log(LinkLayout("r.up", stages), [row], [block(0, 1, radio_ns, radio_ns + 10)], {})
    ue_ns = 30 if before else 50
    assert causes(log) == {"ue": ue_ns, "transmission": 10, "propagation": 100 - ue_ns - 10}
