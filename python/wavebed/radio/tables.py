"""Every key of a radio and of a UE's limit. What the engine has stands in `wavebed.spec.types`: bounds and meaning too.

``None``: the table does not give the key, and the value of the preset or of the lower table holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from wavebed.config.derived import bounds, count_of
from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Reader, reader
from wavebed.config.table import Key, read_changes, read_table, spec_key, table_schema
from wavebed.config.values import SIZE_SCHEMA, TIME_SCHEMA, number, size_bytes, table_of, time_ns, word
from wavebed.radio.presets import PRESETS
from wavebed.spec.network import QUEUE, WrittenQueue
from wavebed.spec.types import (
    Aggregation,
    AmRlc,
    Configured,
    Drx,
    GrantLosses,
    Grants,
    Harq,
    Load,
    PacketsRate,
    RadioStage,
    Reordering,
    Rrc,
    Slots,
    WifiStage,
)

if TYPE_CHECKING:
    from wavebed.config.reader import Schema


_Table = TypeVar("_Table", bound=Struct)
Off = Literal["off"]
Changes: TypeAlias = dict[str, Any]
"""Fields of a part that differ from its preset."""
_LEAST_AGGREGATE_BYTES = 1500
_COUNT = count_of(PacketsRate, "packets_per_s")


def _switch(words: tuple[str, ...], *models: type[Struct]) -> Reader[Changes | str]:
    """Make a reader of one of some words, such as ``off``, or of a table of values that differ."""
    choices = ", ".join(f'"{word}"' for word in words)

    def read(value: object) -> Changes | str:
        value = table_of(value)
        if isinstance(value, str) and value in words:
            return value
        if not isinstance(value, dict):
            raise Problem(f"{described(value)} is not a choice: write {choices} or a table")
        return read_changes(value, "a table", *models)

    def schema() -> Schema:
        return {"anyOf": [{"enum": list(words)}, dict(table_schema(*models, changes=True))]}

    return Reader(read, "|".join([*words, "{…}"]), schema)


def _whole(model: type[_Table]) -> Reader[_Table | str]:
    """Make a reader of ``off``, or of a whole table."""

    def read(value: object) -> _Table | str:
        value = table_of(value)
        if value == "off":
            return "off"
        if not isinstance(value, dict):
            raise Problem(f'{described(value)} is not a choice: write "off" or a table')
        return read_table(model, value, "a table")

    return Reader(read, "off|{…}", lambda: {"anyOf": [{"enum": ["off"]}, dict(table_schema(model))]})


@reader("TIME|wait|off", {"anyOf": [{"enum": ["wait", "off"]}, dict(TIME_SCHEMA)]})
def _reordering(value: object) -> Reordering | Off:
    if value == "off":
        return "off"
    if value == "wait":
        return Reordering(None)
    if not isinstance(value, str) or not value[:1].isdigit():
        raise Problem(f"{described(value)} is not a choice: write off, wait or a time such as 100ms")
    return Reordering(spec_key(Reordering, "timer_ns", off=None).reader(value))


@reader("SIZE or as queue", lambda: {"anyOf": [dict(SIZE_SCHEMA), dict(QUEUE.schema())]})
def _buffer(value: object) -> int | WrittenQueue:
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
    most = bounds(Slots, "frame").most
    if most is not None and len(value) > most:
        raise Problem(f"has {len(value)} slots: write at most {most:g}")
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


_RETRIES = count_of(WifiStage, "retries")


@reader("N|off", lambda: {"anyOf": [{"const": "off"}, dict(_RETRIES.schema())]})
def _retries(value: object) -> int:
    return 0 if value == "off" else _RETRIES(value)


@reader("SIZE", SIZE_SCHEMA)
def _aggregate(value: object) -> int:
    read = size_bytes(value)
    most = bounds(WifiStage, "aggregate_bytes").most
    if read < _LEAST_AGGREGATE_BYTES or (most is not None and read > most):
        raise Problem(f"{described(value)} is out of range: write {_LEAST_AGGREGATE_BYTES}b to {most:.0f}b")
    return read


@reader("SIZE|infinity", {"anyOf": [{"const": "infinity"}, dict(SIZE_SCHEMA)]})
def _threshold(value: object) -> int | Literal["infinity"]:
    return "infinity" if value == "infinity" else size_bytes(value)


class _RlcMode(Struct, frozen=True, kw_only=True):
    mode: Annotated[str, Key(word("am", "um"), "acknowledged or unacknowledged mode")]


_RLC_TABLE = _switch(("am", "um"), _RlcMode, AmRlc)


@reader("am|um|{…}", _RLC_TABLE.schema)
def _rlc(value: object) -> Changes:
    given = _RLC_TABLE(value)
    return {"mode": given} if isinstance(given, str) else given


class _GrantParts(Struct, frozen=True, kw_only=True):
    configured: Annotated[Changes | Off, Key(_switch(("off",), Configured), "a configured grant")]
    losses: Annotated[
        Changes | Literal["on", "off"], Key(_switch(("on", "off"), GrantLosses), "lost requests and reports")
    ]


class SlotKeys(Struct, frozen=True, kw_only=True):
    """The keys of the slots of a carrier."""

    frame: Annotated[str | None, Key(read_frame, "slots of the TDD period")] = None
    special_symbols: Annotated[
        tuple[int, int, int] | None, Key(read_symbols, "downlink, guard and uplink symbols of an `S` slot")
    ] = None
    prepare_ns: Annotated[int | None, spec_key(Slots, "prepare_ns")] = None
    decode_ns: Annotated[int | None, spec_key(Slots, "decode_ns")] = None
    harq: Annotated[Changes | Off | None, Key(_switch(("off",), Harq), "hybrid ARQ: keys below")] = None


class FallbackTable(SlotKeys, frozen=True, kw_only=True):
    """``fallback``: the carrier to which the link falls back."""

    preset: Annotated[str, Key(word(*PRESETS), "its preset", write='"lte"')]


@reader("PRESET|{…}|off", lambda: {"anyOf": [{"enum": ["off", *PRESETS]}, dict(table_schema(FallbackTable))]})
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

    rlc: Annotated[Changes | None, Key(_rlc, "acknowledged or unacknowledged mode: keys below")] = None
    reordering: Annotated[
        Reordering | Off | None,
        Key(_reordering, "in-order delivery: wait this long for a gap, wait until it is filled, or do not wait"),
    ] = None
    grants: Annotated[
        Changes | Off | None, Key(_switch(("off",), Grants, _GrantParts), "how the uplink is granted: keys below")
    ] = None
    buffer: Annotated[int | WrittenQueue | None, Key(_buffer, "buffer of this user")] = None
    down_buffer: Annotated[int | WrittenQueue | None, Key(_buffer, "that of the downlink")] = None
    up_buffer: Annotated[int | WrittenQueue | None, Key(_buffer, "that of the uplink")] = None
    discard_ns: Annotated[int | Off | None, spec_key(RadioStage, "discard_ns", off="off")] = None
    overhead_bytes: Annotated[
        int | None, Key(count_of(RadioStage, "overhead_bytes"), "header bytes of each packet", write="BYTES")
    ] = None
    handover: Annotated[Literal["forward", "lose"] | None, spec_key(RadioStage, "handover")] = None
    drx: Annotated[
        Changes | Literal["on", "off"] | None,
        Key(_switch(("on", "off"), Drx), "connected-mode sleep: keys below"),
    ] = None
    rrc: Annotated[
        Changes | Literal["on", "off"] | None,
        Key(_switch(("on", "off"), Rrc), "release after idle time, and promotion: keys below"),
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
    bler: Annotated[float | None, spec_key(RadioStage, "bler", off=None)] = None
    load: Annotated[
        Load | Off | None, Key(_whole(Load), "other users, whose bursts take slots by proportional fair: keys below")
    ] = None
    down_load: Annotated[Load | Off | None, Key(_whole(Load), "those of the downlink")] = None
    up_load: Annotated[Load | Off | None, Key(_whole(Load), "those of the uplink")] = None
    aggregation: Annotated[
        Aggregation | Off | None,
        Key(
            _whole(Aggregation),
            "component carriers of the downlink, which are activated when data waits: keys below",
        ),
    ] = None


PARTS: dict[str, tuple[type[Struct], ...]] = {
    "harq": (Harq,),
    "rlc": (_RlcMode, AmRlc),
    "grants": (Grants, _GrantParts),
    "grants.configured": (Configured,),
    "grants.losses": (GrantLosses,),
    "drx": (Drx,),
    "rrc": (Rrc,),
    "load": (Load,),
    "aggregation": (Aggregation,),
}
"""The tables within a radio's, for the reference page."""


