"""``wavebed fit``: learn a channel from measured walks, and judge it on walks that were held out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from wavebed.channel.placemap import PlaceMap
    from wavebed.fit.judge import FitNetwork
    from wavebed.fit.judgement import FitJudgement
    from wavebed.fit.laps import LapSplit
    from wavebed.fit.learn import Learned
    from wavebed.terminal import StepProgress

METHODS = ("map", "physics", "replay", "handovers", "leo")
"""The methods of `_FITS`; `replay`, which learns nothing that could be judged; `handovers`, which learns no rates."""
_WRITTEN = {
    "map": ("a map", ".json"),
    "physics": ("a scene", ".toml"),
    "replay": ("a pattern", ".csv"),
    "handovers": ("a file of timers", ".toml"),
    "leo": ("a scene", ".toml"),
}
"""What ``-o`` writes, and how its name ends."""
#: Work that is over sooner needs no word.
PATIENCE_S = 1.0

_DESCRIPTION = (
    "Learn a channel from measured walks, draw new walks from it, and judge them by walks that were held out."
)
_EPILOG = (
    'wavebed channel OUT --seed N draws a walk; scene = "OUT" in a scenario drives a link with one.'
    " docs/models/fit.md describes the methods, the metrics and their limits."
)


def register_fit(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed fit`` to the program's parser."""
    parser = subparsers.add_parser("fit", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument(
        "traces",
        metavar="TRACES",
        nargs="+",
        help="traces of walks on one loop or route, or folders of them; for replay two recordings: a rate and a delay;"
        " for handovers folders of messages and transfers; for leo tables with the columns time (a clock),"
        " throughput_mbps and perhaps area",
    )
    parser.add_argument(
        "--as",
        dest="method",
        choices=METHODS,
        default="map",
        help="map: rates by place, course and level; physics: up to 12 values of a scene; replay: one pattern of the"
        " rate under heavy load and the delay under light load; handovers: lengths of interruptions; leo: slots, rates"
        " and outages of a low-orbit access (default: map)",
    )
    parser.add_argument(
        "--held-out",
        metavar="RULE",
        default="every:4",
        help="walks that only the judge reads, by the natural order of the files' names: every:N, each N-th;"
        " last:FRACTION; quarter:N, the N-th quarter of the lap time of all walks; files:PATH, other walks;"
        " none (default: every:4)",
    )
    parser.add_argument(
        "--scene",
        metavar="SCENE",
        help="where physics begins; it fits the values that the 'fitted' of this scene names, or all that can be fitted"
        " (default: loop-mmwave or loop-lte, by the rates)",
    )
    parser.add_argument(
        "--within",
        metavar="FILE",
        nargs="+",
        default=[],
        help="recordings with steps of 100 ms: the map draws the rate within each second as in them (default: the"
        " fitted walks that have such steps)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="write what was learned: a map, OUT.json, a scene or its timers, OUT.toml, or a pattern, OUT.csv",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write one page: fitted beside held-out walks, metric by metric"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")


def run_fit(args: argparse.Namespace) -> int:
    """Fit, write what was learned, then read the held-out walks and judge.

    Raises
    ------
    UserError
        If an argument or a trace is wrong, or a file cannot be written.
    """
    _check(args)
    if args.method == "replay":
        return _replay(args)
    if args.method == "handovers":
        return _handovers(args)
    require("report", "wavebed fit", ("jinja2", "scipy"))
    from wavebed.fit.laps import find_files, split
    from wavebed.terminal import StepProgress

    chosen = split(find_files([Path(name) for name in args.traces]), args.held_out)
    with StepProgress("wavebed fit", PATIENCE_S) as progress:
        judgement, learned = _FITS[args.method](args, chosen, progress)
        if args.report is not None:
            from wavebed.fit.page import page
            from wavebed.output import write_output

            write_output(args.report, page(judgement, learned), "--report")
    if args.json:
        from wavebed.fit.judgement import as_json

        print_json("fit", as_json(judgement), indent=2)
    else:
        from wavebed.fit.page import as_text

        print(as_text(judgement))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse arguments that would fail after the work."""
    for option, name in (("-o", args.output), ("--report", args.report)):
        if name is None:
            continue
        if Path(name).is_dir():
            raise UserError(f"{option} {name}: is a folder: write the name of a file")
        if not Path(name).resolve().parent.is_dir():
            raise UserError(f"{option} {name}: its folder does not exist: make it, or choose another")
        if any(Path(trace).resolve() == Path(name).resolve() for trace in args.traces):
            raise UserError(f"{option} {name}: is a trace itself: write to another file")
    written, suffix = _WRITTEN[args.method]
    if args.output is not None and Path(args.output).suffix.lower() != suffix:
        raise UserError(f"-o {args.output}: the name of {written} must end in {suffix}")
    if args.report is not None and args.method in {"replay", "handovers"}:
        raise UserError("--report: is for map, physics and leo: leave it out")
    _check_of_method(args)
    if (
        args.output is not None
        and args.report is not None
        and Path(args.output).resolve() == Path(args.report).resolve()
    ):
        raise UserError("-o and --report: name one file: write to different ones")


def _check_of_method(args: argparse.Namespace) -> None:
    if args.within and args.method != "map":
        raise UserError("--within: is for map: leave it out")
    if args.scene is not None and args.method != "physics":
        raise UserError("--scene: is for physics: add --as physics")


def _fit_map(args: argparse.Namespace, chosen: LapSplit, progress: StepProgress) -> tuple[FitJudgement, Learned | None]:
    from wavebed.channel.placemap import encode_map
    from wavebed.channel.within import read_within
    from wavebed.fit.judgement import fit_map
    from wavebed.output import write_output

    def keep(places: PlaceMap) -> None:
        if args.output is not None:
            write_output(args.output, encode_map(places), "-o")

    notes: list[str] = []
    name = Path(args.output or "map.json").name.removesuffix(".json")
    within = read_within([Path(file) for file in args.within]) if args.within else None
    fitted = fit_map(chosen, name, progress.go_on, keep, notes, within)
    _tell(notes)
    return fitted


def _fit_physics(args: argparse.Namespace, chosen: LapSplit, progress: StepProgress) -> tuple[FitJudgement, None]:
    from wavebed.fit.judgement import fit_scene
    from wavebed.foreign import read_toml
    from wavebed.output import write_output
    from wavebed.scene.model import find
    from wavebed.scene.read import scene_of

    def start(network: FitNetwork) -> dict[str, object]:
        file = find(args.scene or f"loop-{network.name.lower()}")
        document = read_toml(file, "name a scene file")
        scene_of(document, file)
        return document

    def keep(text: str) -> None:
        if args.output is not None:
            write_output(args.output, text, "-o")

    notes: list[str] = []
    judgement = fit_scene(chosen, start, progress.go_on, keep, notes)
    _tell(notes)
    return judgement, None


def _fit_leo(args: argparse.Namespace, chosen: LapSplit, progress: StepProgress) -> tuple[FitJudgement, None]:
    from wavebed.fit.low_orbit import fit_access
    from wavebed.output import write_output

    def keep(text: str) -> None:
        if args.output is not None:
            write_output(args.output, text, "-o")

    notes: list[str] = []
    judgement = fit_access(chosen, progress.go_on, keep, notes)
    _tell(notes)
    return judgement, None


def _replay(args: argparse.Namespace) -> int:
    from wavebed.fit.applications import read_replay
    from wavebed.output import write_output
    from wavebed.pattern.formats import to_native

    found = read_replay([Path(name) for name in args.traces])
    if args.output is not None:
        write_output(args.output, to_native(found.pattern), "-o")
    if args.json:
        print_json("fit-replay", found.as_json(), indent=2)
    else:
        print(found.as_text())
    return 0


def _handovers(args: argparse.Namespace) -> int:
    from wavebed.fit.handovers import learn_handovers
    from wavebed.output import write_output

    learned = learn_handovers([Path(name) for name in args.traces])
    if args.output is not None:
        write_output(args.output, learned.as_toml(), "-o")
    if args.json:
        print_json("fit-handovers", learned.as_json(), indent=2)
    else:
        print(learned.as_text())
    return 0


def _tell(notes: list[str]) -> None:
    for note in dict.fromkeys(notes):
        print(f"wavebed fit: note: {printable(note)}", file=sys.stderr)


_FITS: dict[str, Callable[[argparse.Namespace, LapSplit, StepProgress], tuple[FitJudgement, Learned | None]]] = {
    "map": _fit_map,
    "physics": _fit_physics,
    "leo": _fit_leo,
}
