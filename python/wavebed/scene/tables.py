"""Kinds of obstacles: their usual size and transmission loss."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar

from msgspec import Struct

from wavebed.config.problems import Problem
from wavebed.config.reader import Reader, Schema, unread
from wavebed.config.table import Key, array_schema, read_table, table, table_schema
from wavebed.config.values import boolean, name, number, percentage, seconds, size_bytes, word
from wavebed.radio.carriers import concrete_db, glass_db, irr_glass_db
from wavebed.radio.presets import Technology
from wavebed.radio.tables import RadioTable, UeLimitTable, WifiTable, read_symbols
from wavebed.scene import values
from wavebed.scene.values import CellLoad, LoadProcess

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of obstacle.

    Parameters
    ----------
    meaning : str
        Its description, for people.
    width_m, height_m : float or None
        Usual size of its screen; ``None``: it has to be given.
    loss_db : callable, float or None
        Transmission loss by frequency in hertz; infinite: opaque; ``None``: it has to be given.
    loss : str
        The same for people, with its source.
    """

    meaning: str
    width_m: float | None
    height_m: float | None
    loss_db: Callable[[float], float] | float | None
    loss: str


_OPAQUE = "opaque"

KINDS = {
    "building": Kind("a box that decides between LOS and NLOS", None, None, math.inf, _OPAQUE),
    "person": Kind("0.3 m × 1.7 m (TR 38.901 7.6.4.2)", 0.3, 1.7, math.inf, _OPAQUE),
    "car": Kind("4.8 m × 1.4 m (TR 38.901 7.6.4.2)", 4.8, 1.4, math.inf, _OPAQUE),
    "bus": Kind("12 m × 3 m (a usual city bus)", 12.0, 3.0, math.inf, _OPAQUE),
    "tree": Kind("a crown that lets something through", None, None, None, "to be given (see ITU-R P.833)"),
    "metal": Kind("a sheet of metal", None, None, math.inf, _OPAQUE),
    "glass": Kind(
        "standard multi-pane glass",
        None,
        None,
        glass_db,
        "2 + 0.2·f/GHz dB (TR 38.901 Table 7.4.3-1)",
    ),
    "irr-glass": Kind(
        "infrared-reflecting glass",
        None,
        None,
        irr_glass_db,
        "23 + 0.3·f/GHz dB (TR 38.901 Table 7.4.3-1)",
    ),
    "cardboard": Kind("a sheet of cardboard", None, None, None, "to be given"),
    "concrete": Kind(
        "a wall of concrete",
        None,
        None,
        concrete_db,
        "5 + 4·f/GHz dB (TR 38.901 Table 7.4.3-1)",
    ),
    "box": Kind("anything else", None, None, math.inf, _OPAQUE),
}
"""Every kind by name."""


def transmission_loss_db(kind: str, frequency_hz: float) -> float:
    """Return the transmission loss of a kind of obstacle.

    Raises
    ------
    Problem
        If the kind has no value of its own.
    """
    loss_db = KINDS[kind].loss_db
    if loss_db is None:
        raise Problem(f"is missing: a {kind} has no usual value: write one, such as 10db", "transmission-loss")
    return loss_db if isinstance(loss_db, float) else loss_db(frequency_hz)


_Table = TypeVar("_Table", bound=Struct)
Vector: TypeAlias = tuple[float, float, float]
Propagation: TypeAlias = Literal["umi", "uma", "rma", "inh", "inh-open", "free-space"]
ObstacleKind: TypeAlias = Literal[
    "building", "person", "car", "bus", "tree", "metal", "glass", "irr-glass", "cardboard", "concrete", "box"
]

LEG_FORMS = (
    ('{ stay = "2s" }', "stand still for a time"),
    ('{ stay-until = "10s" }', "stand still until a moment of the scene"),
    ('{ go-to = [75, 44.8], speed = "1.5m/s" }', "go straight to a place at a speed"),
    (
        '{ go-to = [75, 44.8], until = "32s" }',
        "go straight to a place at the constant speed that arrives there at a moment of the scene",
    ),
)
"""The legs of a trajectory and their meaning; `wavebed.scene.read` reads them."""

_FOREIGN = {
    "nr": (),
    "lte": ("numerology",),
    "802.11ad": (
        "numerology",
        "resource-blocks",
        "frame",
        "special-symbols",
        "layers",
        "uplink-layers",
        "mcs-table",
        "evm",
        "implementation-loss",
        "layer-loss",
    ),
}
"""Keys that a carrier of a technology does not have."""