class WifiTable(Struct, frozen=True, kw_only=True):
    """The table of an 802.11ad radio."""

    buffer: Annotated[int | WrittenQueue | None, Key(_buffer, "buffer of this user")] = None
    aggregate_bytes: Annotated[int | None, Key(_aggregate, "bytes of an A-MPDU at most", name="aggregate-bytes")] = None
    aggregate_frames: Annotated[
        int | None, Key(count_of(WifiStage, "aggregate_frames"), "frames of an A-MPDU at most")
    ] = None
    overhead_ns: Annotated[
        int | None, Key(time_ns, "overhead of each aggregate: preambles, gaps, acknowledgement", name="overhead-time")
    ] = None
    retries: Annotated[int | None, Key(_retries, "retransmissions of a frame at most")] = None
    overhead_bytes: Annotated[
        int | None, Key(count_of(WifiStage, "overhead_bytes"), "header bytes of each packet", write="BYTES")
    ] = None
    bler: Annotated[float | None, spec_key(WifiStage, "bler", off=None)] = None


class UeLimitTable(Struct, frozen=True, kw_only=True):
    """``ue-limit``: the packet-rate limit of the UE."""

    packets_per_second: Annotated[int | None, Key(_COUNT, "packet rate of the UE in each direction")] = None
    down_packets_per_second: Annotated[int | None, Key(_COUNT, "in the downlink")] = None
    up_packets_per_second: Annotated[int | None, Key(_COUNT, "in the uplink")] = None
    queue: Annotated[WrittenQueue | None, Key(QUEUE, "its queue", absent="`droptail:100p`")] = None
