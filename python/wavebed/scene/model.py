"""A scene in memory: metres, seconds, hertz, decibels. Times and places are floats; they describe physics, not packets.

The ground is z = 0. Azimuths are counted in degrees from the +x axis towards +y, elevations from the horizon up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace as with_fields

from wavebed.config.problems import one_of
from wavebed.errors import UserError
from wavebed.foreign import is_file, is_there
from wavebed.radio.presets import RadioSettings
from wavebed.scene.tables import Array, InCar, Indoor, ReferenceChain, ShadowTable, Timers

if TYPE_CHECKING:
    from wavebed.radio.presets import Bearer, MacSettings, Technology, UeLimit
    from wavebed.scene.tables import ObstacleKind, Propagation, Vector
    from wavebed.scene.values import CellLoad, LoadProcess


Mode: TypeAlias = Literal["3gpp", "reference"]


class SceneInterval(NamedTuple):
    """A state of the geometry (``LOS``, ``NLOS`` or ``OUTAGE``) from `start_s` to `end_s`."""

    state: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A movement: places at times, straight and even between them; two equal places in a row are a stop.

    Parameters
    ----------
    time_s : tuple of float
        Strictly increasing, the first is 0.
    position_m : tuple of Vector
        One place for each time. Before the first and after the last, nothing moves.
    """

    time_s: tuple[float, ...]
    position_m: tuple[Vector, ...]


@dataclass(frozen=True, slots=True)
class Carrier:
    """The carrier of the radio.

    Parameters
    ----------
    frequency_hz, bandwidth_hz : float
        Centre frequency and channel bandwidth.
    numerology : int or None
        NR only: subcarrier spacing 15·2^µ kHz.
    resource_blocks : int
        NR and LTE: resolved from bandwidth and numerology (TS 38.101-1/-2 Table 5.3.2-1, TS 36.101), unless given.
    frame : str
        Slots of a TDD period, such as ``DDDSU``; empty for FDD and 802.11ad.
    special_symbols : (int, int, int)
        Downlink, guard and uplink symbols of an ``S`` slot; they sum to 14.
    layers, uplink_layers : int
        Most spatial layers in the downlink and in the uplink, 1 to 4 (8 for NR downlink is not modelled).
    mcs_table : str
        NR and LTE: ``64qam`` or ``256qam``.
    evm : float
        Error vector magnitude of a transmitter, relative to its signal; 0: none.
    implementation_loss_db : float
        How much more SINR a real receiver needs than an ideal one with the same decoder.
    layer_loss_db : float
        What separating each further layer costs all of them, beyond their share of the power.
    """

    technology: Technology
    frequency_hz: float
    bandwidth_hz: float
    numerology: int | None = None
    resource_blocks: int = 0
    frame: str = ""
    special_symbols: tuple[int, int, int] = (10, 2, 2)
    layers: int = 1
    uplink_layers: int = 1
    mcs_table: Literal["64qam", "256qam"] = "64qam"
    evm: float = 0.0
    implementation_loss_db: float = 0.0
    layer_loss_db: float = 0.0


@dataclass(frozen=True, slots=True)
class BaseStation:
    """A base station.

    Parameters
    ----------
    name, position_m, power_dbm, noise_figure_db, array
        As in its table.
    load : float
        Fraction of its resource blocks in use while it does not serve.
    noise_rise_db : float
        Interference over noise of its receiver.
    """

    name: str
    position_m: Vector
    power_dbm: float
    noise_figure_db: float
    array: Array
    load: float = 0.0
    noise_rise_db: float = 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """The part of a line or an area in which a member of a crowd has its place, which a seed draws.

    Parameters
    ----------
    low_m, high_m : Vector
        Ends of a piece of the line, or two opposite corners of a piece of the area, whose height rises with y.
    straight : bool
        Whether it is a piece of a line.
    """

    low_m: Vector
    high_m: Vector
    straight: bool

    def at(self, along: float, aside: float) -> Vector:
        """Return a place: where along a line; or where in the width and in the depth of an area; each from 0 to 1."""
        low, high = self.low_m, self.high_m
        shares = (along, along, along) if self.straight else (along, aside, aside)
        x, y, z = (one + share * (other - one) for one, other, share in zip(low, high, shares, strict=True))
        return x, y, z


