"""``wavebed rerun``: repeat a trial from the folder of its results alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.beneath import guard
from wavebed.cli.run import add_folder_options, perform
from wavebed.cli.signals import end_on_signals
from wavebed.cli.trust import add_trust, check_trust
from wavebed.errors import UserError
from wavebed.foreign import is_file, is_there

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Repeat one trial from a folder of results: the same network, patterns, seed and workloads. Neither the scenario"
    " nor the traces are needed."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("rerun", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("trial", metavar="DIR/TRIAL", type=Path, help="folder of a trial, such as runs/a/0001-cubic")
    add_folder_options(parser)
    add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Run the trial again."""
    end_on_signals()
    from wavebed.run.resolve import read_spec
    from wavebed.run.scenario import plan_of_spec

    file = _spec_file(args.trial)
    plan = plan_of_spec(read_spec(file), file)
    if not args.trust:
        check_trust(plan, [_run_of(file.parent), file.parent, file])
    return perform(plan, args)


def _run_of(trial: Path) -> Path:
    """Return the folder of the run that a stored trial is of."""
    from wavebed.result.names import TRIALS_FOLDER

    above = trial.absolute().parent
    return above.parent if above.name == TRIALS_FOLDER else above


def _spec_file(given: Path) -> Path:
    from wavebed.result.names import SPEC_FILE, TRIALS_FOLDER

    candidates = (given, given.parent / TRIALS_FOLDER / given.name)
    for folder in candidates:
        if is_there(folder):
            guard(_run_of(folder))
        if is_file(folder / SPEC_FILE):
            return folder / SPEC_FILE
    if not any(is_there(folder) for folder in candidates):
        raise UserError(f"{given}: there is no such trial: name the folder of one, such as DIR/0001-as-described")
    raise UserError(f"{given}: has no {SPEC_FILE}: it was written before trials could be repeated from their folder")
