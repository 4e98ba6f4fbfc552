"""Every key of a scene: its name, what to write, its default as one would write it, its meaning, and its reader.

The reader and the reference page both come from these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wavebed.config.problems import Problem, at, described, unknown_key
from wavebed.scene import values
from wavebed.scene.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "ARRAY_KEYS",
    "CARRIER_KEYS",
    "FALLBACK_KEYS",
    "HANDSET_KEYS",
    "OBSTACLE_KEYS",
    "REFERENCE_KEYS",
    "REQUIRED",
    "SCENE_KEYS",
    "STATION_KEYS",
    "TIMER_KEYS",
    "Key",
    "fields",
]

REQUIRED = object()
"""The default of a key that must be given."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Parameters
    ----------
    name : str
        The key in the file.
    field : str
        The field of `wavebed.scene.model` that it sets.
    read : callable
        Reads the value, or raises `Problem`.
    write : str
        What to write, for people.
    default : object
        What holds without it, as one would write it; `REQUIRED`; or ``None``, which `absent` explains.
    meaning : str
        What it does, and the source of the default.
    absent : str
        What ``None`` means, for people.
    """

    name: str
    field: str
    read: Callable[[object], object]
    write: str
    default: object
    meaning: str
    absent: str = "none"


def _raw(value: object) -> object:
    return value


def _table(*keys: Key) -> dict[str, Key]:
    return {key.name: key for key in keys}


def fields(table: object, keys: Mapping[str, Key], form: str, further: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read a table by its keys and return the values by field.

    Parameters
    ----------
    table : object
        What TOML gave.
    keys : mapping
        The keys that the table may have.
    form : str
        How the table is written, for the message if it is none.
    further : tuple of str
        Keys that the caller reads itself; they are returned unread under their own names.

    Raises
    ------
    Problem
        If a key is unknown, missing or wrong.
    """
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write {form}")
    for name in table:
        if name not in keys and name not in further:
            raise unknown_key(name, (*keys, *further))
    found: dict[str, Any] = {name: table[name] for name in further if name in table}
    for key in keys.values():
        if key.name in table:
            found[key.field] = at(key.name, key.read, table[key.name])
        elif key.default is REQUIRED:
            raise Problem(f"is missing: write {key.name} = {key.write}", key.name)
        else:
            found[key.field] = None if key.default is None else key.read(key.default)
    return found


SCENE_KEYS = _table(
    Key("title", "title", values.title, "TEXT", REQUIRED, "what people read"),
    Key(
        "anchor",
        "anchor",
        values.title,
        "TEXT",
        REQUIRED,
        "the publication that the numbers come from, or `illustrative`",
    ),
    Key("duration", "duration_s", values.seconds(0.001), "TIME", REQUIRED, "how long the scene lasts"),
    Key("step", "step_s", values.seconds(0.000125), "TIME", "1ms", "step of the time series"),
    Key(
        "propagation",
        "propagation",
        values.word("umi", "uma", "inh", "inh-open", "free-space"),
        "umi|uma|inh|inh-open|free-space",
        "umi",
        "TR 38.901: street canyon, urban macro, indoor office (mixed or open); or nothing but free space",
    ),
    Key(
        "line-of-sight",
        "line_of_sight",
        values.word("geometry", "drawn"),
        "geometry|drawn",
        "geometry",
        "who decides between LOS and NLOS: the buildings of the scene, or where it has none the probability of"
        " TR 38.901 Table 7.4.2-1",
    ),
    Key(
        "reflection-loss",
        "reflection_loss_db",
        values.gain_db,
        "RATIO",
        None,
        "the floor of what obstacles take away: a reflected path or a second beam that is this much weaker than the"
        " unobstructed direct one",
        "no such path",
    ),
    Key(
        "others",
        "others",
        values.others,
        'SHARE or [["0s", SHARE], …]',
        "0%",
        "share of the cell that others use, once or from given times on",
    ),
    Key(
        "fitted",
        "fitted",
        values.texts,
        "[TEXT, …]",
        [],
        "values that were fitted to a measurement, and to which",
    ),
)
"""Keys at the top of the file."""

