"""What can be shown and changed of a running laboratory: the one definition for ``wavebed ctl``, the API and Python.

A change is written as in ``wavebed ctl``: ``rate=50mbit``, ``radio.down.delay=5ms``, ``pattern=FILE``.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from msgspec import convert

from wavebed.config import values
from wavebed.config.problems import Problem, at, unknown_key
from wavebed.errors import UserError
from wavebed.foreign import read_text
from wavebed.path.maps import SceneMap
from wavebed.path.model import PatternFile
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.path.control import Connection

__all__ = ["CHANGES", "apply_change", "change_request", "link_request", "maps", "show"]

CHANGES = ("rate", "delay", "loss", "pattern", "outage")
_FIRST_LINE = "# wavebed pattern 1"


def show(connection: Connection) -> dict[str, Json]:
    """Return the counters and conditions of all links, as `wavebed.path.state.LabState` describes them.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError
        If the laboratory does not answer.
    """
    return connection.ask({"do": "show"})


def maps(connection: Connection) -> list[SceneMap]:
    """Return the maps of the laboratory's scenes; none where it has no scene.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError
        If the laboratory does not answer.
    """
    return convert(connection.ask({"do": "maps"})["maps"], list[SceneMap])


def change_request(key: str, value: str) -> dict[str, Json]:
    """Return the request that makes a change.

    Parameters
    ----------
    key : str
        ``rate``, ``delay``, ``loss``, ``pattern`` or ``outage``; with ``HOP.down.`` or ``HOP.up.`` before it for one
        link.
    value : str
        As typed; the name of a file for ``pattern``.

    Raises
    ------
    UserError
        If the key or the value is wrong.
    """
    link, _, what = key.rpartition(".")
    if what not in CHANGES:
        raise UserError(str(unknown_key(what, CHANGES)))
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
        One of `CHANGES`.
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
    except Problem as problem:
        raise UserError(str(problem)) from None
    if what != "pattern":
        raise UserError(str(unknown_key(what, CHANGES)))
    if not value.startswith(_FIRST_LINE):
        raise UserError(f"{place}: the first line is not {_FIRST_LINE!r}: wavebed trace convert writes such a file")
    return request | {"key": "pattern", "value": value}


def apply_change(connection: Connection, key: str, request: dict[str, Json]) -> None:
    """Make a change in a laboratory.

    Raises
    ------
    UserError
        If no link of it takes the change.
    """
    try:
        connection.ask(request)
    except UserError as error:
        raise UserError(f"{key}: {error}: `wavebed ctl {connection.name}` lists the links") from None


def _pattern(key: str, value: str) -> str:
    """Return the text of a pattern file, in the native format."""
    traces = Traces()
    try:
        file = PatternFile(FilePath(value))
        at(key, traces.columns, file)
        return read_text(traces.engine_path(file), "name a trace file")
    finally:
        traces.close()
