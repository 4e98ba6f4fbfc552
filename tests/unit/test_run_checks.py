"""The verdict of a trial: what makes it suspect, invalid or failed, with the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.result.model import Check, WorkloadRecord
from wavebed.run.checks import engine_checks, processor_check, verdict
from wavebed.workload.model import Outcome, Span

if TYPE_CHECKING:
    from wavebed.config.data import Json

LINK: dict[str, Json] = {
    "name": "radio.down",
    "offered_segments": 1000,
    "delivered_segments": 1000,
    "dropped_segments": {},
    "unaccounted_segments": 0,
}
DEPARTURE: dict[str, Json] = {
    "name": "server-client.down",
    "refused_segments": 0,
}
HOST: dict[str, Json] = {"name": "client", "device_dropped_packets": 0, "udp_receive_buffer_errors": 0}


def engine(**changes: Json) -> dict[str, Json]:
    link, departure, host = dict(LINK), dict(DEPARTURE), dict(HOST)
    for part in (link, departure, host):
        part.update({key: value for key, value in changes.items() if key in part})
    return {
        "links": [link],
        "departures": [departure],
        "hosts": [host],
        "sampler": changes.get("sampler"),
        "checks": [
            {
                "code": "gaps",
                "name": "engine kept running",
                "holds": "stood_still" not in changes,
                "severity": changes.get("stood_still", "suspect"),
                "evidence": "the engine stood still for up to 60.0 ms at 1.2 s",
            }
        ],
        "missing": changes.get("missing", []),
    }


def judged(summary: dict[str, Json], *workloads: WorkloadRecord) -> tuple[str, list[str]]:
    return verdict(engine_checks(summary), workloads)


def record(outcome: Outcome) -> WorkloadRecord:
    return WorkloadRecord("download", "download", Span(0, 1, is_load=True), outcome)


def test_a_quiet_trial_is_valid_and_says_why() -> None:
    assert judged(engine(), record(Outcome())) == ("valid", [])
    assert all(check.evidence for check in engine_checks(engine()))
    codes = [check.code for check in engine_checks(engine())]
    assert all(codes)
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize(
    ("summary", "expected", "reason"),
    [
        (engine(unaccounted_segments=-2), "invalid", "2 unaccounted for"),
        (engine(refused_segments=1), "invalid", "1 refused by devices"),
        (engine(device_dropped_packets=3), "invalid", "3 lost at devices"),
        (engine(dropped_segments={"packet_memory": 1200}), "suspect", "1,200 segments dropped at the packet memory"),
        (engine(udp_receive_buffer_errors=2), "suspect", "2 UDP datagrams"),
        (engine(stood_still="suspect"), "suspect", "60.0 ms at 1.2 s"),
        (engine(stood_still="invalid"), "invalid", "60.0 ms at 1.2 s"),
        (engine(sampler={"rounds": 80, "missed": 20}), "suspect", "20 of 100 TCP_INFO sampling rounds"),
        (
            engine(missing=["series: cannot write radio.down.csv: No space left on device: rows are missing"]),
            "suspect",
            "No space left on device",
        ),
        (engine(missing=["client: no counters: No such file"]), "suspect", "no counters"),
        ({}, "invalid", "without a summary"),
    ],
)
def test_each_condition_has_its_severity_and_its_evidence(summary: dict[str, Json], expected: str, reason: str) -> None:
    found, reasons = judged(summary, record(Outcome()))
    assert found == expected
    assert any(reason in line for line in reasons)


def test_what_the_path_and_the_programs_themselves_spoil_is_no_doubt() -> None:
    dropped: dict[str, Json] = {"corrupted_header": 40, "malformed": 3, "loss": 7, "overflow": 9}
    assert judged(engine(dropped_segments=dropped), record(Outcome())) == ("valid", [])


def test_one_lost_datagram_in_ten_thousand_is_no_doubt() -> None:
    assert judged(engine(udp_receive_buffer_errors=1), record(Outcome())) == ("valid", [])


def test_a_laboratory_that_ended_by_itself_says_why() -> None:
    (check,) = engine_checks({}, "a remark\nwavebed-core: the link engine ended unexpectedly (status 101)\n")
    assert check.evidence.endswith("without a summary: the link engine ended unexpectedly (status 101)")


def test_a_workload_that_failed_comes_before_an_engine_that_was_late() -> None:
    found, reasons = judged(engine(stood_still="invalid"), record(Outcome("failed", "nginx went away")))
    assert found == "failed"
    assert reasons[0] == "download: nginx went away"


def test_a_partial_result_counts_and_a_doubt_of_a_workload_marks_the_trial() -> None:
    assert judged(engine(), record(Outcome("partial", "stopped at its limit of 40 s"))) == ("valid", [])
    assert judged(engine(), record(Outcome(doubts=["frames were dropped"])))[0] == "suspect"


def test_processors_that_were_busy_now_and_then_are_no_doubt() -> None:
    assert processor_check([1.0] * 2 + [0.5] * 8).holds
    assert not processor_check([1.0] * 3 + [0.5] * 7).holds
    assert processor_check([]).holds


def test_what_does_not_hold_is_named() -> None:
    assert verdict([Check("engine on time", False, "suspect", "late")], [])[1] == ["check failed: engine on time: late"]