@dataclass(frozen=True, slots=True)
class Ue:
    """A phone or modem (UE): a device of the scene.

    Parameters
    ----------
    track : Track
        Where it goes.
    power_dbm, noise_figure_db : float
        Transmit power and receiver noise figure.
    array : Array
        Its antennas.
    hold : str
        ``none``, ``portrait`` or ``landscape``: self-blocking of TR 38.901 blockage model A.
    heading_deg : float or None
        Azimuth in which the user looks; ``None``: the direction of movement (before it: of the first movement).
    body_loss_db : float
        Loss by the user's own body.
    indoor : Indoor or None
        The building around it.
    in_car : InCar or None
        The car around it.
    name : str
        Its name; ``ue`` for the only one of a scene with a table ``[ue]``.
    stream : str
        Keys the draws that are its own; empty for the only one of a scene with a table ``[ue]``.
    body : bool
        Whether the person who carries it shades the other devices.
    spread : Spread or None
        Where a seed draws its place; the trajectory is for the middle of it.
    """

    trajectory: Trajectory
    power_dbm: float
    noise_figure_db: float
    array: Array
    hold: Literal["none", "portrait", "landscape"] = "none"
    heading_deg: float | None = None
    indoor: Indoor | None = None
    in_car: InCar | None = None
    body_loss_db: float = 30.0
    name: str = "ue"
    stream: str = ""
    body: bool = False
    spread: Spread | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """An upright box: a building, or whatever decides between LOS and NLOS.

    Parameters
    ----------
    low_m, high_m : Vector
        Two opposite corners; `low_m` is less than `high_m` in each coordinate.
    """

    low_m: Vector
    high_m: Vector


