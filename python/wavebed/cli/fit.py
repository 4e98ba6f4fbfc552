"""``wavebed fit``: learn a channel from measured walks, and judge it on walks that were held out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap.levels import Floats
    from wavebed.cli.progress import Progress
    from wavebed.fit.judgement import Judgement
    from wavebed.fit.laps import Lap, Split
    from wavebed.fit.learn import Learned
    from wavebed.fit.predict import Prediction

__all__ = ["register", "run"]

METHODS = ("map",)
"""The methods of `_FITS`."""
#: Work that is over sooner needs no word.
PATIENCE_S = 1.0
DRAWN_WALKS = 200
MOST_FITTED_PREDICTED = 10
"""Fitted walks whose seconds are predicted, for comparison: the forecast takes about a second for each."""

_READ_COST_S = 0.02
_ALIGN_COST_S = 2.5e-7
"""For each second of a walk at each second of the others."""
_PREDICT_COST_S = 1.5e-3

_DESCRIPTION = (
    "Learn a channel from measured walks, draw new walks from it, and judge them by walks that were held out."
)
_EPILOG = (
    'wavebed channel OUT.json --seed N draws a walk; scene = "OUT.json" in a scenario drives a downlink with one.'
    " docs/models/fit.md describes the method, the metrics and their limits."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("fit", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument(
        "traces", metavar="TRACES", nargs="+", help="traces of walks on one loop or route, or folders of them"
    )
    parser.add_argument(
        "--as",
        dest="method",
        choices=METHODS,
        default="map",
        help="map: rates by place, course and level (default: map)",
    )
    parser.add_argument(
        "--held-out",
        metavar="RULE",
        default="every:4",
        help="walks that only the judge reads, by the natural order of the files' names: every:N, each N-th;"
        " last:FRACTION; quarter:N, the N-th quarter of the lap time of all walks; none (default: every:4)",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write the map, a file whose name ends in .json")
    parser.add_argument(
        "--report", metavar="FILE", help="write one page: fitted beside held-out walks, metric by metric"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")


def run(args: argparse.Namespace) -> int:
    """Fit, write what was learned, then read the held-out walks and judge.

    Raises
    ------
    UserError
        If an argument or a trace is wrong, or a file cannot be written.
    """
    _check(args)
    require("report", "wavebed fit", ("scipy",))
    from wavebed.cli.progress import Progress
    from wavebed.fit.laps import find_files, split

    chosen = split(find_files([Path(name) for name in args.traces]), args.held_out)
    with Progress("wavebed fit", PATIENCE_S) as progress:
        progress.go_on("reading walks", _READ_COST_S * len(chosen.fitted))
        judgement, learned = _FITS[args.method](args, chosen, progress)
        if args.report is not None:
            from wavebed.fit.page import page
            from wavebed.output import write_output

            write_output(args.report, page(judgement, learned), "--report")
    if args.json:
        import json

        from wavebed.fit.judgement import as_json

        print(json.dumps(as_json(judgement), indent=2, allow_nan=False))
    else:
        from wavebed.fit.text import as_text

        print(as_text(judgement))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse arguments that would fail after the work."""
    from wavebed.channel.placemap import is_map

    for option, name in (("-o", args.output), ("--report", args.report)):
        if name is None:
            continue
        if Path(name).is_dir():
            raise UserError(f"{option} {name}: is a folder: write the name of a file")
        if not Path(name).resolve().parent.is_dir():
            raise UserError(f"{option} {name}: its folder does not exist: make it, or choose another")
        if any(Path(trace).resolve() == Path(name).resolve() for trace in args.traces):
            raise UserError(f"{option} {name}: is a trace itself: write to another file")
    if args.output is not None and not is_map(args.output):
        raise UserError(f"-o {args.output}: the name of a map must end in .json")
    if (
        args.output is not None
        and args.report is not None
        and Path(args.output).resolve() == Path(args.report).resolve()
    ):
        raise UserError("-o and --report: name one file: write to different ones")


