"""``wavebed run``: real applications on a described path, any number of times, judged, stored and reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.new_folder import new_folder
from wavebed.cli.outputs import print_json
from wavebed.cli.signals import end_on_signals
from wavebed.cli.times import add_memory_option, add_time_options, guest_memory
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require, spare_pandas
from wavebed.printable import printable
from wavebed.result.names import RUN_FILE
from wavebed.secret import command_line
from wavebed.shipped import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from wavebed.result.identity import Identity
    from wavebed.result.model import RunRecord
    from wavebed.run.progress import Live
    from wavebed.run.scenario import Plan

__all__ = ["add_change_options", "add_folder_options", "add_output_options"]
__all__ += [
    "perform",
    "register",
    "run",
    "run_into_folder",
    "scenario_plan",
    "write_report_or_note",
    "write_run_report",
]

_USAGE = (
    "wavebed run SCENARIO [--set KEY=VALUE]… [--workload NAME]… [--trials N] [--seed N] [-o DIR] [--resume] [--json]"
)
_DESCRIPTION = "Run the workloads of a scenario on its path, and write results and a report."
_EPILOG = (
    "SCENARIO is a TOML file, the name of a shipped one, or a specification that wavebed resolve wrote. The folder of"
    " the results holds run.json, the trials and report.html; docs/reference/results.md describes them. KEY is a dotted"
    " path: path.rate, path.hop.radio.queue, workload.download.size, run.trials. The exit status is 1 if a"
    " treatment has no valid trial."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("run", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = _USAGE
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        help="a scenario file, the name of a shipped one, or a specification (.json) of one trial",
    )
    add_change_options(parser)
    parser.add_argument("--trials", metavar="N", help="trials of each treatment, each with a seed of its own")
    add_output_options(parser)
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the folder -o DIR after a kill, with the same command; a new folder begins one",
    )


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change a scenario."""
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], dest="changes", help="change a value of the scenario"
    )
    parser.add_argument(
        "--workload", metavar="NAME", action="append", default=[], help="run this workload only; may be repeated"
    )
    add_time_options(parser)
    add_memory_option(parser)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``wavebed demo`` has too."""
    parser.add_argument("--seed", metavar="N", help="seed of the first trial")
    add_folder_options(parser)


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where results go."""
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="folder of the results, new or empty (default: runs/NAME-TIME)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Read the scenario, run it, print the results."""
    end_on_signals()
    if args.resume and args.output is None:
        raise UserError("--resume: name the folder to go on in with -o DIR")
    if Path(args.scenario).suffix == ".json":
        return perform(_stored_plan(args), args)
    from wavebed.run.scenario import MAX_TRIALS

    trials = None if args.trials is None else at("--trials", number(1, MAX_TRIALS), args.trials)
    return perform(scenario_plan(args, trials), args)


def scenario_plan(args: argparse.Namespace, trials: int | None = None) -> Plan:
    """Return the plan of the scenario that was named, with the options laid above it."""
    from wavebed.run.scenario import parse_change, read_plan
    from wavebed.spec.network import MOST_SEED

    plan = read_plan(
        find(args.scenario, "scenario"),
        overrides=dict(at("--set", parse_change, change) for change in args.changes),
        only=args.workload,
        trials=trials,
        seed=None if args.seed is None else at("--seed", number(0, MOST_SEED), args.seed),
    )
    return _in_time(plan, args)


def _stored_plan(args: argparse.Namespace) -> Plan:
    from wavebed.run.resolve import read_spec
    from wavebed.run.scenario import plan_of_spec

    given = {
        "--set": args.changes,
        "--workload": args.workload,
        "--trials": args.trials,
        "--seed": args.seed,
    }
    for option, value in given.items():
        if value:
            raise UserError(f"{option}: a specification is one trial, resolved: change its scenario and resolve again")
    file = Path(args.scenario)
    return _in_time(plan_of_spec(read_spec(file), file), args)


def _in_time(plan: Plan, args: argparse.Namespace) -> Plan:
    """Return the plan in the time that was asked for; a run that goes on keeps its own."""
    from wavebed.run.times import default_time, kept_memory, kept_time, with_time

    if getattr(args, "resume", False) and (args.output / RUN_FILE).exists():
        memory_bytes = guest_memory(args) or kept_memory(args.output)
        return with_time(plan, args.time or kept_time(args.output), memory_bytes=memory_bytes)
    return with_time(plan, args.time, default_time("real"), memory_bytes=guest_memory(args))


def perform(plan: Plan, args: argparse.Namespace, compare: Callable[[Path], Identity] | None = None) -> int:
    """Run a plan, and print the results.

    Parameters
    ----------
    compare : callable, optional
        Compares the one trial in a folder of results with its first run, which decides the exit status.
    """
    record, folder, page = run_into_folder(plan, args)
    identity = None if compare is None else compare(folder)
    if args.json:
        from wavebed.report.text import summary_json

        told = {} if identity is None else {"identity": identity.json()}
        print_json("run", summary_json(folder, page) | told)
    else:
        print(printable(_text(folder, page), keep="\n"))
        if identity is not None:
            print(identity.text())
    good = all(record.counted.values()) if identity is None else identity.is_identical
    return 0 if good else WavebedError.exit_status


def run_into_folder(
    plan: Plan, args: argparse.Namespace, until_ns: int | None = None
) -> tuple[RunRecord, Path, Path | None]:
    """Run a plan; return its record, the folder of the results and the report there, if there is one.

    Parameters
    ----------
    until_ns : int, optional
        When to stop each trial (`wavebed.run.design.Design`); then there is no report.
    """
    require("report", "a folder of results", ("matplotlib", *TABLES))
    if args.is_own_process:
        spare_pandas()
    from wavebed.result.names import SPEC_FILE
    from wavebed.run.design import Design, plan_text
    from wavebed.run.folder import design_in
    from wavebed.run.progress import Live
    from wavebed.run.runner import run_plan

    live = Live(f"wavebed {args.command}")
    for note in plan.notes:
        live.note(f"note: {note}")
    live.note(plan_text(plan))
    name = plan.scenario.parent.name if plan.scenario.name == SPEC_FILE else plan.scenario.stem
    folder = args.output if args.output is not None else new_folder(name)
    design = design_in(folder, plan) if getattr(args, "resume", False) else Design(until_ns=until_ns)
    words = command_line()
    try:
        record = run_plan(plan, folder, words, live, design)
        page = write_run_report(folder, live) if until_ns is None else None
    finally:
        live.clear()
    return record, folder, page


def write_run_report(folder: Path, live: Live) -> Path | None:
    """Write the report of a run, as `write_report_or_note` does."""
    from wavebed.report.build import write_report

    return write_report_or_note(folder, live, write_report)


def write_report_or_note(folder: Path, live: Live, write: Callable[[Path], Path]) -> Path | None:
    """Write the report of a folder of results by `write`; a note says why there is none."""
    live.say("writing the report")
    try:
        return write(folder)
    except (WavebedError, OSError) as error:
        live.note(f"no report: {error}: the results are there: `wavebed report {folder}` tries again")
        return None


def _text(folder: Path, page: Path | None) -> str:
    from wavebed.report.text import summary_text

    lines = [summary_text(folder)]
    if page is not None:
        lines.append(f"report: {page}")
    return "\n".join(lines)
