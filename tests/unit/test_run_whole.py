"""Workloads that did a part of their work mark their trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.result.model import WorkloadRecord
from wavebed.run.checks import partial_check, verdict
from wavebed.workload.model import Outcome, Span

if TYPE_CHECKING:
    from wavebed.workload.model import Status


def record(status: Status, reason: str = "") -> WorkloadRecord:
    return WorkloadRecord("bulk", "bulk", Span(0.0, 1.0, is_load=True), Outcome(status, reason))


def test_a_partial_workload_makes_its_trial_suspect() -> None:
    partial = record("partial", "stopped at its limit of 5 s")
    found, reasons = verdict([partial_check([record("ok"), partial])], [partial])
    assert found == "suspect"
    assert reasons == ["check failed: every workload is complete: bulk: stopped at its limit of 5 s"]


def test_a_trial_whose_workloads_are_whole_is_valid() -> None:
    assert verdict([partial_check([record("ok")])], [record("ok")]) == ("valid", [])
