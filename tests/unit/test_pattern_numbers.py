"""Columns of numbers are exact, whichever way they are read."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wavebed.errors import UserError
from wavebed.pattern import Source
from wavebed.pattern.numbers import decimals, format_probability, format_scaled, measured, probabilities, split_columns

SOURCE = Source("trace", "")
MOST = 10**18


def line_of(position: int) -> int:
    return position + 1


@given(st.lists(st.integers(0, 10**14) | st.integers(0, MOST), min_size=1, max_size=20))
@example([10**14 - 1])
@example([10**14, 10**14 + 1])
@example([99_999_999_999_999, 1])
def test_decimals_come_back_to_the_nanosecond(values: list[int]) -> None:
    texts = [format_scaled(value, 9) for value in values]
    assert decimals(SOURCE, texts, line_of, "time", digits=9, most=MOST).tolist() == values


@given(st.lists(st.integers(-(10**5), 10**5) | st.integers(-MOST, MOST), min_size=1, max_size=20))
@example([-(10**14), 1])
@example([-1, 0])
def test_signed_decimals_come_back_to_the_thousandth(values: list[int]) -> None:
    texts = [format_scaled(value, 3) for value in values]
    assert decimals(SOURCE, texts, line_of, "SINR", digits=3, most=MOST, signed=True).tolist() == values


@given(st.lists(st.text("0123456789.-+", max_size=7), min_size=1, max_size=3))
def test_only_plain_decimals_with_a_minus_sign_are_read_as_signed(texts: list[str]) -> None:
    magnitudes = [text.removeprefix("-") for text in texts]
    plain = all(
        all(part.isdigit() for part in text.split(".", 1)) and len(text.partition(".")[2]) <= 3 for text in magnitudes
    )
    try:
        values = decimals(SOURCE, texts, line_of, "SINR", digits=3, most=100_000, signed=True)
    except UserError:
        assert not plain or max(map(Decimal, magnitudes)) > 100
        return
    assert plain
    assert values.tolist() == [int(Decimal(text) * 1000) for text in texts]


@given(st.lists(st.text("0123456789.-e ", max_size=12), min_size=1, max_size=4))
def test_only_plain_decimals_are_read(texts: list[str]) -> None:
    plain = all(
        all(part.isdigit() for part in text.split(".", 1)) and len(text.partition(".")[2]) <= 9 for text in texts
    )
    try:
        values = decimals(SOURCE, texts, line_of, "time", digits=9, most=MOST)
    except UserError:
        assert not plain or max(map(Decimal, texts)) * 10**9 > MOST
        return
    assert plain
    assert values.tolist() == [int(Decimal(text) * 10**9) for text in texts]


@given(st.decimals(0, 10**6, allow_nan=False, places=12), st.sampled_from([1, 10**3, 10**6, 10**9]))
def test_measured_values_are_rounded_to_the_nearest(value: Decimal, scale: int) -> None:
    found = measured(SOURCE, [f"{value:f}", f"{value:e}"], line_of, "rate", scale=scale, most=MOST)
    expected = int((value * scale).quantize(Decimal(1), ROUND_HALF_EVEN))
    assert found.tolist() == [expected, expected]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_shares_come_back(values: list[float]) -> None:
    assert probabilities(SOURCE, [format_probability(value) for value in values], line_of, "loss").tolist() == values


@given(st.lists(st.lists(st.text("ab ", max_size=3), min_size=2, max_size=4), min_size=1, max_size=8))
def test_columns_are_split_or_the_first_line_of_another_width_is_named(rows: list[list[str]]) -> None:
    width = len(rows[0])
    found = split_columns([",".join(row) for row in rows], width)
    odd = [position for position, row in enumerate(rows) if len(row) != width]
    if odd:
        assert found == odd[0]
    else:
        assert found == [list(column) for column in zip(*rows, strict=True)]


def test_a_value_past_the_most_is_named_with_its_line() -> None:
    with pytest.raises(UserError, match=r"trace:2: SINR '-100\.001' is too small; the least is -100"):
        decimals(SOURCE, ["1", "-100.001"], line_of, "SINR", digits=3, most=100_000, signed=True)
    with pytest.raises(UserError, match="trace:2: time '1000000001' is too large; the most is 1000000000"):
        decimals(SOURCE, ["1", "1000000001"], line_of, "time", digits=9, most=MOST)
