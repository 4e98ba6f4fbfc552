"""``wavebed check``: requirements on an application over seeds of a path; pass, fail or inconclusive."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.options import (
    AUTO,
    add_memory_option,
    add_processor_option,
    add_time_options,
    guest_memory,
)
from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.config.problems import Problem, at
from wavebed.config.values import number
from wavebed.errors import UserError
from wavebed.extras import TABLES, require, spare_pandas
from wavebed.path.tables import add_path_options, path_options
from wavebed.printable import printable
from wavebed.result.names import new_folder
from wavebed.secret import command_line, redacted_value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from wavebed.check.requirement import Requirement
    from wavebed.run.scenario import Plan

_MOST_ATTEMPTS = 100
_USAGE = "wavebed check [PATH OPTION]… [--require TEXT]… [OPTION]… [-- CMD…]"
_DESCRIPTION = (
    "Decide whether an application meets requirements on a path, over several seeds: CMD on the client, or the"
    " workloads of --scenario."
)
_EPILOG = (
    "TEXT: WORKLOAD.METRIC STATISTIC COMPARISON VALUE UNIT. Statistics: p50, p90 or another percentile, mean, min, max,"
    " every. CMD has: wall time, delivery time, exit status, each line NAME = NUMBER UNIT that it prints. In CMD:"
    " {server} is an address, {port} a free port, {seed} the seed. Exit status 0: all pass; 1: one fails; 3:"
    " inconclusive. Guide: docs/guides/check.md"
)


def register_check(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed check`` to the program's parser."""
    parser = subparsers.add_parser("check", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = _USAGE
    add_path_options(parser, timeline=False)
    group = parser.add_argument_group("requirements")
    group.add_argument(
        "--require",
        metavar="TEXT",
        action="append",
        default=[],
        help="as 'web.speed index p90 < 2500 ms'; may be repeated",
    )
    group.add_argument("--seeds", metavar="N", default="5", help="trials, each with its own seed (default: 5)")
    group.add_argument(
        "--attempts",
        metavar="N",
        default="5",
        help="attempts while the machine is late (default: 5)",
    )
    group.add_argument("--fail-fast", action="store_true", help="end as soon as a requirement cannot pass")
    add_time_options(group, AUTO)
    add_processor_option(group)
    add_memory_option(group)
    group = parser.add_argument_group("programs")
    group.add_argument(
        "--device",
        metavar="NAME",
        help="device of a cell on which CMD runs (default: the first)",
    )
    group.add_argument(
        "--server",
        metavar="CMD",
        action="append",
        default=[],
        help="a shell command on the server, before CMD; repeatable",
    )
    group.add_argument(
        "--wait-for-port",
        metavar="PORT",
        help="start CMD when this is open (default: any new one)",
    )
    group.add_argument("--limit", metavar="TIME", help="longest run of CMD (default: 60s)")
    group.add_argument(
        "--drain",
        metavar="TIME",
        help="longest wait for the last data after CMD (default: 5s)",
    )
    group.add_argument("--grace", metavar="TIME", help="servers: from SIGTERM to SIGKILL (default: 5s)")
    group.add_argument(
        "--confine",
        action="store_true",
        help="run CMD and the servers without privileges and homes",
    )
    group.add_argument(
        "--workload",
        metavar="NAME",
        action="append",
        default=[],
        help="run this workload of --scenario only; repeatable",
    )
    group = parser.add_argument_group("outputs")
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="results, a new or empty folder (default: runs/check-TIME)",
    )
    group.add_argument("--junit", metavar="FILE", type=Path, help="also write JUnit XML (inconclusive: skipped)")
    group.add_argument("--markdown", metavar="FILE", type=Path, help="also write the table as Markdown")
    group.add_argument("-v", "--verbose", action="store_true", help="tell each trial whose machine was late, and why")
    group.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("argv", metavar="CMD", nargs="*", help="the command and its arguments, after --")


