"""Read a scene: every key is checked here, and what comes out is a `Scene` whose values are all valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wavebed.config.problems import Problem, at, described
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.scene.carrier import read_carrier
from wavebed.scene.checks import check
from wavebed.scene.mac import read_device, read_radio
from wavebed.scene.model import Array, Fallback, Handset, ReferenceChain, Scene, Station, Timers
from wavebed.scene.obstacles import read_obstacles
from wavebed.scene.schema import (
    ARRAY_KEYS,
    FALLBACK_KEYS,
    HANDSET_KEYS,
    REFERENCE_KEYS,
    SCENE_KEYS,
    STATION_KEYS,
    TIMER_KEYS,
    fields,
)
from wavebed.scene.way import read_way

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_scene"]
MAX_STATIONS = 16
MAX_STEPS = 20_000_000
_TABLES = ("carrier", "station", "handset", "obstacle", "fallback", "timers", "reference", "radio", "device")


def read_scene(file: Path) -> Scene:
    """Return the scene that a file describes.

    Raises
    ------
    UserError
        If the file cannot be read, or describes no scene: one line with the file, the key, the rule and the remedy.
    """
    try:
        return _scene(read_toml(file, "name a scene file"), file)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def _scene(document: dict[str, object], file: Path) -> Scene:
    found = fields(document, SCENE_KEYS, "a scene", _TABLES)
    tables = {name: found.pop(name, None) for name in _TABLES}
    for name in ("carrier", "station", "handset"):
        if tables[name] is None:
            raise Problem(f"is missing: add [{'[station]' if name == 'station' else name}]", name)
    if found["duration_s"] / found["step_s"] > MAX_STEPS:
        raise Problem(f"has more than {MAX_STEPS} steps: write a shorter one, or a longer step", "duration")
    duration_s = found["duration_s"]
    carrier = at("carrier", read_carrier, tables["carrier"])
    fallback = _optional("fallback", tables["fallback"], _fallback)
    scene = Scene(
        name=file.stem,
        source=file,
        carrier=carrier,
        draws_los=found.pop("line_of_sight") == "drawn",
        stations=_stations(tables["station"]),
        handset=at("handset", lambda table: _handset(table, duration_s), tables["handset"]),
        obstacles=at(
            "obstacle", lambda table: read_obstacles(table, carrier.frequency_hz, duration_s), tables["obstacle"] or []
        ),
        fallback=fallback,
        timers=at("timers", _timers, tables["timers"] if tables["timers"] is not None else {}),
        reference=_optional("reference", tables["reference"], _reference),
        radio=read_radio(tables["radio"] if tables["radio"] is not None else {}, carrier, fallback),
        device=read_device(tables["device"]),
        **found,
    )
    check(scene)
    return scene


def _optional(name: str, table: object, read: Any) -> Any:
    return None if table is None else at(name, read, table)


def _array(table: object) -> Array:
    array = Array(**fields(table, ARRAY_KEYS, "array = { rows = 8, columns = 8 }"))
    for key, angle_deg, most in (
        ("elevation", array.elevation_deg, 90),
        ("tracking-error", array.tracking_error_deg, 45),
    ):
        if angle_deg is not None and abs(angle_deg) > most:
            raise Problem(f"{angle_deg:g}° is out of range: write at most {most}deg", key)
    if array.tracking_error_deg < 0:
        raise Problem(f"{array.tracking_error_deg:g}° is negative: write 0deg or more", "tracking-error")
    return array


def _station(table: object) -> Station:
    found = fields(table, STATION_KEYS, "[[station]] above each one")
    found["array"] = at("array", _array, found["array"])
    return Station(**found)


def _stations(tables: object) -> tuple[Station, ...]:
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write [[station]] above each one", "station")
    if not 1 <= len(tables) <= MAX_STATIONS:
        raise Problem(f"there are {len(tables)}: write 1 to {MAX_STATIONS}", "station")
    stations = tuple(at(f"station.{index}", _station, table) for index, table in enumerate(tables))
    names = [station.name for station in stations]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Problem(f"{name!r} is the name of another one: write a name of its own", f"station.{index}.name")
    return stations


def _handset(table: object, duration_s: float) -> Handset:
    found = fields(table, HANDSET_KEYS, "[handset] on a line of its own")
    start, way = found.pop("start"), found.pop("way")
    found["array"] = at("array", _array, found["array"])
    return Handset(track=at("way", lambda legs: read_way(legs, start, duration_s), way), **found)


def _fallback(table: object) -> Fallback:
    found = fields(table, FALLBACK_KEYS, "[fallback] on a line of its own", ("carrier", "station"))
    for name in ("carrier", "station"):
        if name not in found:
            raise Problem(f"is missing: add [fallback.{name}]", name)
    found["carrier"] = at("carrier", read_carrier, found["carrier"])
    if found["carrier"].technology == "802.11ad":
        raise Problem("an 802.11ad link is nothing to fall back to: write nr or lte", "carrier.technology")
    found["station"] = at("station", _station, found["station"])
    return Fallback(**found)


def _timers(table: object) -> Timers:
    timers = Timers(**fields(table, TIMER_KEYS, "[timers] on a line of its own"))
    if timers.in_sync_db < timers.out_of_sync_db:
        raise Problem("is below out-of-sync: write the same or more", "in-sync")
    return timers


def _reference(table: object) -> ReferenceChain:
    return ReferenceChain(**fields(table, REFERENCE_KEYS, "[reference] on a line of its own"))
