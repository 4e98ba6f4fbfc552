"""``wavebed run``, ``resolve`` and ``rerun``: trials of a scenario, of a specification, and of a folder of results."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.beneath import guard
from wavebed.cli.options import add_memory_option, add_time_options, add_trust, check_trust, guest_memory
from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.config.problems import Problem, at, one_of
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require, spare_pandas
from wavebed.foreign import is_file, is_there
from wavebed.printable import message_text, printable
from wavebed.result.names import CHECK_FILE, INCOMPLETE, RUN_FILE, SPEC_FILE, TRIAL_FILE, TRIALS_FOLDER, new_folder
from wavebed.secret import command_line
from wavebed.shipped import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.result.identity import Identity
    from wavebed.result.model import RunRecord
    from wavebed.run.bundle import Bundle
    from wavebed.run.design import Slot
    from wavebed.run.progress import Live
    from wavebed.run.scenario import Plan

_USAGE = "wavebed run SCENARIO [--set KEY=VALUE]… [OPTION]…"
_DESCRIPTION = "Run the workloads of a scenario on its path, and write results and a report."
_EPILOG = (
    "KEY is a dotted path: path.rate, path.hop.radio.queue, workload.download.size, run.trials. wavebed resolve writes"
    " specifications. The folder of the results holds run.json, the trials and report.html (docs/reference/results.md)."
    " The exit status is 1 if a treatment has no valid trial."
)


def register_run(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed run`` to the program's parser."""
    parser = subparsers.add_parser("run", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = _USAGE
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        help="a file, a name of wavebed scenarios, or a specification (.json)",
    )
    add_change_options(parser)
    parser.add_argument("--trials", metavar="N", help="trials of each treatment, each with its own seed")
    add_output_options(parser)
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in -o DIR, with the same command",
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
        "-o", "--output", metavar="DIR", type=Path, help="results, a new folder (default: runs/NAME-TIME)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every metric, and why trials are suspect")


def run_run(args: argparse.Namespace) -> int:
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
        from wavebed.report.metrics import summary_json

        told = {} if identity is None else {"identity": identity.json()}
        print_json("run", summary_json(folder, page) | told)
    else:
        print(printable(_text(folder, page, verbose=getattr(args, "verbose", False)), keep="\n"))
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
    require("report", "a folder of results", ("jinja2", "matplotlib", *TABLES))
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
    live.tells_suspects = getattr(args, "verbose", True)
    with keeping(live, folder, go_on(folder, words)):
        record = run_plan(plan, folder, words, live, design)
        page = write_run_report(folder, live) if until_ns is None else None
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


def _text(folder: Path, page: Path | None, *, verbose: bool) -> str:
    from wavebed.report.first import closing_rows
    from wavebed.report.metrics import summary_text
    from wavebed.report.source import read_results
    from wavebed.terminal import closing_text

    lines = [summary_text(folder), ""] if verbose else []
    rows = [*closing_rows(read_results(folder)), last_row(folder, page)]
    return "\n".join([*lines, closing_text(rows)])


def last_row(folder: Path, page: Path | None) -> tuple[str, str]:
    """Return where the report is; without one, where the results are."""
    return ("results", str(folder)) if page is None else ("report", str(page))