_PROPAGATION = word("umi", "uma", "rma", "inh", "inh-open", "free-space")
_LEGS = unread("[LEG, …]", {"type": "array", "items": {"type": "object"}})


def _sub(model: type[_Table], header: str) -> Reader[_Table]:
    return table(model, f"{header} on a line of its own", header)


def _radio_schema() -> Schema:
    return {"anyOf": [dict(table_schema(model)) for model in (RadioTable, WifiTable)]}


class CarrierTable(Struct, frozen=True, kw_only=True):
    """``[carrier]`` and ``[fallback.carrier]``."""

    technology: Annotated[Technology, Key(word("nr", "lte", "802.11ad"), "radio technology")]
    frequency_hz: Annotated[float, Key(values.frequency_hz, "centre frequency")]
    bandwidth_hz: Annotated[float, Key(values.frequency_hz, "channel bandwidth")]
    numerology: Annotated[
        int | None,
        Key(
            number(0, 3),
            "NR: subcarriers 15, 30, 60 or 120 kHz apart (TS 38.211 Table 4.2-1)",
            write="0|1|2|3",
            absent="1 below 7.125 GHz, 3 above",
        ),
    ] = None
    resource_blocks: Annotated[
        int | None,
        Key(
            number(1, 4000),
            "resource blocks; given for carriers that are aggregated, whose bandwidth stands in no table",
            absent="of the bandwidth: TS 38.101-1 and -2 Table 5.3.2-1, TS 36.101 Table 5.6-1",
        ),
    ] = None
    frame: Annotated[
        str | None,
        Key(values.frame, "slots of a TDD period as `D`, `S` and `U`, or `fdd`", absent="NR `DDDSU`, others `fdd`"),
    ] = None
    special_symbols: Annotated[tuple[int, int, int], Key(read_symbols, "symbols of an `S` slot, 14 in all")] = (
        10,
        2,
        2,
    )
    layers: Annotated[int, Key(number(1, 4), "most spatial layers in the downlink", write="1…4")] = 1
    uplink_layers: Annotated[int, Key(number(1, 4), "most spatial layers in the uplink", write="1…4")] = 1
    mcs_table: Annotated[
        Literal["64qam", "256qam"],
        Key(word("64qam", "256qam"), "NR and LTE: highest modulation (TS 38.214 Tables 5.1.3.1-1 and -2)"),
    ] = "64qam"
    evm: Annotated[
        float | None,
        Key(
            percentage,
            "error vector magnitude of the signal, transmitter and receiver together; both directions",
            absent="the limit of the highest modulation, 8 % for 64QAM and 3.5 % for 256QAM (TS 38.104 6.5.2 and 9.6.2,"
            " TS 38.101-1 and -2 6.4.2.1, TS 36.104 6.5.2)",
        ),
    ] = None
    implementation_loss_db: Annotated[
        float, Key(values.gain_db, "how much more SINR a real receiver needs than an ideal one (a usual margin)")
    ] = 2.0
    layer_loss_db: Annotated[
        float,
        Key(
            values.gain_db,
            "what separating each further layer costs all layers, beyond their share of the power (between the 1.9 and"
            " 4.3 dB of two polarisations with the cross-polar ratios of TR 38.901 Table 7.5-6)",
        ),
    ] = 3.0


class Array(Struct, frozen=True):
    """``array``: a planar antenna array, whose gain is 10·lg(rows·columns) dB."""

    rows: Annotated[int, Key(number(1, 64), "elements one above the other")] = 1
    columns: Annotated[int, Key(number(1, 64), "elements side by side")] = 1
    element: Annotated[
        Literal["3gpp", "3gpp-ue", "isotropic"],
        Key(
            word("3gpp", "3gpp-ue", "isotropic"),
            "`3gpp`: 8 dBi, 65° wide (TR 38.901 Table 7.3-1); `3gpp-ue`: 5 dBi, 90° (TR 38.802 Table A.2.1-8);"
            " `isotropic`: 0 dBi",
        ),
    ] = "isotropic"
    azimuth_deg: Annotated[
        float | None, Key(values.angle_deg, "azimuth of the panel", absent="towards the other end")
    ] = None
    elevation_deg: Annotated[
        float | None,
        Key(values.angle_deg, "elevation of the panel above the horizon", absent="towards the other end"),
    ] = None
    panels: Annotated[
        int,
        Key(
            number(1, 6),
            "panels evenly around, the first towards the azimuth; that of a UE counts from the direction in which the"
            " user looks. The best one is used",
            write="1…6",
        ),
    ] = 1
    tracking_error_deg: Annotated[
        float, Key(values.angle_deg, "standard deviation of the error in each plane with which a beam is chosen")
    ] = 0.0
    update_s: Annotated[
        float,
        Key(
            seconds(0.001),
            "how often beams are measured (20 ms: the default period of SS/PBCH blocks, TS 38.213 4.1); the beam chosen"
            " then is used from the next time on",
        ),
    ] = 0.02


