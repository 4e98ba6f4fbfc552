"""Models of TCP's steady throughput, against values computed by hand."""

from __future__ import annotations

import pytest

from wavebed.reproduce.tcp_models import bbr_mbps, cubic_mbps, mathis_mbps, pftk_mbps

WIRED = (1e-4, 0.08)
WIRELESS = (0.01, 0.001)


def test_mathis_by_hand() -> None:
    # sqrt(1.5 / 0.0001) = 122.474 segments of 11584 bits in 80 ms.
    assert mathis_mbps(*WIRED) == pytest.approx(17.7343, rel=1e-4)
    # 12.2474 segments in 1 ms.
    assert mathis_mbps(*WIRELESS) == pytest.approx(141.874, rel=1e-4)
    assert mathis_mbps(*WIRED, mss=724) == pytest.approx(17.7343 / 2, rel=1e-4)


def test_cubic_is_cubic_on_a_long_path_and_reno_on_a_short_one() -> None:
    # (0.4 * 3.7 / 1.2)^(1/4) = 1.05383, times (0.08 / 0.0001)^(3/4) = 150.424: 158.521 segments in 80 ms.
    assert cubic_mbps(*WIRED) == pytest.approx(22.9539, rel=1e-4)
    # 1.05383 * 0.1^(3/4) = 0.187 segments, less than Reno's 12.2.
    assert cubic_mbps(*WIRELESS) == mathis_mbps(*WIRELESS)


def test_cubic_windows_by_hand() -> None:
    """Segments at a round trip of 0.1 s; at 0.1 % Reno's window is the larger one."""
    for loss, window in ((1e-3, 38.73), (1e-4, 187.40), (1e-5, 1053.8), (1e-6, 5926.1)):
        assert cubic_mbps(loss, 0.1) * 0.1 / 11584e-6 == pytest.approx(window, rel=1e-3)


def test_pftk_by_hand() -> None:
    # 80 ms * sqrt(2e-4 / 3) = 653.197 us; 280 ms * 3 sqrt(3e-4 / 8) * 1e-4 = 0.514393 us.
    assert pftk_mbps(*WIRED) == pytest.approx(11584 / 653.711, rel=1e-4)
    # 81.6497 us + 201 ms * 3 sqrt(0.03 / 8) * 0.01 * 1.0032 = 370.442 us.
    assert pftk_mbps(*WIRELESS) == pytest.approx(11584 / 452.092, rel=1e-4)


def test_pftk_without_timeouts_is_mathis() -> None:
    assert pftk_mbps(1e-8, 0.08) == pytest.approx(mathis_mbps(1e-8, 0.08), rel=1e-3)


def test_pftk_gains_from_a_shorter_timeout_where_round_trips_are_short() -> None:
    assert pftk_mbps(*WIRELESS, rto_min=0.005) > 4 * pftk_mbps(*WIRELESS)
    assert pftk_mbps(*WIRED, rto_min=0.005) < 1.01 * pftk_mbps(*WIRED)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"loss": 0.0, "rtt": 1.0}, "loss"),
        ({"loss": 1.1, "rtt": 1.0}, "loss"),
        ({"loss": 0.1, "rtt": 0.0}, "rtt"),
        ({"loss": 0.1, "rtt": 1.0, "mss": 0}, "mss"),
        ({"loss": 0.1, "rtt": 1.0, "rto_min": -1.0}, "rto_min"),
    ],
)
def test_values_out_of_range_are_refused(given: dict[str, float], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{wrong}: "):
        pftk_mbps(**given)  # type: ignore[arg-type]


def test_bbr_fills_the_link_but_for_its_probes() -> None:
    # 1448 of 1500 bytes, 99 of 100 packets, 98 of 100 seconds.
    assert bbr_mbps(0.01, 1000) == pytest.approx(1000 * 1448 / 1500 * 0.99 * 0.98)
    assert bbr_mbps(0, 10) > bbr_mbps(0.1, 10)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((0.2, 10), "loss: 0.2 is no probability below 0.2"),
        ((-0.1, 10), "loss: -0.1 is no probability"),
        ((0.1, 0), "link_mbps: 0 is no rate above 0"),
        ((0.1, 10, 0), "mss: 0 is no size above 0"),
    ],
)
def test_bbr_outside_its_range_is_refused(given: tuple[float, ...], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        bbr_mbps(*given)
