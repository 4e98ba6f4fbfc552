"""Sizes and rates: the figures of the literature, and the study's trap."""

from __future__ import annotations

import itertools
from statistics import fmean

import pytest

from wavebed.errors import UserError
from wavebed.forward.frames import (
    RFC2544_SIZES_BYTES,
    SIMPLE_IMIX,
    Headers,
    Rates,
    check_sizes,
    genome,
    line_rate_pps,
    spread,
    study_conversion,
)

V4 = Headers()


def test_the_seven_sizes_at_gigabit_give_the_figures_of_the_literature() -> None:
    figures = [round(line_rate_pps(1000, [size])) for size in RFC2544_SIZES_BYTES]
    assert figures == [1_488_095, 844_595, 452_899, 234_962, 119_732, 96_154, 81_274]


def test_ten_gigabit_is_ten_times_gigabit() -> None:
    assert round(line_rate_pps(10_000, [64])) == 14_880_952


def test_line_rate_is_the_speed_of_the_link_at_l1_for_every_size() -> None:
    for size in RFC2544_SIZES_BYTES:
        rates = Rates.of_pps(line_rate_pps(1000, [size]), [size], V4)
        assert rates.l1_mbps == pytest.approx(1000, rel=1e-12)


def test_the_three_rates_of_the_smallest_frame_at_line_rate() -> None:
    rates = Rates.of_pps(line_rate_pps(1000, [64]), [64], V4)
    assert rates.pps == pytest.approx(1_488_095.238, abs=1e-3)
    assert rates.frame_mbps == pytest.approx(761.905, abs=1e-3)
    assert rates.payload_mbps == pytest.approx(214.286, abs=1e-3)


def test_a_capture_shows_four_bytes_less_than_a_frame_has() -> None:
    assert V4.frame_bytes(18) - 4 == 60
    assert V4.frame_bytes(1472) - 4 == 1514


@pytest.mark.parametrize(
    ("headers", "bare", "stamped"),
    [
        (V4, 64, 64),
        (Headers(vlan=True), 64, 68),
        (Headers(pppoe=True), 64, 72),
        (Headers(ipv6=True), 66, 84),
        (Headers(ipv6=True, vlan=True, pppoe=True), 78, 96),
    ],
)
def test_the_smallest_frames(headers: Headers, bare: int, stamped: int) -> None:
    assert max(64, headers.overhead_bytes) == bare
    assert headers.smallest_stamped_bytes == stamped
    assert headers.frame_bytes(18) == stamped


def test_pppoe_and_ipv6_lower_the_rate_of_the_same_payload() -> None:
    assert line_rate_pps(1000, [Headers(pppoe=True).frame_bytes(18)]) / 1e6 == pytest.approx(1.359, abs=5e-4)
    assert line_rate_pps(1000, [Headers(ipv6=True).frame_bytes(18)]) / 1e6 == pytest.approx(1.202, abs=5e-4)


def test_sizes_that_cannot_be_are_refused_with_the_one_that_can() -> None:
    with pytest.raises(UserError, match="at least 84 B"):
        check_sizes([64], Headers(ipv6=True))
    with pytest.raises(UserError, match="at most 1518 B"):
        check_sizes([1519], V4)
    check_sizes([1522], Headers(vlan=True))
    check_sizes([9018], V4, mtu=9000)


def test_the_studys_formula_gives_a_fifth_of_the_rate_from_iperf3s_figure() -> None:
    conversion = study_conversion(214.3)
    assert conversion.study_mpps == pytest.approx(0.319, abs=5e-4)
    assert conversion.corrected_mpps == pytest.approx(1.488, abs=5e-4)
    assert conversion.factor == pytest.approx(4.67, abs=5e-3)
    assert conversion.possible


def test_the_printed_rate_needs_what_gigabit_cannot_carry() -> None:
    conversion = study_conversion(994.56)
    assert conversion.study_mpps == pytest.approx(1.48)
    assert conversion.corrected_mpps == pytest.approx(6.9, abs=0.01)
    assert not conversion.possible


def test_nothing_is_still_nothing() -> None:
    assert study_conversion(0.0).corrected_mpps == 0
    assert study_conversion(0.0).factor == pytest.approx(84 / 18)


def test_the_simple_mix_is_seven_four_one() -> None:
    assert sorted(SIMPLE_IMIX) == [64] * 7 + [594] * 4 + [1518]
    assert fmean(SIMPLE_IMIX) == pytest.approx(361.83, abs=0.01)


def test_the_mix_spreads_each_size_over_the_row() -> None:
    places = [place for place, size in enumerate(SIMPLE_IMIX) if size == 594]
    around = [*places, places[0] + len(SIMPLE_IMIX)]
    assert [later - place for place, later in itertools.pairwise(around)] == [3, 3, 3, 3]


def test_a_genome_names_the_letters_it_invents() -> None:
    text = genome(SIMPLE_IMIX)
    row = text.removeprefix("IMIX - ").removesuffix(" (A=594)")
    assert {letter: row.count(letter) for letter in row} == {"a": 7, "A": 4, "g": 1}
    assert genome(spread([(64, 1), (9000, 1)])) == "IMIX - ai"
    assert genome([100, 200, 64]) == "IMIX - ABa (A=100, B=200)"


def test_a_genome_ends_with_its_letters() -> None:
    with pytest.raises(UserError, match="26 sizes"):
        genome(range(100, 127))