def _carrier(header: str) -> Reader[CarrierTable]:
    def read(given: object) -> CarrierTable:
        carrier = read_table(CarrierTable, given, f"{header} on a line of its own")
        assert isinstance(given, dict), "read_table has checked it"
        for key in _FOREIGN[carrier.technology]:
            if key in given:
                raise Problem(f"does not belong to {carrier.technology}: leave it out", key)
        return carrier

    return Reader(read, header, lambda: table_schema(CarrierTable))


_ARRAY = table(Array, "array = { rows = 8, columns = 8 }")


class BaseStationTable(Struct, frozen=True, kw_only=True):
    """``[[base-station]]`` and ``[fallback.base-station]``."""

    name: Annotated[str, Key(name, "its name")]
    position_m: Annotated[Vector, Key(values.vector(3), "place of its antenna", name="at")]
    power_dbm: Annotated[float, Key(values.power_dbm, "transmit power, all antennas together")]
    noise_figure_db: Annotated[
        float, Key(values.gain_db, "noise figure of its receiver (as in the LTE module of ns-3)")
    ] = 5.0
    load: Annotated[
        float,
        Key(
            percentage, "fraction of its resource blocks in use while it does not serve: it interferes with the others"
        ),
    ] = 0.0
    noise_rise_db: Annotated[
        float, Key(values.gain_db, "interference over noise of its receiver, by the UEs of other cells")
    ] = 0.0
    array: Annotated[Array, Key(_ARRAY, "its antennas: keys below", absent="one isotropic element")] = Array()


class ShadowTable(Struct, frozen=True, kw_only=True):
    """``shadowing``: shadow fading that was measured at a place."""

    spread_db: Annotated[
        float | None, Key(values.gain_db, "standard deviation", absent="of TR 38.901 Table 7.4.1-1")
    ] = None
    distance_m: Annotated[
        float | None,
        Key(values.metres_within(1, 1000), "correlation distance", absent="of TR 38.901 Table 7.5-6"),
    ] = None


_DURING = Key(values.periods, "the times at which it is there", absent="always")


class Indoor(Struct, frozen=True, kw_only=True):
    """``indoor`` of ``[ue]``: inside a building (TR 38.901 7.4.3.1)."""

    wall: Annotated[
        Literal["low-loss", "high-loss"],
        Key(
            word("low-loss", "high-loss"),
            "outer wall: 30 % glass, 70 % concrete; or 70 % infrared-reflecting glass, 30 % concrete (Table 7.4.3-2)",
        ),
    ]
    depth_m: Annotated[
        float | None,
        Key(
            values.metres_within(0, 100),
            "distance indoors, 0.5 dB per metre",
            absent="drawn: the lesser of two uniform values up to 25 m, 10 m in `rma`",
        ),
    ] = None
    during_s: Annotated[tuple[tuple[float, float], ...], _DURING] = ()


class InCar(Struct, frozen=True, kw_only=True):
    """``in-car`` of ``[ue]``: inside a car (TR 38.901 7.4.3.2)."""

    windows: Annotated[
        Literal["plain", "metallised"],
        Key(word("plain", "metallised"), "9 dB, or 20 dB with metallised windows; 5 dB of spread"),
    ] = "plain"
    during_s: Annotated[tuple[tuple[float, float], ...], _DURING] = ()


