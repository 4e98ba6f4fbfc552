"""``wavebed ctl``: list the running laboratories, read their counters, change their links while they run."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, cast

from wavebed.errors import UserError
from wavebed.path.control import connect_to, running
from wavebed.path.live import apply_change, change_request, show
from wavebed.path.state import lab_state
from wavebed.printable import printable
from wavebed.terminal import table_text

if TYPE_CHECKING:
    import argparse

    from wavebed.config.data import Json

__all__ = ["register", "run"]

_NONE = "–"
_DESCRIPTION = "List laboratories, read the counters of one, or change its links while it runs."
_EPILOG = (
    "set: rate=50mbit, delay=5ms, loss=1%, pattern=FILE concern every link that has such a stage;"
    " radio.down.rate=50mbit concerns one link. outage=2s lets nothing enter the links for a while; it waits"
    " before them. No packet is lost by a change."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("ctl", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = "wavebed ctl [--json] [LAB show | LAB set KEY=VALUE…]"
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("lab", nargs="?", metavar="LAB", help="name of a laboratory; without it, all are listed")
    parser.add_argument(
        "action", nargs="?", choices=("show", "set"), help="show the counters, or set values (default: show)"
    )
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="a value to change")


def run(args: argparse.Namespace) -> int:
    """List, show or change laboratories."""
    if args.lab is None:
        _list(as_json=args.json)
    elif args.action == "set":
        _set(args.lab, args.changes)
    else:
        if args.changes:
            raise UserError(f"{args.changes[0]!r}: show takes no more arguments: write set before KEY=VALUE")
        with connect_to(args.lab) as connection:
            answer = show(connection)
        print(json.dumps(answer) if args.json else printable(_table(answer), keep="\n"))
    return 0


def _list(*, as_json: bool) -> None:
    found = running()
    if as_json:
        print(json.dumps({"laboratories": [dataclasses.asdict(lab) for lab in found]}))
        return
    if not found:
        print("no laboratory runs", file=sys.stderr)
        return
    rows = [("laboratory", "user"), *((lab.name, _user(lab.uid)) for lab in found)]
    print(printable(table_text(rows, left=True), keep="\n"))


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _set(lab: str, changes: list[str]) -> None:
    if not changes:
        raise UserError("set: requires a change: write KEY=VALUE, such as rate=50mbit")
    requests = []
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise UserError(f"{change!r}: has no '=': write KEY=VALUE, such as rate=50mbit")
        requests.append((key, change_request(key, value)))
    with connect_to(lab) as connection:
        for key, request in requests:
            apply_change(connection, key, request)


def _table(answer: dict[str, Json]) -> str:
    columns = ("link", "offered", "duplicated", "delivered", "dropped", "marked", "queued")
    rows: list[tuple[str, ...]] = [columns]
    for link in lab_state(answer).links:
        counts = {
            "offered": link.offered_segments,
            "duplicated": link.duplicated_segments,
            "delivered": link.delivered_segments,
            "dropped": sum(link.dropped_segments.values()),
            "marked": link.marked_segments,
            "queued": link.queued_segments,
        }
        rows.append((link.name, *(_NONE if counts[column] is None else str(counts[column]) for column in columns[1:])))
    text = f"{table_text(rows)}\n(wire segments)"
    frames = cast("list[dict[str, Json]]", answer.get("frames", []))
    return f"{text}\n\n{_frames(frames)}" if frames else text


def _frames(accounts: list[dict[str, Json]]) -> str:
    """Return the frames of a bridge by direction."""
    columns = ("received", "delivered", "around", "dropped", "queued")
    rows: list[tuple[str, ...]] = [("frames", *columns)]
    for account in accounts:
        dropped = cast("dict[str, int]", account["dropped_frames"])
        counts = {**account, "dropped_frames": sum(dropped.values())}
        way = f"{account['from']} to {account['to']}"
        rows.append((way, *(str(counts[f"{column}_frames"]) for column in columns)))
    return table_text(rows)