def _fit_map(args: argparse.Namespace, chosen: Split, progress: Progress) -> tuple[Judgement, Learned | None]:
    """Learn a map; the held-out walks are read when it is written and its walks are drawn."""
    from wavebed.channel.placemap import draw_walks, encode_map
    from wavebed.fit.align import ROUNDS
    from wavebed.fit.judge import pooled
    from wavebed.fit.judgement import judge
    from wavebed.fit.learn import learn
    from wavebed.fit.network import network_of
    from wavebed.output import write_output

    notes: list[str] = []
    fitted = chosen.fitted_laps(notes)
    work = _Work(progress, chosen, sum(len(lap.rates) for lap in fitted))
    learned = learn(
        fitted,
        Path(args.output or "map.json").name.removesuffix(".json"),
        f"map of {len(fitted)} walks",
        _source(chosen),
        lambda left: work.align(ROUNDS - left, ROUNDS),
    )
    if args.output is not None:
        write_output(args.output, encode_map(learned.places), "-o")
    drawn = list(draw_walks(learned.places, range(1, DRAWN_WALKS + 1)))

    held_out = chosen.held_out_laps(notes)
    for note in dict.fromkeys(notes):
        print(f"wavebed fit: note: {printable(note)}", file=sys.stderr)
    pool = pooled([lap.parts for lap in fitted])
    judgement = judge(args.method, network_of(pool), chosen, drawn, fitted, held_out)
    if chosen.quarter is None:
        judgement.predictions.extend(_predictions(work, learned, pool, fitted, held_out))
    return judgement, learned


_FITS: dict[str, Callable[[argparse.Namespace, Split, Progress], tuple[Judgement, Learned | None]]] = {"map": _fit_map}


def _source(chosen: Split) -> str:
    names = [file.name for file in chosen.fitted]
    listed = ", ".join(names if len(names) <= 3 else [*names[:2], "…", names[-1]])
    return f"{len(names)} walks ({listed}), held out by rule {chosen.rule}"


def _predictions(
    work: _Work, learned: Learned, pool: Floats, fitted: Sequence[Lap], held_out: Sequence[Lap]
) -> list[tuple[Prediction | None, Prediction | None]]:
    from itertools import zip_longest

    from wavebed.fit.predict import predictions

    some = fitted[:: -(-len(fitted) // MOST_FITTED_PREDICTED)]
    work.predict(0, "predicting seconds of fitted walks")
    known = predictions(learned, pool, some)
    work.predict(len(some), "predicting seconds of held-out walks")
    unseen = predictions(learned, pool, held_out) if held_out else []
    return list(zip_longest(known, unseen))


class _Work:
    """Tells the progress, and the time left: measured costs on one core, scaled by the speed of what is done."""

    def __init__(self, progress: Progress, chosen: Split, fitted_s: int) -> None:
        self._progress = progress
        self._begin_s = time.monotonic()
        mean_s = fitted_s / len(chosen.fitted)
        walks = min(len(chosen.fitted), MOST_FITTED_PREDICTED) + len(chosen.held_out)
        self._align_s = _ALIGN_COST_S * fitted_s * mean_s
        self._walk_s = 0.0 if chosen.quarter is not None else _PREDICT_COST_S * mean_s
        self._all_s = self._align_s + walks * self._walk_s

    def align(self, done: int, rounds: int) -> None:
        """Say that so many rounds of the alignment are done."""
        self._say(f"aligning walks, round {done + 1} of {rounds}", self._align_s * done / rounds)

    def predict(self, done: int, text: str) -> None:
        """Say that the alignment is done, and the seconds of so many walks are predicted."""
        self._say(text, self._align_s + done * self._walk_s)

    def _say(self, text: str, done_s: float) -> None:
        slower = (time.monotonic() - self._begin_s) / done_s if done_s else 1.0
        self._progress.go_on(text, slower * max(0.0, self._all_s - done_s))
