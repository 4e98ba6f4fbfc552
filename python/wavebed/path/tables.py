"""Every table of ``[path]``: its keys, their defaults and their meaning, and the values that have several forms.

The scenario reader, the options of ``wavebed shell``, the reference page and the JSON Schema come from these types.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wavebed.config import values
from wavebed.config.derived import count_of
from wavebed.config.problems import Problem, at, described, one_of
from wavebed.config.reader import Reader, unread
from wavebed.config.table import Key, fields, properties_of, table_schema
from wavebed.path import values as link_values
from wavebed.path.model import CLIENT, Delay, DrawnStart, Loss, Rate, TraceEnd
from wavebed.radio.presets import PRESETS, UeLimit
from wavebed.radio.read import preset, ue_limit
from wavebed.radio.tables import RadioTable, UeLimitTable, WifiTable
from wavebed.remedy import REMEDIES, ChosenRemedy
from wavebed.spec.network import MOST_SEED, QUEUE, WrittenQueue
from wavebed.spec.types import BottleneckStage, Coalesce, ReorderStage, TimeCoalesce

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.config.table import Field
    from wavebed.path.model import PathModel
    from wavebed.path.traces import Traces


DIRECTIONS = ("down", "up")
HOSTS = ("server", "edge", CLIENT)
SECOND_RADIO = "second-radio"
"""The key of the client's second radio, and the name of its hop."""

DEFAULT_SYSCTLS = {
    "net.ipv4.tcp_rmem": "4096 131072 536870912",
    "net.ipv4.tcp_wmem": "4096 16384 536870912",
    "net.ipv4.tcp_no_metrics_save": "1",
}
"""The settings of every host at its start: buffers that do not limit a flow, and no metrics of earlier connections."""

_UNIT = values.word("packet", "superpacket")


class RadioChoice(Struct, frozen=True):
    """The value of a key ``radio``: off, or a preset (``None``: the lower one) and a table that changes it."""

    off: bool = False
    preset: str | None = None
    table: Mapping[str, object] = msgspec.field(default_factory=dict)


def _radio_schema() -> Schema:
    """Return the schema of a preset, or of a table of either kind of radio with its preset."""
    tables: list[Json] = []
    for model in (RadioTable, WifiTable):
        schema = dict(table_schema(model))
        tables.append(
            schema | {"properties": {"preset": {"enum": list(PRESETS)}, **properties_of(fields(model).values())}}
        )
    return {"anyOf": [{"enum": [*PRESETS, "off"]}, *tables]}


def _radio(value: object) -> RadioChoice:
    value = values.table_of(value)
    if value == "off":
        return RadioChoice(off=True)
    if isinstance(value, dict):
        table = {key: raw for key, raw in value.items() if key != "preset"}
        return RadioChoice(
            preset=at("preset", preset, value["preset"]).preset if "preset" in value else None, table=table
        )
    if isinstance(value, str) and value in PRESETS:
        return RadioChoice(preset=value)
    raise Problem(f"{described(value)} is not a choice: {one_of(value, (*PRESETS, 'off'))}")


def _ue_limit(value: object) -> UeLimit | None:
    value = values.table_of(value)
    if value == "off":
        return None
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not a table: write {{packets-per-second = …}}, or off")
    return ue_limit(value)


