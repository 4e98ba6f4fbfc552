"""The path options of the command line: the keys of ``[path]``, each with two dashes before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.path.layers import DIRECTIONS
from wavebed.path.schema import AIR_KEYS, LINK_KEYS, PATH_KEYS

if TYPE_CHECKING:
    import argparse

__all__ = ["add_path_options", "path_options"]

_SHOWN_BY_DIRECTION = ("rate", "trace", "delay", "loss")
_PREFIX = "path:"


def add_path_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--scenario`` and an option for each key of a path to `parser`."""
    import argparse
    from pathlib import Path as FilePath

    group = parser.add_argument_group(
        "path options",
        "Each option of a link also exists as --down-… and --up-… for one direction. With a scenario of several"
        " segments the options of a link apply to the radio segment, or to the last one where none is radio.",
    )
    group.add_argument(
        "--scenario", metavar="FILE", type=FilePath, help="a whole path from a file; the options below override it"
    )
    for key in LINK_KEYS.values():
        summary = f"{key.meaning} (default: {key.default})".replace("`", "").replace("%", "%%")
        group.add_argument(f"--{key.name}", dest=_PREFIX + key.name, metavar=key.write, help=summary)
        for direction in DIRECTIONS:
            shown = f"the same, {direction}link only" if key.name in _SHOWN_BY_DIRECTION else argparse.SUPPRESS
            name = f"{direction}-{key.name}"
            group.add_argument(f"--{name}", dest=_PREFIX + name, metavar=key.write, help=shown)
    for key in (*AIR_KEYS.values(), *PATH_KEYS.values()):
        summary = f"{key.meaning} (default: {key.default})".replace("`", "").replace("%", "%%")
        if key.write == "true|false":
            group.add_argument(f"--{key.name}", dest=_PREFIX + key.name, action="store_const", const=True, help=summary)
        else:
            group.add_argument(f"--{key.name}", dest=_PREFIX + key.name, metavar=key.write, help=summary)


def path_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the path options that were given, by key."""
    return {
        name.removeprefix(_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(_PREFIX) and value is not None
    }