CARRIER_KEYS = _table(
    Key("technology", "technology", values.word("nr", "lte", "802.11ad"), "nr|lte|802.11ad", REQUIRED, "what it is"),
    Key("frequency", "frequency_hz", values.frequency_hz, "FREQUENCY", REQUIRED, "centre frequency"),
    Key("bandwidth", "bandwidth_hz", values.frequency_hz, "FREQUENCY", REQUIRED, "channel bandwidth"),
    Key(
        "numerology",
        "numerology",
        values.number(0, 3),
        "0|1|2|3",
        None,
        "NR: subcarriers 15, 30, 60 or 120 kHz apart (TS 38.211 Table 4.2-1)",
        "1 below 7.125 GHz, 3 above",
    ),
    Key(
        "resource-blocks",
        "resource_blocks",
        values.number(1, 4000),
        "N",
        None,
        "resource blocks; given for carriers that are aggregated, whose bandwidth stands in no table",
        "of the bandwidth: TS 38.101-1 and -2 Table 5.3.2-1, TS 36.101 Table 5.6-1",
    ),
    Key(
        "frame",
        "frame",
        values.frame,
        "SLOTS or fdd",
        None,
        "slots of a TDD period as `D`, `S` and `U`, or `fdd`",
        "NR `DDDSU`, others `fdd`",
    ),
    Key(
        "special-symbols",
        "special_symbols",
        values.symbols,
        "[DOWN, GUARD, UP]",
        [10, 2, 2],
        "symbols of an `S` slot, 14 in all",
    ),
    Key("layers", "layers", values.number(1, 4), "1…4", 1, "spatial layers in the downlink"),
    Key("uplink-layers", "uplink_layers", values.number(1, 4), "1…4", 1, "spatial layers in the uplink"),
    Key(
        "mcs-table",
        "mcs_table",
        values.word("64qam", "256qam"),
        "64qam|256qam",
        "64qam",
        "NR and LTE: highest modulation (TS 38.214 Tables 5.1.3.1-1 and -2)",
    ),
)
"""Keys of ``[carrier]`` and ``[fallback.carrier]``."""

STATION_KEYS = _table(
    Key("name", "name", values.name, "NAME", REQUIRED, "what it is called"),
    Key("at", "position_m", values.vector(3), "[x, y, z]", REQUIRED, "where its antenna is"),
    Key("power", "power_dbm", values.power_dbm, "POWER", REQUIRED, "transmit power, all antennas together"),
    Key(
        "noise-figure",
        "noise_figure_db",
        values.gain_db,
        "RATIO",
        "5db",
        "noise figure of its receiver (as in the LTE module of ns-3)",
    ),
    Key("array", "array", _raw, "{ … }", {}, "its antennas: keys below"),
)
"""Keys of ``[[station]]`` and ``[fallback.station]``."""

ARRAY_KEYS = _table(
    Key("rows", "rows", values.number(1, 64), "N", 1, "elements one above the other"),
    Key("columns", "columns", values.number(1, 64), "N", 1, "elements side by side"),
    Key(
        "element",
        "element",
        values.word("3gpp", "isotropic"),
        "3gpp|isotropic",
        "isotropic",
        "`3gpp`: 8 dBi, 65° wide (TR 38.901 Table 7.3-1); `isotropic`: 0 dBi",
    ),
    Key("azimuth", "azimuth_deg", values.angle_deg, "ANGLE", None, "where the panel looks", "it faces the other end"),
    Key(
        "elevation",
        "elevation_deg",
        values.angle_deg,
        "ANGLE",
        None,
        "where the panel looks, from the horizon up",
        "it faces the other end",
    ),
    Key(
        "tracking-error",
        "tracking_error_deg",
        values.angle_deg,
        "ANGLE",
        "0deg",
        "standard deviation of the beam's pointing error in each plane",
    ),
    Key(
        "update",
        "update_s",
        values.seconds(0.001),
        "TIME",
        "20ms",
        "how often the beam is chosen anew (20 ms: the default period of SS/PBCH blocks, TS 38.213 4.1)",
    ),
)
"""Keys of ``array``."""

HANDSET_KEYS = _table(
    Key("start", "start", values.vector(3), "[x, y, z]", REQUIRED, "where it is at the beginning"),
    Key("way", "way", _raw, "[LEG, …]", [], "how it moves: legs as below; without any it stays"),
    Key(
        "power",
        "power_dbm",
        values.power_dbm,
        "POWER",
        "23dbm",
        "transmit power (power class 3, TS 38.101-1 Table 6.2.1-1)",
    ),
    Key(
        "noise-figure",
        "noise_figure_db",
        values.gain_db,
        "RATIO",
        "9db",
        "noise figure of its receiver (as in the LTE module of ns-3)",
    ),
    Key("array", "array", _raw, "{ … }", {}, "its antennas: keys above"),
    Key(
        "hold",
        "hold",
        values.word("none", "portrait", "landscape"),
        "none|portrait|landscape",
        "none",
        "how it is held: self-blocking of TR 38.901 7.6.4.1",
    ),
    Key(
        "heading",
        "heading_deg",
        values.angle_deg,
        "ANGLE",
        None,
        "azimuth in which the user looks",
        "the direction of movement",
    ),
)
"""Keys of ``[handset]``."""

