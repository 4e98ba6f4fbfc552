"""Read the parts of a radio stage: HARQ, RLC, grants, sleep.

A table changes some values of a part, ``"off"`` removes it.

Every reader takes the raw value and the part that holds where the value does not say otherwise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from wavebed.config.problems import Problem, at, described, unknown_key
from wavebed.config.values import number, size_bytes, table_of, time_ns, word
from wavebed.radio.model import Rlc
from wavebed.spec.radio import Configured, Drx, Grants, Harq, Reordering, Rrc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "check_frame",
    "decibel",
    "drx_part",
    "frame",
    "grants_part",
    "harq_part",
    "reordering_part",
    "rlc_part",
    "rrc_part",
    "special_symbols",
    "switched",
]

_Part = TypeVar("_Part", Configured, Drx, Grants, Harq, Rlc, Rrc)
_Fields: TypeAlias = "Mapping[str, tuple[str, Callable[[object], object]]]"

MAX_FRAME_SLOTS = 160
"""Slots in 20 ms at 120 kHz: two patterns of 10 ms (TS 38.213 11.1)."""
_SLOTS = number(0, 640)
_LATER = number(1, 640)


def decibel(value: object) -> float:
    """Read a number of decibels, 0 to 30, whose unit is in the key."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 <= value <= 30
    ):
        raise Problem(f"{described(value)} is out of range: write a number from 0 to 30 without quotes")
    return float(value)


def _positive(value: object) -> int:
    read = time_ns(value)
    if read < 1:
        raise Problem(f"{described(value)} is no time: write more than 0")
    return read


_HARQ: _Fields = {
    "processes": ("processes", number(1, 32)),
    "feedback": ("feedback_slots", _SLOTS),
    "schedule": ("schedule_slots", _LATER),
    "limit": ("limit", number(1, 16)),
    "combining-gain-db": ("combining_gain_db", decibel),
    "slope-per-db": ("slope_per_db", decibel),
}
_RLC: _Fields = {
    "mode": ("mode", word("am", "um")),
    "reassembly": ("reassembly_ns", time_ns),
    "poll": ("poll_ns", _positive),
    "status": ("status_ns", time_ns),
    "retransmissions": ("retransmissions", number(1, 32)),
}
_GRANTS: _Fields = {
    "request": ("request_slots", number(1, 640)),
    "schedule": ("schedule_slots", _SLOTS),
    "prepare": ("prepare_slots", _LATER),
    "first": ("first_bytes", size_bytes),
}
_CONFIGURED: _Fields = {
    "slots": ("slots", number(1, 5120)),
    "size": ("bytes", size_bytes),
}
_DRX: _Fields = {
    "inactivity": ("inactivity_ns", time_ns),
    "short-cycle": ("short_cycle_ns", _positive),
    "short-cycles": ("short_cycles", number(1, 16)),
    "long-cycle": ("long_cycle_ns", _positive),
    "on": ("on_ns", _positive),
}
_RRC: _Fields = {
    "inactivity": ("inactivity_ns", _positive),
    "promotion": ("promotion_ns", time_ns),
    "paging": ("paging_ns", time_ns),
}


def switched(value: object, read: Callable[[object], _Part], on: _Part | None = None) -> _Part | None:
    """Read ``"off"``, ``"on"`` where `on` says what that is, or a table by `read`."""
    value = table_of(value)
    if value == "off":
        return None
    if value == "on" and on is not None:
        return on
    if not isinstance(value, dict):
        words = '"off"' if on is None else '"on", "off"'
        raise Problem(f"{described(value)} is not a choice: write {words} or a table")
    return read(value)


def _changed(value: object, base: _Part, known: _Fields, further: tuple[str, ...] = ()) -> _Part:
    return replace(base, **_given(value, known, further))


def _given(value: object, known: _Fields, further: tuple[str, ...] = ()) -> dict[str, object]:
    """Return what a table says, by the names of the fields."""
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not a table: write {{{next(iter(known))} = …}}")
    found: dict[str, object] = {}
    for key, raw in value.items():
        if key in known:
            attribute, read = known[key]
            found[attribute] = at(key, read, raw)
        elif key not in further:
            raise unknown_key(key, (*known, *further))
    return found


def harq_part(value: object, base: Harq) -> Harq | None:
    """Read ``"off"`` or ``{processes, feedback, schedule, limit, combining-gain-db, slope-per-db}``."""
    return switched(value, lambda given: _changed(given, base, _HARQ))


def rlc_part(value: object, base: Rlc) -> Rlc:
    """Read ``am``, ``um`` or ``{mode, reassembly, poll, status, retransmissions}``."""
    value = table_of(value)
    return _changed({"mode": value} if isinstance(value, str) else value, base, _RLC)


