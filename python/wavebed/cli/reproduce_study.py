"""The part of ``wavebed reproduce`` that runs the campaigns of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from wavebed.cli.new_folder import new_folder
from wavebed.cli.outputs import print_json
from wavebed.cli.signals import end_on_signals
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.secret import command_line

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from wavebed.reproduce.study import Begun

__all__ = ["run_study_command"]


def run_study_command(args: argparse.Namespace) -> int:
    """Run the campaigns, or the rest of them, write the page and print the comparison."""
    require("web", "the pages of a study")
    require("report", "a reproduction")
    end_on_signals()
    from wavebed.printable import printable
    from wavebed.reproduce.studies import read_study
    from wavebed.reproduce.study import begin, campaigns_of, results_of, run_study
    from wavebed.reproduce.study_page import write_study_page
    from wavebed.reproduce.study_text import study_json, study_text
    from wavebed.run.design import plan_text
    from wavebed.run.progress import Live

    folder = args.output if args.output is not None else new_folder(args.study)
    begun = _begun(args, folder)
    study = read_study(args.study)
    live = Live("wavebed reproduce")
    campaigns = campaigns_of(begun)
    for note in dict.fromkeys(note for _, campaign in campaigns for note in campaign.plan.notes):
        live.note(f"note: {note}")
    for _, campaign in campaigns:
        live.note(plan_text(campaign.plan))
    if not args.resume:
        begin(folder, begun)
    try:
        run_study(campaigns, folder, command_line(), live, accept=args.accept_changes)
        parts = results_of(study, folder)
        live.say("writing the page")
        page = write_study_page(begun, study, parts, folder)
    finally:
        live.clear()
    if args.json:
        told = {**study_json(parts), "folder": str(folder), "report": str(page)}
        print_json("reproduce-study", told)
    else:
        print(printable(f"{study_text(parts)}\n\nresults: {folder}\nreport: {page}", keep="\n"))
    return 0


def _begun(args: argparse.Namespace, folder: Path) -> Begun:
    """Return what is asked for, or what the folder was begun with."""
    from wavebed.reproduce.study import Begun, begun_in
    from wavebed.run.scenario import MAX_TRIALS
    from wavebed.run.times import chosen_time, default_time

    if args.seed is not None:
        raise UserError("--seed: the seeds of this study are those of its campaigns: leave it out")
    if args.accept_changes and not args.resume:
        raise UserError("--accept-changes: goes with --resume")
    if args.resume and args.output is None:
        raise UserError("--resume: name the folder to go on in with -o DIR")
    if args.all and (args.quick or args.part):
        raise UserError("--all: is every part, with all its blocks: leave --quick and --part out")
    blocks = None if args.blocks is None else at("--blocks", number(1, MAX_TRIALS), args.blocks)
    if not args.resume:
        time = chosen_time(None, args.time or default_time("real"))
        return Begun(args.study, args.quick, tuple(args.part or ()), blocks, args.all, time)
    begun = begun_in(folder, args.study)
    if args.time not in (None, begun.time):
        raise UserError(f"--{args.time}-time: {folder} was begun in {begun.time} time: leave it out")
    if args.quick and not begun.quick:
        raise UserError(f"--quick: {folder} was begun without it: leave it out")
    if args.all and begun.quick:
        raise UserError(f"--all: {folder} was begun with --quick: run into a new folder")
    return msgspec.structs.replace(
        begun,
        parts=() if args.all else tuple(args.part or begun.parts),
        blocks=begun.blocks if blocks is None else blocks,
        every_part=args.all or (begun.every_part and not args.part),
    )