OBSTACLE_KEYS = _table(
    Key("name", "name", values.name, "NAME", REQUIRED, "what it is called; no two have the same name"),
    Key("kind", "kind", values.word(*KINDS), "KIND", REQUIRED, "what it is: kinds below"),
    Key("from", "from", values.vector(2), "[x, y]", None, "box: one corner of its foot", "it is a screen"),
    Key("to", "to", values.vector(2), "[x, y]", None, "box: the opposite corner", "it is a screen"),
    Key("at", "at", values.vector(2), "[x, y]", None, "screen: the middle of its foot", "it is a box"),
    Key("width", "width", values.metres, "METRES", None, "screen: its width", "that of the kind"),
    Key("height", "height", values.metres, "METRES", None, "its height", "that of the kind"),
    Key("bottom", "bottom", values.above_ground_m, "METRES", 0, "height of its lower edge above the ground"),
    Key(
        "heading",
        "heading_deg",
        values.angle_deg,
        "ANGLE",
        None,
        "screen: azimuth of its normal",
        "it turns with the ray and always shows its full width",
    ),
    Key("way", "way", _raw, "[LEG, …]", [], "how it moves; a box by its corner `from`"),
    Key("present", "present_s", values.periods, '[["7s", "8s"], …]', None, "when it is there", "always"),
    Key(
        "transmission-loss",
        "transmission_loss_db",
        values.gain_db,
        "RATIO",
        None,
        "loss of what goes through it",
        "that of the kind",
    ),
)
"""Keys of ``[[obstacle]]``."""

FALLBACK_KEYS = _table(
    Key(
        "propagation",
        "propagation",
        values.word("umi", "uma", "inh", "inh-open", "free-space"),
        "umi|uma|inh|inh-open|free-space",
        REQUIRED,
        "as that of the scene",
    ),
    Key("others", "share", values.share, "SHARE", "0%", "share of that cell that others use"),
)
"""Keys of ``[fallback]`` beside its carrier and its station."""

REFERENCE_KEYS = _table(
    Key("offered", "offered_bps", values.rate_bps, "RATE", "1.001gbit", "UDP traffic offered in the simulation"),
    Key("rlc-buffer", "rlc_buffer_bytes", values.size_bytes, "SIZE", "20mib", "the RLC buffer that fills and drains"),
    Key("threshold", "threshold_db", values.level_db, "RATIO", "20db", "the SINR that splits time into LOS and NLOS"),
    Key(
        "constant-rate",
        "constant_bps",
        values.rate_bps,
        "RATE",
        None,
        "the rate that the study used where it simulated nothing",
    ),
    Key(
        "outage-within",
        "outage_within_m",
        values.metres,
        "METRES",
        None,
        "an obstacle in the way that the handset passes nearer than this takes the link away (`OUTAGE`)",
        "never",
    ),
)
"""Keys of ``[reference]``."""


def _time(name: str, field: str, default: str, meaning: str) -> Key:
    return Key(name, field, values.seconds(), "TIME", default, meaning)


TIMER_KEYS = _table(
    Key(
        "out-of-sync",
        "out_of_sync_db",
        values.level_db,
        "RATIO",
        "-8db",
        "Q_out: SINR at which a hypothetical PDCCH fails in 10 % (TS 38.133 8.1.1)",
    ),
    Key(
        "in-sync",
        "in_sync_db",
        values.level_db,
        "RATIO",
        "-6db",
        "Q_in: SINR at which it fails in 2 % (TS 38.133 8.1.1)",
    ),
    Key("n310", "n310", values.number(1, 20), "N", 1, "indications out of sync in a row that start T310"),
    Key("n311", "n311", values.number(1, 10), "N", 1, "indications in sync in a row that stop T310"),
    _time("t310", "t310_s", "1s", "from then to radio link failure (TS 38.331 7.1.1)"),
    _time("t311", "t311_s", "10s", "within which re-establishment must find a cell (TS 38.331 7.1.1)"),
    Key("indication", "indication_s", values.seconds(0.001), "TIME", "20ms", "time between indications"),
    _time("reestablish", "reestablish_s", "100ms", "how long re-establishment takes once a cell is found"),
    Key(
        "beam-failure-instances",
        "beam_failure_instances",
        values.number(0, 10),
        "N",
        4,
        "beamFailureInstanceMaxCount (TS 38.321 5.17); 0: no beam recovery",
    ),
    _time("beam-recovery", "beam_recovery_s", "20ms", "how long beam failure recovery takes"),
    _time(
        "beam-recovery-limit",
        "beam_recovery_limit_s",
        "200ms",
        "recovery that has found no beam by then is a radio link failure (TS 38.331 5.3.10.3)",
    ),
    Key(
        "handover-offset",
        "handover_offset_db",
        values.gain_db,
        "RATIO",
        "3db",
        "event A3: how much stronger another station has to be (TS 38.331 5.5.4.4)",
    ),
    _time("time-to-trigger", "time_to_trigger_s", "160ms", "and for how long"),
    _time("handover", "handover_s", "50ms", "interruption of a handover between stations"),
    _time("fallback", "fallback_s", "70ms", "interruption when the link moves to the fallback carrier"),
    _time("return", "return_s", "76ms", "interruption when it comes back"),
    _time("return-hysteresis", "return_hysteresis_s", "320ms", "how long the carrier must be good before"),
)
"""Keys of ``[timers]``; the defaults are those of `wavebed.scene.model.Timers`."""
