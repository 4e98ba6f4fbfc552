"""Questions to a network: its links, its second leg, the files of its patterns; and whether the engine takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from msgspec import Struct, json, structs

from wavebed._core import find_core
from wavebed.config.derived import limit
from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Reader
from wavebed.config.table import fields, properties_of, read_changes
from wavebed.config.units import Limit, format_limit
from wavebed.config.values import table_of
from wavebed.errors import UserError, WavebedError
from wavebed.spec import types as spec
from wavebed.spec.types import ConstantDelay, DelayStage, FullBufferBackgroundTraffic, OnOffBackgroundTraffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.spec.types import BackgroundTraffic, CellDevice, Hop, Leg, Network, Stage


MOST_SEED = 2**63 - 1
"""The largest signed integer of 64 bits, the integers of TOML and Parquet."""
_SOURCES = ("rate", "delay", "model")
"""Fields of stages that a pattern may drive."""
_Node = TypeVar("_Node", bound=Struct)


def second_leg(network: Network) -> Leg | None:
    """Return the leg of the client's second radio, which is beside the row; ``None`` without one."""
    row = len(network.hosts) - 1
    return network.legs[row] if len(network.legs) > row > 0 else None


def least_rtt_ns(leg: Leg, beyond: Sequence[Stage] = ()) -> int:
    """Return the constant delays of both directions: no answer of a host returns sooner.

    Parameters
    ----------
    beyond : sequence of Stage
        Stages of a device of a cell, after the leg.
    """
    stages = [*(stage for hop in leg.hops for stage in (*hop.down, *hop.up)), *beyond]
    delays = [stage.delay for stage in stages if isinstance(stage, DelayStage)]
    return sum(delay.delay_ns for delay in delays if isinstance(delay, ConstantDelay))


_NUMBERED = re.compile(r"(.+)-[0-9]+")


