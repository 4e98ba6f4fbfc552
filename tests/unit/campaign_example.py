"""A campaign of simulated trials, in a process that can be killed for good."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.forked import forked

from wavebed.campaign.read import read_campaign
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.run.progress import Live
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from wavebed.campaign.read import Campaign
    from wavebed.result.model import Check, Verdict
    from wavebed.run.design import Slot
    from wavebed.run.resolve import Resolved

__all__ = ["at_changes_of_the_disk", "example", "live", "run_until_killed", "simulated"]

_SCENARIO = '[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n'
_CAMPAIGN = """
scenario = "s.toml"
[campaign]
blocks = {blocks}
seed = 5
attempts = {attempts}
[[factor]]
name = "delay"
key = "path.delay"
values = ["5ms", "20ms", "40ms"]
[[primary]]
workload = "command"
metric = "time"
margin = "5%"
"""
_STEPS = ("fsync", "link", "mkdir", "rename", "rmdir", "unlink", "write")
"""Functions of `os` that change what is on the disk."""


def example(folder: Path, blocks: int = 2, attempts: int = 3) -> Campaign:
    """Write a campaign of three cells into a folder and read it."""
    (folder / "s.toml").write_text(_SCENARIO)
    (folder / "c.toml").write_text(_CAMPAIGN.format(blocks=blocks, attempts=attempts))
    return read_campaign(folder / "c.toml")


def live() -> Live:
    """Return a progress line that nobody sees."""
    return Live("wavebed campaign", io.StringIO())


def simulated(
    verdict: Callable[[Slot], Verdict] = lambda _: "valid", began: Callable[[Slot], None] = lambda _: None
) -> Callable[..., TrialRecord]:
    """Return a function that takes the place of `run_trial`; its only metric depends on cell and seed."""

    def trial(
        slot: Slot, _resolved: Resolved, partial: Path, _look: object, of_machine: Callable[[], Sequence[Check]]
    ) -> TrialRecord:
        began(slot)
        (partial / "raw" / "out.txt").write_text("raw")
        value = 100 + random.Random(f"{slot.treatment.name} {slot.seed}").gauss(0, 1)
        workload = WorkloadRecord(
            "command", "command", TimeSpan(0, 1, False), Outcome(metrics=[Metric("time", value, "ms", "lower")])
        )
        found = verdict(slot)
        reasons = [] if found == "valid" else ["not so"]
        head = (slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, found, reasons)
        return TrialRecord(*head, list(of_machine()), [workload], attempt=slot.attempt)

    return trial


@contextmanager
def at_changes_of_the_disk(before: Callable[[], None]) -> Iterator[None]:
    """Call `before` ahead of each change of the disk that this process makes."""

    def announced(do: Callable[..., Any]) -> Callable[..., Any]:
        def change(*given: Any, **named: Any) -> Any:
            before()
            return do(*given, **named)

        return change

    changes = {name: announced(getattr(os, name)) for name in _STEPS}
    with patch.multiple(os, **changes), patch.object(shutil, "rmtree", announced(shutil.rmtree)):
        yield


def run_until_killed(
    campaign: Campaign, folder: Path, step: int, trial: Callable[..., TrialRecord], error: OSError | None = None
) -> bool:
    """Begin a campaign, or go on with it, in a process that ends before its `step`-th change of the disk.

    Parameters
    ----------
    error : OSError or None
        Raised by this change and every later one, instead of SIGKILL.

    Returns
    -------
    bool
        Whether it had ended before.
    """

    def work() -> None:
        left = step

        def before() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                if error is not None:
                    raise error
                os.kill(os.getpid(), signal.SIGKILL)

        with patch("wavebed.run.runner.run_trial", trial), at_changes_of_the_disk(before):
            if (folder / "run.json").exists():
                resume_campaign(campaign, folder, [], live())
            else:
                run_campaign(campaign, folder, [], live())
        os._exit(0)

    _, status = os.waitpid(forked(work), 0)
    return status == 0
