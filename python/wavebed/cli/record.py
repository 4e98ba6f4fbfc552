"""``wavebed record``: patterns of a real access, their replay, and whether it is equivalent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.beneath import guard
from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.cli.run import add_change_options, perform, scenario_plan, write_run_report
from wavebed.config.problems import Problem, at
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require
from wavebed.output import write_output
from wavebed.printable import printable
from wavebed.result.names import new_folder
from wavebed.secret import command_line

if TYPE_CHECKING:
    import argparse

    from wavebed.record.folder import Recording
    from wavebed.run.scenario import Plan
    from wavebed.stats.verdict import Margin

_DESCRIPTION = "Record the access between the hosts of a scenario as patterns, replay them, or judge a replay."
_EPILOG = (
    "SCENARIO names the hosts in its table [lab], or describes a path. Without --replay and --judge, DIR gets down.csv"
    " and up.csv, with the rates of heavy and of light load, delay and loss, and replay.toml, a path over both. --judge"
    " records and runs the workloads of the scenario in turn, N times each, then runs them over what it recorded, and"
    " over its rate alone, and writes judgement.md. docs/guides/hosts.md describes it. The exit status is 1 if a"
    " recording or a treatment has no valid trial."
)
_SETTINGS = {
    "duration": ("TIME", "how long a recording is (default: 60s)"),
    "light": ("TIME", "light load in each cycle (default: 1s)"),
    "down": ("TIME", "heavy load on the downlink in each cycle (default: 2s; 0s: none)"),
    "up": ("TIME", "heavy load on the uplink in each cycle (default: 1s; 0s: none)"),
    "fill": ("TIME", "how long each queue is filled at the beginning, for its limit (default: 2s; 0s: not at all)"),
    "most-rate": ("RATE", "most that heavy load sends (default: no limit)"),
}
_MOST_ROUNDS = 1000
_PERCENT = 100


def register_record(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed record`` to the program's parser."""
    parser = subparsers.add_parser("record", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = "wavebed record SCENARIO [--replay DIR | --judge] [OPTION]…"
    parser.add_argument("scenario", metavar="SCENARIO", help="a scenario file, or the name of a shipped one")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--replay", metavar="DIR", type=Path, help="run the workloads of SCENARIO over the recording in this folder"
    )
    kind.add_argument("--judge", action="store_true", help="compare live trials with trials over a recording")
    for name, (write, meaning) in _SETTINGS.items():
        parser.add_argument(f"--{name}", metavar=write, help=meaning)
    parser.add_argument(
        "--rounds", metavar="N", help="trials over a recording, or of each kind (default: 1; --judge: 10)"
    )
    parser.add_argument(
        "--margin", metavar="PERCENT", help="with --judge: the greatest difference of medians that does not matter"
        " (default: 10%%)",
    )  # fmt: skip
    parser.add_argument("--seed", metavar="N", help="seed of the first trial")
    add_change_options(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="folder of the results, new or empty (default: runs/NAME-TIME)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run_record(args: argparse.Namespace) -> int:
    """Record, replay or judge."""
    end_on_signals()
    settings = {name: value for name in _SETTINGS if (value := getattr(args, name.replace("-", "_"))) is not None}
    default = 10 if args.judge else 1
    rounds = default if args.rounds is None else at("--rounds", number(1, _MOST_ROUNDS), args.rounds)
    if args.margin is not None and not args.judge:
        raise UserError("--margin: is for --judge: leave it out")
    if args.replay is not None and settings:
        raise UserError(f"--{next(iter(settings))}: is of a recording: leave it out, or leave out --replay")
    if args.replay is not None:
        return _replay(args, rounds)
    plan = scenario_plan(args, rounds)
    if args.judge:
        return _judge(args, plan, settings)
    return _record(args, plan, settings)


def _record(args: argparse.Namespace, plan: Plan, settings: dict[str, str]) -> int:
    from wavebed.record.plan import recording_plan

    args.output = folder = args.output or new_folder(f"record-{plan.scenario.stem}")
    status = perform(recording_plan(plan, settings), args)
    if status == 0:
        recording = _keep_recording(folder, folder)
        if not args.json:
            print(printable(_told(recording, folder), keep="\n"))
    return status


def _keep_recording(results: Path, folder: Path) -> Recording:
    """Write the patterns of the recordings in a folder of results into a folder."""
    from wavebed.record.folder import read_recordings, recording_files

    recording = read_recordings(results, "record")
    folder.mkdir(parents=True, exist_ok=True)
    guard(folder)
    for name, text in recording_files(recording).items():
        write_output(folder / name, text)
    return recording


def _told(recording: Recording, folder: Path) -> str:
    files = ", ".join(str(folder / f"{name}.csv") for name in recording.directions)
    lines = [*(f"note: {note}" for note in recording.notes), f"patterns: {files}"]
    return "\n".join([*lines, f"replay: wavebed record SCENARIO --replay {folder}"])


def _replay(args: argparse.Namespace, rounds: int) -> int:
    from wavebed.record.plan import replay_plan

    plan = replay_plan(scenario_plan(args, rounds), args.replay, every=False, spread_s=_spread_s(args.replay, rounds))
    return perform(plan, args)


def _spread_s(folder: Path, rounds: int) -> int:
    """Return the last whole second at which a trial may begin; 0 for a single trial, which begins at the start."""
    from wavebed.pattern.formats import read_trace

    if rounds == 1:
        return 0
    recorded = next((file for file in (folder / "down.csv", folder / "up.csv") if file.exists()), folder / "down.csv")
    return max(0, read_trace(recorded).duration_ns // 1_000_000_000 - 1)


def _judge(args: argparse.Namespace, plan: Plan, settings: dict[str, str]) -> int:
    require("report", "a judgement", ("jinja2", "matplotlib", *TABLES))
    from wavebed.record.judge import judge
    from wavebed.record.plan import judged_plan, replay_plan
    from wavebed.run.design import plan_text
    from wavebed.run.progress import Live
    from wavebed.run.runner import run_plan
    from wavebed.store.disk import make_new

    margin = _margin(args.margin)
    folder = args.output or new_folder(f"judge-{plan.scenario.stem}")
    live_folder, recording_folder, replay_folder = (folder / name for name in ("live", "recording", "replay"))
    first = judged_plan(plan, settings)
    make_new(folder)
    live = Live("wavebed record")
    words = command_line()
    try:
        live.note(plan_text(first))
        record = run_plan(first, live_folder, words, live)
        if not all(record.counted.values()):
            raise WavebedError(f"{live_folder}: live trials or recordings have none that counts: see its trials")
        recording = _keep_recording(live_folder, recording_folder)
        for note in recording.notes:
            live.note(f"note: {note}")
        spread_s = _spread_s(recording_folder, plan.trials)
        second = replay_plan(plan, recording_folder, every=True, spread_s=spread_s)
        live.note(plan_text(second))
        run_plan(second, replay_folder, words, live)
        for each in (live_folder, replay_folder):
            write_run_report(each, live)
    finally:
        live.clear()
    found = judge(live_folder, replay_folder, margin)
    write_output(folder / "judgement.json", json.dumps(found.as_json(), indent=2, allow_nan=False) + "\n")
    write_output(folder / "judgement.md", found.as_markdown())
    if args.json:
        print_json("record-judge", found.as_json())
    else:
        print(printable(found.as_text(), keep="\n"))
    return 0


def _margin(text: str | None) -> Margin:
    from wavebed.stats.verdict import Margin

    if text is None:
        return Margin(0.1, relative=True)
    problem = Problem(f'{text!r} is no margin: write one such as "10%"', "--margin")
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise problem from None
    if not 0 < value <= _PERCENT:
        raise problem
    return Margin(value / _PERCENT, relative=True)