class _User(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def traffic(self) -> BackgroundTraffic: ...


class _WithUsers(Protocol):
    @property
    def down_background(self) -> Sequence[_User]: ...
    @property
    def up_background(self) -> Sequence[_User]: ...


class ModelledUser(NamedTuple):
    """A modelled user of one direction of a cell.

    Parameters
    ----------
    side : str
        ``down`` or ``up``.
    has_files : bool
        Whether its traffic is files or segments, which take a time each.
    """

    name: str
    side: str
    has_files: bool


def modelled_users(cell: _WithUsers | None) -> tuple[ModelledUser, ...]:
    """Return the modelled users of a cell, first of the downlink."""
    if cell is None:
        return ()
    return tuple(
        ModelledUser(
            user.name, side, not isinstance(user.traffic, FullBufferBackgroundTraffic | OnOffBackgroundTraffic)
        )
        for side, users in (("down", cell.down_background), ("up", cell.up_background))
        for user in users
    )


def devices(network: Network) -> tuple[str, ...]:
    """Return the names of the devices of the cell, which are its hosts; none without a cell."""
    return () if network.cell is None else tuple(device.host for device in network.cell.devices)


def own_links(network: Network, device: str) -> list[Stage]:
    """Return the stages of both links of a device of the cell; none of another host."""
    found = () if network.cell is None else network.cell.devices
    return [stage for each in found if each.host == device for stage in (*each.down, *each.up)]


def cell_links(network: Network) -> list[str]:
    """Return the names of the links of the devices of the cell; none without a cell."""
    if network.cell is None:
        return []
    return [f"{network.cell.name}.{name}.{side}" for name in devices(network) for side in ("down", "up")]


def group_of(device: str) -> str:
    """Return the name of the ``[[device]]`` to which a device belongs: `phone` for `phone-3`, `tablet` for `tablet`."""
    found = _NUMBERED.fullmatch(device)
    return device if found is None else found[1]


def links(network: Network) -> Iterator[tuple[str, tuple[Stage, ...]]]:
    """Yield name and stages of every link: ``radio.down``, ``radio.up``; of a cell ``radio.phone-3.down``."""
    for leg in network.legs:
        for hop in leg.hops:
            yield f"{hop.name}.down", hop.down
            yield f"{hop.name}.up", hop.up
    if network.cell is not None:
        for device in network.cell.devices:
            yield f"{network.cell.name}.{device.host}.down", device.down
            yield f"{network.cell.name}.{device.host}.up", device.up


def check_networks(networks: Sequence[Network]) -> None:
    """Check what ties the values of networks together. The engine knows these rules; it reads no pattern here.

    Raises
    ------
    UserError
        If one of them breaks a rule: the link, the key and the remedy.
    WavebedError
        If ``wavebed-core`` does not answer.
    """
    import subprocess  # 3 ms of the start-up of `shell`

    lines = b"".join(json.encode(each) + b"\n" for each in networks)
    done = subprocess.run([find_core(), "check"], input=lines, capture_output=True, check=False)
    answers = done.stdout.splitlines()
    if done.returncode or len(answers) != len(networks):
        raise WavebedError(f"wavebed-core check: {done.stderr.decode(errors='replace').strip() or 'no answer'}")
    for answer in answers:
        problem = json.decode(answer)["problem"]
        if problem is not None:
            raise UserError(f"path: {problem}")


def pattern_files(network: Network) -> list[str]:
    """Return the files of all patterns, each once, in the order of the links."""
    found: dict[str, None] = {}
    driven: list[Struct] = [stage for _, stages in links(network) for stage in stages]
    if network.cell is not None:
        driven += [*network.cell.down_background, *network.cell.up_background]
    for each in driven:
        for name in _SOURCES:
            file = getattr(getattr(each, name, None), "file", None)
            if file is not None:
                found[file] = None
    return list(found)


def with_pattern_files(network: Network, renamed: Callable[[str], str]) -> Network:
    """Return the same network with other names of its pattern files."""

    def link(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        return tuple(_renamed(stage, renamed) for stage in stages)

    def hop(each: Hop) -> Hop:
        return structs.replace(each, down=link(each.down), up=link(each.up))

    def device(each: CellDevice) -> CellDevice:
        return structs.replace(each, down=link(each.down), up=link(each.up))

    legs = tuple(structs.replace(leg, hops=tuple(map(hop, leg.hops))) for leg in network.legs)
    cell = network.cell
    if cell is not None:
        cell = structs.replace(
            cell,
            devices=tuple(map(device, cell.devices)),
            down_background=tuple(_renamed(user, renamed) for user in cell.down_background),
            up_background=tuple(_renamed(user, renamed) for user in cell.up_background),
        )
    return structs.replace(network, legs=legs, cell=cell)


def _renamed(stage: _Node, renamed: Callable[[str], str]) -> _Node:
    for name in _SOURCES:
        source = getattr(stage, name, None)
        file = getattr(source, "file", None)
        if isinstance(source, Struct) and file is not None:
            stage = structs.replace(stage, **{name: structs.replace(source, file=renamed(file))})
    return stage


_Kind: TypeAlias = type[spec.Queue]
QUEUE_KINDS: dict[str, _Kind] = {each.__struct_config__.tag: each for each in get_args(spec.Queue)}


class WrittenQueue(Struct, frozen=True):
    """A queue discipline that may have no limit yet.

    Parameters
    ----------
    kind : str
        One of `QUEUE_KINDS`.
    limit : Limit or None
        ``None``: whoever builds the link gives one.
    given : tuple of pairs
        The other fields that were written, with their values.
    """

    kind: str
    limit: Limit | None = None
    given: tuple[tuple[str, Any], ...] = ()

    def has(self, field: str) -> bool:
        """Whether this kind of queue has the field."""
        return field in QUEUE_KINDS[self.kind].__struct_fields__

    def build(self, **further: Any) -> spec.Queue:
        """Return the queue of the specification; `further` fields stand where none were written."""
        known = further | dict(self.given)
        if self.has("limit"):
            assert self.limit is not None, "whoever resolves a path gives a limit"
            known["limit"] = self.limit
        return QUEUE_KINDS[self.kind](**known)


def least_limit(limit: Limit, mtu: int, rate_bps: int | None) -> Limit | None:
    """Return the smallest limit that lets a packet of the MTU pass, in the unit of `limit`; ``None`` if `limit` does.

    Parameters
    ----------
    limit : Limit
        The limit of a queue.
    mtu : int
        Bytes of the largest packet.
    rate_bps : int or None
        The rate at which the queue is served, bits per second; ``None`` or 0: a limit in time is not judged.
    """
    if limit.bytes is not None:
        return Limit(bytes=mtu) if limit.bytes < mtu else None
    if limit.time_ns is None or not rate_bps:
        return None
    least_ns = -(-mtu * 8 * 10**9 // rate_bps)
    return Limit(time_ns=least_ns) if limit.time_ns < least_ns else None


def limit_in_words(limit: Limit, least: Limit, mtu: int, rate: str = "") -> str:
    """Return the message about a limit that `least_limit` found too small; `rate` says at which rate it was judged."""
    at_rate = f" at {rate}" if rate and limit.time_ns is not None else ""
    what = f"a limit of {format_limit(limit)} lets no packet of the MTU, {mtu} bytes, pass{at_rate}"
    return f"{what}: write at least {format_limit(least)}"


def _schema() -> Schema:
    tables: list[Json] = []
    for name, kind in QUEUE_KINDS.items():
        own: dict[str, Json] = {
            "kind": {"enum": [name], "description": str(kind.__doc__)},
            **properties_of(fields(kind).values()),
        }
        tables.append({"type": "object", "properties": own, "required": ["kind"], "additionalProperties": False})
    return {"anyOf": [{"type": "string", "pattern": f"^({'|'.join(QUEUE_KINDS)})(:.+)?$"}, *tables]}


def _show(queue: WrittenQueue) -> str:
    return queue.kind if queue.limit is None else f"{queue.kind}:{format_limit(queue.limit)}"


def _check(kind: str, given: Mapping[str, Any]) -> None:
    """Check two rules of CoDel, which the engine has too: here the message names the key of the file."""
    known = {field.name: field.default for field in structs.fields(QUEUE_KINDS[kind])} | dict(given)
    if "interval_ns" in known and known["interval_ns"] < known["target_ns"]:
        raise Problem("must be at least the target: see RFC 8289, section 4.2", "interval")
    if known.get("ce_threshold_ns") is not None and not known["ecn"]:
        raise Problem("requires ecn = true: add it", "ce-threshold")


def _read(value: object) -> WrittenQueue:
    """Read ``KIND``, ``KIND:LIMIT`` or ``{kind = …, limit = …, …}``."""
    value = table_of(value)
    if isinstance(value, dict):
        if "kind" not in value:
            raise Problem(f"is missing: write one of {', '.join(QUEUE_KINDS)}", "kind")
        kind = at("kind", lambda given: choose(given, QUEUE_KINDS), value["kind"])
        further = {key: each for key, each in value.items() if key != "kind"}
        given = read_changes(further, "{kind = …}", QUEUE_KINDS[kind], also=("kind",))
        _check(kind, given)
        return WrittenQueue(kind, given.pop("limit", None), tuple(given.items()))
    if not isinstance(value, str):
        raise Problem(f"{described(value)} is not a queue: write one such as droptail:1000p")
    kind, colon, text = value.partition(":")
    choose(kind, QUEUE_KINDS)
    if not colon:
        return WrittenQueue(kind)
    if not WrittenQueue(kind).has("limit"):
        raise Problem(f"{kind} has no limit to set: write {kind} alone, or droptail with the limit")
    return WrittenQueue(kind, limit(text))


QUEUE = Reader(_read, "KIND[:LIMIT]", _schema, _show)
"""Reads a queue."""
