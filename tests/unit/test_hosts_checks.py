"""The checks of a trial between real hosts, and one-way delays between their clocks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from wavebed.lab.protocol import ClockOffset
from wavebed.run.hosts import cross_traffic_check, hosts_checks
from wavebed.workload.probing import EchoProbe, on_one_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json


def host(name: str, **changes: Json) -> dict[str, Json]:
    return {
        "name": name,
        "address": "192.0.2.1",
        "address_at_end": "192.0.2.1",
        "rx_dropped": 0,
        "tx_dropped": 0,
        "clock_ahead_s": 0.05,
        "clock_error_s": 0.001,
        "load": {"intervals": 100, "saturated": 2, "late": 0},
        **changes,
    }


def broken(*hosts: dict[str, Json]) -> dict[str, str]:
    checks = hosts_checks({"hosts": [*hosts]})
    assert all(check.evidence for check in checks)
    return {check.code: check.severity for check in checks if not check.holds}


def test_two_quiet_hosts_pass_every_check() -> None:
    assert not broken(host("server"), host("client"))


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"address_at_end": "192.0.2.9"}, "address-changed", "invalid"),
        ({"clock_ahead_s": None, "clock_error_s": None}, "clock-set", "suspect"),
        ({"rx_dropped": 3}, "lost-at-host", "suspect"),
        ({"load": {"intervals": 100, "saturated": 30, "late": 0}}, "host-slow", "suspect"),
        ({"load": {"intervals": 100, "saturated": 0, "late": 5}}, "host-slow", "suspect"),
    ],
)
def test_each_fault_of_a_host_breaks_its_check(change: dict[str, Json], code: str, severity: str) -> None:
    assert broken(host("server"), host("client", **change)) == {code: severity}


def test_a_server_behind_nat_whose_interface_is_unknown_passes() -> None:
    assert not broken(host("server", address=None, address_at_end=None, rx_dropped=None), host("client"))


def test_a_trial_without_a_summary_is_invalid() -> None:
    (check,) = hosts_checks({})
    assert (check.holds, check.severity) == (False, "invalid")


def modem(*cells: tuple[str | None, str | None]) -> dict[str, Json]:
    samples: list[Json] = [{"cell": cell, "band": band} for cell, band in cells]
    return {"hosts": [host("server"), host("client")], "modem": {"samples": samples}}


def test_a_trial_in_which_cell_or_band_changes_is_suspect() -> None:
    for changed in (modem(("1", "78"), ("2", "78")), modem(("1", "78"), (None, "41"))):
        (check,) = [each for each in hosts_checks(changed) if not each.holds]
        assert (check.code, check.severity) == ("cell-changed", "suspect")
    assert all(each.holds for each in hosts_checks(modem(("1", "78"), ("1", None))))


def suspected(before: Sequence[float], after: Sequence[float]) -> bool:
    return not cross_traffic_check(before, after).holds


@pytest.mark.parametrize("shift", [2.0, 0.5])
def test_an_idle_path_that_is_slower_or_faster_after_the_trial_is_suspect(shift: float) -> None:
    source = random.Random(1)
    before = [20 + source.expovariate(0.5) for _ in range(20)]
    assert suspected(before, [shift * each for each in before])


def test_a_shift_on_a_path_whose_delay_is_the_same_at_each_ping_is_suspect() -> None:
    assert suspected([10.2] * 19 + [10.1], [30.2] * 19 + [30.3])


def test_a_small_shift_and_too_few_pings_are_no_sign_of_cross_traffic() -> None:
    assert not suspected([20.0] * 20, [20.9] * 20)
    assert not suspected([0.2] * 20, [0.9] * 20)
    assert not suspected([20.0] * 9, [90.0] * 20)
    assert not suspected([], [])


class Clocked:
    """A host whose clock is ahead by a constant."""

    def __init__(self, offset: ClockOffset | None) -> None:
        self._offset = offset

    def clock_offset(self, at_s: float) -> ClockOffset | None:
        assert at_s >= 0
        return self._offset


def delays(server: ClockOffset | None, client: ClockOffset | None) -> tuple[list[float | None], dict[str, Json]]:
    probes = [EchoProbe(number, float(number), 20.0, up_ms=60.0, down_ms=-40.0) for number in range(3)]
    corrected, told = on_one_clock(probes, Clocked(server), Clocked(client))  # type: ignore[arg-type]
    return [each for probe in corrected for each in (probe.up_ms, probe.down_ms)], told


def test_one_way_delays_are_corrected_by_the_offset_of_the_clocks() -> None:
    found, told = delays(ClockOffset(0.05, 0.0005), ClockOffset())
    assert found == pytest.approx([10.0] * 6)
    assert told["error of the clocks, ms"] == pytest.approx(0.5)


def test_one_way_delays_that_the_clocks_do_not_bear_are_left_out() -> None:
    found, told = delays(ClockOffset(0.05, 0.01), ClockOffset())
    assert found == [None] * 6
    assert "10.000 ms" in str(told["one-way delays"])


def test_a_clock_that_was_set_leaves_no_one_way_delays() -> None:
    found, told = delays(None, ClockOffset())
    assert found == [None] * 6
    assert "was set" in str(told["one-way delays"])


def test_hosts_with_one_clock_keep_their_delays() -> None:
    probes = [EchoProbe(0, 0.0, 20.0, up_ms=12.0, down_ms=8.0)]
    corrected, told = on_one_clock(probes, Clocked(ClockOffset()), Clocked(ClockOffset()))  # type: ignore[arg-type]
    assert (corrected, told) == (probes, {})
