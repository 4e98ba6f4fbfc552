"""``wavebed channel`` with a map of places: drawn walks as patterns, a picture, a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.placemap import draw_walks, load_map, pattern_of
from wavebed.cli.outputs import print_json
from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.pattern import to_native
from wavebed.terminal import StepProgress, table_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from wavebed.channel.placemap import Floats, PlaceMap

PERCENTILES = (5, 25, 50, 75, 95)
_MOST_DRAWN = 10
_AT_ONCE = 100
#: Work that is over sooner needs no word.
PATIENCE_S = 1.0
_SECOND_COST_S = 1e-5


def run_map(args: argparse.Namespace, seeds: range, file_of: Callable[[str, str, int | None], Path]) -> int:
    """Draw a walk for each seed, and write the outputs; `file_of` names the file of a seed.

    Raises
    ------
    UserError
        If an argument does not suit a map, the map is wrong, or a file cannot be written.
    """
    _check(args, len(seeds))
    learned = load_map(args.scene)
    several = args.seeds is not None
    parts: list[Floats] = []
    with StepProgress("wavebed channel", PATIENCE_S) as progress:
        for some in (seeds[begin : begin + _AT_ONCE] for begin in range(0, len(seeds), _AT_ONCE)):
            progress.go_on(
                f"seed {some[0]} of {len(seeds)}", (seeds[-1] - some[0] + 1) * learned.seconds * _SECOND_COST_S
            )
            parts.append(draw_walks(learned, some))
            if args.output is not None:
                for seed, walk in zip(some, parts[-1], strict=True):
                    target = file_of(args.output, learned.name, seed if several else None)
                    write_output(target, to_native(pattern_of(learned, seed, walk)), "-o")
    rates = np.concatenate(parts)
    if args.plot is not None:
        write_output(args.plot, _picture(args.plot, learned, seeds, rates), "--plot")
    if args.json:
        _print_json(learned, seeds, rates)
    elif args.output is None and args.plot is None:
        print(f"{learned.title}; {learned.source}\n\n{_table(seeds, rates)}")
    return 0


def _check(args: argparse.Namespace, count: int) -> None:
    if args.mode == "reference":
        raise UserError("--mode reference: a map reproduces no study: leave --mode out")
    if args.up_output is not None:
        raise UserError("--up-output: the walks of a map have a downlink only: leave it out")
    if args.plot is not None and count > _MOST_DRAWN:
        raise UserError(f"--plot: draws at most {_MOST_DRAWN} walks of a map: write a lower --seeds")


def _picture(output: str, learned: PlaceMap, seeds: range, rates: Floats) -> bytes:
    from wavebed.pattern.curves import draw

    drawings = [
        draw(pattern_of(learned, seed, walk), f"{learned.name}, seed {seed}")
        for seed, walk in zip(seeds, rates, strict=True)
    ]
    if Path(output).suffix.lower() == ".html":
        from wavebed.pattern.plot import render_page

        return render_page(drawings, stacked=len(drawings) > 1)
    from wavebed.pattern.plot import render_picture

    return render_picture(drawings, Path(output).suffix.lower().removeprefix("."), stacked=len(drawings) > 1)


def _print_json(learned: PlaceMap, seeds: range, rates: Floats) -> None:
    summary = {
        "map": learned.name,
        "source": learned.source,
        "seeds": list(seeds),
        "duration_s": learned.seconds,
        "mean_rate_bps": float(rates.mean() * 1e6),
        "percentiles_rate_bps": {
            f"p{each}": float(value * 1e6)
            for each, value in zip(PERCENTILES, np.percentile(rates, PERCENTILES), strict=True)
        },
    }
    print_json("channel", {"states": [], "summary": summary}, indent=2)


def _table(seeds: range, rates: Floats) -> str:
    rows = [("walk", "mean", *(f"p{each}" for each in PERCENTILES))]
    named = [(f"seed {seed}", walk) for seed, walk in zip(seeds, rates, strict=True)][:_MOST_DRAWN]
    if len(seeds) > 1:
        named.append((f"all {len(seeds)}", rates.ravel()))
    for name, walk in named:
        values = [walk.mean(), *np.percentile(walk, PERCENTILES)]
        rows.append((name, *(f"{value:.0f} Mbit/s" for value in values)))
    return table_text(rows)
