"""What can be shown and changed of a running laboratory: the one definition for ``wavebed ctl``, the API and Python.

A change is written as in ``wavebed ctl``: ``rate=50mbit``, ``radio.down.delay=5ms``, ``pattern=FILE``.
"""

from __future__ import annotations

import functools
import os
import re
from ipaddress import IPv4Address
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, cast

from msgspec import Struct, ValidationError

from wavebed.config import values
from wavebed.config.problems import Problem, at, choose, unknown_key
from wavebed.errors import MachineError, UserError
from wavebed.foreign import read_text
from wavebed.path.control import LabState, TimelineState, answer_as, understood
from wavebed.path.model import (
    PatternFile,
    SceneMap,
)
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.path.control import ControlConnection


CHANGES = ("rate", "delay", "loss", "pattern", "outage")
FAULTS = ("handover", "flap", "rebind")
"""Further changes, which pass by themselves."""
USUAL_HANDOVER_NS = 50_000_000
"""The interruption of a handover between base stations, as scenes have it without another."""
MOST_FLAPS = 1_000_000
_FIRST_LINE = "# wavebed pattern 1"
_HOST = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class _Maps(Struct):
    """The answer to ``maps``."""

    maps: list[SceneMap]


class _Timeline(Struct):
    """The answer to ``timeline``."""

    timeline: TimelineState


def show(connection: ControlConnection, limit_s: float | None = None) -> dict[str, Json]:
    """Return the counters and conditions of all links, as `wavebed.path.control.LabState` describes them.

    Parameters
    ----------
    limit_s : float, optional
        How long the answer may take, seconds.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
        If the laboratory does not answer.
    """
    return _shown(connection, limit_s)[0]


def state(connection: ControlConnection, limit_s: float | None = None) -> LabState:
    """Return what `show` returns, as a type."""
    return _shown(connection, limit_s)[1]


def _shown(connection: ControlConnection, limit_s: float | None) -> tuple[dict[str, Json], LabState]:
    answer = connection.ask({"do": "show"}, limit_s=limit_s)
    found = answer_as(connection.name, answer, LabState)
    with understood(connection.name):
        if found.name != connection.name:
            raise ValidationError("the name of another laboratory")
    return answer, found


def maps(connection: ControlConnection) -> list[SceneMap]:
    """Return the maps of the laboratory's scenes; none where it has no scene.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
        If the laboratory does not answer.
    """
    return answer_as(connection.name, connection.ask({"do": "maps"}), _Maps).maps


def namespace_path(connection: ControlConnection, host: str) -> str:
    """Return a path to the network namespace of a host, which lasts as long as its laboratory.

    Raises
    ------
    UserError
        If there is no such host, or the connection leads to no laboratory.
    MachineError
        If this user may not look into it.
    LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
        If the laboratory does not answer.
    """
    answer = connection.ask({"do": "network", "host": host})
    front = connection.peer_pid()
    with understood(connection.name):
        descriptor = int(str(answer["descriptor"]))
    try:
        children = FilePath(f"/proc/{front}/task/{front}/children").read_text().split()
        for child in children:
            path = f"/proc/{child}/fd/{descriptor}"
            if os.readlink(path).startswith("net:"):  # noqa: PTH115 - no file
                return path
    except PermissionError:
        raise MachineError("netns: requires root: sudo wavebed ctl …") from None
    except OSError:
        pass
    raise MachineError(f"{connection.name}: its processes cannot be found in /proc: run ctl where it was started")


def podman_options(connection: ControlConnection, path: str) -> list[str]:
    """Return the options of ``podman run`` for a namespace, with the names of the laboratory's hosts.

    A shell splits them at spaces: what is no name and no address is refused.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
        If the laboratory does not answer, or not with names and addresses.
    """
    options = [f"--network=ns:{path}"]
    hosts = answer_as(connection.name, show(connection), LabState).hosts
    with understood(connection.name):
        for host in hosts:
            if host.ipv4:
                if not _HOST.fullmatch(host.name):
                    raise ValueError
                options.append(f"--add-host={host.name}:{IPv4Address(host.ipv4)}")
    return [*options, "--dns=none"]


