"""``wavebed campaign`` and ``wavebed demo``: plan, run, resume and watch campaigns."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.options import AUTO, add_memory_option, add_time_options, add_trust, check_owner, guest_memory
from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.cli.run import add_folder_options, keeping, last_row, write_report_or_note
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require
from wavebed.foreign import is_there
from wavebed.printable import printable
from wavebed.secret import command_line
from wavebed.spec.trial import is_virtual

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from wavebed.campaign.read import Campaign
    from wavebed.run.executor.remote import Remote
    from wavebed.run.progress import Live

_DESCRIPTION = (
    "Plan, run, resume and watch a campaign: the cells of a campaign file, each once in every block, in random order"
    " within the block, all with the block's seed."
)
_EPILOG = (
    "docs/guides/campaigns.md explains the file and workers; wavebed schema campaign prints its keys. A campaign that"
    " was killed goes on with run --resume DIR. The exit status of run is 1 if a cell has no counted trial."
)
_PLAN = "Print the cells, the order, the time, the disk, and with a pilot the blocks that the questions need."
_RUN = "Run a campaign file into a folder, or the rest of a campaign in its folder; then write its report."
_STATUS = "Print how far the campaign in a folder is, whoever runs it."

_MOST_JOBS = 1024


def register_campaign(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed campaign`` to the program's parser."""
    parser = subparsers.add_parser("campaign", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    plan = actions.add_parser("plan", help=_PLAN, description=_PLAN)
    plan.add_argument("file", metavar="FILE", help="a campaign file, or the name of a shipped one")
    plan.add_argument(
        "--pilot", metavar="DIR", type=Path, help="results of a few blocks of the same cells: durations, sizes, spread"
    )
    plan.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    _add_only(plan)
    run_ = actions.add_parser("run", help=_RUN, description=_RUN)
    run_.add_argument(
        "file",
        metavar="FILE|DIR",
        help="a campaign file, or the name of a shipped one; with --resume the folder of a campaign",
    )
    add_folder_options(run_)
    _add_only(run_)
    run_.add_argument("--resume", action="store_true", help="go on with the campaign in the folder DIR")
    run_.add_argument(
        "--accept-changes",
        action="store_true",
        help="with --resume: accept changed files, programs or kernel; blocks that have not ended begin again",
    )
    add_trust(run_)
    add_time_options(run_, AUTO)
    add_memory_option(run_)
    run_.add_argument(
        "--jobs", metavar="N", help="most guests at the same time, in virtual time (default: each processor)"
    )
    run_.add_argument(
        "--executor",
        metavar="WHERE",
        default="local",
        help="where blocks run: local, or on the workers of a Dask scheduler: dask://HOST:PORT, dask+tls://HOST:PORT"
        " (default: local)",
    )
    status = actions.add_parser("status", help=_STATUS, description=_STATUS)
    status.add_argument("folder", metavar="DIR", type=Path, help="the folder of a campaign or a run")
    status.add_argument("--watch", action="store_true", help="go on until it ends")
    status.add_argument("--json", action="store_true", help="print one JSON object, with --watch one in each line")


def _add_only(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        metavar="FACTOR=LEVEL[,LEVEL]",
        action="append",
        default=[],
        help="only the cells with these levels of a factor, and the baselines beside them; repeat it for other factors",
    )


def _only(given: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in given:
        factor, _, levels = text.partition("=")
        if not factor or not levels:
            raise UserError(f"--only: {text!r} is not FACTOR=LEVEL: write for example path=bbr-5g-phone")
        found.setdefault(factor, []).extend(levels.split(","))
    return found


def run_campaign(args: argparse.Namespace) -> int:
    """Plan, run or watch."""
    if args.action == "status":
        return _status(args)
    require("report", "a campaign", TABLES)
    return _plan(args) if args.action == "plan" else _run(args)


def _plan(args: argparse.Namespace) -> int:
    from wavebed.campaign.plan import plan_campaign, plan_json, plan_text, read_pilot
    from wavebed.campaign.read import campaign_file, read_campaign

    campaign = read_campaign(campaign_file(args.file), only=_only(args.only))
    plan = plan_campaign(campaign, None if args.pilot is None else read_pilot(args.pilot))
    if args.json:
        print_json("campaign-plan", plan_json(plan))
    else:
        print(printable(plan_text(plan), keep="\n"))
    return 0


def _run(args: argparse.Namespace) -> int:
    end_on_signals()
    require("report", "a folder of results", ("jinja2", "matplotlib", *TABLES))
    from wavebed.campaign.run import resume_campaign, run_campaign
    from wavebed.run.design import plan_text
    from wavebed.run.progress import Live

    if args.resume and args.output is not None:
        raise UserError("-o: a campaign goes on in its own folder: leave -o out")
    if args.accept_changes and not args.resume:
        raise UserError("--accept-changes: belongs to --resume: a new campaign has no earlier inputs")
    if args.trust and not args.resume:
        raise UserError("--trust: belongs to --resume: a campaign file is run as its user says")
    if args.resume and args.only:
        raise UserError("--only: a campaign goes on with the part that it began: leave --only out")
    live = Live(f"wavebed {args.command}")
    remote = None if args.executor == "local" else _remote(args.executor, live)
    campaign = _of_folder(Path(args.file), trusted=args.trust) if args.resume else _of_file(args.file, _only(args.only))
    campaign = _in_time(campaign, args)
    for note in campaign.plan.notes:
        live.note(f"note: {note}")
    remote = _placed(args, campaign, live) or remote
    live.note(plan_text(campaign.plan))
    named = Path("runs") / f"{campaign.file.stem}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    folder = Path(args.file) if args.resume else args.output or named
    words = command_line()
    live.tells_suspects = args.verbose
    with keeping(live, folder, f"Go on with: wavebed campaign run --resume {shlex.quote(str(folder))}"):
        with remote or nullcontext():
            if args.resume:
                record = resume_campaign(campaign, folder, words, live, remote, accept=args.accept_changes)
            else:
                record = run_campaign(campaign, folder, words, live, remote)
        from wavebed.campaign.report import write_campaign_report

        page = write_report_or_note(folder, live, write_campaign_report)
    _tell(folder, page, as_json=args.json, verbose=args.verbose)
    return 0 if all(record.counted.values()) else WavebedError.exit_status


def _in_time(campaign: Campaign, args: argparse.Namespace) -> Campaign:
    """Return the campaign in the time that was asked for; one that goes on keeps its own."""
    from wavebed.run.times import default_time, kept_memory, kept_time, with_time

    if not args.resume:
        outside = "" if args.executor == "local" else "workers of Dask have real time"
        plan = with_time(campaign.plan, args.time, default_time("auto"), outside, guest_memory(args))
        return replace(campaign, plan=plan)
    folder = Path(args.file)
    memory_bytes = guest_memory(args) or kept_memory(folder)
    kept = with_time(campaign.plan, kept_time(folder), memory_bytes=memory_bytes)
    if args.time is not None and any(is_virtual(each.lab) != (args.time == "virtual") for each in kept.treatments):
        raise UserError(f"--{args.time}-time: {args.file} began in the other time, and keeps it: leave the option out")
    return replace(campaign, plan=kept)


def _placed(args: argparse.Namespace, campaign: Campaign, live: Live) -> Remote | None:
    """Return the executor of virtual time, if the campaign runs in it."""
    from wavebed.run.folder import in_virtual_time

    if not in_virtual_time(campaign.plan):
        if args.jobs is not None:
            raise UserError("--jobs: belongs to virtual time: in real time trials run one after the other")
        return None
    if args.executor != "local":
        raise UserError("--executor: virtual time runs on this machine: leave one of the two out")
    from wavebed.run.executor.guests import Guests
    from wavebed.run.times import guest_bytes_of

    jobs = None if args.jobs is None else at("--jobs", number(1, _MOST_JOBS), args.jobs)
    return Guests(live, jobs, guest_bytes_of(campaign.plan))


def _remote(given: str, live: Live) -> Remote:
    from wavebed.run.executor.cluster import DaskCluster, address_of
    from wavebed.run.executor.remote import Remote

    address = address_of(given)
    require("dask", "an executor of many machines")
    return Remote(DaskCluster(address), live)


def _of_folder(folder: Path, *, trusted: bool) -> Campaign:
    from wavebed.campaign.read import read_campaign
    from wavebed.result.names import CAMPAIGN_FILE, RUN_FILE
    from wavebed.store.records import other_results, read_run

    if folder.is_file():
        raise UserError(f"{folder}: is a file: name the folder of a campaign, or leave out --resume to begin one")
    if not (folder / RUN_FILE).is_file():
        raise UserError(f"{folder}: has no run.json: {other_results(folder, 'wavebed campaign run')}")
    run = read_run(folder, trials=False)
    record = run.campaign
    if not trusted:
        check_owner([folder, folder / RUN_FILE])
    if record is None:
        raise UserError(f"{folder}: has no campaign: name a folder that wavebed campaign run wrote")
    if not Path(record.file).exists():
        raise UserError(
            f"{record.file}: is gone: the campaign in {folder} was read from it: put it back; its text is in"
            f" {folder / CAMPAIGN_FILE}"
        )
    return read_campaign(Path(record.file), only=record.only)


def _of_file(given: str, only: Mapping[str, Sequence[str]]) -> Campaign:
    from wavebed.campaign.read import campaign_file, read_campaign
    from wavebed.result.names import RUN_FILE

    if is_there(Path(given) / RUN_FILE):
        raise UserError(f"{given}: is a folder: name a campaign file, or go on with its campaign with --resume")
    return read_campaign(campaign_file(given), only=only)


def _tell(folder: Path, page: Path | None, *, as_json: bool, verbose: bool) -> None:
    from wavebed.campaign.report.build import closing_rows
    from wavebed.campaign.text import answers_json, answers_text
    from wavebed.terminal import closing_text

    if as_json:
        print_json("campaign", {**answers_json(folder), "report": None if page is None else str(page)})
        return
    rows, count = closing_rows(folder)
    lines = [answers_text(folder), ""] if verbose or count != 1 else []
    lines.append(closing_text([*rows, last_row(folder, page)]))
    print(printable("\n".join(lines), keep="\n"))


def _status(args: argparse.Namespace) -> int:
    from wavebed.campaign.status import status_json, status_of, status_text, watch

    for status in watch(args.folder) if args.watch else [status_of(args.folder)]:
        if args.json:
            print_json("campaign-status", status_json(status))
        else:
            print(printable(status_text(args.folder, status), keep="\n"))
        sys.stdout.flush()
    return 0


_DEMO_DESCRIPTION = (
    "Run the shipped campaign `demo`: a download, a web page in Chromium and ping over the radio of a 5G phone, by"
    " cubic and by bbr, six times each, every time over another realisation of the channel. Answers whether bbr keeps"
    " ping shorter, and writes report.html. Takes under three minutes. It is `wavebed campaign run demo`."
)


def register_demo(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed demo`` to the program's parser."""
    parser = subparsers.add_parser("demo", help="the main job on shipped input", description=_DEMO_DESCRIPTION)
    add_folder_options(parser)
    add_time_options(parser, AUTO)
    add_memory_option(parser)


def run_demo(args: argparse.Namespace) -> int:
    """Run it."""
    args.action, args.file, args.executor = "run", "demo", "local"
    args.resume = args.accept_changes = args.trust = False
    args.only, args.jobs = [], None
    return run_campaign(args)
