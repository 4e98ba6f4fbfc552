"""A path that carries nothing: each workload ends at its limit and claims nothing that did not happen."""

from __future__ import annotations

import pytest
from tests.lab.workload_trial import Trial, run_scenario

KINDS = {
    "bulk": ("failed", "nothing arrived down within 1 s"),
    "download": ("partial", "stopped at its limit of 1 s with 0 of 2000000 bytes"),
    "latency": ("ok", ""),
    "voice": ("failed", "irtt left no result"),
}


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """All workloads that need no browser."""
    text = '[path]\nrate = "20mbit"\ndelay = "20ms"\nloss = "100%"\n'
    limits = {kind: 'duration = "2s"' if kind == "latency" else 'limit = "1s"' for kind in KINDS}
    text += "".join(f'[[workload]]\nkind = "{kind}"\n{limit}\n' for kind, limit in limits.items())
    return run_scenario(text, tmp_path_factory.mktemp("silent"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_reason_says_that_nothing_came(silent: Trial, kind: str) -> None:
    status, reason = KINDS[kind]
    assert silent.outcome(kind).status == status
    assert silent.outcome(kind).reason.startswith(reason)


def test_a_download_without_a_byte_has_no_times(silent: Trial) -> None:
    found = silent.metrics("download")
    assert (found.pop("bytes"), found.pop("goodput")) == (0, 0)
    assert list(found.values()) == [None] * 3


def test_unanswered_probes_are_lost_and_have_no_round_trip(silent: Trial) -> None:
    found = silent.metrics("latency")
    assert found["probe loss"] == 100
    assert found["rtt average"] is None
    assert silent.outcome("latency").doubts == ["ping: no probe was answered"]


def test_both_links_drop_all_that_they_are_offered(silent: Trial) -> None:
    for name in ("radio.up", "radio.down"):
        link = silent.engine("links", name)
        assert link["delivered_segments"] == 0
        assert link["dropped_segments"]["loss"] == link["offered_segments"] - link["queued_segments"]
    assert silent.engine("links", "radio.up")["offered_segments"] > 0