def change_request(key: str, value: str) -> dict[str, Json]:
    """Return the request that makes a change.

    Parameters
    ----------
    key : str
        One of `CHANGES` or `FAULTS`; with ``HOP.down.`` or ``HOP.up.`` before it for one link.
    value : str
        As typed; the name of a file for ``pattern``.

    Raises
    ------
    UserError
        If the key or the value is wrong.
    """
    link, _, what = key.rpartition(".")
    if what not in (*CHANGES, *FAULTS):
        raise UserError(str(unknown_key(what, (*CHANGES, *FAULTS))))
    if link and not link.endswith((".down", ".up")):
        raise UserError(f"{key}: {link!r} is no link: write HOP.down or HOP.up before the key, or nothing")
    try:
        text = _pattern(key, value) if what == "pattern" else value
    except Problem as problem:
        raise UserError(str(problem)) from None
    return link_request(link or None, what, text, key)


def link_request(link: str | None, what: str, value: str, place: str | None = None) -> dict[str, Json]:
    """Return the request that makes a change of one link, or of all that take it; nothing is read from a file.

    Parameters
    ----------
    link : str or None
        ``HOP.down`` or ``HOP.up``; ``None`` for all.
    what : str
        One of `CHANGES` or `FAULTS`.
    value : str
        As typed; the text of a pattern in the native format for ``pattern``.
    place : str, optional
        How a mistake names the change; by default `what`.

    Raises
    ------
    UserError
        If the value is wrong.
    """
    place = what if place is None else place
    request: dict[str, Json] = {"do": "set", "link": link}
    try:
        if what == "rate":
            return request | {"key": "rate_bps", "value": at(place, values.rate_bps, value)}
        if what == "delay":
            return request | {"key": "delay_ns", "value": at(place, values.time_ns, value)}
        if what == "outage":
            return request | {"key": "outage_ns", "value": at(place, values.time_ns, value)}
        if what == "loss":
            return request | {"key": "loss", "value": at(place, values.percentage, value)}
        if what == "handover":
            return request | {"key": "handover", "value": at(place, _handover, value)}
        if what == "rebind":
            return {"do": at(place, functools.partial(_rebind, link), value)}
        if what == "flap":
            return request | {"key": "flap", "value": at(place, _flap, value)}
    except Problem as problem:
        raise UserError(str(problem)) from None
    if what != "pattern":
        raise UserError(str(unknown_key(what, (*CHANGES, *FAULTS))))
    if not value.startswith(_FIRST_LINE):
        raise UserError(f"{place}: the first line is not {_FIRST_LINE!r}: wavebed trace convert writes such a file")
    return request | {"key": "pattern", "value": value}


def _handover(value: str) -> dict[str, Json]:
    """Read ``TIME[:forward|:lose]``, or ``usual`` in place of the time."""
    time, colon, handling = value.partition(":")
    if colon and handling not in ("forward", "lose"):
        raise Problem(f"{handling!r} is no handling of the buffer: write forward or lose after the colon")
    for_ns = USUAL_HANDOVER_NS if time == "usual" else values.time_ns(time)
    if for_ns == 0:
        raise Problem("a handover lasts some time: write a time above 0, or usual")
    return {"for_ns": for_ns, "handling": handling or None}


def _rebind(link: str | None, value: str) -> str:
    """Return the request that gives the client's flows other source ports."""
    if link is not None:
        raise Problem("concerns the flows on all links: write rebind=now without a link")
    if value != "now":
        raise Problem(f"{value!r} is no time of a rebinding: write now")
    return "rebind"


def _flap(value: str) -> dict[str, Json]:
    """Read ``TIMES:PERIOD[:DOWN]``; down for half of the period by default."""
    times, _, rest = value.partition(":")
    period, colon, down = rest.partition(":")
    if not rest or not times.isascii() or not times.isdigit():
        raise Problem(f"{value!r} is no flap: write TIMES:PERIOD or TIMES:PERIOD:DOWN, as in 5:1s:200ms")
    count = values.number(1, MOST_FLAPS)(times)
    period_ns = values.time_ns(period)
    down_ns = values.time_ns(down) if colon else period_ns // 2
    if not 0 < down_ns < period_ns:
        raise Problem(f"{value!r}: the link is down for a part of the period: write a shorter time, above 0")
    return {"times": count, "period_ns": period_ns, "down_ns": down_ns}