class UeTable(Struct, frozen=True, kw_only=True):
    """``[ue]``."""

    start_m: Annotated[Vector, Key(values.vector(3), "its place at the beginning")]
    trajectory: Annotated[object, Key(_LEGS, "how it moves: legs as below; without any it stays")] = ()
    power_dbm: Annotated[float, Key(values.power_dbm, "transmit power (power class 3, TS 38.101-1 Table 6.2.1-1)")] = (
        23.0
    )
    noise_figure_db: Annotated[
        float, Key(values.gain_db, "noise figure of its receiver (as in the LTE module of ns-3)")
    ] = 9.0
    array: Annotated[Array, Key(_ARRAY, "its antennas: keys above", absent="one isotropic element")] = Array()
    hold: Annotated[
        Literal["none", "portrait", "landscape"],
        Key(word("none", "portrait", "landscape"), "how it is held: self-blocking of TR 38.901 7.6.4.1"),
    ] = "none"
    body_loss_db: Annotated[
        float, Key(values.gain_db, "loss by the user's own body where `hold` puts it in the way (TR 38.901 7.6.4.1)")
    ] = 30.0
    heading_deg: Annotated[
        float | None,
        Key(values.angle_deg, "azimuth in which the user looks", absent="the direction of movement"),
    ] = None
    indoor: Annotated[
        Indoor | None,
        Key(
            table(Indoor, 'indoor = { wall = "low-loss" }'),
            "inside a building, for base stations outside: keys below",
            absent="outdoors",
        ),
    ] = None
    in_car: Annotated[
        InCar | None,
        Key(table(InCar, 'in-car = { windows = "plain" }'), "inside a car: keys below", absent="not in a car"),
    ] = None


class DeviceTable(UeTable, frozen=True, kw_only=True):
    """``[[ue]]``."""

    name: Annotated[str, Key(name, "only in `[[ue]]`, as all below: its name; no two have the same")]
    count: Annotated[
        int,
        Key(
            number(2, 64),
            "a crowd of UEs, NAME-1, NAME-2, …; each moves as `trajectory` says, shifted to its place",
            write="2…64",
            absent="one UE",
        ),
    ] = 1
    line_to_m: Annotated[
        tuple[float, ...] | None,
        Key(
            values.vector(2, 3),
            "the crowd stands along a line from `start` to here; the line is parted, and the seed draws each place"
            " in the middle half of its part",
            absent="not along a line",
        ),
    ] = None
    area_to_m: Annotated[
        tuple[float, ...] | None,
        Key(
            values.vector(2, 3),
            "the crowd stands in an area with the corners `start` and this, parted as a line is; with a"
            " height, as on a stand, it rises with y",
            absent="not in an area",
        ),
    ] = None
    body: Annotated[
        bool,
        Key(
            boolean,
            "`true`: a person carries it, who shades the other UEs: 0.3 m × 1.7 m (TR 38.901 7.6.4.2), the top 0.2 m"
            " above the UE; `hold` says how the person shades the own one",
        ),
    ] = False


class ObstacleTable(Struct, frozen=True, kw_only=True):
    """``[[obstacle]]``: a box with two corners, or a screen with a middle and a width."""

    name: Annotated[str, Key(name, "its name; no two have the same")]
    kind: Annotated[ObstacleKind, Key(word(*KINDS), "its kind: kinds below", write="KIND")]
    from_m: Annotated[
        tuple[float, float] | None,
        Key(values.vector(2), "box: one corner of its foot", absent="it is a screen"),
    ] = None
    to_m: Annotated[
        tuple[float, float] | None, Key(values.vector(2), "box: the opposite corner", absent="it is a screen")
    ] = None
    at_m: Annotated[
        tuple[float, float] | None, Key(values.vector(2), "screen: the middle of its foot", absent="it is a box")
    ] = None
    width_m: Annotated[float | None, Key(values.metres, "screen: its width", absent="that of the kind")] = None
    height_m: Annotated[float | None, Key(values.metres, "its height", absent="that of the kind")] = None
    bottom_m: Annotated[float, Key(values.above_ground_m, "height of its lower edge above the ground")] = 0.0
    heading_deg: Annotated[
        float | None,
        Key(
            values.angle_deg,
            "screen: azimuth of its normal",
            absent="it turns with the ray and always shows its full width",
        ),
    ] = None
    trajectory: Annotated[object, Key(_LEGS, "how it moves; a box by its corner `from`")] = ()
    present_s: Annotated[
        tuple[tuple[float, float], ...], Key(values.periods, "the times at which it is present", absent="always")
    ] = ()
    transmission_loss_db: Annotated[
        float | None, Key(values.gain_db, "transmission loss", absent="that of the kind")
    ] = None