def run_check(args: argparse.Namespace) -> int:
    """Run the trials, decide, and print and write the result."""
    end_on_signals()
    require("report", "a folder of results", ("jinja2", "matplotlib", *TABLES))
    if args.is_own_process:
        spare_pandas()
    from wavebed.check.perform import perform_check
    from wavebed.check.requirement import check_known, parse_requirement
    from wavebed.cli.run import keeping, write_run_report
    from wavebed.output import write_output
    from wavebed.result.names import CHECK_FILE
    from wavebed.run.design import plan_text
    from wavebed.run.progress import Live
    from wavebed.run.scenario import MAX_TRIALS
    from wavebed.run.times import default_time, with_time

    requirements = [at("--require", parse_requirement, each) for each in args.require]
    plan = _plan(args, requirements, at("--seeds", number(1, MAX_TRIALS), args.seeds))
    plan = with_time(plan, args.time, default_time("auto"), _outside(args), guest_memory(args), args.processor)
    attempts = at("--attempts", number(1, _MOST_ATTEMPTS), args.attempts)
    check_known(requirements, plan)
    live = Live("wavebed check")
    live.tells_verdicts = args.verbose
    for note in plan.notes:
        live.note(f"note: {note}")
    live.note(plan_text(plan))
    folder = args.output if args.output is not None else new_folder("check")
    go_on = (
        f"There is no verdict: a check begins anew. Look at the trials with: wavebed report {shlex.quote(str(folder))}"
    )
    with keeping(live, folder, go_on):
        result = perform_check(
            plan,
            requirements,
            folder,
            command_line(),
            live,
            attempts=attempts,
            fail_fast=args.fail_fast,
        )
        write_output(folder / CHECK_FILE, json.dumps(redacted_value(result.json()), indent=1), "check")
        page = write_run_report(folder, live)
    result = replace(result, report=page)
    _write(args.junit, result.junit, "--junit")
    _write(args.markdown, result.markdown, "--markdown")
    if args.json:
        print_json("check", result.json())
    else:
        print(printable(result.text(), keep="\n"))
    return result.exit_status


def _outside(args: argparse.Namespace) -> str:
    """Return why the programs of a check need real time: one is a file that no guest reads; empty: none is."""
    import os
    import shutil

    from wavebed.virtual.guest import is_in, readable

    programs = [*args.argv[:1], *(line.split()[0] for line in args.server if line.split())]
    files = [file for program in programs if (file := shutil.which(program)) is not None]
    if not files:
        return ""
    places = {os.path.realpath(each) for each in readable([str(Path.cwd())])}
    closed = [file for file in files if not is_in(os.path.realpath(file), places)]
    return f"no guest reads {closed[0]} (WAVEBED_GUEST_READS)" if closed else ""


def _plan(args: argparse.Namespace, requirements: Sequence[Requirement], seeds: int) -> Plan:
    options = path_options(args)
    if not args.argv:
        return _scenario_plan(args, options, seeds)
    if args.workload:
        raise Problem("CMD is the workload: leave one of the two out", "--workload")
    from wavebed.check.perform import CheckedCommand, command_plan

    command = CheckedCommand(
        argv=args.argv,
        servers=args.server,
        wait_for_port=args.wait_for_port,
        limit=args.limit,
        drain=args.drain,
        grace=args.grace,
        confined=args.confine,
        device=args.device,
    )
    return command_plan(command, requirements, args.scenario, options, seeds)


def _scenario_plan(args: argparse.Namespace, options: dict[str, object], seeds: int) -> Plan:
    from wavebed.run.scenario import read_plan
    from wavebed.shipped import find
    from wavebed.spec.network import MOST_SEED

    if args.scenario is None:
        raise UserError("nothing to check: write a command after --, or --scenario FILE with workloads")
    for option, given in (
        ("--device", args.device),
        ("--server", args.server),
        ("--wait-for-port", args.wait_for_port),
        ("--limit", args.limit),
        ("--drain", args.drain),
        ("--grace", args.grace),
        ("--confine", args.confine),
    ):
        if given:
            raise Problem("belongs to a command: write one after --", option)
    seed = options.pop("seed", None)
    return read_plan(
        find(args.scenario, "scenario"),
        only=args.workload,
        trials=seeds,
        seed=None if seed is None else at("--seed", number(0, MOST_SEED), seed),
        options=options,
    )


def _write(file: Path | None, content: Callable[[], str], option: str) -> None:
    from wavebed.output import write_output

    if file is not None:
        write_output(file, content(), option)