_EDIT = "STRETCH.KEY=VALUE"


def timeline_request(words: Sequence[str]) -> dict[str, Json]:
    """Return the request to a timeline.

    Parameters
    ----------
    words : sequence of str
        ``play``, ``pause``, ``seek WHERE``, ``speed NUMBER``, ``loop on|off`` or ``set STRETCH.KEY=VALUE``, as typed;
        WHERE is a time, the name of a stretch, or a stretch and a time within it, as ``street+5s``.

    Raises
    ------
    UserError
        If the words are wrong.
    """
    try:
        return {"do": "timeline", **at("timeline", _action, words)}
    except Problem as problem:
        raise UserError(str(problem)) from None


def _action(words: Sequence[str]) -> dict[str, Json]:
    action, *given = words
    needs = {"play": "", "pause": "", "seek": "WHERE", "speed": "NUMBER", "loop": "on|off", "set": _EDIT}
    choose(action, needs)
    if len(given) != bool(needs[action]):
        raise Problem(f"write timeline {action} {needs[action]}".rstrip(), action)
    request: dict[str, Json] = {"action": action}
    if action == "seek":
        return request | at(action, _place, given[0])
    if action == "speed":
        return request | {"permille": at(action, _speed, given[0])}
    if action == "loop":
        return request | {"on": at(action, _on, given[0])}
    if action == "set":
        return {"action": "edit", **at(action, _edit, given[0])}
    return request


def _edit(value: str) -> dict[str, Json]:
    place, equals, new = value.partition("=")
    stretch, dot, key = place.rpartition(".")
    if not equals or not dot:
        raise Problem(f"{value!r} names no value of a stretch: write {_EDIT}, as in lift.down-rate=1mbit")
    direction, _, what = key.rpartition("-")
    if what not in ("rate", "delay", "loss") or direction not in ("", "down", "up"):
        raise Problem(f"{key!r} cannot be set: write rate, delay or loss, perhaps with down- or up- before it")
    request = link_request(None, what, new, f"{stretch}.{key}")
    edited = {name: request[name] for name in ("key", "value")}
    return {"stretch": values.name(stretch), "direction": direction or None, **edited}


def _place(value: str) -> dict[str, Json]:
    stretch, plus, time = value.partition("+")
    if plus:
        return {"stretch": stretch, "position_ns": values.time_ns(time)}
    try:
        return {"stretch": None, "position_ns": values.time_ns(value)}
    except UserError:
        return {"stretch": values.name(value), "position_ns": 0}


def _speed(value: str) -> int:
    try:
        permille = round(float(value) * 1000)
    except (ValueError, OverflowError):
        permille = 0
    if not 1 <= permille <= 1_000_000:
        raise Problem(f"{value!r} is no speed: write a number from 0.001 to 1000; pause stands still")
    return permille


def _on(value: str) -> bool:
    if value not in ("on", "off"):
        raise Problem(f"{value!r} is no choice: write on or off")
    return value == "on"


def control_timeline(connection: ControlConnection, request: dict[str, Json]) -> dict[str, Json]:
    """Control the timeline of a laboratory or a bridge, and return its state.

    Raises
    ------
    UserError
        If it has none, or there is no such stretch or position.
    """
    answer = connection.ask(request)
    answer_as(connection.name, answer, _Timeline)
    return cast("dict[str, Json]", answer["timeline"])


def apply_change(connection: ControlConnection, key: str, request: dict[str, Json]) -> None:
    """Make a change in a laboratory.

    Raises
    ------
    UserError
        If no link of it takes the change.
    """
    try:
        connection.ask(request)
    except UserError as error:
        has_remedy = ": write " in str(error) or request["do"] != "set"
        remedy = "" if has_remedy else f": `wavebed ctl {connection.name}` lists the links"
        raise UserError(f"{key}: {error}{remedy}") from None


def _pattern(key: str, value: str) -> str:
    """Return the text of a pattern file, in the native format."""
    traces = Traces()
    try:
        file = PatternFile(FilePath(value))
        at(key, traces.columns, file)
        return read_text(traces.engine_path(file), "name a trace file")
    finally:
        traces.close()