class SceneFallbackTable(Struct, frozen=True, kw_only=True):
    """``[fallback]``."""

    propagation: Annotated[Propagation, Key(_PROPAGATION, "as that of the scene")]
    cell_load: Annotated[float, Key(percentage, "fraction of that cell that other users have")] = 0.0
    carrier: Annotated[
        CarrierTable,
        Key(_carrier("[fallback.carrier]"), "the carrier: keys above"),
    ]
    base_station: Annotated[
        BaseStationTable,
        Key(_sub(BaseStationTable, "[fallback.base-station]"), "the base station: keys above"),
    ]


class Timers(Struct, frozen=True):
    """``[timers]``: link failure, recovery and handover."""

    out_of_sync_db: Annotated[
        float,
        Key(values.level_db, "Q_out: SINR at which a hypothetical PDCCH fails in 10 % (TS 38.133 8.1.1)"),
    ] = -8.0
    in_sync_db: Annotated[float, Key(values.level_db, "Q_in: SINR at which it fails in 2 % (TS 38.133 8.1.1)")] = -6.0
    n310: Annotated[int, Key(number(1, 20), "indications out of sync in a row that start T310")] = 1
    n311: Annotated[int, Key(number(1, 10), "indications in sync in a row that stop T310")] = 1
    t310_s: Annotated[float, Key(seconds(), "from then to radio link failure (TS 38.331 7.1.1)")] = 1.0
    t311_s: Annotated[float, Key(seconds(), "within which re-establishment must find a cell (TS 38.331 7.1.1)")] = 10.0
    indication_s: Annotated[float, Key(seconds(0.001), "time between indications")] = 0.02
    reestablish_s: Annotated[float, Key(seconds(), "how long re-establishment takes once a cell is found")] = 0.1
    beam_failure_instances: Annotated[
        int, Key(number(0, 10), "beamFailureInstanceMaxCount (TS 38.321 5.17); 0: no beam recovery")
    ] = 4
    beam_recovery_s: Annotated[float, Key(seconds(), "how long beam failure recovery takes")] = 0.02
    beam_recovery_limit_s: Annotated[
        float,
        Key(
            seconds(),
            "recovery that has found no beam by then is a radio link failure (TS 38.331 5.3.10.3)",
        ),
    ] = 0.2
    handover_offset_db: Annotated[
        float,
        Key(values.gain_db, "event A3: how much stronger another base station has to be (TS 38.331 5.5.4.4)"),
    ] = 3.0
    time_to_trigger_s: Annotated[float, Key(seconds(), "and for how long")] = 0.16
    handover_s: Annotated[
        tuple[float, ...], Key(values.lengths, "interruption of a handover between base stations")
    ] = (0.05,)
    fallback_s: Annotated[
        tuple[float, ...], Key(values.lengths, "interruption when the link moves to the fallback carrier")
    ] = (0.07,)
    return_s: Annotated[tuple[float, ...], Key(values.lengths, "interruption when it comes back")] = (0.076,)
    anchor_every_s: Annotated[
        float | None,
        Key(
            seconds(0.1),
            "mean time between handovers of the LTE anchor, which interrupt a kept NR cell; with `[fallback]`",
            absent="none",
        ),
    ] = None
    anchor_s: Annotated[tuple[float, ...], Key(values.lengths, "interruption of such a handover (measured median)")] = (
        0.108,
    )
    return_hysteresis_s: Annotated[float, Key(seconds(), "how long the carrier must be good before")] = 0.32


class ReferenceChain(Struct, frozen=True):
    """``[reference]``: the traffic and the simulator of the study, for mode ``reference``."""

    offered_bps: Annotated[float, Key(values.rate_bps, "UDP traffic offered in the simulation")] = 1.001e9
    rlc_buffer_bytes: Annotated[int, Key(size_bytes, "the RLC buffer that fills and drains", name="rlc-buffer")] = (
        20 * 2**20
    )
    threshold_db: Annotated[float, Key(values.level_db, "the SINR that splits time into LOS and NLOS")] = 20.0
    constant_bps: Annotated[
        float | None,
        Key(values.rate_bps, "the rate that the study used where it simulated nothing", name="constant-rate"),
    ] = None
    outage_within_m: Annotated[
        float | None,
        Key(
            values.metres,
            "an obstacle between base station and UE within this distance of the UE takes the link away (`OUTAGE`)",
            absent="never",
        ),
    ] = None


def _ue_schema() -> Schema:
    return {"anyOf": [dict(table_schema(UeTable)), {**array_schema(DeviceTable), "minItems": 1}]}


_BASE_STATIONS_SCHEMA = functools.partial(array_schema, BaseStationTable)
_OBSTACLES_SCHEMA = functools.partial(array_schema, ObstacleTable)
_UE_LIMIT_SCHEMA = functools.partial(table_schema, UeLimitTable)


