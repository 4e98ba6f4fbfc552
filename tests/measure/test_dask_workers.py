"""Workers of Dask on this machine: how fast two are, and that a real laboratory on one keeps others waiting."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.dask_workers import DaskWorkers
from tests.simulated_trials import large_trial
from tests.worker_campaigns import Told, campaign_in

from wavebed.campaign.run import run_campaign
from wavebed.run.executor.cluster import DaskCluster
from wavebed.run.executor.remote import Remote

if TYPE_CHECKING:
    from pathlib import Path

_BLOCKS = 2
"""Of two trials of ten seconds each: few and long ones. Workers on one machine share the processors that pack results,
and shorter trials would tell how fast those are."""


def test_two_workers_are_1_9_times_as_fast_as_one_with_results_of_20_mib(tmp_path: Path) -> None:
    took = {}
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        cluster = DaskWorkers(folder / "dask", count)
        with cluster, Remote(DaskCluster(cluster.address), Told(), large_trial) as remote:
            remote.site([])
            began = time.monotonic()
            run_campaign(campaign_in(folder, _BLOCKS), folder / "run", [], Told(), remote)
            took[count] = time.monotonic() - began
    assert took[1] >= 1.9 * took[2], took
