"""Every key of a radio and of a UE's limit: its form and its meaning; the bounds are those of the engine.

``None``: the table does not give the key, and the value of the preset or of the lower table holds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from msgspec import Struct

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.queue import QUEUE, Queue
from wavebed.config.reader import Reader, reader
from wavebed.config.table import Key, read_table, table_schema
from wavebed.config.values import SIZE_SCHEMA, TIME_SCHEMA, number, percentage, size_bytes, table_of, time_ns, word
from wavebed.radio.presets import PRESETS
from wavebed.spec.link import MOST_OVERHEAD_BYTES
from wavebed.spec.radio import (
    LEAST_BURST_NS,
    MOST_AGGREGATE_BYTES,
    MOST_AGGREGATE_FRAMES,
    MOST_CARRIERS,
    MOST_DECIBELS,
    MOST_FRAME_SLOTS,
    MOST_LOAD,
    MOST_PROCESSES,
    MOST_REQUESTS,
    MOST_RETRANSMISSIONS,
    MOST_SLOTS,
    MOST_TRANSMISSIONS,
    Reordering,
)

if TYPE_CHECKING:
    from wavebed.config.reader import Schema

__all__ = [
    "AggregationTable",
    "ConfiguredTable",
    "DrxTable",
    "FallbackTable",
    "GrantLossesTable",
    "GrantsTable",
    "HarqTable",
    "LoadTable",
    "Off",
    "RadioTable",
    "RlcTable",
    "RrcTable",
    "UeLimitTable",
    "WifiTable",
    "read_frame",
    "read_symbols",
]

_Table = TypeVar("_Table", bound=Struct)
Off = Literal["off"]
_LEAST_AGGREGATE_BYTES = 1500
_MOST_PACKETS_PER_S = 10**9


def _switch(model: type[_Table], *words: str) -> Reader[_Table | str]:
    """Make a reader of ``off``, perhaps ``on``, or a table of values that differ."""
    choices = ", ".join(f'"{word}"' for word in words)

    def read(value: object) -> _Table | str:
        value = table_of(value)
        if isinstance(value, str) and value in words:
            return value
        if not isinstance(value, dict):
            raise Problem(f"{described(value)} is not a choice: write {choices} or a table")
        return read_table(model, value, "a table")

    def schema() -> Schema:
        return {"anyOf": [{"enum": list(words)}, dict(table_schema(model))]}

    return Reader(read, "|".join([*words, "{…}"]), schema)


@reader("DECIBELS", {"type": "number", "minimum": 0, "maximum": MOST_DECIBELS})
def _decibels(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 <= value <= MOST_DECIBELS
    ):
        raise Problem(f"{described(value)} is out of range: write a number from 0 to {MOST_DECIBELS} without quotes")
    return float(value)


@reader("TIME", TIME_SCHEMA)
def _positive(value: object) -> int:
    read = time_ns(value)
    if read < 1:
        raise Problem(f"{described(value)} is no time: write more than 0")
    return read


@reader("SIZE", SIZE_SCHEMA)
def _bytes(value: object) -> int:
    read = size_bytes(value)
    if read < 1:
        raise Problem("an empty grant carries no data: write at least 1b")
    return read


@reader("TIME|off", {"anyOf": [{"const": "off"}, dict(TIME_SCHEMA)]})
def _short_cycle(value: object) -> int | Off:
    return "off" if value == "off" else _positive(value)


@reader("TIME|off", {"anyOf": [{"const": "off"}, dict(TIME_SCHEMA)]})
def _discard(value: object) -> int | Off:
    if value == "off":
        return "off"
    read = time_ns(value)
    if read < 1:
        raise Problem("discards every packet: write more than 0, or off")
    return read


@reader("TIME|wait|off", {"anyOf": [{"enum": ["wait", "off"]}, dict(TIME_SCHEMA)]})
def _reordering(value: object) -> Reordering | Off:
    if value == "off":
        return "off"
    if value == "wait":
        return Reordering(None)
    if not isinstance(value, str) or not value[:1].isdigit():
        raise Problem(f"{described(value)} is not a choice: write off, wait or a time such as 100ms")
    return Reordering(_positive(value))


@reader("SIZE or as queue", lambda: {"anyOf": [dict(SIZE_SCHEMA), dict(QUEUE.schema())]})
def _buffer(value: object) -> int | Queue:
    """Read a size in bytes, or a queue."""
    value = table_of(value)
    if not isinstance(value, str) or value[:1].isalpha():
        return QUEUE(value)
    limit_bytes = size_bytes(value)
    if limit_bytes < 1:
        raise Problem("an empty buffer passes no packet: write at least one packet, such as 1500b")
    return limit_bytes


@reader("SLOTS or fdd", {"type": "string", "pattern": "^(fdd|[DSU]+)$"}, lambda frame: frame or "fdd")
def read_frame(value: object) -> str:
    """Read a TDD frame such as ``DDDSU``, or ``fdd``, which is the empty frame."""
    if value == "fdd":
        return ""
    if not isinstance(value, str) or not value or set(value) - set("DSU"):
        raise Problem(f"{described(value)} is not a frame: write the slots of a period as D, S and U, or fdd")
    if len(value) > MOST_FRAME_SLOTS:
        raise Problem(f"has {len(value)} slots: write at most {MOST_FRAME_SLOTS}")
    return value


@reader("[DOWN, GUARD, UP]", {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3}, list)
def read_symbols(value: object) -> tuple[int, int, int]:
    """Read the downlink, guard and uplink symbols of an ``S`` slot, such as ``[10, 2, 2]``."""
    form = "write downlink, guard and uplink symbols that sum to 14, as in [10, 2, 2]"
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise Problem(f"{described(value)} is not three numbers: {form}")
    down, guard, up = (at(str(index), number(0, 14), count) for index, count in enumerate(value))
    if down + guard + up != 14:
        raise Problem(f"{list(value)} sums to {down + guard + up}: {form}")
    return down, guard, up


@reader("N|off", {"anyOf": [{"const": "off"}, {"type": "integer", "minimum": 0, "maximum": MOST_RETRANSMISSIONS}]})
def _retries(value: object) -> int:
    return 0 if value == "off" else number(0, MOST_RETRANSMISSIONS)(value)


@reader("SIZE", SIZE_SCHEMA)
def _aggregate(value: object) -> int:
    read = size_bytes(value)
    if not _LEAST_AGGREGATE_BYTES <= read <= MOST_AGGREGATE_BYTES:
        raise Problem(f"{described(value)} is out of range: write {_LEAST_AGGREGATE_BYTES}b to {MOST_AGGREGATE_BYTES}b")
    return read


@reader("SIZE|infinity", {"anyOf": [{"const": "infinity"}, dict(SIZE_SCHEMA)]})
def _threshold(value: object) -> int | Literal["infinity"]:
    return "infinity" if value == "infinity" else size_bytes(value)


@reader("12|18", {"enum": [12, 18]})
def _sn_bits(value: object) -> Literal[12, 18]:
    if isinstance(value, bool) or value not in (12, 18):
        raise Problem(f"{described(value)} is not a choice: write 12 or 18 without quotes")
    return 12 if value == 12 else 18


@reader("PERCENT", dict(percentage.schema()))
def _load(value: object) -> float:
    mean = percentage(value)
    if not 0 < mean <= MOST_LOAD:
        raise Problem(f"{described(value)} is out of range: write more than 0% and at most {MOST_LOAD:.0%}")
    return mean


@reader("TIME", TIME_SCHEMA)
def _burst(value: object) -> int:
    burst_ns = time_ns(value)
    if burst_ns < LEAST_BURST_NS:
        raise Problem(f"{described(value)} is too short: write at least {LEAST_BURST_NS // 1000}us")
    return burst_ns


BURST_NS = 5_000_000
"""An assumption: some objects of a web page at the rate of a cell."""
ACTIVATION_NS = 24_000_000
"""TS 36.133 7.7.2, of a known carrier. In NR it depends on the period of the SSB (TS 38.133 8.3.2): an assumption."""
DEACTIVATION_NS = 80_000_000
"""An assumption: TS 38.331 has 20 to 1280 ms."""
_SLOTS = number(0, MOST_SLOTS)
_LATER = number(1, MOST_SLOTS)


class HarqTable(Struct, frozen=True, kw_only=True):
    """``harq``."""

    processes: Annotated[int | None, Key(number(1, MOST_PROCESSES), "blocks in flight")] = None
    feedback_slots: Annotated[int | None, Key(_SLOTS, "slots from a block to its feedback")] = None
    schedule_slots: Annotated[int | None, Key(_LATER, "slots from the feedback to the next transmission")] = None
    limit: Annotated[int | None, Key(number(1, MOST_TRANSMISSIONS), "transmissions of a block, the first included")] = (
        None
    )
    combining_gain_db: Annotated[
        float | None,
        Key(_decibels, "gain of doubled energy, where the trace has no SINR", name="combining-gain-db"),
    ] = None
    slope_per_db: Annotated[
        float | None,
        Key(_decibels, "logit slope of the error rate per decibel, where the trace has no SINR", name="slope-per-db"),
    ] = None
    ack_loss: Annotated[
        float | None, Key(percentage, "lost acknowledgements: a received block is sent again", absent="`0%`")
    ] = None
    nack_loss: Annotated[
        float | None,
        Key(percentage, "negative acknowledgements taken for positive ones: the block is left to RLC", absent="`0%`"),
    ] = None


class RlcTable(Struct, frozen=True, kw_only=True):
    """``rlc``."""

    mode: Annotated[Literal["am", "um"] | None, Key(word("am", "um"), "acknowledged or unacknowledged mode")] = None
    reassembly_ns: Annotated[int | None, Key(time_ns, "t-Reassembly; in LTE t-Reordering")] = None
    poll_ns: Annotated[int | None, Key(_positive, "t-PollRetransmit")] = None
    status_ns: Annotated[int | None, Key(time_ns, "t-StatusProhibit")] = None
    retransmissions: Annotated[
        int | None,
        Key(number(1, MOST_RETRANSMISSIONS), "maxRetxThreshold: retransmissions before the radio link fails"),
    ] = None
    reestablish_ns: Annotated[
        int | None, Key(_positive, "from that failure until the link is re-established; nothing is sent meanwhile")
    ] = None
    status_loss: Annotated[float | None, Key(percentage, "lost status reports: each costs a poll", absent="`0%`")] = (
        None
    )
    sn_bits: Annotated[
        Literal[12, 18] | None, Key(_sn_bits, "bits of the sequence number: AM_Window_Size is half of its range")
    ] = None


class ConfiguredTable(Struct, frozen=True, kw_only=True):
    """``configured`` of ``grants``: a grant that needs no request."""

    slots: Annotated[int | None, Key(_LATER, "its period in slots")] = None
    bytes: Annotated[int | None, Key(_bytes, "bytes of each", name="size")] = None


class GrantLossesTable(Struct, frozen=True, kw_only=True):
    """``losses`` of ``grants``: loss of requests and reports."""

    request: Annotated[float | None, Key(percentage, "lost scheduling requests")] = None
    report: Annotated[float | None, Key(percentage, "lost buffer status reports")] = None
    prohibit_ns: Annotated[int | None, Key(time_ns, "sr-ProhibitTimer")] = None
    most_requests: Annotated[
        int | None, Key(number(1, MOST_REQUESTS), "sr-TransMax: requests before random access")
    ] = None
    access_ns: Annotated[int | None, Key(time_ns, "time of random access")] = None
    retry_ns: Annotated[int | None, Key(_positive, "retxBSR-Timer: from a lost report to the next request")] = None


class GrantsTable(Struct, frozen=True, kw_only=True):
    """``grants``: how the uplink is granted, in slots."""

    request_slots: Annotated[int | None, Key(_LATER, "period of the opportunities to ask for a grant")] = None
    schedule_slots: Annotated[int | None, Key(_SLOTS, "from the request to the grant")] = None
    prepare_slots: Annotated[int | None, Key(_LATER, "from the grant to the transmission")] = None
    first_bytes: Annotated[int | None, Key(_bytes, "size of the grant that answers a request")] = None
    configured: Annotated[ConfiguredTable | Off | None, Key(_switch(ConfiguredTable, "off"), "a configured grant")] = (
        None
    )
    losses: Annotated[
        GrantLossesTable | Literal["on", "off"] | None,
        Key(_switch(GrantLossesTable, "on", "off"), "lost requests and reports"),
    ] = None


class DrxTable(Struct, frozen=True, kw_only=True):
    """``drx``: connected-mode sleep."""

    inactivity_ns: Annotated[int | None, Key(time_ns, "idle time before it sleeps")] = None
    short_cycle_ns: Annotated[int | Off | None, Key(_short_cycle, "short cycle")] = None
    short_cycles: Annotated[int | None, Key(number(1, 16), "how many short cycles come first (TS 38.331)")] = None
    long_cycle_ns: Annotated[int | None, Key(_positive, "long cycle, a multiple of the short one")] = None
    on_ns: Annotated[int | None, Key(_positive, "on-duration in each cycle")] = None


class RrcTable(Struct, frozen=True, kw_only=True):
    """``rrc``: release after idle time, and promotion."""

    inactivity_ns: Annotated[int | None, Key(_positive, "idle time before the release")] = None
    promotion_ns: Annotated[int | None, Key(time_ns, "time of the promotion to connected mode")] = None
    paging_ns: Annotated[int | None, Key(time_ns, "paging cycle: longest wait of a downlink packet for its paging")] = (
        None
    )


_RLC_TABLE = _switch(RlcTable, "am", "um")


@reader("am|um|{…}", _RLC_TABLE.schema)
def _rlc(value: object) -> RlcTable:
    value = table_of(value)
    return read_table(RlcTable, {"mode": value} if isinstance(value, str) else value, "{mode = …}")


class LoadTable(Struct, frozen=True, kw_only=True):
    """``load``: bursts of other users."""

    mean: Annotated[float, Key(_load, "mean fraction of the slots that other users need", write='"50%"')]
    burst_ns: Annotated[int, Key(_burst, "mean time that a burst takes with all slots")] = BURST_NS


_LOAD_TABLE = _switch(LoadTable, "off")


class AggregationTable(Struct, frozen=True, kw_only=True):
    """``aggregation``: component carriers of the downlink."""

    carriers: Annotated[
        int, Key(number(2, MOST_CARRIERS), "component carriers of equal rate, the primary one included", write="N")
    ]
    activation_ns: Annotated[int, Key(time_ns, "from the command to the first slot of the secondary carriers")] = (
        ACTIVATION_NS
    )
    deactivation_ns: Annotated[
        int, Key(_positive, "sCellDeactivationTimer: time without a block on a secondary carrier")
    ] = DEACTIVATION_NS


class SlotKeys(Struct, frozen=True, kw_only=True):
    """The keys of the slots of a carrier."""

    frame: Annotated[str | None, Key(read_frame, "slots of the TDD period")] = None
    special_symbols: Annotated[
        tuple[int, int, int] | None, Key(read_symbols, "downlink, guard and uplink symbols of an `S` slot")
    ] = None
    prepare_ns: Annotated[int | None, Key(time_ns, "time before its slot by which data must be there")] = None
    decode_ns: Annotated[int | None, Key(time_ns, "time after its slot until a block is decoded")] = None
    harq: Annotated[HarqTable | Off | None, Key(_switch(HarqTable, "off"), "hybrid ARQ: keys below")] = None


class FallbackTable(SlotKeys, frozen=True, kw_only=True):
    """``fallback``: the carrier to which the link falls back."""

    preset: Annotated[str, Key(word(*PRESETS), "its preset", write='"lte"')]


_FALLBACK_TABLE = _switch(FallbackTable, "off", *PRESETS)


@reader("PRESET|{…}|off", _FALLBACK_TABLE.schema)
def _fallback(value: object) -> FallbackTable | Off:
    value = table_of(value)
    if value == "off":
        return "off"
    if not isinstance(value, dict):
        return FallbackTable(preset=choose(value, PRESETS))
    if "preset" not in value:
        raise Problem('is missing: name the preset of the fallback carrier, such as "lte"', "preset")
    return read_table(FallbackTable, value, "{preset = …}")


class RadioTable(SlotKeys, frozen=True, kw_only=True):
    """The table of an NR or LTE radio."""

    rlc: Annotated[RlcTable | None, Key(_rlc, "acknowledged or unacknowledged mode: keys below")] = None
    reordering: Annotated[
        Reordering | Off | None,
        Key(_reordering, "in-order delivery: wait this long for a gap, wait until it is filled, or do not wait"),
    ] = None
    grants: Annotated[
        GrantsTable | Off | None, Key(_switch(GrantsTable, "off"), "how the uplink is granted: keys below")
    ] = None
    buffer: Annotated[int | Queue | None, Key(_buffer, "buffer of this user")] = None
    down_buffer: Annotated[int | Queue | None, Key(_buffer, "that of the downlink")] = None
    up_buffer: Annotated[int | Queue | None, Key(_buffer, "that of the uplink")] = None
    discard_ns: Annotated[
        int | Off | None, Key(_discard, "a packet that has waited so long is dropped (PDCP discardTimer)")
    ] = None
    overhead_bytes: Annotated[
        int | None, Key(number(0, MOST_OVERHEAD_BYTES), "header bytes of each packet", write="BYTES")
    ] = None
    handover: Annotated[
        Literal["forward", "lose"] | None,
        Key(word("forward", "lose"), "whether a handover or a failure of the link forwards the buffer or loses it"),
    ] = None
    drx: Annotated[
        DrxTable | Literal["on", "off"] | None,
        Key(_switch(DrxTable, "on", "off"), "connected-mode sleep: keys below"),
    ] = None
    rrc: Annotated[
        RrcTable | Literal["on", "off"] | None,
        Key(_switch(RrcTable, "on", "off"), "release after idle time, and promotion: keys below"),
    ] = None
    fallback: Annotated[
        FallbackTable | Off | None,
        Key(
            _fallback,
            "slots that hold in rows of state `fallback`; a table has the `preset` and may have `frame`,"
            " `special-symbols`, `prepare`, `decode`, `harq`",
        ),
    ] = None
    bearer: Annotated[
        Literal["switched", "split"] | None,
        Key(
            word("switched", "split"),
            "`switched`: the fallback carrier is used while the carrier has failed; `split`: always beside it, with a"
            " scene or a trace with the column `fallback_rate_bps`",
            absent="`switched`",
        ),
    ] = None
    up_split_threshold: Annotated[
        int | Literal["infinity"] | None,
        Key(
            _threshold,
            "waiting bytes from which on the uplink of a split bearer uses both carriers (ul-DataSplitThreshold)",
            absent="`infinity`",
        ),
    ] = None
    bler: Annotated[float | None, Key(percentage, "block errors, instead of those of the trace")] = None
    load: Annotated[
        LoadTable | Off | None,
        Key(_LOAD_TABLE, "other users, whose bursts take slots by proportional fair: keys below"),
    ] = None
    down_load: Annotated[LoadTable | Off | None, Key(_LOAD_TABLE, "those of the downlink")] = None
    up_load: Annotated[LoadTable | Off | None, Key(_LOAD_TABLE, "those of the uplink")] = None
    aggregation: Annotated[
        AggregationTable | Off | None,
        Key(
            _switch(AggregationTable, "off"),
            "component carriers of the downlink, which are activated when data waits: keys below",
        ),
    ] = None


class WifiTable(Struct, frozen=True, kw_only=True):
    """The table of an 802.11ad radio."""

    buffer: Annotated[int | Queue | None, Key(_buffer, "buffer of this user")] = None
    aggregate_bytes: Annotated[int | None, Key(_aggregate, "bytes of an A-MPDU at most", name="aggregate-bytes")] = None
    aggregate_frames: Annotated[int | None, Key(number(1, MOST_AGGREGATE_FRAMES), "frames of an A-MPDU at most")] = None
    overhead_ns: Annotated[
        int | None, Key(time_ns, "overhead of each aggregate: preambles, gaps, acknowledgement", name="overhead-time")
    ] = None
    retries: Annotated[int | None, Key(_retries, "retransmissions of a frame at most")] = None
    overhead_bytes: Annotated[
        int | None, Key(number(0, MOST_OVERHEAD_BYTES), "header bytes of each packet", write="BYTES")
    ] = None
    bler: Annotated[float | None, Key(percentage, "block errors, instead of the trace's column")] = None


class UeLimitTable(Struct, frozen=True, kw_only=True):
    """``ue-limit``: the packet-rate limit of the UE."""

    packets_per_second: Annotated[
        int | None, Key(number(1, _MOST_PACKETS_PER_S), "packet rate of the UE in each direction")
    ] = None
    down_packets_per_second: Annotated[int | None, Key(number(1, _MOST_PACKETS_PER_S), "in the downlink")] = None
    up_packets_per_second: Annotated[int | None, Key(number(1, _MOST_PACKETS_PER_S), "in the uplink")] = None
    queue: Annotated[Queue | None, Key(QUEUE, "its queue", absent="`droptail:100p`")] = None