def reordering_part(value: object) -> Reordering | None:
    """Read ``off``, ``wait`` or a time."""
    if value == "off":
        return None
    if value == "wait":
        return Reordering(None)
    if not isinstance(value, str) or not value[:1].isdigit():
        raise Problem(f"{described(value)} is not a choice: write off, wait or a time such as 100ms")
    return Reordering(_positive(value))


def grants_part(value: object, base: Grants) -> Grants | None:
    """Read ``"off"`` or ``{request, schedule, prepare, first, configured = {slots, size}}``."""

    def read(given: object) -> Grants:
        changed = _changed(given, base, _GRANTS, ("configured",))
        if changed.first_bytes < 1:
            raise Problem("a grant of nothing carries nothing: write at least 1b", "first")
        assert isinstance(given, dict), "it has been read as a table"
        if "configured" not in given:
            return changed
        configured = at("configured", lambda raw: _configured(raw, changed.configured), given["configured"])
        return replace(changed, configured=configured)

    return switched(value, read)


def _configured(value: object, base: Configured | None) -> Configured | None:
    def read(given: object) -> Configured:
        kept = {"slots": base.slots, "bytes": base.bytes} if base is not None else {}
        found = {**kept, **cast("dict[str, int]", _given(given, _CONFIGURED))}
        for attribute, key in (("slots", "slots"), ("bytes", "size")):
            if attribute not in found:
                raise Problem("is missing: a configured grant is {slots = …, size = …}", key)
            if found[attribute] < 1:
                raise Problem("a grant of nothing carries nothing: write at least 1b", key)
        return Configured(**found)

    return switched(value, read)


def drx_part(value: object, usual: Drx) -> Drx | None:
    """Read ``"off"``, ``"on"`` or ``{inactivity, short-cycle, short-cycles, long-cycle, on}``."""
    value = table_of(value)
    without_short = isinstance(value, dict) and value.get("short-cycle") == "off"
    if isinstance(value, dict) and without_short:
        usual = replace(usual, short_cycle_ns=None, short_cycles=0)
        value = {key: raw for key, raw in value.items() if key != "short-cycle"}

    def read(given: object) -> Drx:
        found = cast("dict[str, int]", _given(given, _DRX))
        short_ns = found.get("short_cycle_ns", usual.short_cycle_ns)
        short_cycles = found.get("short_cycles", usual.short_cycles)
        long_ns = found.get("long_cycle_ns", usual.long_cycle_ns)
        if short_ns is None and short_cycles:
            raise Problem("needs the key short-cycle: add it", "short-cycles")
        if short_ns is not None:
            found["short_cycles"] = short_cycles or 1
            if long_ns % short_ns:
                raise Problem("must be a multiple of short-cycle: see TS 38.331, DRX-Config", "long-cycle")
        if found.get("on_ns", usual.on_ns) >= min(long_ns, short_ns or long_ns):
            raise Problem("must be less than the cycle: there would be no sleep", "on")
        return replace(usual, **found)

    return switched(value, read, usual)


def rrc_part(value: object, usual: Rrc) -> Rrc | None:
    """Read ``"off"``, ``"on"`` or ``{inactivity, promotion, paging}``."""
    return switched(value, lambda given: _changed(given, usual, _RRC), usual)


def frame(value: object) -> str:
    """Read a TDD frame such as ``DDDSU``, or ``fdd``, which is the empty frame.

    Raises
    ------
    Problem
        If a slot is none of ``D``, ``S`` and ``U``.
    """
    if value == "fdd":
        return ""
    if not isinstance(value, str) or not value or set(value) - set("DSU"):
        raise Problem(f"{described(value)} is no frame: write slots as D, S or U, such as DDDSU, or fdd")
    if len(value) > MAX_FRAME_SLOTS:
        raise Problem(f"has {len(value)} slots: write at most {MAX_FRAME_SLOTS}")
    return value


def check_frame(frame: str, symbols_of_s: tuple[int, int, int]) -> None:
    """Check that a frame has symbols for both directions; `symbols_of_s` are those of an ``S`` slot.

    Raises
    ------
    Problem
        If it has not.
    """
    down, _, up = symbols_of_s
    for letter, direction, symbols in (("U", "uplink", up), ("D", "downlink", down)):
        if frame and letter not in frame and not ("S" in frame and symbols):
            raise Problem(f"{frame!r} has no {direction} slot: add a {letter}", "frame")


def special_symbols(value: object) -> tuple[int, int, int]:
    """Read the downlink, guard and uplink symbols of an ``S`` slot, such as ``[10, 2, 2]``."""
    if (
        not isinstance(value, list | tuple)
        or len(value) != 3
        or any(isinstance(symbols, bool) or not isinstance(symbols, int) or symbols < 0 for symbols in value)
        or sum(value) != 14
    ):
        raise Problem("are not 14 symbols of downlink, guard and uplink: write three numbers such as [10, 2, 2]")
    down, guard, up = value
    return (down, guard, up)
