"""The values of a forwarding test: the rates of its repeats under overload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.compare.find import ONLY
from wavebed.compare.samples import Folder, Sample, Series
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from wavebed.compare.samples import Key
    from wavebed.forward.read import ForwardRun

__all__ = ["METRIC", "forward_samples"]

METRIC = Metric("received", None, "frames/s", "higher", "received frames over the time of sending")
"""The metric of the tests ``throughput`` and ``overload``."""


def forward_samples(run: ForwardRun, name: str) -> Folder:
    """Return the rates of a forwarding test; refused repeats are not counted."""
    result = run.result
    series: dict[Key, Series] = {}
    lost, made = 0, 0
    machine = {what: str(told) for what, told in result.machine.items()}
    facts = {
        "kind of device": result.kind,
        "link": "not known" if result.link_mbps is None else f"{result.link_mbps:g}",
    }
    for test in result.overload:
        trials = [result.trials[place] for place in test.trials]
        counted = np.array([trial.received_pps for trial in trials if trial.verdict == "valid"])
        lost, made = lost + len(trials) - len(counted), made + len(trials)
        facts[f"frames of {test.name}"] = " ".join(map(str, test.sizes_bytes))
        if len(counted):
            series[test.name, METRIC.name] = Series(test.name, METRIC, {ONLY: Sample(counted, np.empty(0, np.int64))})
    return Folder(
        path=run.folder,
        name=name,
        facts={**facts, **machine, **run.record.versions},
        inputs=frozenset(),
        treatments=[ONLY],
        lost={ONLY: (lost, made)},
        seeds=frozenset(),
        unreadable=0,
        has_ended=not any(refusal.code == "interrupted" for refusal in result.refusals),
        campaign=None,
        series=series,
    )
