"""The tables of a cell: ``[cell]``, ``[[cell.background]]`` and ``[[device]]``, beside the keys of links and hosts."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wavebed.config import values
from wavebed.config.derived import count_of
from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Reader, unread
from wavebed.config.table import Key, array_schema, fields, properties_of, read_table, spec_key, table_schema
from wavebed.path.tables import DIRECTED, DIRECTIONS, AirTable, HostTable, LinkTable
from wavebed.radio import fiveqi
from wavebed.scene.values import frequency_hz, power_dbm
from wavebed.spec import types as spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.config.table import Field

MOST_DEVICES = 250
"""Addresses of the last leg's prefix, beside the base station's (`MOST_DEVICES` of ``wavebed-path``)."""
POLICIES = {policy.replace("_", "-"): policy for policy in get_args(spec.Policy)}
_POLICY = values.word(*POLICIES)
_SCHEDULER = Reader(
    lambda value: POLICIES[_POLICY(value)], _POLICY.write, _POLICY.schema, lambda policy: policy.replace("_", "-")
)


class SliceTable(Struct, frozen=True, kw_only=True):
    """An entry of ``slice``."""

    name: Annotated[str, Key(values.name, "its name, which a device's key `slice` has")]
    share: Annotated[float, Key(values.percentage, "its part of every slot while its devices have data")]


def _slices(value: object) -> tuple[spec.CellSlice, ...]:
    value = values.table_of(value)
    if not isinstance(value, list):
        raise Problem(f'{described(value)} is not an array of tables: write [{{ name = "video", share = "30%" }}]')
    found: list[spec.CellSlice] = []
    for number, each in enumerate(value, 1):
        table = at(f"[{number}]", lambda given: read_table(SliceTable, given, "{ name = …, share = … }"), each)
        if any(other.name == table.name for other in found):
            raise Problem(f"{table.name!r} is taken by another slice: choose another", f"[{number}].name")
        found.append(spec.CellSlice(table.name, table.share))
    total = sum(each.share for each in found)
    if total > 1 + 1e-9:
        raise Problem(f"the shares sum to {total:.0%}: write at most 100% in all")
    return tuple(found)


_SLICES = Reader(
    _slices,
    "[{ name = NAME, share = PERCENT }, …]",
    lambda: array_schema(SliceTable),
    lambda found: [{"name": each.name, "share": values.percentage.raw(each.share)} for each in found],
)


class CellTable(Struct, frozen=True, kw_only=True):
    """The keys of ``[cell]`` that also exist as ``down-KEY`` and ``up-KEY``, for one direction."""

    scheduler: Annotated[
        spec.Policy,
        Key(
            _SCHEDULER,
            "who gets the slots: `proportional-fair` by the ratio of possible to average rate (Jalali, Padovani, Pankaj"
            " 2000); `round-robin` in turn; `maximum-rate`; `priority`: guaranteed rates and priority levels of the 5QI"
            " first",
        ),
    ] = "proportional_fair"
    units: Annotated[
        int | None,
        Key(
            count_of(spec.CellScheduler, "units"),
            "resource block groups of the carrier: the parts of a slot that can be given to one device",
            absent="from bandwidth and numerology: TS 38.214 table 5.1.2.2.1-1 (configuration 1), TS 36.213 table"
            " 7.1.6.1-1",
        ),
    ] = None
    bandwidth_hz: Annotated[
        float | None,
        Key(
            frequency_hz,
            "bandwidth of the carrier, from which `units` are counted",
            write="FREQUENCY",
            absent="the scene's; without one 20mhz (15 kHz, LTE), 100mhz (30, 60 and 120 kHz)",
        ),
    ] = None
    average_slots: Annotated[
        float,
        Key(
            spec_key(spec.CellScheduler, "average_slots").reader,
            "slots over which proportional fair averages the rate of a device",
            name="average-slots",
        ),
    ] = 99.0
    devices_per_slot: Annotated[
        int | None,
        Key(
            count_of(spec.CellScheduler, "devices_per_slot"),
            "devices that one slot serves at most: of the control channel, or of the beams",
            name="devices-per-slot",
            absent="as many as there are units",
        ),
    ] = None
    control_units: Annotated[
        int,
        Key(
            count_of(spec.CellScheduler, "control_units"),
            "units that the control information of each served device takes",
            name="control-units",
        ),
    ] = 0
    slice: Annotated[
        tuple[spec.CellSlice, ...],
        Key(
            _SLICES,
            "slices: each has at least its share of every slot while its devices have data (TS 28.541,"
            " rRMPolicyMinRatio)",
            absent="none",
        ),
    ] = ()


CELL_DIRECTED = {
    f"{direction}-{name}": replace(found, name=f"{direction}-{name}")
    for direction in DIRECTIONS
    for name, found in fields(CellTable).items()
}
"""The keys of a cell for one direction."""


def _five_qi(value: object) -> fiveqi.Characteristics:
    number = values.number(1, 255)(value)
    try:
        return fiveqi.characteristics(number)
    except ValueError as error:
        raise Problem(str(error)) from None


_FIVE_QI = Reader(_five_qi, "N", lambda: {"enum": list(fiveqi.standardised())}, lambda found: found.five_qi)
_LEVEL = count_of(spec.CellService, "level")


class ServiceTable(Struct, frozen=True, kw_only=True):
    """What a device, or a modelled user, is entitled to."""

    five_qi: Annotated[
        fiveqi.Characteristics | None,
        Key(
            _FIVE_QI,
            "5QI of its bearer (TS 23.501 table 5.7.4-1), which gives its priority level",
            name="5qi",
            absent="`9`, the default bearer",
        ),
    ] = None
    priority_level: Annotated[
        int | None,
        Key(_LEVEL, "priority level in the place of the 5QI's: the lowest is served first", absent="the 5QI's"),
    ] = None
    slice: Annotated[str | None, Key(values.name, "its slice, one of the cell's")] = None
    guaranteed_rate_bps: Annotated[
        int | None,
        Key(
            values.rate_bps,
            "guaranteed bit rate (GFBR), in both directions; also `down-guaranteed-rate`, `up-guaranteed-rate`",
            absent="none",
        ),
    ] = None
    down_guaranteed_rate_bps: Annotated[
        int | None, Key(values.rate_bps, "the same in the downlink only", absent="none")
    ] = None
    up_guaranteed_rate_bps: Annotated[
        int | None, Key(values.rate_bps, "the same in the uplink only", absent="none")
    ] = None


def _traces(value: object) -> tuple[FilePath, ...] | FilePath:
    if isinstance(value, list):
        if not value:
            raise Problem("is empty: name a trace for each device, or a folder of them")
        return tuple(at(f"[{number}]", values.file_path, each) for number, each in enumerate(value, 1))
    return values.file_path(value)


_TRACES = Reader(
    _traces,
    "FOLDER|[FILE, …]",
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
)


_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", re.ASCII)
_WRITE_ADDRESS = "write a MAC address as 02:00:00:00:00:01, or one of IPv4 or IPv6"


def read_address(value: object) -> str:
    """Return the address of a device: MAC, IPv4 or IPv6, in its usual form.

    Raises
    ------
    Problem
        If it is none, or one of many devices.
    """
    if isinstance(value, str) and _MAC.fullmatch(value):
        is_of_many, found = bool(int(value[:2], 16) & 1), value.lower()
    else:
        try:
            ip = ipaddress.ip_address(value if isinstance(value, str) and "%" not in value else "")
        except ValueError:
            raise Problem(f"{described(value)} is no address: {_WRITE_ADDRESS}") from None
        is_of_many, found = ip.is_multicast or ip.is_unspecified, str(ip)
    if is_of_many:
        raise Problem(f"{found} is no address of one device: write its own")
    return found


class AddressRange(Struct, frozen=True):
    """The addresses from the first to the last one."""

    first: str
    last: str

    @property
    def count(self) -> int:
        """How many they are."""
        return _number(self.last) - _number(self.first) + 1

    def all(self) -> tuple[str, ...]:
        """Return every address."""
        first = _number(self.first)
        if _MAC.fullmatch(self.first):
            return tuple((first + at).to_bytes(6, "big").hex(":") for at in range(self.count))
        made = type(ipaddress.ip_address(self.first))
        return tuple(str(made(first + at)) for at in range(self.count))


def _number(address: str) -> int:
    return int(address.replace(":", ""), 16) if _MAC.fullmatch(address) else int(ipaddress.ip_address(address))


def _kind_of_address(address: str) -> str:
    return "MAC" if _MAC.fullmatch(address) else f"IPv{ipaddress.ip_address(address).version}"


def _address_range(text: str) -> AddressRange:
    first, _, last = (part.strip() for part in text.partition("-"))
    found = AddressRange(read_address(first), read_address(last))
    if _kind_of_address(found.first) != _kind_of_address(found.last):
        raise Problem(f"{text!r} is a range of two kinds of address: write both ends of one kind")
    if found.count < 2:
        raise Problem(f"{text!r} is no range: write the lower address first")
    return found


def _addresses(value: object) -> tuple[tuple[str, ...] | AddressRange, ...]:
    """Return each entry: the addresses of one device, or a range."""
    if isinstance(value, list) and not value:
        raise Problem("is empty: write the address of the device")
    found: list[tuple[str, ...] | AddressRange] = []
    for number, each in enumerate(value if isinstance(value, list) else [value], 1):
        place = f"[{number}]" if isinstance(value, list) else ""
        if isinstance(each, list) and each:
            found.append(tuple(at(place, read_address, own) for own in each))
        elif isinstance(each, str) and "-" in each:
            found.append(at(place, _address_range, each))
        else:
            found.append((at(place, read_address, each),))
    return tuple(found)


_ADDRESS_LIST: dict[str, Json] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_ADDRESSES = Reader(
    _addresses,
    "ADDRESS|FIRST-LAST|[…]",
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, _ADDRESS_LIST]}, "minItems": 1},
        ]
    },
)


class CellDeviceTable(Struct, frozen=True, kw_only=True):
    """The keys of a ``[[device]]`` besides the keys of its links, its service and its host."""

    name: Annotated[str, Key(values.name, "its name, and its host's")]
    count: Annotated[
        int | None,
        Key(
            values.number(1, MOST_DEVICES),
            "this many devices, called NAME-1, NAME-2, …; each draws its own randomness",
            absent="one device, called NAME",
        ),
    ] = None
    address: Annotated[
        tuple[tuple[str, ...] | AddressRange, ...] | None,
        Key(
            _ADDRESSES,
            "for `wavebed bridge` only: the MAC, IPv4 or IPv6 address of a real device, or a list of them; with"
            " `count` a list with an entry for each device, or one or several ranges such as"
            ' `"192.168.1.20-192.168.1.28"`',
            absent="none: the device is a host of the laboratory",
        ),
    ] = None
    ue: Annotated[
        str | None,
        Key(
            values.name,
            "its UE in a scene with several, with `count` the first part of the UEs' names, or the first UE as"
            " `phone-9`; devices of a scene with one UE stand in one place, and differ in fading",
            absent="the UE with the device's name",
        ),
    ] = None
    traces: Annotated[
        tuple[FilePath, ...] | FilePath | None,
        Key(
            _TRACES,
            "a measured set of traces, one for each device in order: a folder, sorted by name, or a list",
            absent="none",
        ),
    ] = None
    down_traces: Annotated[
        tuple[FilePath, ...] | FilePath | None, Key(_TRACES, "the same for the downlink only", absent="none")
    ] = None
    up_traces: Annotated[
        tuple[FilePath, ...] | FilePath | None, Key(_TRACES, "the same for the uplink only", absent="none")
    ] = None


class _OnOff(Struct, frozen=True, kw_only=True):
    """A constant rate in exponentially distributed periods, with exponentially distributed pauses."""

    rate_bps: Annotated[int, Key(values.rate_bps, "rate while on")]
    on_ns: Annotated[int, spec_key(spec.OnOffBackgroundTraffic, "on_ns")]
    off_ns: Annotated[int, spec_key(spec.OnOffBackgroundTraffic, "off_ns")]


class _Files(Struct, frozen=True, kw_only=True):
    """Files that arrive as a Poisson process: of one user, or each of a new one."""

    per_second: Annotated[float, Key(spec_key(spec.FilesBackgroundTraffic, "per_s").reader, "files per second")]
    size_bytes: Annotated[int, Key(spec_key(spec.FilesBackgroundTraffic, "bytes").reader, "size of each")]


class _FileAfterFile(Struct, frozen=True, kw_only=True):
    """A file, a pause, the next file."""

    size_bytes: Annotated[int, Key(spec_key(spec.FileAfterFileBackgroundTraffic, "bytes").reader, "size of each")]
    pause_ns: Annotated[int, spec_key(spec.FileAfterFileBackgroundTraffic, "pause_ns")]


class _Video(Struct, frozen=True, kw_only=True):
    """A segment each period."""

    rate_bps: Annotated[int, Key(values.rate_bps, "rate of the video")]
    segment_ns: Annotated[int, spec_key(spec.VideoBackgroundTraffic, "segment_ns")]
    buffer_ns: Annotated[int, spec_key(spec.VideoBackgroundTraffic, "buffer_ns")] = (
        spec.VideoBackgroundTraffic.__struct_defaults__[-1]
    )


class _FullBuffer(Struct, frozen=True):
    """Always more data."""


_TRAFFIC: Mapping[str, tuple[type[Struct], Callable[[Any], spec.BackgroundTraffic]]] = {
    "full-buffer": (_FullBuffer, lambda _: spec.FullBufferBackgroundTraffic()),
    "on-off": (_OnOff, lambda given: spec.OnOffBackgroundTraffic(given.rate_bps, given.on_ns, given.off_ns)),
    "files": (_Files, lambda given: spec.FilesBackgroundTraffic(given.per_second, given.size_bytes)),
    "user-per-file": (_Files, lambda given: spec.UserPerFileBackgroundTraffic(given.per_second, given.size_bytes)),
    "file-after-file": (
        _FileAfterFile,
        lambda given: spec.FileAfterFileBackgroundTraffic(given.size_bytes, given.pause_ns),
    ),
    "video": (
        _Video,
        lambda given: spec.VideoBackgroundTraffic(given.rate_bps, given.segment_ns, given.buffer_ns),
    ),
}


def _traffic(value: object) -> spec.BackgroundTraffic:
    value = values.table_of(value)
    if value == "full-buffer":
        return spec.FullBufferBackgroundTraffic()
    if not isinstance(value, dict):
        form = 'write "full-buffer", or a table such as { kind = "files", per-second = 0.5, size = "500kb" }'
        raise Problem(f"{described(value)} is no traffic: {form}")
    if "kind" not in value:
        raise Problem(f"is missing: write one of {', '.join(_TRAFFIC)}", "kind")
    kind = at("kind", lambda given: choose(given, _TRAFFIC), value["kind"])
    model, made = _TRAFFIC[kind]
    own = {key: each for key, each in value.items() if key != "kind"}
    return made(read_table(model, own, "{ kind = …, … }", also=("kind",)))


def _traffic_schema() -> Schema:
    tables: list[Json] = []
    for name, (model, _) in _TRAFFIC.items():
        schema = dict(table_schema(model))
        own, required = schema["properties"], schema["required"]
        assert isinstance(own, dict), "an object has properties"
        assert isinstance(required, list), "a list of names"
        tables.append(schema | {"properties": {"kind": {"const": name}, **own}, "required": ["kind", *required]})
    return {"anyOf": [{"const": "full-buffer"}, *tables]}


_DEMAND = Reader(_traffic, '"full-buffer"|{ kind = …, … }', _traffic_schema)


class BackgroundTable(Struct, frozen=True, kw_only=True):
    """The keys of a ``[[cell.background]]`` besides its service, and its rate as a link has it."""

    name: Annotated[str, Key(values.name, "its name")]
    count: Annotated[
        int | None,
        Key(
            values.number(1, MOST_DEVICES),
            "this many modelled users, called NAME-1, NAME-2, …; each draws its own randomness",
            absent="one, called NAME",
        ),
    ] = None
    ue: Annotated[str | None, Key(values.name, "its UE in a scene with several", absent="the UE with its name")] = None
    direction: Annotated[
        Literal["down", "up"], Key(values.word("down", "up"), "the direction in which it has traffic")
    ] = "down"
    traffic: Annotated[
        spec.BackgroundTraffic,
        Key(
            _DEMAND,
            "its demand: `full-buffer`; `on-off` with `rate`, `on`, `off`; `files` of one user (FTP model 3 of TR"
            " 36.889) or `user-per-file` (FTP model 1 of TR 36.814), both with `per-second`, `size`; `file-after-file`"
            " with `size`, `pause` (FTP model 2); `video` with `rate`, `segment`, `buffer`",
            absent="`full-buffer`",
        ),
    ] = msgspec.field(default_factory=spec.FullBufferBackgroundTraffic)


BACKGROUND_RATE = ("rate", "trace", "trace-format", "trace-end", "start-at")
"""The keys of a link that say what rate a modelled user would have with all slots; `scene` and `mode` do too."""
BACKGROUND_AIR = ("scene", "mode")


def _background_schema() -> Schema:
    own = dict(table_schema(BackgroundTable, ServiceTable))
    properties = own["properties"]
    assert isinstance(properties, dict), "an object has properties"
    further: dict[str, Json] = {key: {"$ref": f"#/$defs/{key}"} for key in (*BACKGROUND_RATE, *BACKGROUND_AIR)}
    return {"type": "array", "items": own | {"properties": {**properties, **further}}}


def _p0_dbm(value: object) -> float:
    read = power_dbm(value)
    if not _LEAST_P0_DBM <= read <= _MOST_P0_DBM:
        raise Problem(f"{read:g} dBm is out of range: write a power from {_LEAST_P0_DBM}dbm to {_MOST_P0_DBM}dbm")
    return read


_LEAST_P0_DBM, _MOST_P0_DBM = -202, 24  # p0-NominalWithGrant of TS 38.331


def _alpha(value: object) -> float:
    if isinstance(value, bool) or value not in _ALPHAS:
        raise Problem(f"{described(value)} is none of {', '.join(f'{each:g}' for each in _ALPHAS)}: write one of them")
    return float(value)


_ALPHAS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # Alpha of TS 38.331


class PowerTable(Struct, frozen=True, kw_only=True):
    """The keys of ``[cell]`` about the transmit power of its devices, of the uplink only."""

    uplink_power: Annotated[
        Literal["full-carrier", "open-loop"],
        Key(
            values.word("full-carrier", "open-loop"),
            "power of a device that is given a part of an uplink slot, in a scene: `full-carrier`: the power that this"
            " part has when all is given to it; `open-loop`: all its power, up to the target of `uplink-p0` and"
            " `uplink-alpha` (TS 38.213 7.1.1)",
        ),
    ] = "full-carrier"
    uplink_p0_dbm: Annotated[
        float | None,
        Key(
            Reader(_p0_dbm, power_dbm.write, power_dbm.schema, power_dbm.raw),
            "P0 of a resource block of 15 kHz spacing, with `open-loop`",
            absent="`-80dbm`, as in 5G-LENA",
        ),
    ] = None
    uplink_alpha: Annotated[
        float | None,
        Key(
            Reader(_alpha, "0|0.4|…|1", {"enum": list(_ALPHAS)}),
            "compensated part of the path loss, with `open-loop`",
            absent="`1`, as in 5G-LENA",
        ),
    ] = None


class CellParts(Struct, frozen=True, kw_only=True):
    """The key of ``[cell]`` that has tables of its own."""

    background: Annotated[
        object,
        Key(
            unread("[[cell.background]]", _background_schema),
            "modelled users, without processes",
            absent="none",
        ),
    ] = ()


def cell_schema() -> dict[str, Json]:
    """Return the JSON Schema of ``cell`` and of ``device``; it refers to the definitions of `path_schema`."""
    cell = dict(table_schema(CellTable, PowerTable, CellParts))
    own = cell["properties"]
    assert isinstance(own, dict), "an object has properties"
    device = dict(table_schema(CellDeviceTable, ServiceTable, HostTable))
    keys = device["properties"]
    assert isinstance(keys, dict), "an object has properties"
    links: dict[str, Json] = {name: {"$ref": f"#/$defs/{name}"} for name in fields(LinkTable) | fields(AirTable)}
    links |= {name: {"$ref": f"#/$defs/{name.partition('-')[2]}"} for name in DIRECTED}
    return {
        "cell": cell | {"properties": {**own, **properties_of(CELL_DIRECTED.values())}},
        "device": {"type": "array", "items": device | {"properties": {**keys, **links}}},
    }


def cell_key(name: str) -> tuple[Field, tuple[str, ...]] | None:
    """Split ``up-scheduler`` into the key of a cell and its directions; ``None`` if it is no such key."""
    found = fields(CellTable).get(name)
    if found is not None:
        return found, DIRECTIONS
    direction, _, key = name.partition("-")
    return (fields(CellTable)[key], (direction,)) if name in CELL_DIRECTED else None
