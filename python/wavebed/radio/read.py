"""Read the settings of the radio, Wi-Fi and device stages from TOML tables or inline tables.

A table changes what is below it: the preset of a technology, or settings that were read before. Unknown keys are
refused; every part can be ``"off"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from wavebed.config.problems import Problem, at, choose, described, unknown_key
from wavebed.config.queue import queue as read_queue
from wavebed.config.values import number, share, size_bytes, table_of, time_ns, word
from wavebed.radio import parts
from wavebed.radio.model import DeviceSettings, MacSettings, RadioSettings, WifiSettings
from wavebed.radio.presets import DEVICE_QUEUE, PRESETS, SLEEP, SPECIAL_SYMBOLS, preset_name, technology_of
from wavebed.spec.link import MOST_OVERHEAD_BYTES
from wavebed.spec.radio import Connection, Reordering, Slots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.queue import Queue
    from wavebed.radio.model import DirectionSettings, Technology
    from wavebed.spec.radio import Harq

__all__ = [
    "DEVICE_KEYS",
    "RADIO_KEYS",
    "WIFI_KEYS",
    "buffer_limited",
    "carrier_slots",
    "change_settings",
    "device_settings",
    "mac_settings",
    "preset",
]

Table: TypeAlias = "Mapping[str, object]"

_SLOT_KEYS = ("frame", "special-symbols", "prepare", "decode", "harq")
_DIRECTION_KEYS = ("buffer", "discard", "overhead", "rlc", "reordering", "handover")
RADIO_KEYS = (
    *_SLOT_KEYS,
    *_DIRECTION_KEYS,
    "down-buffer",
    "up-buffer",
    "grants",
    "drx",
    "rrc",
    "fallback",
    "bler",
)
"""Keys of the table of an NR or LTE radio."""

WIFI_KEYS = ("buffer", "aggregate-bytes", "aggregate-frames", "overhead-time", "retries", "overhead", "bler")
"""Keys of the table of an 802.11ad radio."""

DEVICE_KEYS = ("packets-per-second", "down-packets-per-second", "up-packets-per-second", "queue")
_MAX_PACKETS_PER_S = 10**9


def preset(value: object) -> MacSettings:
    """Return the preset of this name.

    Raises
    ------
    Problem
        If there is none.
    """
    return PRESETS[choose(value, PRESETS)]


def mac_settings(
    technology: Technology,
    table: Table,
    place: str,
    *,
    numerology: int | None = None,
    frame: str | None = None,
    special_symbols: tuple[int, int, int] = SPECIAL_SYMBOLS,
    fallback: Slots | None = None,
) -> MacSettings:
    """Return the settings of a carrier: the preset of its technology, changed by a table.

    Parameters
    ----------
    technology : str
        ``nr``, ``lte`` or ``802.11ad``.
    table : mapping
        What is to be different; see `RADIO_KEYS` and `WIFI_KEYS`.
    place : str
        How messages name the table.
    numerology : int, optional
        NR only: the subcarrier spacing is 15·2^µ kHz.
    frame : str, optional
        The carrier's TDD frame, empty for FDD; the table may then have no key ``frame``. Without it the frame is that
        of the preset or of the table.
    special_symbols : (int, int, int)
        Downlink, guard and uplink symbols of an ``S`` slot, with `frame`.
    fallback : Slots, optional
        The slots of the carrier that the link falls back to, from `carrier_slots`.

    Raises
    ------
    Problem
        If the table is wrong; the message starts with `place`.
    """
    base = PRESETS[preset_name(technology, numerology)]
    if isinstance(base, RadioSettings):
        if frame is not None:
            for key in ("frame", "special-symbols"):
                if key in table:
                    raise Problem("belongs to the carrier: move it there", f"{place}.{key}")
            at(place, lambda given: parts.check_frame(given, special_symbols), frame)
            base = replace(base, slots=replace(base.slots, frame=frame, special_symbols=special_symbols))
        base = replace(base, fallback=fallback)
    return change_settings(base, table, place)


def carrier_slots(
    technology: Technology,
    *,
    numerology: int | None = None,
    frame: str | None = None,
    special_symbols: tuple[int, int, int] = SPECIAL_SYMBOLS,
) -> Slots:
    """Return the slots of a carrier as its preset has them, with the carrier's own frame if it is given."""
    base = PRESETS[preset_name(technology, numerology)]
    if not isinstance(base, RadioSettings):
        raise Problem(f"{technology} has no slots: write nr or lte")
    if frame is None:
        return base.slots
    parts.check_frame(frame, special_symbols)
    return replace(base.slots, frame=frame, special_symbols=special_symbols)