class SceneTable(Struct, frozen=True, kw_only=True):
    """A scene file."""

    title: Annotated[str, Key(values.title, "title for people")]
    anchor: Annotated[str, Key(values.title, "the publication that the numbers come from, or `illustrative`")]
    duration_s: Annotated[float, Key(seconds(0.001), "how long the scene lasts")]
    step_s: Annotated[float, Key(seconds(0.000125), "step of the time series")] = 0.001
    propagation: Annotated[
        Propagation,
        Key(
            _PROPAGATION,
            "TR 38.901: street canyon, urban or rural macro, indoor office (mixed or open); or nothing but free space",
        ),
    ] = "umi"
    rain_mm_per_h: Annotated[
        float,
        Key(values.rain_mm_per_h, "rain along every path (ITU-R P.838-3)", name="rain"),
    ] = 0.0
    street_width_m: Annotated[
        float | None,
        Key(values.metres_within(5, 50), "`rma`: average width of streets (TR 38.901 Table 7.4.1-1)", absent="20 m"),
    ] = None
    building_height_m: Annotated[
        float | None,
        Key(values.metres_within(5, 50), "`rma`: average height of buildings (same table)", absent="5 m"),
    ] = None
    line_of_sight: Annotated[
        Literal["geometry", "drawn"],
        Key(
            word("geometry", "drawn"),
            "LOS or NLOS by the buildings of the scene, or in a scene without buildings drawn from the probability of"
            " TR 38.901 Table 7.4.2-1",
        ),
    ] = "geometry"
    nlos_offset_db: Annotated[
        float, Key(values.level_db, "added to the path loss of NLOS of this place; the fallback carrier is without it")
    ] = 0.0
    shadowing: Annotated[
        ShadowTable | None,
        Key(
            table(ShadowTable, 'shadowing = { spread = "8db", distance = 13 }'),
            "shadow fading of this place, in LOS and in NLOS: keys below; the fallback carrier is without it",
            absent="TR 38.901 Tables 7.4.1-1 and 7.5-6",
        ),
    ] = None
    reflection_loss_db: Annotated[
        float | None,
        Key(
            values.gain_db,
            "upper bound of the loss by obstacles: a reflected path or a second beam that is this much weaker than"
            " the unobstructed direct one",
            absent="no such path",
        ),
    ] = None
    cell_load: Annotated[
        tuple[CellLoad, ...] | LoadProcess,
        Key(
            values.cell_load,
            "fraction of the cell that other users have: once, from given times on, or users that come and go: their"
            " mean fraction, and how long each stays on average",
        ),
    ] = (CellLoad(0.0, 0.0),)
    fitted: Annotated[tuple[str, ...], Key(values.texts, "values that were fitted to a measurement, and to which")] = ()
    carrier: Annotated[
        CarrierTable,
        Key(_carrier("[carrier]"), "the carrier: keys below"),
    ]
    base_station: Annotated[
        object,
        Key(
            unread("[[base-station]]", _BASE_STATIONS_SCHEMA),
            "the base stations, 1 to 16: keys below",
        ),
    ]
    ue: Annotated[
        object,
        Key(
            unread("[ue]", _ue_schema),
            "the phone or modem (UE): keys below; or several, each as `[[ue]]`",
        ),
    ]
    obstacle: Annotated[
        object,
        Key(
            unread("[[obstacle]]", _OBSTACLES_SCHEMA),
            "obstacles, which may move: keys below",
        ),
    ] = []
    fallback: Annotated[
        SceneFallbackTable | None,
        Key(
            _sub(SceneFallbackTable, "[fallback]"),
            "the carrier that the link falls back to: keys below",
        ),
    ] = None
    timers: Annotated[
        Timers,
        Key(_sub(Timers, "[timers]"), "timers of link failure: keys below", absent="the defaults below"),
    ] = Timers()
    reference: Annotated[
        ReferenceChain | None,
        Key(
            _sub(ReferenceChain, "[reference]"),
            "the source study, for mode `reference`: keys below",
        ),
    ] = None
    radio: Annotated[
        object,
        Key(unread("[radio]", _radio_schema), "settings of the radio stage: keys below"),
    ] = None
    ue_limit: Annotated[
        object, Key(unread("[ue-limit]", _UE_LIMIT_SCHEMA), "packet-rate limit of the UE: keys below")
    ] = None
