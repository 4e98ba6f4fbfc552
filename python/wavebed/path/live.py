"""Live changes of a running laboratory: ``rate=50mbit``, ``radio.down.delay=5ms``, ``pattern=FILE``."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from wavebed.config import values
from wavebed.config.problems import Problem, at, unknown_key
from wavebed.errors import UserError
from wavebed.foreign import read_text
from wavebed.path.model import PatternFile
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.path.control import Connection

__all__ = ["CHANGES", "apply_change", "change_request"]

CHANGES = ("rate", "delay", "loss", "pattern", "outage")


def change_request(key: str, value: str) -> dict[str, Json]:
    """Return the request that makes a change.

    Parameters
    ----------
    key : str
        ``rate``, ``delay``, ``loss``, ``pattern`` or ``outage``; with ``HOP.down.`` or ``HOP.up.`` before it for one
        link.
    value : str
        As typed.

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
    request: dict[str, Json] = {"do": "set", "link": link or None}
    try:
        if what == "rate":
            return request | {"key": "rate_bps", "value": at(key, values.rate_bps, value)}
        if what == "delay":
            return request | {"key": "delay_ns", "value": at(key, values.time_ns, value)}
        if what == "outage":
            return request | {"key": "outage_ns", "value": at(key, values.time_ns, value)}
        if what == "loss":
            return request | {"key": "loss", "value": at(key, values.percentage, value)}
        return _pattern(request, key, value)
    except Problem as problem:
        raise UserError(str(problem)) from None


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


def _pattern(request: dict[str, Json], key: str, value: str) -> dict[str, Json]:
    traces = Traces()
    try:
        file = PatternFile(FilePath(value))
        at(key, traces.columns, file)
        return request | {"key": "pattern", "value": read_text(traces.engine_path(file), "name a trace file")}
    finally:
        traces.close()
