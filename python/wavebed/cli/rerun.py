"""``wavebed rerun``: repeat a trial from the folder of its results alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.beneath import guard
from wavebed.cli.run import add_folder_options, perform, run_into_folder
from wavebed.cli.signals import end_on_signals
from wavebed.cli.trust import add_trust, check_trust
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import is_file, is_there
from wavebed.result.names import CHECK_FILE, INCOMPLETE, SPEC_FILE, TRIAL_FILE, TRIALS_FOLDER

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from wavebed.run.bundle import Bundle
    from wavebed.run.scenario import Plan

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Repeat one trial from a folder of results, or from a bundle: the same network, patterns, seed and workloads."
    " Neither the scenario nor the traces are needed. A trial in virtual time is compared with its first run: the exit"
    " status is 1 if they differ."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("rerun", help=_DESCRIPTION, description=_DESCRIPTION)
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


def run(args: argparse.Namespace) -> int:
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