@contextmanager
def keeping(live: Live, folder: Path, go_on: str) -> Iterator[None]:
    """Clear the progress line at the end; at Ctrl-C say which trials are kept in the folder, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        live.clear()
        live.note(_kept_text(folder, go_on))
        raise
    finally:
        live.clear()


def _kept_text(folder: Path, go_on: str) -> str:
    from wavebed.store.records import read_run

    try:
        count = len(read_run(folder).trials)
    except (WavebedError, OSError):
        count = 0
    if not count:
        return f"interrupted before the end of the first trial: {folder} keeps none"
    kept = "1 trial is" if count == 1 else f"{count} trials are"
    return f"interrupted: {kept} kept in {folder}. {go_on}"


def go_on(folder: Path, words: Sequence[str]) -> str:
    """Return the command that goes on with a run."""
    if words[1:2] != ["run"]:
        return f"Look at them with: {shlex.join(['wavebed', 'report', str(folder)])}"
    again = list(words)
    if not any(word in ("-o", "--output") or word.startswith(("-o", "--output=")) for word in words):
        again += ["-o", str(folder)]
    if "--resume" not in again:
        again.append("--resume")
    return f"Go on with: {shlex.join(again)}"


_RESOLVE_DESCRIPTION = (
    "Print the specification of one trial of a scenario as JSON: every value explicit, patterns by the hash of their"
    " content. `wavebed run FILE.json` runs it, here or on another machine."
)
_RESOLVE_EPILOG = (
    "With -o the patterns are written into the folder `patterns` beside the file, and those of web sites into `sites`;"
    " without, they are not kept."
)


def register_resolve(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed resolve`` to the program's parser."""
    parser = subparsers.add_parser(
        "resolve", help=_RESOLVE_DESCRIPTION, description=_RESOLVE_DESCRIPTION, epilog=_RESOLVE_EPILOG
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="a scenario file, or the name of a shipped one")
    add_change_options(parser)
    parser.add_argument("--seed", metavar="N", help="seed of the first trial")
    parser.add_argument("--treatment", metavar="NAME", help="treatment of the trial (default: the first one)")
    parser.add_argument("--trial", metavar="N", default="1", help="which trial of the treatment, from 1 (default: 1)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it to this file, such as spec.json")


def run_resolve(args: argparse.Namespace) -> int:
    """Resolve one trial and print it.

    Raises
    ------
    Problem
        If the scenario has no such treatment or trial.
    """
    from wavebed.output import write_output
    from wavebed.run.resolve import Resolver
    from wavebed.run.scenario import MAX_TRIALS
    from wavebed.spec.trial import encode_spec

    plan = scenario_plan(args)
    slot = _slot(plan, args.treatment, at("--trial", number(1, MAX_TRIALS), args.trial))
    folder = _pattern_folder(args.output)
    with closing(Resolver(plan, folder)) as resolver, resolver.resolved(slot) as resolved:
        text, patterns = encode_spec(resolved.spec), len(resolved.spec.patterns)
    for note in plan.notes:
        print(f"wavebed: note: {message_text(note)}", file=sys.stderr)
    if args.output is not None:
        write_output(args.output, text)
    else:
        sys.stdout.buffer.write(text)
    if patterns and folder is None:
        print("wavebed: note: its patterns are not kept: write -o FILE to have them beside it", file=sys.stderr)
    return 0


def _pattern_folder(output: Path | None) -> Path | None:
    """Return the folder beside the file; ``None`` where the specification goes to a terminal, a pipe or a device."""
    if output is None or (output.exists() and not output.is_file()):
        return None
    folder = output.absolute().parent
    if not folder.is_dir():
        raise Problem(f"{folder} is no folder: name a file in one that is there", "-o")
    return folder


def _slot(plan: Plan, treatment: str | None, block: int) -> Slot:
    from wavebed.run.design import Slot

    names = [each.name for each in plan.treatments]
    if treatment is not None and treatment not in names:
        raise Problem(f"{treatment!r} is no treatment of this scenario: {one_of(treatment, names)}", "--treatment")
    chosen = plan.treatments[0 if treatment is None else names.index(treatment)]
    if block > plan.trials:
        raise Problem(
            f"the scenario has {plan.trials} of each treatment: write at most that, or --set run.trials=N", "--trial"
        )
    return Slot(block, block, plan.seed + block - 1, chosen)


_RERUN_DESCRIPTION = (
    "Repeat one trial from a folder of results, or from a bundle: the same network, patterns, seed and workloads."
    " Neither the scenario nor the traces are needed. A trial in virtual time is compared with its first run: the exit"
    " status is 1 if they differ."
)


