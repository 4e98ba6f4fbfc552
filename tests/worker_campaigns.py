"""A campaign of simulated trials, and whether its results on workers agree with those on one machine."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tests.simulated_trials import quick_trial

from wavebed.campaign.read import read_campaign
from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.run import run_campaign
from wavebed.run.progress import Live
from wavebed.store.journal import BlockEnded, Event, TrialStored, read_journal
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest

    from wavebed.campaign.read import Campaign

__all__ = ["Told", "agree", "campaign_in"]

_SCENARIO = '[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n'
_CAMPAIGN = """
title = "two delays"
scenario = "s.toml"
[campaign]
blocks = {blocks}
seed = 5
[[factor]]
name = "delay"
key = "path.delay"
values = ["5ms", "20ms"]
[[primary]]
workload = "command"
metric = "time"
margin = "5%"
{more}
"""


class Told(Live):
    """The progress, which acts when a block has ended."""

    def __init__(self, acts: Mapping[int, Callable[[], None]] | None = None) -> None:
        super().__init__("wavebed campaign", io.StringIO())
        self._acts = acts or {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, BlockEnded) and event.block in self._acts:
            self._acts[event.block]()
        super().__call__(event)

    @property
    def text(self) -> str:
        """What was said."""
        assert isinstance(self._stream, io.StringIO)
        return self._stream.getvalue()


def campaign_in(folder: Path, blocks: int, more: str = "") -> Campaign:
    """Write and read a campaign of two cells."""
    (folder / "s.toml").write_text(_SCENARIO)
    (folder / "c.toml").write_text(_CAMPAIGN.format(blocks=blocks, more=more))
    return read_campaign(folder / "c.toml")


def agree(folder: Path, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the results in `folder`/run: as on this machine, nothing twice, nothing left."""
    monkeypatch.setattr("wavebed.run.runner.run_trial", quick_trial)
    monkeypatch.setenv("WAVEBED_LOCK", str(folder / "lock"))
    run_campaign(campaign, folder / "whole", [], Told())
    one, other = (load_run(folder / name) for name in ("whole", "run"))
    columns = ["folder", "block", "treatment", "seed", "verdict"]
    assert one.trials[columns].equals(other.trials[columns])
    tables = [
        read_campaign_results(folder / name).metrics.to_pandas().drop(columns="machine") for name in ("whole", "run")
    ]
    assert tables[0].equals(tables[1])
    events = read_journal(folder / "run")
    stored = [event.trial for event in events if isinstance(event, TrialStored)]
    assert stored == [line.folder for line in other.record.trials]
    ended = [event.block for event in events if isinstance(event, BlockEnded)]
    assert ended == sorted(set(ended))
    for inside in ("", "trials"):
        names = [sorted(path.name for path in (folder / name / inside).iterdir()) for name in ("whole", "run")]
        assert names[0] == names[1]