@dataclass(frozen=True, slots=True)
class Screen:
    """An upright rectangle seen from outside: the form of TR 38.901 blockage model B.

    The screen turns with the ray (it always shows its full width) unless a heading is given.

    Parameters
    ----------
    centre_m : Vector
        Middle of the lower edge, at time 0.
    width_m, height_m : float
        Its size.
    heading_deg : float or None
        Azimuth of the screen's normal; ``None``: it faces the base station.
    """

    centre_m: Vector
    width_m: float
    height_m: float
    heading_deg: float | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle.

    Parameters
    ----------
    name, kind : str
        Its name and its kind.
    shape : Box or Screen
        Boxes of kind ``building`` decide LOS or NLOS; everything else attenuates by model B.
    track : Track or None
        Its movement: its displacement from its described place is the track's displacement from the first place.
    present_s : tuple of (float, float)
        When it is there; empty: always.
    transmission_loss_db : float
        Transmission loss, infinite for opaque obstacles.
    """

    name: str
    kind: ObstacleKind
    shape: Box | Screen
    trajectory: Trajectory | None = None
    present_s: tuple[tuple[float, float], ...] = ()
    transmission_loss_db: float = float("inf")

    @property
    def decides_los(self) -> bool:
        """Whether it decides between LOS and NLOS, as buildings do."""
        return self.kind == "building"


@dataclass(frozen=True, slots=True)
class Fallback:
    """The carrier that the link falls back to: LTE or sub-6 GHz NR.

    Parameters
    ----------
    carrier, base_station, propagation
        As in the scene; the base station's array belongs to this carrier.
    cell_load : float
        Fraction of that cell that other users have.
    """

    carrier: Carrier
    base_station: BaseStation
    propagation: Propagation
    cell_load: float = 0.0


@dataclass(frozen=True, slots=True)
class SceneModel:
    """A described radio scene.

    Parameters
    ----------
    name, title : str
        The file's stem, and the title for people.
    anchor : str
        The published anchor that the numbers come from, or ``illustrative``.
    source : pathlib.Path or None
        The file that it was read from.
    duration_s, step_s : float
        How long it lasts, and the step of its time series.
    carrier, propagation
        The carrier, and the scenario of TR 38.901.
    base_stations : tuple of BaseStation
        At least one; the strongest serves, with hysteresis.
    ue : Ue
        The phone or modem: the only one, the first of several, or in a view the one whose channel is computed.
    devices : tuple of Ue
        All of them, where the scene has tables ``[[ue]]``; otherwise empty.
    bodies : tuple of Obstacle
        In a view: the persons who carry the other devices.
    obstacles : tuple of Obstacle
        Buildings, people, vehicles and other obstacles.
    draws_los : bool
        Whether LOS is drawn from its probability, because the scene describes no buildings.
    reflection_loss_db : float or None
        The floor: a reflected path or second beam that is this much weaker than the unobstructed direct one;
        ``None`` for none.
    cell_load : tuple of CellLoad or LoadProcess
        The fraction of the cell that other users have.
    nlos_offset_db : float
        Added to the path loss of NLOS.
    shadowing : ShadowTable or None
        Shadow fading of the place; ``None``: as in TR 38.901.
    fallback : Fallback or None
        Where the link falls back to.
    timers : Timers
        The timers of link failure.
    reference : ReferenceChain or None
        Set in scenes that mode ``reference`` can reproduce.
    radio : MacSettings
        The settings of the radio stage of both links.
    ue_limit : UeLimit or None
        Packet-rate limit of the UE.
    rain_mm_per_h : float
        Rain along every path.
    street_width_m, building_height_m : float
        Surroundings of rural cells.
    fitted : tuple of str
        Names of values that were fitted to a measurement, with the measurement.
    """

    name: str
    title: str
    anchor: str
    source: Path | None
    duration_s: float
    step_s: float
    carrier: Carrier
    propagation: Propagation
    base_stations: tuple[BaseStation, ...]
    ue: Ue
    radio: MacSettings
    devices: tuple[Ue, ...] = ()
    bodies: tuple[Obstacle, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    draws_los: bool = False
    reflection_loss_db: float | None = None
    cell_load: tuple[CellLoad, ...] | LoadProcess = ()
    nlos_offset_db: float = 0.0
    shadowing: ShadowTable | None = None
    fallback: Fallback | None = None
    timers: Timers = field(default_factory=Timers)
    reference: ReferenceChain | None = None
    ue_limit: UeLimit | None = None
    rain_mm_per_h: float = 0.0
    street_width_m: float = 20.0
    building_height_m: float = 5.0
    fitted: tuple[str, ...] = ()

    def device(self, name: str) -> Ue:
        """Return a device by its name.

        Raises
        ------
        UserError
            If the scene has none of this name.
        """
        devices = self.devices or (self.ue,)
        for device in devices:
            if device.name == name:
                return device
        names = [device.name for device in devices]
        raise UserError(f"scene {self.name}: has no device {name!r}: {one_of(name, names)}")

    def with_bearer(self, bearer: Bearer) -> SceneModel:
        """Return the scene with its traffic on this bearer; ``split`` also gives both carriers' rates at all times."""
        if not isinstance(self.radio, RadioSettings) or self.radio.bearer == bearer:
            return self
        return replace(self, radio=with_fields(self.radio, bearer=bearer))


_SHIPPED = re.compile(r"(?:(?:scenarios/)?scenes/)?([A-Za-z0-9._-]+?)(?:\.toml)?", re.ASCII)


@cache
def _folder() -> Path:
    return Path(str(resources.files("wavebed"))) / "scenarios" / "scenes"


def shipped() -> tuple[str, ...]:
    """Return the names of the scenes that come with the program."""
    return tuple(sorted(file.stem for file in _folder().glob("*.toml")))


def find(scene: str | Path) -> Path:
    """Return the file of a scene: one of this name, or a shipped scene, as `load` takes it.

    Raises
    ------
    UserError
        If there is no such scene.
    """
    if "\0" in str(scene):
        raise UserError(f"{str(scene)!r}: is not a file: write its name")
    file = Path(scene)
    name = _SHIPPED.fullmatch(str(scene))
    if (not is_there(file) or file.is_dir()) and name is not None:
        inner = _folder() / f"{name[1]}.toml"
        if is_file(inner):
            return inner
        if not file.suffix:
            raise UserError(f"{file}: no such file or scene: {one_of(str(file), shipped(), 'a file, or ')}")
    return file