def change_settings(base: MacSettings, table: Table, place: str) -> MacSettings:
    """Return settings with the values of a table laid above them.

    A part that is off in `base` starts from its preset when the table turns it on.

    Raises
    ------
    Problem
        If the table is wrong; the message starts with `place`.
    """
    if isinstance(base, WifiSettings):
        return at(place, lambda given: _change_wifi(base, given), table)
    return at(place, lambda given: _change_radio(base, given), table)


def buffer_limited(queue: Queue, buffer: Queue) -> Queue:
    """Return `queue` with the limit of `buffer` where it has none of its own."""
    return queue if queue.limit is not None or queue.kind == "infinite" else replace(queue, limit=buffer.limit)


def _check_discard(settings: RadioSettings) -> None:
    for side in (settings.down, settings.up):
        if side.discard_ns is not None and side.queue.kind == "fq_codel":
            raise Problem(
                "does not fit an fq_codel queue, which has no single order: use codel, or write off", "discard"
            )


def device_settings(table: Table, place: str = "") -> DeviceSettings:
    """Read ``{packets-per-second = 60000, queue = "droptail:50p"}``.

    ``down-packets-per-second`` and ``up-packets-per-second`` stand for one direction; the queue is the same for both.

    Raises
    ------
    Problem
        If the table is wrong; the message starts with `place`.
    """
    return at(place, _device, table) if place else _device(table)


def _device(table: Table) -> DeviceSettings:
    _check_keys(table, DEVICE_KEYS)
    rate = number(1, _MAX_PACKETS_PER_S)
    both = at("packets-per-second", rate, table["packets-per-second"]) if "packets-per-second" in table else None
    found = {
        key: at(key, rate, table[key]) if key in table else both
        for key in ("down-packets-per-second", "up-packets-per-second")
    }
    down, up = found.values()
    if down is None and up is None:
        raise Problem("is missing: write how many packets per second the device handles", "packets-per-second")
    queue = at("queue", read_queue, table["queue"]) if "queue" in table else DEVICE_QUEUE
    return DeviceSettings(down, up, buffer_limited(queue, DEVICE_QUEUE))


