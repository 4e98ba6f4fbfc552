"""Programs that were stopped and workloads that did a part of their work mark their trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.result.model import WorkloadRecord
from wavebed.run.checks import verdict
from wavebed.run.whole import partial_check, stopped_checks
from wavebed.workload.model import Outcome, Span

if TYPE_CHECKING:
    from wavebed.workload.model import Status


def record(status: Status, reason: str = "") -> WorkloadRecord:
    return WorkloadRecord("bulk", "bulk", Span(0.0, 1.0, is_load=True), Outcome(status, reason))


def test_a_partial_workload_makes_its_trial_suspect() -> None:
    partial = record("partial", "stopped at its limit of 5 s")
    found, reasons = verdict([partial_check([record("ok"), partial])], [partial])
    assert found == "doubtful"
    assert reasons == ["not so: every workload is whole: bulk: stopped at its limit of 5 s"]


def test_a_trial_whose_workloads_are_whole_is_valid() -> None:
    assert verdict([partial_check([record("ok")]), *stopped_checks({})], [record("ok")]) == ("valid", [])


@pytest.mark.parametrize(("stopped_s", "expected"), [(0.02, "doubtful"), (3.2, "invalid")])
def test_a_program_that_was_stopped_marks_its_trial(stopped_s: float, expected: str) -> None:
    engine = {"stopped_programs": [{"host": "server", "program": "iperf3", "stopped_s": stopped_s}]}
    found, (reason,) = verdict(stopped_checks(engine), [record("ok")])  # type: ignore[arg-type]
    assert found == expected
    assert reason == f"not so: no program was stopped: iperf3 on server was stopped for {stopped_s:.2f} s"
