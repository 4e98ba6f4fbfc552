"""Read a scene: every key is checked here, and what comes out is a `Scene` whose values are all valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at, described
from wavebed.config.table import read_table
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.scene.carrier import resolved
from wavebed.scene.checks import check
from wavebed.scene.mac import read_device, read_radio
from wavebed.scene.model import Fallback, Handset, Scene, Station
from wavebed.scene.obstacles import read_obstacles
from wavebed.scene.tables import SceneTable, StationTable
from wavebed.scene.way import read_way

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.scene.model import Array, Timers
    from wavebed.scene.tables import FallbackTable, HandsetTable

__all__ = ["read_scene"]
MAX_STATIONS = 16
MAX_STEPS = 20_000_000


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
    table = read_table(SceneTable, document, "a scene")
    duration_s = table.duration_s
    if duration_s / table.step_s > MAX_STEPS:
        raise Problem(f"has more than {MAX_STEPS} steps: write a shorter one, or a longer step", "duration")
    carrier = at("carrier", resolved, table.carrier)
    fallback = None if table.fallback is None else at("fallback", _fallback, table.fallback)
    scene = Scene(
        name=file.stem,
        title=table.title,
        anchor=table.anchor,
        source=file,
        duration_s=duration_s,
        step_s=table.step_s,
        propagation=table.propagation,
        carrier=carrier,
        draws_los=table.line_of_sight == "drawn",
        stations=_stations(table.station),
        handset=at("handset", lambda handset: _handset(handset, duration_s), table.handset),
        obstacles=at(
            "obstacle", lambda obstacles: read_obstacles(obstacles, carrier.frequency_hz, duration_s), table.obstacle
        ),
        reflection_loss_db=table.reflection_loss_db,
        others=table.others,
        fallback=fallback,
        timers=at("timers", _checked_timers, table.timers),
        reference=table.reference,
        radio=read_radio(table.radio, carrier, fallback),
        device=read_device(table.device),
        fitted=table.fitted,
    )
    check(scene)
    return scene


def _checked_array(array: Array) -> Array:
    for key, angle_deg, most in (
        ("elevation", array.elevation_deg, 90),
        ("tracking-error", array.tracking_error_deg, 45),
    ):
        if angle_deg is not None and abs(angle_deg) > most:
            raise Problem(f"{angle_deg:g}° is out of range: write at most {most}deg", key)
    if array.tracking_error_deg < 0:
        raise Problem(f"{array.tracking_error_deg:g}° is negative: write 0deg or more", "tracking-error")
    return array


def _station(table: StationTable) -> Station:
    return Station(
        name=table.name,
        position_m=table.position_m,
        power_dbm=table.power_dbm,
        noise_figure_db=table.noise_figure_db,
        array=at("array", _checked_array, table.array),
    )


def _read_station(table: object) -> Station:
    return _station(read_table(StationTable, table, "[[station]] above each one"))


def _stations(tables: object) -> tuple[Station, ...]:
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write [[station]] above each one", "station")
    if not 1 <= len(tables) <= MAX_STATIONS:
        raise Problem(f"there are {len(tables)}: write 1 to {MAX_STATIONS}", "station")
    stations = tuple(at(f"station.{index}", _read_station, table) for index, table in enumerate(tables))
    names = [station.name for station in stations]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Problem(f"{name!r} is the name of another one: write a name of its own", f"station.{index}.name")
    return stations


def _handset(table: HandsetTable, duration_s: float) -> Handset:
    return Handset(
        track=at("way", lambda legs: read_way(legs, table.start_m, duration_s), table.way),
        power_dbm=table.power_dbm,
        noise_figure_db=table.noise_figure_db,
        array=at("array", _checked_array, table.array),
        hold=table.hold,
        heading_deg=table.heading_deg,
    )


def _fallback(table: FallbackTable) -> Fallback:
    carrier = at("carrier", resolved, table.carrier)
    if carrier.technology == "802.11ad":
        raise Problem("802.11ad cannot be the fallback carrier: write nr or lte", "carrier.technology")
    return Fallback(carrier, at("station", _station, table.station), table.propagation, table.share)


def _checked_timers(timers: Timers) -> Timers:
    if timers.in_sync_db < timers.out_of_sync_db:
        raise Problem("is below out-of-sync: write the same or more", "in-sync")
    return timers
