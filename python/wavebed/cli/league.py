"""``wavebed league``: the same recordings and applications over several emulators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.process import end_on_signals
from wavebed.config.problems import Problem, at, one_of
from wavebed.config.values import number
from wavebed.extras import TABLES, require
from wavebed.result.names import new_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_DESCRIPTION = (
    "Play the same recordings by several emulators, and run the same applications over each. The page has each figure"
    " beside the recording, or beside the live measurement where the recording has one."
)
_EPILOG = (
    "Emulators of others are not shipped: --plan names the missing ones, and how to get them. A cell"
    " that cannot be measured has its reason in the page. Real time needs root. The same command with the same folder"
    " goes on after an interruption. docs/validation/league.md has the tables of one machine."
)
_PAGE = "league.html"
_SECONDS, _LEAST_S, _MOST_S = 8, 4, 20


def register_league(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed league`` to the program's parser."""
    parser = subparsers.add_parser(
        "league", help="compare emulators on the same recordings", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument(
        "--recordings",
        metavar="NAME",
        nargs="+",
        help="a constant rate such as 100mbit, a shipped scene, a trace, FILE.down with FILE.up beside it, or"
        " RECEIVER.csv+SENDER.csv of iperf3, whose round trips are the live measurement (default: 1mbit to 10gbit, and"
        " a scene)",
    )
    parser.add_argument(
        "--emulators",
        metavar="NAME",
        nargs="+",
        help="mahimahi, rattan, wavebed, wavebed-virtual, netem, cellreplay-method (default: all)",
    )
    parser.add_argument(
        "--applications", metavar="NAME", nargs="+", help="download, rtt, page, call, video (default: all)"
    )
    parser.add_argument("--seconds", metavar="N", help=f"length of a transfer and of a call (default: {_SECONDS})")
    parser.add_argument("--plan", action="store_true", help="print the cells, the emulators and the time, run nothing")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="folder of the results (default: runs/league-TIME)"
    )


def run_league(args: argparse.Namespace) -> int:
    """Run the cells that have no result yet, and write the page."""
    require("report", "wavebed league", ("jinja2", *TABLES))
    from wavebed.league import cells
    from wavebed.league.emulators import EMULATORS
    from wavebed.league.page import League, page, text
    from wavebed.league.recordings import DEFAULT, find
    from wavebed.output import replace_file
    from wavebed.terminal import StepProgress, closing_text

    emulators = _chosen("--emulators", args.emulators, list(EMULATORS))
    applications = _chosen("--applications", args.applications, list(cells.APPLICATIONS))
    seconds = _SECONDS if args.seconds is None else at("--seconds", number(_LEAST_S, _MOST_S), args.seconds)
    recordings = [find(name) for name in dict.fromkeys(args.recordings or DEFAULT)]
    names = [each.name for each in recordings]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise Problem(f"{twice} is given twice: name files with different names", "--recordings")
    settings = cells.LeagueSettings(tuple(names), tuple(emulators), tuple(applications), seconds)
    found = [(name, EMULATORS[name].absent() or "ready") for name in emulators]
    if args.plan:
        planned = cells.plan(settings)
        expected_min = sum(cells.TAKES_S[cell.run] for cell in planned) / 60
        print(closing_text([*found, ("cells", f"{len(planned)}, some {expected_min:.0f} min")]))
        return 0
    end_on_signals()
    folder = args.output or new_folder("league")
    cells.begin(folder, settings, recordings)
    try:
        with StepProgress("wavebed league") as progress:
            cells.run_all(folder, settings, recordings, progress.step)
    finally:  # an interrupted league has a page of its measured cells
        league = League(folder, settings)
        replace_file(folder / _PAGE, page(league, recordings).encode())
        replace_file(folder / "league.txt", text(league).encode())
    measured = sum(result is not None and not result.reason for result in league.results.values())
    rows = [(name, said) for name, said in found if said != "ready"]
    rows += [("measured", f"{measured} of {len(league.results)} cells"), ("page", str(folder / _PAGE))]
    print(closing_text(rows))
    return 0 if measured else 1


def _chosen(option: str, given: Sequence[str] | None, known: list[str]) -> list[str]:
    for name in given or ():
        if name not in known:
            raise Problem(f"{name!r} is unknown: {one_of(name, known)}", option)
    return list(dict.fromkeys(given or known))