def _check_keys(table: object, known: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write {{{known[0]} = …}}")
    for key in table:
        if key not in known:
            raise unknown_key(str(key), known)


def _change_radio(base: RadioSettings, table: Table) -> RadioSettings:
    _check_keys(table, RADIO_KEYS)
    origin = PRESETS[base.preset]
    assert isinstance(origin, RadioSettings), "a radio's preset is a radio's"
    changed = replace(base, slots=_slots(base.slots, origin, table))
    changed = _both_directions(changed, table)
    if "grants" in table:
        usual = changed.up.grants or origin.up.grants
        assert usual is not None, "every preset's uplink has grants"
        grants = at("grants", lambda raw: parts.grants_part(raw, usual), table["grants"])
        changed = replace(changed, up=replace(changed.up, grants=grants))
    if "fallback" in table:
        changed = replace(changed, fallback=at("fallback", _fallback, table["fallback"]))
    changed = replace(changed, connection=_connection(changed, table), bler=_bler(base.bler, table))
    _check_discard(changed)
    return changed


def _slots(base: Slots, origin: RadioSettings, table: Table) -> Slots:
    frame, symbols = base.frame, base.special_symbols
    if "frame" in table:
        frame = at("frame", parts.frame, table["frame"])
    if "special-symbols" in table:
        symbols = at("special-symbols", parts.special_symbols, table["special-symbols"])
        if "S" not in frame:
            raise Problem("acts on an S slot, and the frame has none: remove it", "special-symbols")
    parts.check_frame(frame, symbols)
    base = replace(base, frame=frame, special_symbols=symbols)
    if "prepare" in table:
        base = replace(base, prepare_ns=at("prepare", time_ns, table["prepare"]))
    if "decode" in table:
        base = replace(base, decode_ns=at("decode", time_ns, table["decode"]))
    if "harq" in table:
        usual = base.harq or origin.slots.harq
        base = replace(base, harq=at("harq", lambda raw: _harq(raw, usual), table["harq"]))
    return base


def _harq(value: object, usual: Harq | None) -> Harq | None:
    assert usual is not None, "every preset has HARQ"
    return parts.harq_part(value, usual)


def _both_directions(base: RadioSettings, table: Table) -> RadioSettings:
    down, up = (_direction(direction, table) for direction in (base.down, base.up))
    if "rlc" in table and "reordering" not in table and technology_of(base.preset) == "lte":
        # RLC itself keeps the order in LTE: AM until the gap is filled, UM until t-Reordering (TS 36.322 5.1).
        timer_ns = None if down.rlc.mode == "am" else down.rlc.reassembly_ns
        down, up = (
            direction if direction.reordering is None else replace(direction, reordering=Reordering(timer_ns))
            for direction in (down, up)
        )
    for key in ("down-buffer", "up-buffer"):
        if key in table:
            origin = down if key.startswith("down") else up
            queue = at(key, lambda raw, queue=origin.queue: _buffer(raw, queue), table[key])  # type: ignore[misc]
            down, up = (replace(down, queue=queue), up) if origin is down else (down, replace(up, queue=queue))
    return replace(base, down=down, up=up)


def _direction(base: DirectionSettings, table: Table) -> DirectionSettings:
    if "buffer" in table:
        base = replace(base, queue=at("buffer", lambda raw: _buffer(raw, base.queue), table["buffer"]))
    if "discard" in table:
        base = replace(base, discard_ns=at("discard", _discard, table["discard"]))
    if "overhead" in table:
        base = replace(base, overhead_bytes=at("overhead", number(0, MOST_OVERHEAD_BYTES), table["overhead"]))
    if "rlc" in table:
        base = replace(base, rlc=at("rlc", lambda raw: parts.rlc_part(raw, base.rlc), table["rlc"]))
    if "reordering" in table:
        base = replace(base, reordering=at("reordering", parts.reordering_part, table["reordering"]))
    if "handover" in table:
        forward = at("handover", word("forward", "lose"), table["handover"]) == "forward"
        base = replace(base, handover="forward" if forward else "lose")
    return base


def _buffer(value: object, base: Queue) -> Queue:
    """Read a size, which keeps the kind of queue, or a queue, which keeps the limit if it has none."""
    value = table_of(value)
    if isinstance(value, str) and not value[:1].isalpha():
        from wavebed.config.units import Limit

        limit_bytes = size_bytes(value)
        if limit_bytes < 1:
            raise Problem("a buffer of nothing passes nothing: write at least one packet, such as 1500b")
        kept = base if base.kind != "infinite" else DEVICE_QUEUE
        return replace(kept, limit=Limit(bytes=limit_bytes))
    return buffer_limited(read_queue(value), base)


def _discard(value: object) -> int | None:
    if value == "off":
        return None
    read = time_ns(value)
    if read < 1:
        raise Problem("would discard everything: write more than 0, or off")
    return read


def _bler(base: float | None, table: Table) -> float | None:
    return at("bler", share, table["bler"]) if "bler" in table else base


def _connection(base: RadioSettings, table: Table) -> Connection | None:
    drx, rrc = (base.connection.drx, base.connection.rrc) if base.connection is not None else (None, None)
    usual_drx, usual_rrc = SLEEP[technology_of(base.preset)]
    if "drx" in table:
        drx = at("drx", lambda raw: parts.drx_part(raw, drx or usual_drx), table["drx"])
    if "rrc" in table:
        rrc = at("rrc", lambda raw: parts.rrc_part(raw, rrc or usual_rrc), table["rrc"])
    return None if drx is None and rrc is None else Connection(drx, rrc)


def _fallback(value: object) -> Slots | None:
    """Read ``off``, a preset, or ``{preset, frame, special-symbols, prepare, decode, harq}``."""
    value = table_of(value)
    if value == "off":
        return None
    table: Table = value if isinstance(value, dict) else {"preset": value}
    _check_keys(table, ("preset", *_SLOT_KEYS))
    if "preset" not in table:
        raise Problem('is missing: name the preset of the fallback carrier, such as "lte"', "preset")
    origin = at("preset", preset, table["preset"])
    if not isinstance(origin, RadioSettings):
        raise Problem("has no slots: name a preset of nr or lte", "preset")
    return _slots(origin.slots, origin, table)


def _change_wifi(base: WifiSettings, table: Table) -> WifiSettings:
    _check_keys(table, WIFI_KEYS)
    if "buffer" in table:
        base = replace(base, queue=at("buffer", lambda raw: _buffer(raw, base.queue), table["buffer"]))
    if "aggregate-bytes" in table:
        base = replace(base, aggregate_bytes=at("aggregate-bytes", _aggregate, table["aggregate-bytes"]))
    if "aggregate-frames" in table:
        base = replace(base, aggregate_frames=at("aggregate-frames", number(1, 1024), table["aggregate-frames"]))
    if "overhead-time" in table:
        base = replace(base, overhead_ns=at("overhead-time", time_ns, table["overhead-time"]))
    if "retries" in table:
        retries = 0 if table["retries"] == "off" else at("retries", number(0, 255), table["retries"])
        base = replace(base, retries=retries)
    if "overhead" in table:
        base = replace(base, overhead_bytes=at("overhead", number(0, MOST_OVERHEAD_BYTES), table["overhead"]))
    return replace(base, bler=_bler(base.bler, table))


def _aggregate(value: object) -> int:
    read = size_bytes(value)
    if not 1500 <= read <= 4_194_303:
        raise Problem(f"{described(value)} is out of range: write 1500b to 4194303b")
    return read
