"""Resolve a carrier: the defaults and the bounds of its technology."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.problems import Problem, at, described
from wavebed.config.table import read_table
from wavebed.config.values import seconds, table
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, parse_toml, read_text
from wavebed.radio.carriers import FR1_HZ, FR2_HZ, resource_blocks
from wavebed.radio.read import carrier_slots, mac_settings, ue_limit
from wavebed.scene import values
from wavebed.scene.geometry import TOUCH_M, inside, positions, shifted, touches
from wavebed.scene.model import (
    BaseStation,
    Box,
    Carrier,
    Fallback,
    Obstacle,
    SceneModel,
    Screen,
    Spread,
    Trajectory,
    Ue,
)
from wavebed.scene.tables import (
    KINDS,
    LEG_FORMS,
    BaseStationTable,
    DeviceTable,
    ObstacleTable,
    SceneTable,
    UeTable,
    transmission_loss_db,
)
from wavebed.scene.values import LoadProcess, frequency_hz

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.radio.presets import MacSettings, UeLimit
    from wavebed.scene.tables import Array, CarrierTable, SceneFallbackTable, Timers, Vector


_RANGES_HZ = {
    "nr": ((FR1_HZ, FR2_HZ), "0.41 to 7.125 GHz (FR1) or 24.25 to 52.6 GHz (FR2-1), TS 38.101-1/-2 5.1"),
    "lte": (((410e6, 6e9),), "0.41 to 6 GHz, TS 36.101 5.5"),
    "802.11ad": (((57e9, 71e9),), "57 to 71 GHz, IEEE 802.11ad"),
}
_WIFI_BANDWIDTH_HZ = 2.16e9
_EVM_LIMITS = {"64qam": 0.08, "256qam": 0.035}
"""Of base station and UE, NR and LTE: TS 38.104 Tables 6.5.2.2-1 and 9.6.2.3-1, TS 38.101-1 and -2 6.4.2.1."""


def resolved(table: CarrierTable) -> Carrier:
    """Return the carrier that a table describes.

    Raises
    ------
    Problem
        If there is no such carrier.
    """
    technology = table.technology
    ranges_hz, words = _RANGES_HZ[technology]
    if not any(low <= table.frequency_hz <= high for low, high in ranges_hz):
        given = frequency_hz.text(table.frequency_hz)
        raise Problem(f"{given!r} is no frequency of {technology}: write {words}", "frequency")
    numerology = table.numerology
    if technology == "nr" and numerology is None:
        numerology = 1 if table.frequency_hz <= FR1_HZ[1] else 3
    wifi = technology == "802.11ad"
    if wifi and table.bandwidth_hz != _WIFI_BANDWIDTH_HZ:
        raise Problem("an 802.11ad channel is 2.16ghz wide: write that", "bandwidth")
    usual_frame = "DDDSU" if technology == "nr" else ""
    return Carrier(
        technology=technology,
        frequency_hz=table.frequency_hz,
        bandwidth_hz=table.bandwidth_hz,
        numerology=numerology,
        resource_blocks=0 if wifi else _blocks(table, numerology),
        frame=usual_frame if table.frame is None else table.frame,
        special_symbols=table.special_symbols,
        layers=table.layers,
        uplink_layers=table.uplink_layers,
        mcs_table=table.mcs_table,
        # The needs of 802.11ad come from its sensitivities, which have an implementation loss.
        evm=0.0 if wifi else _evm(table),
        implementation_loss_db=0.0 if wifi else table.implementation_loss_db,
        layer_loss_db=0.0 if wifi else table.layer_loss_db,
    )


def _evm(table: CarrierTable) -> float:
    return _EVM_LIMITS[table.mcs_table] if table.evm is None else table.evm


def _blocks(table: CarrierTable, numerology: int | None) -> int:
    given = table.resource_blocks
    if given is None:
        try:
            return resource_blocks(table.technology, table.bandwidth_hz, numerology, table.frequency_hz)
        except ValueError as error:
            key = "numerology" if str(error).startswith("numerology") else "bandwidth"
            rule = str(error).removeprefix(key).strip()
            more = ", or resource-blocks for carriers that are aggregated" if table.technology == "nr" else ""
            raise Problem(f"{rule}: write one of them{more}", key) from None
    spacing_hz = 15_000 * 2 ** (numerology or 0)
    most = int(table.bandwidth_hz // (12 * spacing_hz))
    if given > most:
        raise Problem(
            f"{given} blocks of {12 * spacing_hz // 1000} kHz are wider than the bandwidth: write at most {most}",
            "resource-blocks",
        )
    return given


def read_radio(table: object, carrier: Carrier, fallback: Fallback | None) -> MacSettings:
    """Return the settings of the radio stage: the preset of the carrier, its slots, and the changes of the table.

    Raises
    ------
    Problem
        If the table is wrong.
    """
    if table is None:
        table = {}
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write [radio] on a line of its own", "radio")
    return mac_settings(
        carrier.technology,
        table,
        "radio",
        numerology=carrier.numerology,
        frame=carrier.frame,
        special_symbols=carrier.special_symbols,
        fallback=None
        if fallback is None
        else carrier_slots(
            fallback.carrier.technology,
            numerology=fallback.carrier.numerology,
            frame=fallback.carrier.frame,
            special_symbols=fallback.carrier.special_symbols,
        ),
    )


def read_ue_limit(table: object) -> UeLimit | None:
    """Return the packet-rate limit of the UE; ``None`` (no table): it has none.

    Raises
    ------
    Problem
        If the table is wrong.
    """
    if table is None:
        return None
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write [ue-limit] on a line of its own", "ue-limit")
    return ue_limit(table, "ue-limit")


MAX_LEGS = 1000
_SLACK_S = 1e-9


def read_trajectory(value: object, start_m: Vector, duration_s: float) -> Trajectory:
    """Return the movement that the legs in `value` make from `start_m` on.

    Parameters
    ----------
    value : object
        An array of legs. ``[x, y]`` in ``go-to`` keeps the height.
    start_m : Vector
        Where it is at time 0.
    duration_s : float
        When the scene ends; no leg may end later.

    Raises
    ------
    Problem
        If a leg is wrong.
    """
    if not isinstance(value, list | tuple):
        raise Problem(f"{described(value)} is not an array of legs: write [{LEG_FORMS[0][0]}, {LEG_FORMS[2][0]}]")
    if len(value) > MAX_LEGS:
        raise Problem(f"has {len(value)} legs: write at most {MAX_LEGS}")
    times, places = [0.0], [start_m]
    for index, leg in enumerate(value):
        end_s, place = at(str(index), lambda leg: _leg(leg, times[-1], places[-1]), leg)
        if end_s > duration_s + _SLACK_S:
            raise Problem(
                f"ends at {end_s:.6g} s, beyond the duration of {duration_s:g} s:"
                " shorten the trajectory, or lengthen the scene",
                str(index),
            )
        if end_s > times[-1]:
            times.append(end_s)
            places.append(place)
    return Trajectory(tuple(times), tuple(places))


def _leg(value: object, now_s: float, here_m: Vector) -> tuple[float, Vector]:
    leg = table(value, (), ("stay", "stay-until", "go-to", "speed", "until"))
    keys = set(leg)
    if keys == {"stay"}:
        return now_s + at("stay", seconds(), leg["stay"]), here_m
    if keys == {"stay-until"}:
        return _moment("stay-until", leg["stay-until"], now_s), here_m
    if keys not in ({"go-to", "speed"}, {"go-to", "until"}):
        forms = ", ".join(form for form, _ in LEG_FORMS)
        raise Problem(f"has the keys {', '.join(sorted(keys)) or 'of nothing'}: write one of {forms}")
    given = at("go-to", values.vector(2, 3), leg["go-to"])
    there = (given[0], given[1], given[2] if len(given) == 3 else here_m[2])
    if "until" in leg:
        return _moment("until", leg["until"], now_s), there
    speed_m_s = at("speed", values.speed_m_s, leg["speed"])
    if speed_m_s <= 0:
        raise Problem(f"{leg['speed']!r} never arrives: write more than 0m/s, or stay", "speed")
    if there == here_m:
        raise Problem("is where it already stands: write stay, or another place", "go-to")
    return now_s + math.dist(here_m, there) / speed_m_s, there


def _moment(key: str, value: object, now_s: float) -> float:
    moment_s = at(key, seconds(), value)
    if moment_s <= now_s:
        raise Problem(f"{value!r} is not after {now_s:.6g} s, when the leg begins: write a later time", key)
    return moment_s


MAX_OBSTACLES = 1000


def read_obstacles(tables: object, frequency_hz: float, duration_s: float) -> tuple[Obstacle, ...]:
    """Return the obstacles of a scene.

    Parameters
    ----------
    tables : object
        The value in TOML.
    frequency_hz : float
        Of the carrier: the transmission loss of glass depends on it.
    duration_s : float
        When the scene ends.

    Raises
    ------
    Problem
        If an obstacle is wrong, or two have the same name.
    """
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write [[obstacle]] above each one")
    if len(tables) > MAX_OBSTACLES:
        raise Problem(f"there are {len(tables)}: write at most {MAX_OBSTACLES}")
    obstacles: list[Obstacle] = []
    names: set[str] = set()
    for index, given in enumerate(tables):
        obstacle = at(_called(given, index), lambda table: _obstacle(table, frequency_hz, duration_s), given)
        if obstacle.name in names:
            raise Problem("is the name of another one: write a name of its own", f"{obstacle.name}.name")
        names.add(obstacle.name)
        obstacles.append(obstacle)
    return tuple(obstacles)


def _called(table: object, index: int) -> str:
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) and name.isprintable() and 0 < len(name) <= 32 else str(index)


def _obstacle(given: object, frequency_hz: float, duration_s: float) -> Obstacle:
    table = read_table(ObstacleTable, given, "[[obstacle]] above each one")
    shape = _box(table) if _is_box(table) else _screen(table)
    trajectory = None
    if table.trajectory not in ((), []):
        start_m = _start(table, shape)
        trajectory = at("trajectory", lambda legs: read_trajectory(legs, start_m, duration_s), table.trajectory)
    if table.present_s and table.present_s[-1][1] > duration_s:
        raise Problem(
            f"ends at {table.present_s[-1][1]:g} s, beyond the duration of {duration_s:g} s: write an earlier time",
            "present",
        )
    loss_db = table.transmission_loss_db
    if table.kind == "building" and loss_db is not None:
        raise Problem(
            "does not belong to a building, which decides between LOS and NLOS: leave it out", "transmission-loss"
        )
    return Obstacle(
        name=table.name,
        kind=table.kind,
        shape=shape,
        trajectory=trajectory,
        present_s=table.present_s,
        transmission_loss_db=transmission_loss_db(table.kind, frequency_hz) if loss_db is None else loss_db,
    )


def _start(table: ObstacleTable, shape: Box | Screen) -> Vector:
    """Return the point that moves along the trajectory: of a box the corner that the author wrote."""
    if isinstance(shape, Screen):
        return shape.centre_m
    assert table.from_m is not None, "a box has corners"
    return (*table.from_m, shape.low_m[2])


def _is_box(table: ObstacleTable) -> bool:
    corners = [key for key, corner_m in (("from", table.from_m), ("to", table.to_m)) if corner_m is not None]
    if corners and table.at_m is not None:
        raise Problem("belongs to a screen, from and to to a box: write one or the other", "at")
    if not corners and table.at_m is None:
        raise Problem("is missing: write at = [x, y] for a screen, or from = [x, y] and to = [x, y] for a box", "at")
    if len(corners) == 1:
        raise Problem(f"is missing: add the corner opposite {corners[0]}", "to" if corners == ["from"] else "from")
    return bool(corners)


def _height(table: ObstacleTable) -> tuple[float, float]:
    height_m = table.height_m or KINDS[table.kind].height_m
    if height_m is None:
        raise Problem(f"is missing: a {table.kind} has no usual height: write metres", "height")
    return table.bottom_m, table.bottom_m + height_m


def _box(table: ObstacleTable) -> Box:
    for key, given in (("width", table.width_m), ("heading", table.heading_deg)):
        if given is not None:
            raise Problem("belongs to a screen: leave it out", key)
    low_z, high_z = _height(table)
    assert table.from_m is not None, "a box has corners"
    assert table.to_m is not None, "a box has corners"
    (x1, y1), (x2, y2) = table.from_m, table.to_m
    for axis, one, other in (("x", x1, x2), ("y", y1, y2)):
        if one == other:
            raise Problem(f"has the same {axis} as from: a box has a length and a width above 0", "to")
    return Box((min(x1, x2), min(y1, y2), low_z), (max(x1, x2), max(y1, y2), high_z))


def _screen(table: ObstacleTable) -> Screen:
    if table.kind == "building":
        raise Problem("is a screen, and a building is a box: write from and to", "at")
    width_m = table.width_m or KINDS[table.kind].width_m
    if width_m is None:
        raise Problem(f"is missing: a {table.kind} has no usual width: write metres", "width")
    low_z, high_z = _height(table)
    assert table.at_m is not None, "a screen has a middle"
    return Screen((*table.at_m, low_z), width_m, high_z - low_z, table.heading_deg)


def check(scene: SceneModel) -> None:
    """Refuse a scene that cannot be.

    Raises
    ------
    Problem
        If something is underground, stands inside something else, or never comes to be.
    """
    _check_ground(scene)
    if scene.draws_los and any(obstacle.decides_los for obstacle in scene.obstacles):
        raise Problem(
            "drawn and buildings exclude each other: write geometry, or leave the buildings out", "line-of-sight"
        )
    steps = () if isinstance(scene.cell_load, LoadProcess) else scene.cell_load
    if steps and steps[-1].time_s > scene.duration_s:
        raise Problem(
            f"begins at {steps[-1].time_s:g} s, beyond the duration of {scene.duration_s:g} s: leave it out",
            "cell-load",
        )
    _check_entry(scene)
    places = [(f"base station {station.name!r}", station) for station in scene.base_stations]
    if scene.fallback is not None:
        places.append((f"fallback base station {scene.fallback.base_station.name!r}", scene.fallback.base_station))
    for obstacle in scene.obstacles:
        for called, station in places:
            _check_station(obstacle, called, station, scene)
        for ue in scene.devices or (scene.ue,):
            _check_trajectory(obstacle, ue, scene)
    carried = {ue.name for ue in scene.devices}
    for obstacle in scene.obstacles:
        if obstacle.name in carried:
            raise Problem("is the name of a UE: write a name of its own", f"obstacle.{obstacle.name}.name")
    for index, ue in enumerate(scene.devices):
        for other in scene.devices[:index]:
            if (ue.body or other.body) and _least_distance_m(ue.trajectory, other.trajectory) < TOUCH_M:
                raise Problem(f"meets {other.name} within {TOUCH_M} m: move one of them", f"ue.{ue.name}")


def _called_ue(ue: Ue) -> str:
    """Name a UE in a message."""
    return f"the UE {ue.name!r}" if ue.stream else "the UE"


def _key_of(ue: Ue) -> str:
    """Return the key of the table of a UE, for messages."""
    return f"ue.{ue.name}" if ue.stream else "ue"


def _check_ground(scene: SceneModel) -> None:
    for ue in scene.devices or (scene.ue,):
        for index, place in enumerate(ue.trajectory.position_m):
            if place[2] < 0:
                when = "start" if index == 0 else "trajectory"
                raise Problem(
                    f"{_called_ue(ue)} is underground at {ue.trajectory.time_s[index]:g} s (z = {place[2]:g} m):"
                    " write a height from 0 up",
                    f"{_key_of(ue)}.{when}",
                )
    base_stations = [(f"base-station.{index}.at", station) for index, station in enumerate(scene.base_stations)]
    if scene.fallback is not None:
        base_stations.append(("fallback.base-station.at", scene.fallback.base_station))
    for key, station in base_stations:
        if station.position_m[2] < 0:
            raise Problem(f"is underground (z = {station.position_m[2]:g} m): write a height from 0 up", key)
        for ue in scene.devices or (scene.ue,):
            if _least_distance_m(ue.trajectory, Trajectory((0.0,), (station.position_m,))) < TOUCH_M:
                raise Problem(f"{_called_ue(ue)}'s trajectory meets it within {TOUCH_M} m: move one of them", key)


def _check_entry(scene: SceneModel) -> None:
    """Refuse walls around a UE where the standard has none."""
    scenarios = {scene.propagation} | ({scene.fallback.propagation} if scene.fallback is not None else set())
    for ue in scene.devices or (scene.ue,):
        table = _key_of(ue)
        for key, around in (("indoor", ue.indoor), ("in-car", ue.in_car)):
            if around is not None and scenarios <= {"inh", "inh-open"}:
                raise Problem("the base stations of an office are inside with the UE: leave it out", f"{table}.{key}")
        if ue.indoor is not None and ue.indoor.wall == "high-loss" and "rma" in scenarios:
            raise Problem(
                "high-loss is not for rural cells (TR 38.901 7.4.3.1): write low-loss, or another propagation",
                f"{table}.indoor.wall",
            )


def _least_distance_m(one: Trajectory, other: Trajectory) -> float:
    """Return the least distance of two tracks."""
    times = np.unique([*one.time_s, *other.time_s])
    places = positions(one, times) - positions(other, times)
    start, step = places, np.diff(places, axis=0, append=places[-1:])
    length = np.maximum((step**2).sum(axis=1), 1e-300)
    nearest = np.clip(-(start * step).sum(axis=1) / length, 0.0, 1.0)
    return float(np.linalg.norm(start + nearest[:, None] * step, axis=1).min())


def _check_station(obstacle: Obstacle, called: str, station: BaseStation, scene: SceneModel) -> None:
    if isinstance(obstacle.shape, Box):
        still = Trajectory((0.0,), (station.position_m,))
        spans = inside(obstacle, still, scene.duration_s)
        if spans:
            raise Problem(
                f"stands on top of {called}{_when(spans[0][0])}: move one of them, or make the box lower",
                f"obstacle.{obstacle.name}",
            )
    elif touches(obstacle, obstacle.shape, Trajectory((0.0,), (station.position_m,)), scene.duration_s):
        raise Problem(f"stands on top of {called}: move one of them", f"obstacle.{obstacle.name}")


def _check_trajectory(obstacle: Obstacle, ue: Ue, scene: SceneModel) -> None:
    trajectory = ue.trajectory
    if isinstance(obstacle.shape, Box):
        spans = inside(obstacle, trajectory, scene.duration_s)
        if spans:
            raise Problem(
                f"{_called_ue(ue)} is inside it{_when(spans[0][0])}:"
                " lead the trajectory around it, or move the obstacle",
                f"obstacle.{obstacle.name}",
            )
    elif touches(obstacle, obstacle.shape, trajectory, scene.duration_s):
        raise Problem(f"stands on top of {_called_ue(ue)}: move one of them", f"obstacle.{obstacle.name}")


def _when(time_s: float) -> str:
    return f" at {time_s:.3f} s" if time_s > 0 else ""


MAX_BASE_STATIONS = 16
MAX_STEPS = 20_000_000
_HEADER = "[[base-station]] above each one"


def read_scene(file: Path) -> SceneModel:
    """Return the scene that a file describes.

    Raises
    ------
    UserError
        If the file cannot be read, or describes no scene: one line with the file, the key, the rule and the remedy.
    """
    return _parsed(read_text(file, "name a scene file", most=MAX_TEXT_BYTES), file)


@lru_cache(maxsize=16)  # each cell of a campaign reads the scene again: 0.8 ms
def _parsed(text: str, file: Path) -> SceneModel:
    return scene_of(parse_toml(text, str(file)), file)


def scene_of(document: dict[str, object], file: Path) -> SceneModel:
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


def _scene(document: dict[str, object], file: Path) -> SceneModel:
    table = read_table(SceneTable, document, "a scene")
    duration_s = table.duration_s
    if duration_s / table.step_s > MAX_STEPS:
        raise Problem(f"has more than {MAX_STEPS} steps: write a shorter one, or a longer step", "duration")
    carrier = at("carrier", resolved, table.carrier)
    fallback = None if table.fallback is None else at("fallback", _fallback, table.fallback)
    _check_rural(table)
    devices = at("ue", lambda given: _ues(given, duration_s), table.ue)
    if table.reference is not None and len(devices) > 1:
        raise Problem("belongs to a scene with one UE: leave it out, or write one [[ue]]", "reference")
    scene = SceneModel(
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
        ue=devices[0],
        devices=devices if isinstance(table.ue, list) else (),
        obstacles=at(
            "obstacle", lambda obstacles: read_obstacles(obstacles, carrier.frequency_hz, duration_s), table.obstacle
        ),
        reflection_loss_db=table.reflection_loss_db,
        cell_load=table.cell_load,
        nlos_offset_db=table.nlos_offset_db,
        shadowing=table.shadowing,
        fallback=fallback,
        timers=at("timers", lambda timers: _checked_timers(timers, table), table.timers),
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


MAX_DEVICES = 64
_UE_HEADER = "[[ue]] above each one"


def _ues(given: object, duration_s: float) -> tuple[Ue, ...]:
    """Return the UEs of ``[ue]`` or of all ``[[ue]]``."""
    if not isinstance(given, list):
        return (_ue(read_table(UeTable, given, "[ue] on a line of its own"), duration_s),)
    devices: list[Ue] = []
    for index, each in enumerate(given):
        for device in at(_called(each, index), lambda table: _devices(table, duration_s), each):
            if any(device.name == other.name for other in devices):
                raise Problem(
                    f"{device.name!r} is the name of another one: write a name of its own",
                    f"{_called(each, index)}.name",
                )
            devices.append(device)
    if not 1 <= len(devices) <= MAX_DEVICES:
        raise Problem(f"there are {len(devices)} UEs: write 1 to {MAX_DEVICES}")
    return tuple(devices)


def _devices(given: object, duration_s: float) -> list[Ue]:
    """Return the UEs of one ``[[ue]]``: one, or a crowd."""
    table = read_table(DeviceTable, given, _UE_HEADER)
    one = replace(_ue(table, duration_s), name=table.name, stream=f" {table.name}", body=table.body)
    ends = [(key, end) for key, end in (("line-to", table.line_to_m), ("area-to", table.area_to_m)) if end is not None]
    if table.count == 1:
        if ends:
            raise Problem("belongs to a crowd: add count = 24, or leave it out", ends[0][0])
        return [one]
    if len(ends) != 1:
        rule = "is missing" if not ends else "and line-to exclude each other"
        raise Problem(f"{rule}: write line-to = [x, y] for a line, or area-to = [x, y] for an area", "area-to")
    names = [f"{table.name}-{number}" for number in range(1, table.count + 1)]
    if len(names[-1]) > 32:
        raise Problem(f"is too long for {names[-1]!r}: write at most 29 letters", "name")
    key, end_m = ends[0]
    if end_m[:2] == table.start_m[:2]:
        raise Problem("is start: write another place", key)
    there = (end_m[0], end_m[1], end_m[2] if len(end_m) == 3 else table.start_m[2])
    parts = _parts(table.start_m, there, table.count, straight=key == "line-to")
    return [
        replace(one, name=each, stream=f" {each}", spread=part, trajectory=shifted(one.trajectory, part.at(0.5, 0.5)))
        for each, part in zip(names, parts, strict=True)
    ]


def _parts(start_m: Vector, end_m: Vector, count: int, *, straight: bool) -> list[Spread]:
    """Return the middle halves of equal parts of a line, or of a grid of an area."""
    width, depth, _ = (end - start for start, end in zip(start_m, end_m, strict=True))
    columns, rows = (count, count) if straight else _grid(abs(width), abs(depth), count)
    parts = []
    for number in range(count):
        column, row = (number, number) if straight else (number % columns, number // columns)
        low, high = (
            Spread(start_m, end_m, straight).at((column + share) / columns, (row + share) / rows)
            for share in (0.25, 0.75)
        )
        parts.append(Spread(low, high, straight))
    return parts


def _grid(width_m: float, depth_m: float, count: int) -> tuple[int, int]:
    """Return columns and rows of a grid for a crowd: nearly square parts, few of them empty."""

    def cost(columns: int) -> float:
        rows = math.ceil(count / columns)
        empty = columns * rows - count
        shape = (width_m / columns) / (depth_m / rows)
        return abs(math.log(shape)) + 2 * empty / count

    if width_m == 0 or depth_m == 0:
        return (count, 1) if depth_m == 0 else (1, count)
    columns = min(range(1, count + 1), key=cost)
    return columns, math.ceil(count / columns)


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


def _fallback(table: SceneFallbackTable) -> Fallback:
    carrier = at("carrier", resolved, table.carrier)
    if carrier.technology == "802.11ad":
        raise Problem("802.11ad cannot be the fallback carrier: write nr or lte", "carrier.technology")
    if table.base_station.load > 0:
        raise Problem(
            "interferes with other base stations, and there is none: leave it out, or write cell-load for other users",
            "base-station.load",
        )
    return Fallback(carrier, at("base-station", _base_station, table.base_station), table.propagation, table.cell_load)


def _checked_timers(timers: Timers, table: SceneTable) -> Timers:
    if timers.anchor_every_s is not None and table.fallback is None:
        raise Problem("needs an LTE carrier: add [fallback], or leave it out", "anchor-every")
    if timers.in_sync_db < timers.out_of_sync_db:
        raise Problem("is below out-of-sync: write the same or more", "in-sync")
    return timers
