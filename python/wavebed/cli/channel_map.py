"""``wavebed channel`` with a map of places or a low-orbit access: drawn walks as patterns, a picture, a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel import low_orbit
from wavebed.channel.placemap import draw_walks, load_map, pattern_of
from wavebed.cli.outputs import print_json
from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.pattern import to_native
from wavebed.terminal import StepProgress, table_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap import Floats
    from wavebed.pattern import Pattern

PERCENTILES = (5, 25, 50, 75, 95)
_MOST_DRAWN = 10
_AT_ONCE = 100
#: Work that is over sooner needs no word.
PATIENCE_S = 1.0
_SECOND_COST_S = 1e-5
_ACCESS_SECOND_COST_S = 1e-4


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
    _tell(
        args,
        f"{learned.title}; {learned.source}",
        {"map": learned.name, "source": learned.source},
        seeds,
        rates,
        lambda place: pattern_of(learned, seeds[place], rates[place]),
    )
    return 0


def run_low_orbit(
    args: argparse.Namespace,
    access: low_orbit.LowOrbit,
    seeds: range,
    file_of: Callable[[str, str, int | None], Path],
) -> int:
    """Draw the patterns of an access for each seed, and write the outputs; `file_of` names the file of a seed.

    Raises
    ------
    UserError
        If an argument does not suit an access, or a file cannot be written.
    """
    if args.mode == "reference":
        raise UserError("--mode reference: a low-orbit access reproduces no study: leave --mode out")
    _check_picture(args, len(seeds))
    several = args.seeds is not None
    rows: list[Floats] = []
    with StepProgress("wavebed channel", PATIENCE_S) as progress:
        for done, seed in enumerate(seeds):
            cost_s = access.seconds * _ACCESS_SECOND_COST_S
            progress.go_on(f"seed {seed} of {len(seeds)}", (len(seeds) - done) * cost_s)
            rows.append(low_orbit.draw_drives(access, [seed])[0])
            if args.output is not None:
                target = file_of(args.output, access.name, seed if several else None)
                write_output(target, to_native(low_orbit.to_pattern(access, seed, "down")), "-o")
            if args.up_output is not None:
                folder = several and Path(args.up_output).is_dir()
                name = f"{access.name}.up" if folder else access.name
                target = file_of(args.up_output, name, seed if several else None)
                write_output(target, to_native(low_orbit.to_pattern(access, seed, "up")), "--up-output")
    _tell(
        args,
        f"{access.title}; {access.anchor}",
        {"scene": access.name, "source": access.anchor},
        seeds,
        np.array(rows),
        lambda place: low_orbit.to_pattern(access, seeds[place], "down"),
    )
    return 0


def _tell(
    args: argparse.Namespace,
    title: str,
    names: dict[str, str],
    seeds: range,
    rates: Floats,
    pattern: Callable[[int], Pattern],
) -> None:
    """Draw, or print the figures of the walks; `pattern` returns the pattern of a walk by its place."""
    if args.plot is not None:
        drawings = [(pattern(place), f"{next(iter(names.values()))}, seed {seed}") for place, seed in enumerate(seeds)]
        write_output(args.plot, _picture(args.plot, drawings), "--plot")
    if args.json:
        _print_json(names, seeds, rates)
    elif args.output is None and args.up_output is None and args.plot is None:
        print(f"{title}\n\n{_table(seeds, rates)}")


def _check(args: argparse.Namespace, count: int) -> None:
    if args.mode == "reference":
        raise UserError("--mode reference: a map reproduces no study: leave --mode out")
    if args.up_output is not None:
        raise UserError("--up-output: the walks of a map have a downlink only: leave it out")
    _check_picture(args, count)


def _check_picture(args: argparse.Namespace, count: int) -> None:
    if args.plot is not None and count > _MOST_DRAWN:
        raise UserError(f"--plot: draws at most {_MOST_DRAWN} walks of a map: write a lower --seeds")


def _picture(output: str, walks: Sequence[tuple[Pattern, str]]) -> bytes:
    from wavebed.pattern.curves import draw

    drawings = [draw(pattern, name) for pattern, name in walks]
    if Path(output).suffix.lower() == ".html":
        from wavebed.pattern.plot import render_page

        return render_page(drawings, stacked=len(drawings) > 1)
    from wavebed.pattern.plot import render_picture

    return render_picture(drawings, Path(output).suffix.lower().removeprefix("."), stacked=len(drawings) > 1)


def _print_json(names: dict[str, str], seeds: range, rates: Floats) -> None:
    summary = {
        **names,
        "seeds": list(seeds),
        "duration_s": rates.shape[1],
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
