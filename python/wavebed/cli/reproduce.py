"""``wavebed reproduce``: repeat a published study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.cli.options import add_time_options
from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import require
from wavebed.result.names import new_folder
from wavebed.secret import command_line

if TYPE_CHECKING:
    import argparse

    from wavebed.reproduce.small_packets import Reproduction
    from wavebed.reproduce.study import BegunStudy

_DESCRIPTION = (
    "Reproduce the method of a published study. small-packets: five datapaths of this machine (bridge, routing, NAT,"
    " XDP, a relay in user space) as devices, offered 1 Gbit/s at L1 at most; the study's throughput and 64-byte tests,"
    " the loss-free rate, in six rounds in a drawn order; its tables beside the published ones. cas-mmwave: bulk TCP"
    " over a long wired hop, a lossy wireless hop, and both, with changes that may explain its figures, in three hours."
    " bbr-5g: ping beside transfers with CUBIC and BBR on a phone and a USB modem, two hours. kau-e5g: downloads, web"
    " pages and video over 5G mmWave and LTE, and their hypotheses, three hours. Each published figure stands beside"
    " ours, with a verdict."
)


def register_reproduce(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed reproduce`` to the program's parser."""
    parser = subparsers.add_parser(
        "reproduce", help="reproduce the method of a published study", description=_DESCRIPTION
    )
    parser.add_argument("study", metavar="STUDY", help="small-packets, cas-mmwave, bbr-5g or kau-e5g")
    parser.add_argument("--quick", action="store_true", help="short trials, or each once: minutes, for a first look")
    parser.add_argument(
        "--resume", action="store_true", help="go on in the folder -o DIR: the trials that it has stored are kept"
    )
    parser.add_argument(
        "--accept-changes",
        action="store_true",
        help="with --resume, although programs, the kernel or the machine changed: the open round begins again",
    )
    parser.add_argument(
        "--part",
        metavar="NAME",
        action="append",
        help="run this part of a study alone, such as downloads; may be given again; with --resume also a new one",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="every part of a study, with all blocks of its campaign: kau-e5g takes most of a day",
    )
    parser.add_argument(
        "--blocks", metavar="N", help="blocks of each campaign, in place of those in its file; with --resume also more"
    )
    parser.add_argument(
        "--sites",
        metavar="FOLDER",
        type=Path,
        help="kau-e5g: structures of the pages, such as amazon.json, in place of summaries of them",
    )
    add_time_options(parser)
    parser.add_argument("--seed", metavar="N", help="small-packets: of the order in each round (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="folder of the results, new or empty unless --resume (default: runs/NAME-TIME)",
    )


def run_reproduce(args: argparse.Namespace) -> int:
    """Enter the sandbox, test all devices, and print the results."""
    from wavebed.config.problems import choose
    from wavebed.forward.sandbox import enter
    from wavebed.reproduce.studies import STUDIES

    study = at("STUDY", lambda given: choose(given, ("small-packets", *STUDIES)), args.study)
    if study != "small-packets":
        return run_study_command(args)
    if args.part is not None or args.blocks is not None or args.all or args.sites is not None:
        raise UserError("--part, --blocks, --all, --sites: small-packets has none of them: leave them out")
    if args.time == "virtual":
        raise UserError("--virtual-time: small-packets measures how fast this machine computes: leave it out")
    require("forward", "the forwarding test")
    folder = args.output if args.output is not None else new_folder(study)
    quick, seed = _asked(args, folder)
    enter(sys.argv[1:])
    end_on_signals()
    from wavebed.reproduce.small_packets import repeat, said_plan
    from wavebed.terminal import StepProgress

    with StepProgress("wavebed reproduce") as progress:
        progress.note(said_plan(quick=quick))
        reproduction = repeat(
            quick=quick,
            seed=seed,
            progress=progress,
            folder=folder,
            command_line=command_line(),
            resume=args.resume,
            accept_changes=args.accept_changes,
        )
        if reproduction.interrupted and folder.exists():
            progress.note(
                f"the tests that had ended are stored: wavebed reproduce {study} -o {folder} --resume goes on"
            )
    return _tell(args, reproduction, folder, seed)


def _asked(args: argparse.Namespace, folder: Path) -> tuple[bool, int]:
    """Return whether trials are short, and the seed: as given, or as the folder that is resumed was begun with."""
    from wavebed.reproduce.small_packets import has_begun, read_begun

    seed = None if args.seed is None else at("--seed", number(0, 2**32 - 1), args.seed)
    if args.accept_changes and not args.resume:
        raise UserError("--accept-changes: goes with --resume")
    if not args.resume:
        return args.quick, 1 if seed is None else seed
    if args.output is None:
        raise UserError("--resume: name the folder to go on in with -o DIR")
    if not folder.is_dir():
        raise UserError(f"{folder}: does not exist: leave --resume out")
    if not has_begun(folder):
        return args.quick, 1 if seed is None else seed
    asked = read_begun(folder).asked
    if args.quick and not asked.quick:
        raise UserError(f"--quick: the trials in {folder} are long: leave --quick out")
    if seed is not None and seed != asked.seed:
        raise UserError(f"--seed: {folder} was begun with {asked.seed}: write that, or leave --seed out")
    return asked.quick, asked.seed


def _tell(args: argparse.Namespace, reproduction: Reproduction, folder: Path, seed: int) -> int:
    from wavebed.forward.comparison import compare
    from wavebed.forward.result import verdict_of
    from wavebed.reproduce.small_packets_text import tables_text
    from wavebed.reproduce.small_packets_write import tables_json, write_reproduction

    if not reproduction.results:
        raise KeyboardInterrupt
    comparison = compare(reproduction.results)
    page = write_reproduction(folder, reproduction, comparison, seed, command_line())
    if args.json:
        told = {**tables_json(comparison, reproduction), "seed": seed, "folder": str(folder), "report": str(page)}
        print_json("reproduce-small-packets", told)
    else:
        print(f"{tables_text(comparison)}\n\nresults: {folder}\nreport: {page}")
    if reproduction.interrupted:
        raise KeyboardInterrupt
    measured = [verdict_of(result) != "invalid" for result in reproduction.results]
    return 0 if all(measured) else WavebedError.exit_status


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


def _begun(args: argparse.Namespace, folder: Path) -> BegunStudy:
    """Return what is asked for, or what the folder was begun with."""
    from wavebed.reproduce.study import BegunStudy, begun_in
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
        sites = _sites(args.sites)
        return BegunStudy(args.study, args.quick, tuple(args.part or ()), blocks, args.all, time, sites)
    begun = begun_in(folder, args.study)
    if args.time not in (None, begun.time):
        raise UserError(f"--{args.time}-time: {folder} was begun in {begun.time} time: leave it out")
    if args.quick and not begun.quick:
        raise UserError(f"--quick: {folder} was begun without it: leave it out")
    if args.all and begun.quick:
        raise UserError(f"--all: {folder} was begun with --quick: run into a new folder")
    if args.sites is not None and _sites(args.sites) != begun.sites:
        raise UserError(f"--sites: {folder} was begun with {begun.sites or 'none'}: leave it out")
    return msgspec.structs.replace(
        begun,
        parts=() if args.all else tuple(args.part or begun.parts),
        blocks=begun.blocks if blocks is None else blocks,
        every_part=args.all or (begun.every_part and not args.part),
    )


def _sites(folder: Path | None) -> str:
    """Return the folder of structures; empty without one."""
    if folder is None:
        return ""
    if not any(folder.glob("*.json")):
        raise UserError(f"--sites: {folder}: has no structure of a page: name a folder with files such as amazon.json")
    return str(folder.resolve())
