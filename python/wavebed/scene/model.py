"""A scene in memory: metres, seconds, hertz, decibels. Times and places are floats; they describe physics, not packets.

The ground is z = 0. Azimuths are counted in degrees from the +x axis towards +y, elevations from the horizon up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.radio.model import DeviceSettings, MacSettings, Technology

__all__ = [
    "Array",
    "Box",
    "Carrier",
    "Fallback",
    "Handset",
    "Interval",
    "Mode",
    "Obstacle",
    "ReferenceChain",
    "Scene",
    "Screen",
    "Share",
    "Station",
    "Timers",
    "Track",
    "Vector",
]

Vector: TypeAlias = tuple[float, float, float]
Mode: TypeAlias = Literal["3gpp", "reference"]
Propagation: TypeAlias = Literal["umi", "uma", "inh", "inh-open", "free-space"]
ObstacleKind: TypeAlias = Literal[
    "building", "person", "car", "bus", "tree", "metal", "glass", "irr-glass", "cardboard", "concrete", "box"
]


class Interval(NamedTuple):
    """A state of the geometry (``LOS``, ``NLOS`` or ``OUTAGE``) from `start_s` to `end_s`."""

    state: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Track:
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
class Array:
    """A planar antenna array.

    Parameters
    ----------
    rows, columns : int
        Elements; the array gain is 10·lg(rows·columns) dB.
    element : str
        ``3gpp`` (TR 38.901 Table 7.3-1: 8 dBi, 65°) or ``isotropic`` (0 dBi).
    azimuth_deg, elevation_deg : float or None
        Where the panel looks; ``None``: it always faces the other end (several panels, or a dish that turns).
    tracking_error_deg : float
        Standard deviation of the beam's pointing error in each plane.
    update_s : float
        How often the beam is chosen anew; between, it points where the other end was.
    """

    rows: int = 1
    columns: int = 1
    element: Literal["3gpp", "isotropic"] = "isotropic"
    azimuth_deg: float | None = None
    elevation_deg: float | None = None
    tracking_error_deg: float = 0.0
    update_s: float = 0.02


@dataclass(frozen=True, slots=True)
class Carrier:
    """What the radio transmits on.

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
    layers : int
        Spatial layers in the downlink, 1 to 4 (8 for NR downlink is not modelled).
    uplink_layers : int
        Spatial layers in the uplink.
    mcs_table : str
        NR and LTE: ``64qam`` or ``256qam``.
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


@dataclass(frozen=True, slots=True)
class Station:
    """A base station."""

    name: str
    position_m: Vector
    power_dbm: float
    noise_figure_db: float
    array: Array


