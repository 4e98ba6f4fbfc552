"""What others send, in the small counts that CI has time for; `make stress` has the full ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stress import disks, packets, records, sockets, transfers

if TYPE_CHECKING:
    import pytest
    from tests.stress.figure import Figure


def hold(figures: list[Figure]) -> None:
    assert [figure for figure in figures if figure.state == "missed"] == []
    assert any(figure.state == "met" for figure in figures), figures


def test_packets_of_every_kind_are_accounted_for() -> None:
    hold(packets.measure(percent=1))


def test_a_control_socket_bears_malformed_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_STRESS_GONE_WITHIN_S", "60")
    hold(sockets.measure(200))


def test_tampered_records_end_in_one_line() -> None:
    hold(records.measure(50))


def test_transfers_over_impaired_paths_are_whole() -> None:
    hold(transfers.measure(6))


def test_full_disks_end_in_one_line() -> None:
    hold(disks.measure())
