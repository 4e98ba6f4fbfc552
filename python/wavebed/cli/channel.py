"""``wavebed channel`` and ``wavebed scenes``: radio scenes and named conditions as patterns, pictures and figures."""

from __future__ import annotations

import json
import sys
import time
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
    from collections.abc import Iterable, Iterator

    from wavebed.channel.plot_data import Album
    from wavebed.channel.plot_devices import DeviceAlbum
    from wavebed.channel.realisation import Realisation
    from wavebed.conditions.condition import Condition, Variant
    from wavebed.config.data import Json
    from wavebed.pattern import Pattern
    from wavebed.scene.model import Mode, SceneModel

PICTURES = ("png", "svg", "html")
MODES = ("3gpp", "reference")
MOST_SEEDS = 10_000
LARGEST_SEED = 2**63 - 1
#: Work that is over sooner needs no word.
PATIENCE_S = 1.0

_DESCRIPTION = "Compute the capacity of a scene's link: a pattern, a picture, a table of states."
_EPILOG = (
    "Without -o, --up-output, --plot and --json, a table is printed: the states of the geometry, and for each the"
    " mean SINR, capacity and block error rate. Over several seeds, figures are medians with the percentiles 5 and 95."
)


def register_channel(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed channel`` to the program's parser."""
    parser = subparsers.add_parser("channel", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument(
        "scene",
        metavar="SCENE",
        help="a scene file, the name of a shipped one, as kau-e5g-1, or of a condition, as lift/lte; or a map that"
        " wavebed fit wrote, a .json file",
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="3gpp",
        help="3gpp: by the models of TR 38.901; reference: by the source study's method (default: 3gpp)",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="a device of a scene with several, alone (default: all of them)"
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="N", type=int, help="the realisation (default: 1)")
    seeds.add_argument("--seeds", metavar="N", type=int, help="an ensemble: the seeds 1 to N")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="write the downlink's pattern; with --seeds, OUT.csv stands for OUT.seed-1.csv, OUT.seed-2.csv, …,"
        " and a folder that exists gets SCENE.seed-1.csv, …; of a scene with several devices, OUT.csv stands for"
        " OUT.DEVICE.csv, …, and a folder gets SCENE.DEVICE.csv, …",
    )
    parser.add_argument("--up-output", metavar="OUT", help="write the uplink's pattern; names as for -o")
    parser.add_argument(
        "--study",
        action="store_true",
        help="with --mode reference: write the pattern of the study: averages between changes of state",
    )
    parser.add_argument(
        "--plot", metavar="OUT", help="draw the map, SINR, MCS, capacity and loss; ends in .png, .svg or .html"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")


def run_channel(args: argparse.Namespace) -> int:
    """Realise the scene, and write the outputs.

    Raises
    ------
    UserError
        If an argument or the scene is wrong, or a file cannot be written.
    """
    seeds = _seeds(args)
    _check(args)
    from wavebed.channel.placemap import is_map

    if is_map(args.scene):
        from wavebed.cli.channel_map import run_map

        if args.device is not None:
            raise UserError(f"--device: {args.scene} is a map, which has no devices: leave it out")
        _refuse_folders(args, several=args.seeds is not None)
        return run_map(args, seeds, _file)
    from wavebed.channel.plot_data import Album
    from wavebed.conditions.lookup import find_low_orbit, load_scene

    access = find_low_orbit(args.scene)
    if access is not None:
        from wavebed.cli.channel_map import run_low_orbit

        if args.device is not None:
            raise UserError(f"--device: {args.scene} is a low-orbit access, which has no devices: leave it out")
        _refuse_folders(args, several=args.seeds is not None)
        return run_low_orbit(args, access, seeds, _file)
    scene = load_scene(args.scene)
    if args.device is not None:
        at("--device", scene.device, args.device)
    elif len(scene.devices) > 1:
        return _run_devices(args, scene, seeds)
    _refuse_folders(args, several=args.seeds is not None)
    album = Album()
    for realisation in _watched(_realisations(scene, args.mode, seeds, args.device), scene, len(seeds)):
        album.add(realisation)
        _write_patterns(args, realisation, several=args.seeds is not None)
    for warning in album.warnings:
        print(f"wavebed channel: warning: {warning}", file=sys.stderr)
    if args.plot is not None:
        _plot(args.plot, album)
    if args.json:
        _print_json(scene, args.mode, album)
    elif args.output is None and args.up_output is None and args.plot is None:
        _print_table(scene, args.mode, album)
    return 0


def _seeds(args: argparse.Namespace) -> range:
    if args.seeds is not None:
        if not 1 <= args.seeds <= MOST_SEEDS:
            raise UserError(f"--seeds {args.seeds}: must be from 1 to {MOST_SEEDS}")
        return range(1, args.seeds + 1)
    seed = 1 if args.seed is None else args.seed
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"--seed {seed}: must be from 0 to {LARGEST_SEED}")
    return range(seed, seed + 1)


def _check(args: argparse.Namespace) -> None:
    """Refuse arguments that would fail after the work."""
    if args.plot is not None:
        kind = Path(args.plot).suffix.lower().removeprefix(".")
        if kind not in PICTURES:
            raise UserError(f"--plot {args.plot}: the name must end in .png, .svg or .html")
        require("report", "--plot", ("jinja2", "matplotlib"))
    if args.study and args.mode != "reference":
        raise UserError("--study: requires mode reference: add --mode reference")
    if args.study and args.output is None:
        raise UserError("--study: requires -o: add -o FILE")
    if args.study and args.up_output is not None:
        raise UserError("--study: the studies had no uplink: leave --up-output out")
    files = [Path(file).resolve() for file in (args.output, args.up_output, args.plot) if file is not None]
    if len(set(files)) < len(files) and not any(file.is_dir() for file in files):
        raise UserError("-o, --up-output and --plot: two of them name one file: write to different ones")
    for option, name in (("-o", args.output), ("--up-output", args.up_output), ("--plot", args.plot)):
        if name is not None and Path(name).resolve() == Path(args.scene).resolve() and Path(name).is_file():
            raise UserError(f"{option} {name}: is the scene itself: write to another file")
        if name is not None and name.endswith("/") and not Path(name).is_dir():
            raise UserError(f"{option} {name}: no such folder: make it, or write the name of a file")
        if name is not None and not Path(name).resolve().parent.is_dir():
            raise UserError(f"{option} {name}: its folder does not exist: make it, or choose another")
        if name is not None and Path(name).is_dir() and option == "--plot":
            raise UserError(f"{option} {name}: is a folder: write the name of a file")


def _refuse_folders(args: argparse.Namespace, *, several: bool) -> None:
    """Refuse a folder where one pattern is written."""
    for option, name in (("-o", args.output), ("--up-output", args.up_output)):
        if name is not None and Path(name).is_dir() and not several:
            raise UserError(f"{option} {name}: is a folder: write the name of a file")


def _realisations(scene: SceneModel, mode: Mode, seeds: range, device: str | None) -> Iterator[Realisation]:
    from wavebed.channel import ensemble, realise

    if len(seeds) == 1:
        yield realise(scene, mode=mode, seed=seeds[0], device=device)
    else:
        yield from ensemble(scene, mode=mode, seeds=seeds, device=device)


def _run_devices(args: argparse.Namespace, scene: SceneModel, seeds: range) -> int:
    """Realise all devices of a scene, and write the outputs."""
    from wavebed.channel import realise_devices, to_pattern
    from wavebed.channel.plot_devices import COLUMNS, DeviceAlbum

    album, several = DeviceAlbum(), args.seeds is not None
    each = (one for seed in seeds for one in realise_devices(scene, mode=args.mode, seed=seed))
    for realisation in _watched(each, scene, len(seeds) * len(scene.devices), "device"):
        album.add(realisation)
        name, seed = realisation.scene.ue.name, realisation.seed if several else None
        if args.output is not None:
            _write(to_pattern(realisation, "down"), _device_file(args.output, scene.name, name, seed), "-o")
        if args.up_output is not None:
            file = _device_file(args.up_output, f"{scene.name}.up", name, seed)
            _write(to_pattern(realisation, "up"), file, "--up-output")
    for warning in album.warnings:
        print(f"wavebed channel: warning: {warning}", file=sys.stderr)
    if args.plot is not None:
        _plot_devices(args.plot, album)
    if args.json:
        from wavebed.channel.summary import as_json

        found = [(row.name, as_json(row.summary, scene.name, args.mode, album.seeds, scene.duration_s, ()))
                 for row in album.rows()]  # fmt: skip
        whole = as_json(album.summary(), scene.name, args.mode, album.seeds, scene.duration_s, album.warnings)
        devices = [{"device": name, **figures} for name, figures in found]
        print_json("channel", {"states": [], "summary": whole["summary"], "devices": devices}, indent=2)
    elif args.output is None and args.up_output is None and args.plot is None:
        from wavebed.terminal import table_text

        said = _said_seeds(album.seeds)
        table = table_text([COLUMNS, *(row.cells() for row in album.rows())])
        print(f"{scene.title}; mode {args.mode}, {said}\n\n{table}")
    return 0


def _device_file(output: str, name: str, device: str, seed: int | None) -> Path:
    """Return the file of a device's pattern."""
    path = Path(output)
    if path.is_dir():
        path /= f"{name}.csv"
    seeded = "" if seed is None else f".seed-{seed}"
    return path.with_name(f"{path.stem}.{device}{seeded}{path.suffix or '.csv'}")


def _plot_devices(output: str, album: DeviceAlbum) -> None:
    from wavebed.channel.plot_devices import devices_page, devices_picture
    from wavebed.output import write_output

    kind = Path(output).suffix.lower().removeprefix(".")
    view = album.view()
    write_output(output, devices_page(view) if kind == "html" else devices_picture(view, kind), "--plot")


def _said_seeds(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}: medians (percentiles 5 to 95)"


def _watched(
    realisations: Iterable[Realisation], scene: SceneModel, count: int, what: str = "seed"
) -> Iterator[Realisation]:
    """Hand the realisations on, and say on standard error how long it will still take where it takes long."""
    from wavebed.terminal import StepProgress

    begin = time.monotonic()
    with StepProgress("wavebed channel", PATIENCE_S) as progress:
        progress.go_on(f"{what} 1 of {count}", count * scene.duration_s / scene.step_s * _STEP_COST_S)
        for done, realisation in enumerate(realisations, start=1):
            yield realisation
            if done < count:
                left_s = (time.monotonic() - begin) / done * (count - done)
                progress.go_on(f"{what} {done + 1} of {count}", left_s)


#: A first guess: 40 000 steps take about 0.2 s.
_STEP_COST_S = 5e-6


def _write_patterns(args: argparse.Namespace, realisation: Realisation, *, several: bool) -> None:
    from wavebed.channel import to_pattern

    scene, seed = realisation.scene, realisation.seed
    if args.output is not None:
        pattern = to_pattern(realisation, "down")
        if args.study:
            pattern = _study(scene, seed, pattern.header)
        _write(pattern, _file(args.output, scene.name, seed if several else None), "-o")
    if args.up_output is not None:
        folder = several and Path(args.up_output).is_dir()
        name = f"{scene.name}.up" if folder else scene.name
        _write(to_pattern(realisation, "up"), _file(args.up_output, name, seed if several else None), "--up-output")


def _study(scene: SceneModel, seed: int, header: tuple[tuple[str, str], ...]) -> Pattern:
    """Make the study's pattern, with the header of the realisation's; no radio stage suits it."""
    from dataclasses import replace

    from wavebed.channel.reference import study_pattern

    kept = tuple((key, value) for key, value in header if key != "radio")
    note = ("study", "average rates between changes of state, as the study made them")
    return replace(study_pattern(scene, seed), header=(*kept, note))


def _file(output: str, name: str, seed: int | None) -> Path:
    path = Path(output)
    if seed is None:
        return path
    if path.is_dir():
        return path / f"{name}.seed-{seed}.csv"
    return path.with_name(f"{path.stem}.seed-{seed}{path.suffix or '.csv'}")


def _write(pattern: Pattern, path: Path, option: str) -> None:
    from wavebed.output import write_output
    from wavebed.pattern import to_native

    write_output(path, to_native(pattern), option)


def _plot(output: str, album: Album) -> None:
    from wavebed.output import write_output

    kind = Path(output).suffix.lower().removeprefix(".")
    if kind == "html":
        from wavebed.channel.plot import render_page

        data = render_page(album.view())
    else:
        from wavebed.channel.plot import render_picture

        data = render_picture(album.view(), kind)
    write_output(output, data, "--plot")


def _print_json(scene: SceneModel, mode: str, album: Album) -> None:
    from wavebed.channel.summary import as_json

    result = as_json(album.summary(), scene.name, mode, album.seeds, scene.duration_s, album.warnings)
    print_json("channel", result, indent=2)


def _print_table(scene: SceneModel, mode: str, album: Album) -> None:
    from wavebed.channel.summary import as_text

    print(as_text(f"{scene.title}; mode {mode}, {_said_seeds(album.seeds)}", album.summary()))


SCENES_PICTURES = ("png", "svg", "html")
_SCENES_DESCRIPTION = "List the shipped, named network conditions, or explain one: what happens, and its figures."
_SCENES_EPILOG = (
    "--scene NAME of other commands takes every name here: NAME or NAME/VARIANT (mmwave, mid-band, lte, leo) of a"
    " condition, 5qi-N, and the scenarios of the QUIC network simulator with their options in quotes."
)


def register_scenes(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed scenes`` to the program's parser."""
    parser = subparsers.add_parser(
        "scenes", help=_SCENES_DESCRIPTION, description=_SCENES_DESCRIPTION, epilog=_SCENES_EPILOG
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the condition to explain, or one of its variants")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the rate of the downlink over time, a panel for each variant; ends in .png, .svg or .html",
    )
    parser.add_argument("--seed", metavar="N", default="1", help="the seed of the plot (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")


def run_scenes(args: argparse.Namespace) -> int:
    """List or explain.

    Raises
    ------
    UserError
        If there is nothing of this name, or a file cannot be written.
    """
    if args.plot is not None:
        _scenes_plot(args)
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


def _scenes_plot(args: argparse.Namespace) -> None:
    kind = Path(args.plot).suffix.lower().removeprefix(".")
    if kind not in SCENES_PICTURES:
        raise UserError(f"--plot {args.plot}: the name must end in .png, .svg or .html")
    if args.name is None:
        raise UserError("--plot: requires NAME: write the name of a condition")
    chosen = _chosen(args.name)
    if chosen is None:
        raise UserError(f"--plot: {args.name!r} is no condition: for a radio scene use wavebed channel")
    require("report", f"a plot as {kind.upper()}", ("jinja2",) if kind == "html" else ("jinja2", "matplotlib"))
    seed = at("--seed", number(0, MOST_SEED), args.seed)
    from wavebed.conditions.text import render
    from wavebed.output import write_output

    found, only = chosen
    write_output(args.plot, render(found.variants if only is None else (only,), seed, kind), "--plot")
