"""``wavebed ctl`` and ``wavebed ui``: running laboratories, on the terminal and in the browser."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.config.problems import at, choose
from wavebed.config.values import name as read_name
from wavebed.errors import UserError
from wavebed.path.control import LabState, TimelineState, answer_as, connect_to, running, understood
from wavebed.path.live import (
    apply_change,
    change_request,
    control_timeline,
    namespace_path,
    podman_options,
    show,
    state,
    timeline_request,
)
from wavebed.printable import printable
from wavebed.terminal import table_text

if TYPE_CHECKING:
    import argparse

    from wavebed.config.data import Json
    from wavebed.path.control import ControlConnection

_NONE = "–"
_DESCRIPTION = "List laboratories, read the counters of one, or change its links while it runs."
_EPILOG = (
    "set: rate=50mbit, delay=5ms, loss=1%, pattern=FILE concern every link that has such a stage;"
    " radio.down.rate=50mbit concerns one link. No packet is lost by a change. Faults: outage=2s lets nothing enter"
    " the links for a while, it waits before them; flap=5:1s:200ms does so 5 times, each second, for 200 ms (default:"
    " half of the period); handover=50ms or handover=usual interrupts radios, which forward or lose their buffer as"
    " their settings say, or as handover=50ms:lose says; rebind=now gives the client's flows other source ports at"
    " the server, as a carrier's NAT does. timeline: without more words its state; play, pause,"
    " seek 90s, seek STRETCH, seek STRETCH+5s, speed 2, loop on|off, set STRETCH.KEY=VALUE (rate, delay, loss)."
    " netns: the path of a host's network namespace, for podman run --network ns:PATH (root only; default: client"
    " or the only device);"
    " with --podman all options of podman run, which also give the container the names of the hosts."
    " Inside a laboratory LAB may be left out: it is $WAVEBED_LAB. Confined programs control no laboratory."
)
_ACTIONS = ("show", "set", "timeline", "netns")


def register_ctl(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed ctl`` to the program's parser."""
    parser = subparsers.add_parser("ctl", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = (
        "wavebed ctl [LAB] [show | set KEY=VALUE… | timeline [ACTION [VALUE]]\n"
        "                          | netns [--podman] [HOST]] [--json] [--all-users]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--all-users", action="store_true", help="as root: list, show and change other users' laboratories too"
    )
    parser.add_argument("--podman", action="store_true", help="with netns: print the options of podman run")
    parser.add_argument("lab", nargs="?", metavar="LAB", help="name of a laboratory; without arguments, all are listed")
    parser.add_argument(
        "action",
        nargs="?",
        metavar="show|set|timeline|netns",
        help="show the counters, set values, control the timeline, or print a network namespace (default: show)",
    )
    parser.add_argument(
        "changes",
        nargs="*",
        metavar="KEY=VALUE|ACTION|HOST",
        help="a value to change, an action of the timeline, or the host of a network namespace",
    )


def run_ctl(args: argparse.Namespace) -> int:
    """List, show or change laboratories."""
    if args.lab is None:
        _list(all_users=args.all_users, as_json=args.json)
        return 0
    lab, action, changes = _chosen(args.lab, args.action, args.changes)
    if args.podman and action != "netns":
        raise UserError("--podman: belongs to netns: write wavebed ctl --podman LAB netns")
    if action == "netns":
        _netns(lab, changes, all_users=args.all_users, as_json=args.json, as_options=args.podman)
    elif action == "set":
        _set(lab, changes, all_users=args.all_users)
    elif action == "timeline":
        _timeline(lab, changes, all_users=args.all_users, as_json=args.json)
    else:
        if changes:
            raise UserError(f"{changes[0]!r}: show takes no more arguments: write set before KEY=VALUE")
        with connect_to(lab, all_users=args.all_users) as connection:
            answer = show(connection)
        if args.json:
            print_json("ctl-show", answer)
        else:
            with understood(lab):
                text = _table(lab, answer)
            print(printable(text, keep="\n"))
    return 0


def _chosen(lab: str, action: str | None, changes: list[str]) -> tuple[str, str, list[str]]:
    """Return laboratory, action and changes; an action in the first place concerns the laboratory around the caller.

    Raises
    ------
    UserError
        If there is no such action, or no laboratory around the caller.
    """
    if action in _ACTIONS:
        return lab, action, changes
    if lab not in _ACTIONS:
        return lab, at("action", lambda given: choose(given, _ACTIONS), action or "show"), changes
    around = os.environ.get("WAVEBED_LAB")
    if not around:
        raise UserError(f"{lab}: names no laboratory: write wavebed ctl LAB {lab}, or run it inside a laboratory")
    return around, lab, changes if action is None else [action, *changes]


def _list(*, all_users: bool, as_json: bool) -> None:
    found = running(all_users=all_users)
    if as_json:
        print_json("ctl-list", {"laboratories": [dataclasses.asdict(lab) for lab in found]})
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


def _set(lab: str, changes: list[str], *, all_users: bool) -> None:
    if not changes:
        raise UserError("set: requires a change: write KEY=VALUE, such as rate=50mbit")
    requests = []
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise UserError(f"{change!r}: has no '=': write KEY=VALUE, such as rate=50mbit")
        requests.append((key, change_request(key, value)))
    with connect_to(lab, all_users=all_users) as connection:
        for key, request in requests:
            apply_change(connection, key, request)


def _netns(lab: str, words: list[str], *, all_users: bool, as_json: bool, as_options: bool) -> None:
    """Print where other programs find the network namespace of a host."""
    if len(words) > 1:
        raise UserError(f"{words[1]!r}: netns takes one host: leave it out")
    with connect_to(lab, all_users=all_users) as connection:
        path = namespace_path(connection, words[0] if words else _usual_host(connection))
        options = podman_options(connection, path)
    if as_json:
        print_json("ctl-netns", {"path": path, "podman_options": options})
    else:
        print(printable(" ".join(options) if as_options else path))


def _usual_host(connection: ControlConnection) -> str:
    """Return the client, or the only device of a cell.

    Raises
    ------
    UserError
        If the laboratory has several devices.
    """
    devices = [host.name for host in state(connection).hosts if host.name not in ("server", "edge")]
    if len(devices) < 2:
        return devices[0] if devices else "client"
    raise UserError(f"netns: there are {len(devices)} devices: name one of {', '.join(devices)}")


def _timeline(lab: str, words: list[str], *, all_users: bool, as_json: bool) -> None:
    request = timeline_request(words) if words else None
    with connect_to(lab, all_users=all_users) as connection:
        if request is not None:
            state = control_timeline(connection, request)
        else:
            found = show(connection).get("timeline")
            if found is None:
                raise UserError(f"{lab}: there is no timeline: start with --timeline")
            state = cast("dict[str, Json]", found)
    if as_json:
        print_json("ctl-timeline", state)
    else:
        print(printable(_timeline_text(lab, state), keep="\n"))


def _timeline_text(lab: str, answer: dict[str, Json]) -> str:
    """Return the stretches of a timeline, with a mark at the one where it is, and its state."""
    state = answer_as(lab, answer, TimelineState)
    rows: list[tuple[str, ...]] = [("", "stretch", "start")]
    rows += [
        (">" if each.name == state.stretch else "", each.name, f"{each.start_ns / 1e9:g} s") for each in state.stretches
    ]
    does = "ended" if state.ended else "playing" if state.playing else "paused"
    where = f"{does} at {state.position_ns / 1e9:.3f} s of {state.duration_ns / 1e9:g} s"
    return f"{table_text(rows, left=True)}\n{where}, speed {state.speed:g}, loop {'on' if state.loop else 'off'}"


def _table(lab: str, answer: dict[str, Json]) -> str:
    columns = ("link", "offered", "duplicated", "delivered", "dropped", "marked", "queued")
    rows: list[tuple[str, ...]] = [columns]
    for link in answer_as(lab, answer, LabState).links:
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
    if frames:
        text += f"\n\n{_frames(frames)}"
    timeline = cast("dict[str, Json] | None", answer.get("timeline"))
    return text if timeline is None else f"{text}\n\n{_timeline_text(lab, timeline)}"


def _frames(accounts: list[dict[str, Json]]) -> str:
    """Return the frames of a bridge by direction."""
    columns = ["received", "delivered", "around", "dropped", "queued"]
    if any("of_no_device_frames" in account for account in accounts):
        columns.append("of_no_device")
    rows: list[tuple[str, ...]] = [("frames", *(column.replace("_", " ") for column in columns))]
    for account in accounts:
        dropped = cast("dict[str, int]", account["dropped_frames"])
        counts = {**account, "dropped_frames": sum(dropped.values())}
        way = f"{account['from']} to {account['to']}"
        rows.append((way, *(str(counts.get(f"{column}_frames", _NONE)) for column in columns)))
    return table_text(rows)


_UI_DESCRIPTION = (
    "Show the running laboratories on a page in the browser, live: rates, queues, delays, drops and the state of the"
    " radio of each link, and change them, until Ctrl-C. It prints the address, with a token."
)
_UI_EPILOG = (
    "The page is this machine's own: it asks nothing of other servers, and nobody without the token gets an answer. The"
    " API behind it is described at /api/openapi.json; /metrics is for Prometheus."
)


def register_ui(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed ui`` to the program's parser."""
    parser = subparsers.add_parser("ui", help=_UI_DESCRIPTION, description=_UI_DESCRIPTION, epilog=_UI_EPILOG)
    parser.add_argument(
        "lab",
        nargs="?",
        metavar="LAB",
        help="the only laboratory that is shown (default: ask, where several run)",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        default="127.0.0.1:0",
        help="where to listen (default: 127.0.0.1 and a free port); another machine reaches 0.0.0.0:PORT, unencrypted",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="read the token from FILE, which only you can read (default: a new one each time)",
    )
    parser.add_argument(
        "--record-to", metavar="DIR", type=Path, help="allow recordings, as CSV files in DIR (default: none)"
    )


def run_ui(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    end_on_signals()
    from wavebed.ui.command import Options, serve

    lab, note = _laboratory_to_show(args.lab)
    serve(Options(lab, args.listen, args.token_file, args.record_to, note))
    return 0


def _laboratory_to_show(given: str | None) -> tuple[str | None, str]:
    """Return the name of the only laboratory to show, ``None`` for all, and a note that lists the running ones.

    Raises
    ------
    UserError
        If another laboratory of almost this name runs.
    """
    if given is not None:
        at("LAB", read_name, given)
    names = [lab.name for lab in running()]
    if given is not None:
        if given in names:
            return given, ""
        from wavebed.config.suggest import nearest

        near = nearest(given, names)
        if near is not None:
            raise UserError(f"{given!r} is no running laboratory: did you mean `wavebed ui {near}`?")
        return given, f"{given} does not run yet: the page waits for it"
    if not names:
        return None, "no laboratory runs: start one in another terminal, as the page says"
    if len(names) == 1:
        return None, f"laboratory: {names[0]}"
    if sys.stdin.isatty() and sys.stderr.isatty():
        return _answered(names), ""
    return None, f"laboratories: {', '.join(names)}: choose one on the page, or write wavebed ui LAB"


def _answered(names: list[str]) -> str | None:
    """Ask which laboratory to show; return its name, or ``None`` for all of them."""
    for number, name in enumerate(names, 1):
        print(f"  {number}  {name}", file=sys.stderr)
    while True:
        print("Which laboratory? Number or name; Enter shows all: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip()
        if not answer:
            return None
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        print(f"{printable(answer)} is neither a number from 1 to {len(names)} nor a name", file=sys.stderr)
