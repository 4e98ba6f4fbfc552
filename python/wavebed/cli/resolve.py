"""``wavebed resolve``: a trial of a scenario as a value that can be kept, sent and run elsewhere."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.run import add_change_options, scenario_plan
from wavebed.config.problems import Problem, at
from wavebed.config.values import number

if TYPE_CHECKING:
    import argparse

    from wavebed.run.design import Slot
    from wavebed.run.scenario import Plan

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Print the specification of one trial of a scenario as JSON: every value explicit, patterns by the hash of their"
    " content. `wavebed run FILE.json` runs it, here or on another machine."
)
_EPILOG = (
    "With -o the patterns are written into the folder `patterns` beside the file, and those of web sites into `sites`;"
    " without, they are not kept."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("resolve", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("scenario", metavar="SCENARIO", help="a scenario file, or the name of a shipped one")
    add_change_options(parser)
    parser.add_argument("--seed", metavar="N", help="seed of the first trial")
    parser.add_argument("--treatment", metavar="NAME", help="treatment of the trial (default: the first one)")
    parser.add_argument("--trial", metavar="N", default="1", help="which trial of the treatment, from 1 (default: 1)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it to this file, such as spec.json")


def run(args: argparse.Namespace) -> int:
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
        print(f"wavebed: note: {note}", file=sys.stderr)
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
        raise Problem(f"{treatment!r} is no treatment of this scenario: write one of {', '.join(names)}", "--treatment")
    chosen = plan.treatments[0 if treatment is None else names.index(treatment)]
    if block > plan.trials:
        raise Problem(
            f"the scenario has {plan.trials} of each treatment: write at most that, or --set run.trials=N", "--trial"
        )
    return Slot(block, block, plan.seed + block - 1, chosen)
