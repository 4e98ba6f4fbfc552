"""The path options of the command line: the keys of ``[path]``, each with two dashes before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.table import fields
from wavebed.path.tables import DIRECTIONS, AirTable, LinkTable, PathTable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.config.table import Field
    from wavebed.path.model import PathModel
    from wavebed.path.traces import Traces

__all__ = ["add_path_options", "chosen_path", "path_options"]

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


def chosen_path(args: argparse.Namespace, traces: Traces) -> tuple[PathModel, Mapping[str, Json] | None]:
    """Return the path that the options describe, and its timeline as the engine reads it; ``None`` without one.

    Raises
    ------
    UserError
        If a file or an option is wrong.
    """
    from wavebed.path.scenario import read_path

    if args.timeline is None:
        return read_path(args.scenario, path_options(args), traces), None
    from wavebed.path.timed import timed_path
    from wavebed.path.timeline import load_timeline

    timed = timed_path(load_timeline(args.timeline), args.scenario, path_options(args), traces)
    return timed.path, timed.timeline


def path_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the path options that were given, by key."""
    return {
        name.removeprefix(_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(_PREFIX) and value is not None
    }