def register_rerun(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed rerun`` to the program's parser."""
    parser = subparsers.add_parser("rerun", help=_RERUN_DESCRIPTION, description=_RERUN_DESCRIPTION)
    parser.add_argument(
        "trial",
        metavar="DIR/TRIAL",
        type=Path,
        help="folder of a trial, such as runs/a/0001-cubic, or a bundle, such as runs/a/bundles/0001-cubic.tar",
    )
    parser.add_argument(
        "--until-late",
        action="store_true",
        help="in virtual time, with a packet log: stop at the first late or lost packet that a requirement names, or at"
        " the first lost one, and print the links, their queues and the connections there",
    )
    add_folder_options(parser)
    add_trust(parser)


def run_rerun(args: argparse.Namespace) -> int:
    """Run the trial again."""
    end_on_signals()
    from wavebed.run.bundle import is_bundle

    if not is_bundle(args.trial):
        file = _spec_file(args.trial)
        return _again(args, file, str(file.parent), [_run_of(file.parent), file.parent, file])
    import tempfile

    from wavebed.run.bundle import open_bundle

    with tempfile.TemporaryDirectory(prefix="wavebed-bundle-") as unpacked:
        bundle = open_bundle(args.trial, Path(unpacked))
        file = Path(unpacked, TRIALS_FOLDER, bundle.trial, SPEC_FILE)
        return _again(args, file, str(args.trial), [args.trial], bundle)


def _again(
    args: argparse.Namespace, file: Path, told: str, places: Sequence[Path], bundle: Bundle | None = None
) -> int:
    """Run the trial of a specification again.

    Parameters
    ----------
    told : str
        What the first run is called.
    places : sequence of pathlib.Path
        Where it comes from.
    """
    from wavebed.run.resolve import read_spec
    from wavebed.run.scenario import plan_of_spec

    stored = read_spec(file)
    plan = plan_of_spec(stored, file)
    if not args.trust:
        check_trust(plan, places)
    first = file.parent
    plan = dataclasses.replace(plan, primary=_primary_of(_run_of(first)))
    is_exact = _is_exact(plan)
    if args.until_late:
        if not is_exact:
            raise UserError("--until-late: the trial is not in virtual time on an exact processor: leave it out")
        if args.json:
            raise UserError("--until-late: prints text: leave --json out")
        from wavebed.check.late import find_stop

        stop = find_stop(first, stored.spec.network, _broken(first) if bundle is None else bundle.requirements)
        _, folder, _ = run_into_folder(plan, args, stop.late.at_ns)
        stopped = stop.compare(_trial_in(folder))
        print(stopped.text)
        return 0 if stopped.is_exact else WavebedError.exit_status
    if not is_exact or not is_file(first / TRIAL_FILE):  # wavebed resolve wrote a specification alone
        return perform(plan, args)
    from wavebed.result.identity import compare_trials

    known = None if bundle is None else bundle.files
    return perform(plan, args, lambda folder: compare_trials(first, _trial_in(folder), told, known))


def _primary_of(run: Path) -> str:
    """Return the primary metric that the scenario of a stored run named; nothing if there is no readable run."""
    from wavebed.store.records import read_run

    with suppress(UserError):
        return read_run(run, trials=False).primary
    return ""


def _is_exact(plan: Plan) -> bool:
    """Return whether two runs of the one trial of a plan are the same to the byte."""
    from wavebed.spec.trial import NamespacesLab

    (treatment,) = plan.treatments
    lab = treatment.lab
    return isinstance(lab, NamespacesLab) and lab.time == "virtual" and lab.processor != "host"


def _trial_in(folder: Path) -> Path:
    """Return the folder of the one trial of a run."""
    (trial,) = (each for each in (folder / TRIALS_FOLDER).iterdir() if not each.name.startswith("."))
    return trial


def _broken(trial: Path) -> list[str]:
    """Return the requirements that failed in the check of a trial."""
    from wavebed.foreign import read_json

    file = _run_of(trial) / CHECK_FILE
    found = read_json(file, INCOMPLETE) if is_file(file) else {}
    decisions = found.get("requirements", []) if isinstance(found, dict) else []
    return [
        each["requirement"]
        for each in decisions
        if isinstance(each, dict) and each.get("outcome") == "fail" and isinstance(each.get("requirement"), str)
    ]


def _run_of(trial: Path) -> Path:
    """Return the folder of the run that a stored trial is of."""
    above = trial.absolute().parent
    return above.parent if above.name == TRIALS_FOLDER else above


def _spec_file(given: Path) -> Path:

    candidates = (given, given.parent / TRIALS_FOLDER / given.name)
    for folder in candidates:
        if is_there(folder):
            guard(_run_of(folder))
        if is_file(folder / SPEC_FILE):
            return folder / SPEC_FILE
    if not any(is_there(folder) for folder in candidates):
        raise UserError(f"{given}: there is no such trial: name the folder of one, such as DIR/0001-as-described")
    raise UserError(f"{given}: has no {SPEC_FILE}: it was written before trials could be repeated from their folder")