def _sysctls(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not a table: write {{NAME = VALUE}}")
    return {key: at(f'"{key}"', functools.partial(_sysctl, key), setting) for key, setting in value.items()}


def _sysctl(key: str, value: object) -> str:
    if not key.startswith("net.") or "/" in key or ".." in key or not key.isprintable():
        raise Problem("is no setting of a network namespace: write net.… in quotes")
    if isinstance(value, bool) or not isinstance(value, str | int) or "\n" in str(value):
        raise Problem(f"{described(value)} is neither text nor a whole number: write one of them")
    if key == "net.ipv4.tcp_congestion_control":
        raise Problem("cannot be set in a namespace: use the key congestion-control")
    return str(value)


_RADIO = Reader(_radio, "PRESET|{…}|off", _radio_schema)
_UE_LIMIT = Reader(
    _ue_limit,
    "{packets-per-second = N}|off",
    lambda: {"anyOf": [{"const": "off"}, dict(table_schema(UeLimitTable))]},
)
_SYSCTLS = Reader(
    _sysctls,
    "{NAME = VALUE}",
    {
        "type": "object",
        "propertyNames": {"pattern": "^net\\."},
        "additionalProperties": {"type": ["string", "integer"]},
    },
)


class LinkTable(Struct, frozen=True, kw_only=True):
    """The keys of a link. Each also exists as ``down-KEY`` and ``up-KEY``, for one direction."""

    rate: Annotated[
        Rate | None,
        Key(link_values.rate, "constant rate, in bits of IP packets per second", absent="no limit"),
    ] = None
    trace: Annotated[
        FilePath | None,
        Key(
            values.file_path,
            "a pattern or trace whose rate drives the link; its columns `delay_s` and `loss`, where it has them, drive"
            " delay and loss unless those are given",
        ),
    ] = None
    trace_format: Annotated[
        str | None,
        Key(
            values.text,
            "format of the trace, where two fit",
            write="NAME",
            absent="found from the content",
            needs="trace",
        ),
    ] = None
    trace_end: Annotated[
        TraceEnd,
        Key(
            link_values.TRACE_END,
            "at the end of the trace or scene: repeat it, hold its last value, or stop the link",
            needs="pattern",
        ),
    ] = "repeat"
    start_at: Annotated[
        int | DrawnStart,
        Key(
            link_values.start_at,
            "where in the trace or scene the laboratory's time begins; `0s..20s`: at a whole second drawn with"
            " the seed",
            needs="pattern",
        ),
    ] = 0
    rate_mode: Annotated[
        Literal["live", "sampled"],
        Key(
            values.word("live", "sampled"),
            "`live` serves at the rate of the moment; `sampled` reads the rate when a packet is queued and never"
            " revises it, as netem does",
            needs="rate",
        ),
    ] = "live"
    overhead_bytes: Annotated[
        int,
        Key(
            count_of(BottleneckStage, "overhead_bytes"),
            "bytes that a lower layer adds to every packet",
            write="BYTES",
            absent="0, or that of the radio",
            needs="rate",
        ),
    ] = 0
    outage: Annotated[
        Literal["hold", "drop"],
        Key(
            values.word("hold", "drop"),
            "at a rate of zero: packets wait in the queue, or are dropped",
            needs="rate",
        ),
    ] = "hold"
    queue: Annotated[
        WrittenQueue | None,
        Key(
            QUEUE,
            "queue discipline of the bottleneck, or with a radio of this user's buffer: droptail, drophead, codel,"
            " fq_codel, dualpi2, infinite; the limit is in bytes, packets or time",
            absent="droptail, with the limit below",
            needs="rate",
        ),
    ] = None
    queue_unit: Annotated[
        Literal["packet", "superpacket"],
        Key(
            _UNIT,
            "unit of a limit in packets: wire segments, or GSO packets of an offloading host",
            needs="rate",
        ),
    ] = "packet"
    delay: Annotated[Delay | None, Key(link_values.delay, "one-way delay, after the bottleneck")] = None
    jitter_ns: Annotated[
        int,
        Key(
            values.time_ns,
            "how far the delay of each packet varies: uniform from delay − jitter to delay + jitter, as in netem;"
            " packets keep their order",
            absent="none",
            needs="delay",
        ),
    ] = 0
    delay_limit: Annotated[
        int | None,
        Key(
            link_values.packets,
            "packets that may be in the delay at once, as in netem; those beyond them are dropped",
            needs="delay",
        ),
    ] = None
    loss: Annotated[Loss | None, Key(link_values.loss, "independent loss")] = None
    loss_unit: Annotated[
        Literal["packet", "superpacket"],
        Key(
            _UNIT,
            "unit of a loss: a wire segment, or a GSO packet of an offloading host",
            needs="loss",
        ),
    ] = "packet"
    loss_at: Annotated[
        Literal["exit", "entry"],
        Key(
            values.word("exit", "entry"),
            "`exit`: a lost packet has used the bottleneck, as on a radio; `entry`: it never reaches the bottleneck",
            needs="loss",
        ),
    ] = "exit"
    duplicate: Annotated[float | None, Key(values.percentage, "probability that a packet arrives twice")] = None
    reorder: Annotated[
        ReorderStage | None, Key(link_values.reorder, "probability that a packet is held back, and for how long")
    ] = None
    corrupt: Annotated[float | None, Key(values.percentage, "probability that one bit of a packet is flipped")] = None


class AirTable(Struct, frozen=True, kw_only=True):
    """The keys of a hop that act on both its links at once."""

    scene: Annotated[
        str | None,
        Key(
            values.text,
            "a scene, a file or one that is shipped; realised with the path's seed, it gives both links their rate,"
            " the radio and the limit of the UE, where these are not given. A condition that `wavebed scenes` lists, as"
            " `lift/lte`, brings the rest of its path too. Or a map of `wavebed fit`, a `.json` file: a walk drawn with"
            " the seed gives the downlink its rate. Or a low-orbit access, whose rate, delay and loss change in slots",
            write="SCENE",
        ),
    ] = None
    mode: Annotated[
        Literal["3gpp", "reference", "study"],
        Key(
            values.word("3gpp", "reference", "study"),
            "how the scene becomes a channel: by the models of the standard, or by the source study's method; `study`:"
            " the average received rates between changes of state, which the study's emulator played, in both"
            " directions and without a radio",
        ),
    ] = "3gpp"
    radio: Annotated[
        RadioChoice | None,
        Key(
            _RADIO,
            "radio layer 2: slots, HARQ, RLC",
            absent="that of the scene or of the trace's header, else off",
        ),
    ] = None
    ue_limit: Annotated[
        UeLimit | None,
        Key(
            _UE_LIMIT,
            "packet-rate limit of the UE, behind a shallow queue of its own",
            absent="that of the scene, else off",
        ),
    ] = None


def _rebindings(value: object) -> tuple[int, ...]:
    """Read rising times: an array, or texts with commas between them, as options have them."""
    given = [each.strip() for each in value.split(",")] if isinstance(value, str) else value
    if not isinstance(given, list):
        raise Problem(f'{described(given)} is no time: write one or several, as in ["10s", "20s"]')
    times = tuple(values.time_ns(each) for each in given)
    if any(one >= later for one, later in pairwise(times)):
        raise Problem("the times do not rise: write the earliest one first, each once")
    return times


_REBINDINGS = Reader(
    _rebindings,
    "TIME,…",
    lambda: {"anyOf": [{"type": "string"}, {"type": "array", "items": dict(values.TIME_SCHEMA)}]},
    lambda times: [values.time_ns.raw(each) for each in times],
)


class PathTable(Struct, frozen=True, kw_only=True):
    """The keys of the whole path."""

    coalesce: Annotated[
        Coalesce,
        Key(
            link_values.coalesce,
            "which packets are coalesced into GSO packets: none, those that leave at one instant, or within a time",
        ),
    ] = TimeCoalesce(125_000)
    seed: Annotated[
        int,
        Key(
            values.number(0, MOST_SEED),
            "seed of all random processes: it repeats the channel, whatever the traffic",
        ),
    ] = 1
    mtu: Annotated[int, Key(values.number(1280, 9000), "bytes of the largest IP packet")] = 1500
    nat: Annotated[bool, Key(values.boolean, "the far end is this machine and its network (root only)")] = False
    outside_sockets: Annotated[
        str | None,
        Key(
            values.word("open", "closed"),
            "sockets of programs outside that have a name in the file system (docker, ssh, D-Bus): what goes there does"
            " not cross the path",
            absent="closed; open for wavebed shell",
        ),
    ] = None
    names: Annotated[
        Literal["path", "beside"],
        Key(
            values.word("path", "beside"),
            "with `nat`, how names reach a resolver that only this machine reaches, such as 127.0.0.53: over the path,"
            " as from a phone, or beside it",
        ),
    ] = "path"
    rebind_at_ns: Annotated[
        tuple[int, ...],
        Key(
            _REBINDINGS,
            "when the client's flows get other source ports at the server, as a carrier's NAT does when it starts anew;"
            " connections of TCP end",
            absent="never",
        ),
    ] = ()
    packet_memory_bytes: Annotated[
        int | None,
        Key(
            link_values.packet_memory,
            "memory for packets in flight; a packet that finds no room is dropped as `packet_memory`",
            absent="a quarter of the machine's memory, or of the memory limit of this process if that is less",
        ),
    ] = None
    packet_log: Annotated[
        bool,
        Key(values.boolean, "record the times of every packet and radio block, with the series of a trial or of --log"),
    ] = False
    congestion_control: Annotated[
        str | None,
        Key(
            values.text,
            "TCP congestion control of all hosts, such as cubic or bbr",
            write="NAME",
            absent="that of the machine; in virtual time cubic",
        ),
    ] = None


class HopTable(Struct, frozen=True, kw_only=True):
    """The keys of a ``[[path.hop]]`` besides the keys of its links."""

    name: Annotated[str, Key(values.name, "name of the hop; its links are NAME.down and NAME.up")]
    kind: Annotated[
        Literal["wired", "radio"],
        Key(
            values.word("wired", "radio"),
            "which kind of hop it is; options of `wavebed shell` go to the radio hop",
        ),
    ]


class HopsTable(Struct, frozen=True, kw_only=True):
    """The keys of ``[path]`` that have hops; without ``hop`` the path is one hop, whose keys stand in ``[path]``."""

    hop: Annotated[
        object,
        Key(
            unread("[[path.hop]]", _hops_schema),
            "the hops, the one nearest to the server first",
            absent="one hop, whose keys stand in [path]",
        ),
    ] = ()
    second_radio: Annotated[
        object,
        Key(
            unread("[path.second-radio]", _second_radio_schema),
            "a second radio of the client, beside all hops between it and the host before it",
            absent="none",
        ),
    ] = None


class HostTable(Struct, frozen=True, kw_only=True):
    """``[path.server]`` and ``[path.client]``."""

    congestion_control: Annotated[
        str | None,
        Key(values.text, "TCP congestion control of this host", write="NAME", absent="that of the path"),
    ] = None
    sysctl: Annotated[
        dict[str, str],
        Key(_SYSCTLS, "kernel settings of this host's network namespace", absent="the table below"),
    ] = msgspec.field(default_factory=dict)
    remedy: Annotated[
        tuple[ChosenRemedy, ...],
        Key(REMEDIES, "remedies that run on this host during a trial: one table or several", absent="`off`"),
    ] = ()


class EdgeTable(HostTable, frozen=True, kw_only=True):
    """``[path.edge]``."""

    after: Annotated[str, Key(values.name, "name of the hop between the server and the edge")]


DIRECTED = {
    f"{direction}-{name}": replace(found, name=f"{direction}-{name}")
    for direction in DIRECTIONS
    for name, found in fields(LinkTable).items()
}
"""The keys of a link for one direction."""


def link_key(name: str) -> tuple[Field, tuple[str, ...]] | None:
    """Split ``up-rate`` into the key of a link and its directions; ``None`` if it is no such key."""
    found = fields(LinkTable).get(name)
    if found is not None:
        return found, DIRECTIONS
    direction, _, key = name.partition("-")
    return (fields(LinkTable)[key], (direction,)) if name in DIRECTED else None


def path_schema() -> tuple[Schema, Schema]:
    """Return the JSON Schema of ``[path]``, and the definitions that it refers to."""
    definitions = properties_of((fields(LinkTable) | fields(AirTable)).values())
    hosts: dict[str, Json] = {name: dict(table_schema(EdgeTable if name == "edge" else HostTable)) for name in HOSTS}
    hops = properties_of(fields(HopsTable).values())
    path = dict(table_schema(PathTable))
    return path | {"properties": _all(path, _on_links()) | hosts | hops}, definitions


def _second_radio_schema() -> Schema:
    return {"type": "object", "properties": _on_links(), "additionalProperties": False}


def _hops_schema() -> Schema:
    hop = dict(table_schema(HopTable))
    return {"type": "array", "items": hop | {"properties": _all(hop, _on_links())}}


def _on_links() -> dict[str, Json]:
    """Return the keys of links and of radios, each a reference to its definition."""
    both: dict[str, Json] = {name: {"$ref": f"#/$defs/{name}"} for name in fields(LinkTable) | fields(AirTable)}
    return both | {name: {"$ref": f"#/$defs/{name.partition('-')[2]}"} for name in DIRECTED}


def _all(schema: Schema, further: Mapping[str, Json]) -> dict[str, Json]:
    properties = schema["properties"]
    assert isinstance(properties, dict), "an object has properties"
    return {**properties, **further}


_SHOWN_BY_DIRECTION = ("rate", "trace", "delay", "loss")
_PREFIX = "path:"


def add_path_options(parser: argparse.ArgumentParser, *, timeline: bool = True) -> None:
    """Add ``--scenario``, ``--timeline`` if it is wanted, and an option for each key of a path to `parser`."""
    import argparse
    from pathlib import Path as FilePath

    group = parser.add_argument_group(
        "path options",
        "Each option of a link also exists as --down-… and --up-… for one direction. With a scenario of several hops"
        " the options of a link apply to the radio hop, or to the last hop where none is radio.",
    )
    group.add_argument(
        "--scenario",
        metavar="FILE",
        type=FilePath,
        help="a whole path from a scenario file, or from a shipped one by its name, as kau-e5g-1; the options below"
        " override it",
    )
    if timeline:
        group.add_argument(
            "--timeline",
            metavar="FILE",
            type=FilePath,
            help="stretches of conditions one after another, from a file or a shipped one by its name, as commute; they"
            " stand above the other options, and wavebed ctl NAME timeline plays, pauses and seeks them",
        )
    for name, field in fields(LinkTable).items():
        group.add_argument(f"--{name}", dest=_PREFIX + name, metavar=field.write, help=_help(field))
        for direction in DIRECTIONS:
            shown = f"the same, {direction}link only" if name in _SHOWN_BY_DIRECTION else argparse.SUPPRESS
            directed = f"{direction}-{name}"
            group.add_argument(f"--{directed}", dest=_PREFIX + directed, metavar=field.write, help=shown)
    for name, field in (fields(AirTable) | fields(PathTable)).items():
        if field.write == "true|false":
            group.add_argument(f"--{name}", dest=_PREFIX + name, action="store_const", const=True, help=_help(field))
        else:
            group.add_argument(f"--{name}", dest=_PREFIX + name, metavar=field.write, help=_help(field))


def _help(field: Field) -> str:
    return f"{field.key.meaning} (default: {field.default_text})".replace("`", "").replace("%", "%%")


def chosen_path(
    args: argparse.Namespace, traces: Traces, *, has_real_devices: bool = False
) -> tuple[PathModel, Mapping[str, Json] | None]:
    """Return the path that the options describe, and its timeline as the engine reads it; ``None`` without one.

    Parameters
    ----------
    has_real_devices : bool
        As in `wavebed.path.scenario.read_path`.

    Raises
    ------
    UserError
        If a file or an option is wrong.
    """
    from wavebed.path.scenario import read_path

    if args.timeline is None:
        return read_path(args.scenario, path_options(args), traces, has_real_devices=has_real_devices), None
    from wavebed.path.timeline import load_timeline, timed_path

    timed = timed_path(load_timeline(args.timeline), args.scenario, path_options(args), traces)
    return timed.path, timed.timeline


def give_option(args: argparse.Namespace, key: str, value: str) -> None:
    """Set a path option that was not given."""
    if getattr(args, _PREFIX + key) is None:
        setattr(args, _PREFIX + key, value)


def path_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the path options that were given, by key."""
    return {
        name.removeprefix(_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(_PREFIX) and value is not None
    }
