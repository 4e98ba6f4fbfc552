"""The rate within a second: learned from recordings with steps of 100 ms, drawn into walks with steps of a second."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.within import PARTS, draw_within, learn_within, means_and_parts, refined
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.fit.judge import ks_distance
from wavebed.pattern import read_trace, to_native
from wavebed.pattern.model import Pattern, opportunities, steps

SECONDS = 600
NS = 10**9


def walk_bps(seed: int) -> np.ndarray:
    """From 20 to 1000 Mbit/s and back, every three minutes."""
    random = np.random.default_rng(seed)
    means = 140 * 7 ** np.sin(2 * np.pi * (np.arange(SECONDS) / 180 + random.random()))
    return np.rint(1e6 * means).astype(np.int64)


def recording(seed: int, correlation: float = 0.6) -> Pattern:
    """Ratios whose logarithm is an AR(1) process: wide at low rates, narrow at high ones."""
    random = np.random.default_rng([1, seed])
    means = walk_bps(seed) / 1e6
    noise = random.standard_normal(SECONDS * PARTS)
    for part in range(1, len(noise)):
        noise[part] = correlation * noise[part - 1] + np.sqrt(1 - correlation**2) * noise[part]
    width = np.repeat(np.select([means < 100, means < 500], [0.5, 0.2], 0.05), PARTS)
    rates = np.repeat(means, PARTS) * np.exp(width * noise)
    return steps(np.arange(SECONDS * PARTS) * NS // PARTS, SECONDS * NS, rate_bps=np.rint(1e6 * rates).astype(np.int64))


@pytest.fixture(scope="module")
def within():
    return learn_within([(str(seed), recording(seed)) for seed in (1, 2)])


def lag_1(ratios: np.ndarray) -> float:
    return float(((ratios[:, 1:] - 1) * (ratios[:, :-1] - 1)).sum() / ((ratios[:, 1:] - 1) ** 2).sum())


def test_drawn_parts_are_as_those_of_an_unseen_recording(within):
    means, measured = means_and_parts(recording(3))
    whole = np.rint(1e6 * means).astype(np.int64)
    drawn = draw_within(within, whole, 1) / np.maximum(whole, 1)[:, None]
    for low, high in ((1, 100), (100, 500), (500, 2000)):
        here = (means > low) & (means < high)
        assert ks_distance(drawn[here].ravel(), measured[here].ravel()) < 0.08
        assert drawn[here].std() == pytest.approx(measured[here].std(), abs=0.05)
        assert lag_1(drawn[here]) == pytest.approx(lag_1(measured[here]), abs=0.15)


def test_a_second_keeps_its_mean_and_a_seed_its_parts(within):
    whole = walk_bps(4)
    whole[::50] = 0
    drawn = draw_within(within, whole, 7)
    assert (drawn.sum(axis=1) == PARTS * whole).all()
    assert drawn.min() >= 0
    assert np.array_equal(drawn, draw_within(within, whole, 7))
    assert not np.array_equal(drawn, draw_within(within, whole, 8))


def test_independent_parts_have_no_correlation():
    learned = learn_within([("x", recording(1, correlation=0.0))])
    assert learned.stay.max() < 0.1


def test_a_refined_pattern_keeps_its_other_columns(within):
    coarse = steps(
        np.array([0, 2, 3]) * NS,
        4 * NS + NS // 2,
        rate_bps=np.array([8, 0, 4]) * 10**6,
        delay_ns=np.array([5, 6, 7]),
    )
    fine = refined(coarse, within, 1)
    assert fine.period == coarse.period
    assert (np.diff(fine.index) == NS // PARTS).all()
    assert fine.rate_bps[20:30].tolist() == [0] * 10
    assert fine.rate_bps[40:].tolist() == [4 * 10**6] * 5
    assert [int(fine.rate_bps[at : at + PARTS].sum()) for at in (0, 10, 30)] == [8 * 10**7, 8 * 10**7, 4 * 10**7]
    assert fine.delay_ns.tolist() == [5] * 20 + [6] * 10 + [7] * 15


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    whole = walk_bps(5)
    walk = steps(np.arange(SECONDS) * NS, SECONDS * NS, rate_bps=whole)
    for name, pattern in (("walk", walk), ("recording", recording(1)), ("short", recording(1))):
        text = to_native(pattern)
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_convert_draws_parts_by_seed(folder):
    for name, seed in (("one", "1"), ("again", "1"), ("other", "2")):
        options = ["--within", "recording.csv", "--seed", seed, "-o", f"{name}.csv"]
        assert main(["trace", "convert", "walk.csv", *options]) == 0
    one, again, other = (read_trace(f"{name}.csv") for name in ("one", "again", "other"))
    assert one == again != other
    assert len(one) == PARTS * SECONDS
    assert one.total_bits() == read_trace("walk.csv").total_bits()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["walk.csv", "--within", "walk.csv"], "walk.csv: has no rate in steps of 100 ms: name a recording that has"),
        (
            ["recording.csv", "--within", "recording.csv"],
            "recording.csv: has steps below a second already: leave --within out",
        ),
        (
            ["walk.csv", "--within", "recording.csv", "--seed", "x"],
            "--seed: 'x' is not a whole number: write one from 0 to",
        ),
    ],
)
def test_convert_refuses_what_has_no_parts_or_has_them(folder, capsys, arguments, message):
    assert main(["trace", "convert", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"wavebed: {message}")


def test_too_little_is_refused_and_opportunities_have_parts():
    with pytest.raises(UserError, match=r"^x: has 20 s with a rate: name recordings of at least 30 s$"):
        learn_within([("x", steps(np.arange(200) * NS // 10, 20 * NS, rate_bps=np.full(200, 10**7)))])
    times = np.arange(1, 40_001) * 10**6
    means, parts = means_and_parts(opportunities(times, 40 * NS, np.full(40_000, 1500)))
    assert means == pytest.approx(12.0, rel=0.01)
    assert parts == pytest.approx(1.0, rel=0.05)
