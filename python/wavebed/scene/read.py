"""Read a scene: every key is checked here, and the result is a `Scene` whose values are all valid."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at, described
from wavebed.config.table import read_table
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, parse_toml, read_text
from wavebed.scene.carrier import resolved
from wavebed.scene.checks import check
from wavebed.scene.mac import read_radio, read_ue_limit
from wavebed.scene.model import BaseStation, Fallback, Scene, Ue
from wavebed.scene.obstacles import read_obstacles
from wavebed.scene.tables import BaseStationTable, SceneTable
from wavebed.scene.trajectory import read_trajectory

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.scene.model import Array, Timers
    from wavebed.scene.tables import FallbackTable, UeTable

__all__ = ["read_scene", "scene_of"]
MAX_BASE_STATIONS = 16
MAX_STEPS = 20_000_000
_HEADER = "[[base-station]] above each one"


def read_scene(file: Path) -> Scene:
    """Return the scene that a file describes.

    Raises
    ------
    UserError
        If the file cannot be read, or describes no scene: one line with the file, the key, the rule and the remedy.
    """
    return _parsed(read_text(file, "name a scene file", most=MAX_TEXT_BYTES), file)


@lru_cache(maxsize=16)  # each cell of a campaign reads the scene again: 0.8 ms
def _parsed(text: str, file: Path) -> Scene:
    return scene_of(parse_toml(text, str(file)), file)


def scene_of(document: dict[str, object], file: Path) -> Scene:
    """Return the scene of a document as TOML gives it; `file` is its name.

    Raises
    ------
    UserError
        As `read_scene`.
    """
    try:
        return _scene(document, file)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def _scene(document: dict[str, object], file: Path) -> Scene:
    table = read_table(SceneTable, document, "a scene")
    duration_s = table.duration_s
    if duration_s / table.step_s > MAX_STEPS:
        raise Problem(f"has more than {MAX_STEPS} steps: write a shorter one, or a longer step", "duration")
    carrier = at("carrier", resolved, table.carrier)
    fallback = None if table.fallback is None else at("fallback", _fallback, table.fallback)
    _check_rural(table)
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
        base_stations=_base_stations(table.base_station),
        ue=at("ue", lambda ue: _ue(ue, duration_s), table.ue),
        obstacles=at(
            "obstacle", lambda obstacles: read_obstacles(obstacles, carrier.frequency_hz, duration_s), table.obstacle
        ),
        reflection_loss_db=table.reflection_loss_db,
        cell_load=table.cell_load,
        nlos_offset_db=table.nlos_offset_db,
        shadowing=table.shadowing,
        fallback=fallback,
        timers=at("timers", _checked_timers, table.timers),
        reference=table.reference,
        radio=read_radio(table.radio, carrier, fallback),
        ue_limit=read_ue_limit(table.ue_limit),
        rain_mm_per_h=table.rain_mm_per_h,
        street_width_m=table.street_width_m or 20.0,
        building_height_m=table.building_height_m or 5.0,
        fitted=table.fitted,
    )
    check(scene)
    return scene


def _check_rural(table: SceneTable) -> None:
    """Refuse keys of rural cells in a scene without any."""
    if "rma" in (table.propagation, None if table.fallback is None else table.fallback.propagation):
        return
    for key, given in (("street-width", table.street_width_m), ("building-height", table.building_height_m)):
        if given is not None:
            raise Problem('belongs to rural cells: leave it out, or write propagation = "rma"', key)


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


def _base_station(table: BaseStationTable) -> BaseStation:
    return BaseStation(
        name=table.name,
        position_m=table.position_m,
        power_dbm=table.power_dbm,
        noise_figure_db=table.noise_figure_db,
        array=at("array", _checked_array, table.array),
        load=table.load,
        noise_rise_db=table.noise_rise_db,
    )


def _read_base_station(table: object) -> BaseStation:
    return _base_station(read_table(BaseStationTable, table, _HEADER))


def _base_stations(tables: object) -> tuple[BaseStation, ...]:
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write {_HEADER}", "base-station")
    if not 1 <= len(tables) <= MAX_BASE_STATIONS:
        raise Problem(f"there are {len(tables)}: write 1 to {MAX_BASE_STATIONS}", "base-station")
    base_stations = tuple(at(f"base-station.{index}", _read_base_station, table) for index, table in enumerate(tables))
    names = [station.name for station in base_stations]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Problem(f"{name!r} is the name of another one: write a name of its own", f"base-station.{index}.name")
    if len(base_stations) == 1 and base_stations[0].load > 0:
        raise Problem(
            "interferes with other base stations, and there is none: leave it out, or write cell-load for other users",
            "base-station.0.load",
        )
    return base_stations


def _ue(table: UeTable, duration_s: float) -> Ue:
    for key, around in (("indoor", table.indoor), ("in-car", table.in_car)):
        if around is not None and around.during_s and around.during_s[-1][1] > duration_s:
            raise Problem(
                f"ends at {around.during_s[-1][1]:g} s, beyond the duration of {duration_s:g} s: write an earlier time",
                f"{key}.during",
            )
    return Ue(
        trajectory=at("trajectory", lambda legs: read_trajectory(legs, table.start_m, duration_s), table.trajectory),
        power_dbm=table.power_dbm,
        noise_figure_db=table.noise_figure_db,
        array=at("array", _checked_array, table.array),
        hold=table.hold,
        heading_deg=table.heading_deg,
        indoor=table.indoor,
        in_car=table.in_car,
        body_loss_db=table.body_loss_db,
    )


def _fallback(table: FallbackTable) -> Fallback:
    carrier = at("carrier", resolved, table.carrier)
    if carrier.technology == "802.11ad":
        raise Problem("802.11ad cannot be the fallback carrier: write nr or lte", "carrier.technology")
    if table.base_station.load > 0:
        raise Problem(
            "interferes with other base stations, and there is none: leave it out, or write cell-load for other users",
            "base-station.load",
        )
    return Fallback(carrier, at("base-station", _base_station, table.base_station), table.propagation, table.cell_load)


def _checked_timers(timers: Timers) -> Timers:
    if timers.in_sync_db < timers.out_of_sync_db:
        raise Problem("is below out-of-sync: write the same or more", "in-sync")
    return timers
