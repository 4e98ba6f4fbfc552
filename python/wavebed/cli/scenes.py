"""``wavebed scenes``: the shipped, named conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.spec.network import MOST_SEED

if TYPE_CHECKING:
    import argparse

    from wavebed.conditions.condition import Condition, Variant
    from wavebed.config.data import Json

__all__ = ["register", "run"]

PICTURES = ("png", "svg", "html")
_DESCRIPTION = "List the shipped, named network conditions, or explain one: what happens, and its figures."
_EPILOG = (
    "--scene NAME of other commands takes every name here: NAME or NAME/VARIANT (mmwave, mid-band, lte) of a condition,"
    " 5qi-N, and the scenarios of the QUIC network simulator with their options in quotes."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("scenes", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the condition to explain, or one of its variants")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the rate of the downlink over time, a panel for each variant; ends in .png, .svg or .html",
    )
    parser.add_argument("--seed", metavar="N", default="1", help="the seed of the plot (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")


def run(args: argparse.Namespace) -> int:
    """List or explain.

    Raises
    ------
    UserError
        If there is nothing of this name, or a file cannot be written.
    """
    if args.plot is not None:
        _plot(args)
    if args.name is None:
        from wavebed.conditions.text import list_json, list_text

        if args.json:
            print_json("scenes", list_json(), indent=2)
        else:
            print(list_text())
        return 0
    output, data, text = _explained(args.name)
    if args.json:
        print_json(output, data, indent=2)
    else:
        print(text)
    return 0


def _chosen(name: str) -> tuple[Condition, Variant | None] | None:
    """Return a condition, and the variant where one is named; ``None``: it is no condition."""
    from wavebed.conditions.condition import condition
    from wavebed.conditions.lookup import find_variant

    variant = find_variant(name)
    if variant is None:
        return None
    return condition(name.partition("/")[0]), variant if "/" in name else None


def _explained(name: str) -> tuple[str, dict[str, Json], str]:
    """Return the name of the output, its data, and the text."""
    from wavebed.conditions import find, lookup, text

    chosen = _chosen(name)
    if chosen is not None:
        return "scenes-condition", text.condition_json(*chosen), text.condition_text(*chosen)
    profile = lookup.PROFILES.get(name)
    if profile is not None:
        return "scenes-profile", text.profile_json(name, profile), text.profile_text(name, profile)
    found = find(name)
    keys = "\n".join(f"{key} = {json.dumps(value)}" for key, value in found.hop.items())
    more = f"\n\nwavebed channel {name} shows its figures." if found.kind == "scene" else ""
    data: dict[str, Json] = {"kind": found.kind, "name": found.name, "title": found.title, "hop": {**found.hop}}  # type: ignore[dict-item]
    return "scenes-name", data, f"{found.name}: {found.title}\n\n{keys}{more}"


def _plot(args: argparse.Namespace) -> None:
    kind = Path(args.plot).suffix.lower().removeprefix(".")
    if kind not in PICTURES:
        raise UserError(f"--plot {args.plot}: the name must end in .png, .svg or .html")
    if args.name is None:
        raise UserError("--plot: requires NAME: write the name of a condition")
    chosen = _chosen(args.name)
    if chosen is None:
        raise UserError(f"--plot: {args.name!r} is no condition: for a radio scene use wavebed channel")
    if kind != "html":
        require("report", f"a plot as {kind.upper()}", ("matplotlib",))
    seed = at("--seed", number(0, MOST_SEED), args.seed)
    from wavebed.conditions.text import render
    from wavebed.output import write_output

    found, only = chosen
    write_output(args.plot, render(found.variants if only is None else (only,), seed, kind), "--plot")