@dataclass(frozen=True, slots=True)
class Handset:
    """The user's device.

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
        Azimuth in which the user looks; ``None``: the direction of movement (that of the first movement before it).
    """

    track: Track
    power_dbm: float
    noise_figure_db: float
    array: Array
    hold: Literal["none", "portrait", "landscape"] = "none"
    heading_deg: float | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """An upright box: a building, or whatever decides between LOS and NLOS.

    Parameters
    ----------
    low_m, high_m : Vector
        Two opposite corners; each coordinate of `low_m` is less than that of `high_m`.
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
    """Something in the way.

    Parameters
    ----------
    name, kind : str
        What it is called, and what it is.
    shape : Box or Screen
        Boxes of kind ``building`` decide LOS or NLOS; everything else attenuates by model B.
    track : Track or None
        Its movement: the displacement from its described place is that of the track from its first place.
    present_s : tuple of (float, float)
        When it is there; empty: always.
    transmission_loss_db : float
        Loss of what goes through it, infinite for opaque things.
    """

    name: str
    kind: ObstacleKind
    shape: Box | Screen
    track: Track | None = None
    present_s: tuple[tuple[float, float], ...] = ()
    transmission_loss_db: float = float("inf")

    @property
    def decides_los(self) -> bool:
        """Whether it decides between LOS and NLOS, as buildings do."""
        return self.kind == "building"


@dataclass(frozen=True, slots=True)
class Share:
    """From `time_s` on, others use this share (0 to 1) of the cell."""

    time_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Timers:
    """What decides that a link has failed, and how it comes back.

    Parameters
    ----------
    out_of_sync_db, in_sync_db : float
        Q_out and Q_in as SINR (10 % and 2 % BLER of a hypothetical PDCCH, TS 38.133 8.1.1).
    n310, n311 : int
        Consecutive indications out of and in sync (TS 38.331 5.3.10).
    t310_s, t311_s : float
        Radio link failure after T310; re-establishment within T311.
    indication_s : float
        Time between indications.
    reestablish_s : float
        How long re-establishment takes once a cell is found.
    beam_failure_instances : int
        beamFailureInstanceMaxCount (TS 38.321 5.17); 0: no beam recovery.
    beam_recovery_s : float
        How long beam failure recovery takes.
    beam_recovery_limit_s : float
        Recovery that has found no beam by then is a radio link failure (random access problem, TS 38.331 5.3.10.3).
    handover_offset_db, time_to_trigger_s : float
        Event A3 (TS 38.331 5.5.4.4): how much stronger another station is, and for how long, before the link moves.
    handover_s : float
        Interruption of a handover between stations.
    fallback_s, return_s : float
        Interruption when the link moves to the fallback carrier, and back.
    return_hysteresis_s : float
        How long the carrier must be good before the link returns to it.
    """

    out_of_sync_db: float = -8.0
    in_sync_db: float = -6.0
    n310: int = 1
    n311: int = 1
    t310_s: float = 1.0
    t311_s: float = 10.0
    indication_s: float = 0.02
    reestablish_s: float = 0.1
    beam_failure_instances: int = 4
    beam_recovery_s: float = 0.02
    beam_recovery_limit_s: float = 0.2
    handover_offset_db: float = 3.0
    time_to_trigger_s: float = 0.16
    handover_s: float = 0.05
    fallback_s: float = 0.07
    return_s: float = 0.076
    return_hysteresis_s: float = 0.32


@dataclass(frozen=True, slots=True)
class Fallback:
    """The carrier that the link falls back to: LTE or sub-6 GHz NR.

    Parameters
    ----------
    carrier, station, propagation
        As those of the scene; the station's array belongs to this carrier.
    share : float
        Share of that cell that others use.
    """

    carrier: Carrier
    station: Station
    propagation: Propagation
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class ReferenceChain:
    """What mode ``reference`` needs and mode ``3gpp`` does not: how the study's traffic ran through its simulator.

    Parameters
    ----------
    offered_bps : float
        UDP traffic offered.
    rlc_buffer_bytes : int
        The RLC buffer that fills and drains.
    threshold_db : float
        The SINR that splits time into LOS and NLOS.
    constant_bps : float or None
        Where the study used a constant rate (its LTE cell), that rate.
    outage_within_m : float or None
        An obstacle in the direct path that the handset passes nearer than this takes the link away; ``None``: never.
    """

    offered_bps: float = 1.001e9
    rlc_buffer_bytes: int = 20 * 2**20
    threshold_db: float = 20.0
    constant_bps: float | None = None
    outage_within_m: float | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """A described radio scene.

    Parameters
    ----------
    name, title : str
        The file's stem, and what people read.
    anchor : str
        The published anchor that the numbers come from, or ``illustrative``.
    source : pathlib.Path or None
        The file that it was read from.
    duration_s, step_s : float
        How long it lasts, and the step of its time series.
    carrier, propagation
        The carrier, and the scenario of TR 38.901.
    stations : tuple of Station
        At least one; the strongest serves, with hysteresis.
    handset : Handset
        The one device.
    obstacles : tuple of Obstacle
        What stands or moves in the way.
    draws_los : bool
        Whether LOS is drawn from its probability, because the scene describes no buildings.
    reflection_loss_db : float or None
        The floor: a reflected path or second beam that is this much weaker than the unobstructed direct one;
        ``None`` for none.
    others : tuple of Share
        What others use of the cell.
    fallback : Fallback or None
        Where the link falls back to.
    timers : Timers
        What decides an outage.
    reference : ReferenceChain or None
        Set in scenes that mode ``reference`` can reproduce.
    radio : MacSettings
        What the radio stage of both links is to do.
    device : DeviceSettings or None
        The device's own stage.
    fitted : tuple of str
        Names of values that were fitted to a measurement, with what they were fitted to.
    """

    name: str
    title: str
    anchor: str
    source: Path | None
    duration_s: float
    step_s: float
    carrier: Carrier
    propagation: Propagation
    stations: tuple[Station, ...]
    handset: Handset
    radio: MacSettings
    obstacles: tuple[Obstacle, ...] = ()
    draws_los: bool = False
    reflection_loss_db: float | None = None
    others: tuple[Share, ...] = ()
    fallback: Fallback | None = None
    timers: Timers = field(default_factory=Timers)
    reference: ReferenceChain | None = None
    device: DeviceSettings | None = None
    fitted: tuple[str, ...] = ()
