"""``wavebed reproduce``: a published study, done again on this machine."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.signals import end_on_signals
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import require

if TYPE_CHECKING:
    import argparse

    from wavebed.reproduce.small_packets import Reproduction

__all__ = ["STUDIES", "register", "run"]

STUDIES = ("small-packets", "cas-mmwave", "bbr-5g", "kau-e5g")
_READY = ("small-packets",)

_DESCRIPTION = (
    "Reproduce the method of a published study. small-packets: five datapaths of this machine (bridge, routing, NAT,"
    " XDP, a relay in user space) as devices, offered 1 Gbit/s at L1 at most; the study's throughput and 64-byte tests,"
    " the loss-free rate, in six rounds in a drawn order; its tables beside the published ones."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser(
        "reproduce", help="reproduce the method of a published study", description=_DESCRIPTION
    )
    parser.add_argument("study", metavar="STUDY", help="small-packets")
    parser.add_argument("--quick", action="store_true", help="short trials: minutes, for a first look")
    parser.add_argument("--seed", metavar="N", help="of the order in each round (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="folder of the results, new or empty (default: runs/NAME-TIME)"
    )


def run(args: argparse.Namespace) -> int:
    """Enter the sandbox, test all devices, and print the results."""
    from wavebed.config.problems import choose
    from wavebed.forward.sandbox import enter

    study = at("STUDY", lambda given: choose(given, STUDIES), args.study)
    if study not in _READY:
        raise UserError(f"STUDY: {study} cannot be reproduced by one command yet: {', '.join(_READY)} can")
    seed = 1 if args.seed is None else at("--seed", number(0, 2**32 - 1), args.seed)
    require("forward", "the forwarding test")
    folder = args.output if args.output is not None else _new_folder(study)
    enter(sys.argv[1:])
    end_on_signals()
    from wavebed.cli.progress import Progress
    from wavebed.reproduce.small_packets import repeat, said_plan

    with Progress("wavebed reproduce") as progress:
        progress.note(said_plan(quick=args.quick))
        command_line = ["wavebed", *sys.argv[1:]]
        reproduction = repeat(quick=args.quick, seed=seed, progress=progress, folder=folder, command_line=command_line)
    return _tell(args, reproduction, folder, seed)


def _tell(args: argparse.Namespace, reproduction: Reproduction, folder: Path, seed: int) -> int:
    from wavebed.forward.tables import compare
    from wavebed.forward.verdicts import verdict_of
    from wavebed.reproduce.small_packets_text import tables_text
    from wavebed.reproduce.small_packets_write import tables_json, write_reproduction

    if not reproduction.results:
        raise KeyboardInterrupt
    comparison = compare(reproduction.results)
    page = write_reproduction(folder, reproduction, comparison, seed, ["wavebed", *sys.argv[1:]])
    if args.json:
        told = {**tables_json(comparison, reproduction), "seed": seed, "folder": str(folder), "report": str(page)}
        print(json.dumps(told, allow_nan=False, ensure_ascii=False))
    else:
        print(f"{tables_text(comparison)}\n\nresults: {folder}\nreport: {page}")
    if reproduction.interrupted:
        raise KeyboardInterrupt
    measured = [verdict_of(result) != "invalid" for result in reproduction.results]
    return 0 if all(measured) else WavebedError.exit_status


def _new_folder(study: str) -> Path:
    return Path("runs") / f"{study}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
