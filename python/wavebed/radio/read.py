"""Read the settings of the radio, Wi-Fi and UE stages from TOML tables or inline tables.

A table changes the settings below it: the preset of a technology, or settings that were read before. Unknown keys are
refused; every part can be ``"off"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.problems import Problem, at, choose
from wavebed.config.table import read_table
from wavebed.config.units import Limit
from wavebed.radio.presets import (
    GRANT_LOSSES,
    PRESETS,
    SLEEP,
    SPECIAL_SYMBOLS,
    SPLIT_REORDERING_NS,
    UE_QUEUE,
    MacSettings,
    RadioSettings,
    UeLimit,
    WifiSettings,
    preset_name,
    technology_of,
)
from wavebed.radio.tables import RadioTable, UeLimitTable, WifiTable
from wavebed.spec.types import Configured, Connection, Load, Reordering, Slots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.radio.presets import DirectionSettings, Technology
    from wavebed.radio.tables import Changes, FallbackTable, SlotKeys
    from wavebed.spec.network import WrittenQueue
    from wavebed.spec.types import Drx, Grants


Table: TypeAlias = "Mapping[str, object]"

_Part = TypeVar("_Part", bound=Struct)


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
        The values that differ; see `wavebed.radio.tables`.
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
            at(place, lambda given: check_frame(given, special_symbols), frame)
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
    check_frame(frame, special_symbols)
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


def buffer_limited(queue: WrittenQueue, buffer: WrittenQueue) -> WrittenQueue:
    """Return `queue` with the limit of `buffer` where it has none of its own."""
    return queue if queue.limit is not None or not queue.has("limit") else replace(queue, limit=buffer.limit)


def _check_discard(settings: RadioSettings) -> None:
    for side in (settings.down, settings.up):
        if side.discard_ns is not None and side.queue.kind == "fq_codel":
            raise Problem(
                "does not fit an fq_codel queue, which has no single order: use codel, or write off", "discard"
            )


def ue_limit(table: Table, place: str = "") -> UeLimit:
    """Read ``{packets-per-second = 60000, queue = "droptail:50p"}``.

    ``down-packets-per-second`` and ``up-packets-per-second`` stand for one direction; the queue is the same for both.

    Raises
    ------
    Problem
        If the table is wrong; the message starts with `place`.
    """
    return at(place, _ue_limit, table) if place else _ue_limit(table)


def _ue_limit(table: object) -> UeLimit:
    given = read_table(UeLimitTable, table, "{packets-per-second = …}")
    down = given.down_packets_per_second or given.packets_per_second
    up = given.up_packets_per_second or given.packets_per_second
    if down is None and up is None:
        raise Problem("is missing: write how many packets per second the UE handles", "packets-per-second")
    return UeLimit(down, up, buffer_limited(given.queue or UE_QUEUE, UE_QUEUE))


def _with(base: _Part, given: Struct, *names: str) -> _Part:
    """Return `base` with the named values that a table gives."""
    changes = {name: getattr(given, name) for name in names}
    return replace(base, **{name: value for name, value in changes.items() if value is not None})


def _change_radio(base: RadioSettings, table: object) -> RadioSettings:
    given = read_table(RadioTable, table, "{preset = …}")
    origin = PRESETS[base.preset]
    assert isinstance(origin, RadioSettings), "a radio's preset is a radio's"
    changed = replace(base, slots=_slots(base.slots, origin, given))
    changed = _both_directions(changed, given)
    if given.grants is not None:
        usual = changed.up.grants or origin.up.grants
        assert usual is not None, "every preset's uplink has grants"
        grants = None if isinstance(given.grants, str) else _grants(given.grants, usual)
        changed = replace(changed, up=replace(changed.up, grants=grants))
    if given.fallback is not None:
        fallback = None if given.fallback == "off" else at("fallback", _fallback, given.fallback)
        changed = replace(changed, fallback=fallback)
    changed = replace(changed, connection=_connection(changed, given))
    if given.bler is not None:
        changed = replace(changed, bler=given.bler)
    changed = _bearer(changed, origin, given)
    if isinstance(given.aggregation, str):
        changed = replace(changed, aggregation=None)
    elif given.aggregation is not None:
        changed = replace(changed, aggregation=given.aggregation)
    _check_discard(changed)
    return changed


def _bearer(base: RadioSettings, origin: RadioSettings, given: RadioTable) -> RadioSettings:
    changed = _with(base, given, "bearer")
    if changed.bearer == "switched":
        if given.up_split_threshold is not None:
            raise Problem('requires bearer = "split": add it', "up-split-threshold")
        return changed
    if changed.fallback is None:
        raise Problem('is split, and there is no second carrier: add fallback = "lte", or write switched', "bearer")
    if given.bearer == "split" and given.reordering is None:
        changed = replace(changed, down=_patient(changed.down, origin.down), up=_patient(changed.up, origin.up))
    if given.up_split_threshold is None:
        return changed
    infinite = given.up_split_threshold == "infinity"
    return replace(changed, up_threshold_bytes=None if infinite else given.up_split_threshold)


def _patient(base: DirectionSettings, origin: DirectionSettings) -> DirectionSettings:
    """Return a direction that waits through an interruption of one leg, if it has the timer of its preset."""
    if base.reordering != origin.reordering or base.reordering is None or base.reordering.timer_ns is None:
        return base
    return replace(base, reordering=Reordering(SPLIT_REORDERING_NS))


def check_frame(frame: str, symbols_of_s: tuple[int, int, int]) -> None:
    """Check that a frame has symbols for both directions; `symbols_of_s` belong to an ``S`` slot.

    Raises
    ------
    Problem
        If it has not.
    """
    down, _, up = symbols_of_s
    for letter, direction, symbols in (("U", "uplink", up), ("D", "downlink", down)):
        if frame and letter not in frame and not ("S" in frame and symbols):
            raise Problem(f"{frame!r} has no {direction} slot: add a {letter}", "frame")


def _slots(base: Slots, origin: RadioSettings, given: SlotKeys) -> Slots:
    frame = base.frame if given.frame is None else given.frame
    if given.special_symbols is not None and "S" not in frame:
        raise Problem("requires an S slot in the frame: remove it", "special-symbols")
    check_frame(frame, given.special_symbols or base.special_symbols)
    base = _with(base, given, "frame", "special_symbols", "prepare_ns", "decode_ns")
    if given.harq is None:
        return base
    usual = base.harq or origin.slots.harq
    assert usual is not None, "every preset has HARQ"
    return replace(base, harq=None if isinstance(given.harq, str) else replace(usual, **given.harq))


def _grants(given: Changes, usual: Grants) -> Grants:
    further = dict(given)
    losses, configured = further.pop("losses", None), further.pop("configured", None)
    changed = replace(usual, **further)
    if losses == "off":
        changed = replace(changed, losses=None)
    elif losses is not None:
        base = changed.losses or GRANT_LOSSES
        changed = replace(changed, losses=base if isinstance(losses, str) else replace(base, **losses))
    if configured is None:
        return changed
    if configured == "off":
        return replace(changed, configured=None)
    if changed.configured is not None:
        return replace(changed, configured=replace(changed.configured, **configured))
    for field, key in (("slots", "slots"), ("bytes", "size")):
        if field not in configured:
            raise Problem("is missing: a configured grant is {slots = …, size = …}", f"grants.configured.{key}")
    return replace(changed, configured=Configured(**configured))


def _both_directions(base: RadioSettings, given: RadioTable) -> RadioSettings:
    down, up = (_direction(direction, given) for direction in (base.down, base.up))
    if given.rlc is not None and given.reordering is None and technology_of(base.preset) == "lte":
        # RLC itself keeps the order in LTE: AM until the gap is filled, UM until t-Reordering (TS 36.322 5.1).
        timer_ns = None if down.rlc.mode == "am" else down.rlc.am.reassembly_ns
        down, up = (
            direction if direction.reordering is None else replace(direction, reordering=Reordering(timer_ns))
            for direction in (down, up)
        )
    if given.down_buffer is not None:
        down = replace(down, queue=_buffer(given.down_buffer, down.queue))
    if given.up_buffer is not None:
        up = replace(up, queue=_buffer(given.up_buffer, up.queue))
    down = _loaded(down, given.load if given.down_load is None else given.down_load)
    up = _loaded(up, given.load if given.up_load is None else given.up_load)
    return replace(base, down=down, up=up)


def _direction(base: DirectionSettings, given: RadioTable) -> DirectionSettings:
    base = _with(base, given, "overhead_bytes", "handover")
    if given.buffer is not None:
        base = replace(base, queue=_buffer(given.buffer, base.queue))
    if given.discard_ns is not None:
        base = replace(base, discard_ns=None if given.discard_ns == "off" else given.discard_ns)
    if given.rlc is not None:
        further = dict(given.rlc)
        mode = further.pop("mode", base.rlc.mode)
        base = replace(base, rlc=replace(base.rlc, mode=mode, am=replace(base.rlc.am, **further)))
    if given.reordering is not None:
        base = replace(base, reordering=None if given.reordering == "off" else given.reordering)
    return base


def _loaded(base: DirectionSettings, given: Load | str | None) -> DirectionSettings:
    if given is None:
        return base
    return replace(base, load=None if isinstance(given, str) else given)


def _buffer(given: int | WrittenQueue, base: WrittenQueue) -> WrittenQueue:
    """Return a buffer: a size keeps the kind of queue, a queue keeps the limit if it has none."""
    if isinstance(given, int):
        kept = base if base.has("limit") else UE_QUEUE
        return replace(kept, limit=Limit(bytes=given))
    return buffer_limited(given, base)


def _connection(base: RadioSettings, given: RadioTable) -> Connection | None:
    drx, rrc = (base.connection.drx, base.connection.rrc) if base.connection is not None else (None, None)
    usual_drx, usual_rrc = SLEEP[technology_of(base.preset)]
    if given.drx is not None:
        drx = at("drx", lambda table: _drx(table, drx or usual_drx), given.drx)
    if isinstance(given.rrc, str):
        rrc = None if given.rrc == "off" else rrc or usual_rrc
    elif given.rrc is not None:
        rrc = replace(rrc or usual_rrc, **given.rrc)
    return None if drx is None and rrc is None else Connection(drx, rrc)


def _drx(given: Changes | str, usual: Drx) -> Drx | None:
    if isinstance(given, str):
        return None if given == "off" else usual
    changed = replace(usual, **given)
    short_ns = changed.short_cycle_ns
    if short_ns is None and given.get("short_cycles"):
        raise Problem("needs the key short-cycle: add it", "short-cycles")
    if short_ns is not None and given.get("short_cycles") == 0:
        raise Problem('is 0: write at least 1, or short-cycle = "off"', "short-cycles")
    changed = replace(changed, short_cycles=0 if short_ns is None else changed.short_cycles or 1)
    if short_ns is not None and changed.long_cycle_ns % short_ns:
        raise Problem("must be a multiple of short-cycle: see TS 38.331, DRX-Config", "long-cycle")
    if changed.on_ns >= min(changed.long_cycle_ns, short_ns or changed.long_cycle_ns):
        raise Problem("must be less than the cycle, or the UE never sleeps", "on")
    return changed


def _fallback(given: FallbackTable) -> Slots:
    origin = PRESETS[given.preset]
    if not isinstance(origin, RadioSettings):
        raise Problem("has no slots: name a preset of nr or lte", "preset")
    return _slots(origin.slots, origin, given)


def _change_wifi(base: WifiSettings, table: object) -> WifiSettings:
    given = read_table(WifiTable, table, "{preset = …}")
    names = ("aggregate_bytes", "aggregate_frames", "overhead_ns", "retries", "overhead_bytes", "bler")
    base = _with(base, given, *names)
    return base if given.buffer is None else replace(base, queue=_buffer(given.buffer, base.queue))
