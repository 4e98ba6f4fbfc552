"""What the learner finds in made-up walks whose courses and places are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.made_up_walks import SECONDS, profile, walk, write_walks

from wavebed.channel.placemap import draw_walks, encode_map
from wavebed.errors import UserError
from wavebed.fit import metrics
from wavebed.fit.align import align, places_of_seconds
from wavebed.fit.forecast import forecast
from wavebed.fit.laps import Lap, find_files, split
from wavebed.fit.learn import Learned, learn
from wavebed.fit.predict import predictions


def laps(numbers) -> list[Lap]:
    return [Lap(f"{number}.txt", walk(number, back=number % 2 == 0)) for number in numbers]


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn(laps(range(1, 11)), "loop", "a loop", "made-up walks")


def test_the_two_directions_of_a_loop_are_two_courses(learned):
    assert learned.places.weights.tolist() == [0.5, 0.5]
    unseen = laps([21, 22, 23, 24])
    found = [each.course for each in align(learned.courses, unseen)]
    assert found[0] == found[2] != found[1] == found[3]


def test_a_place_has_the_rates_that_walks_have_there(learned):
    (alignment,) = align(learned.courses, laps([21]))
    shares = learned.places.shares[alignment.course][places_of_seconds(alignment, SECONDS)]
    mean = shares @ learned.places.quantiles_mbps.mean(axis=1)
    # The edges of stretches are blurred by the window of the counts.
    inner = np.abs(np.subtract.outer(np.arange(SECONDS), [0, 40, 70, 90, 130, SECONDS])).min(axis=1) >= 8
    assert np.corrcoef(mean[inner], profile()[inner])[0, 1] > 0.9


def test_a_slower_walk_passes_the_same_places(learned):
    second = np.arange(SECONDS)
    slow = Lap("slow.txt", walk(21, back=False)[np.where(second < 100, second * 9 // 10, second - 10)])
    (alignment,) = align(learned.courses, [slow])
    (usual,) = align(learned.courses, laps([21]))
    assert alignment.course == usual.course
    places = places_of_seconds(alignment, SECONDS)
    expected = places_of_seconds(usual, SECONDS)
    # Ten seconds late where the fast stretch after the outage begins and ends.
    assert abs(int(places[100]) - int(expected[90])) <= 2


def test_drawn_walks_have_the_rates_of_measured_ones(learned):
    drawn = draw_walks(learned.places, range(1, 101))
    measured = np.concatenate([lap.rates for lap in laps(range(31, 41))])
    assert metrics.ks_distance(drawn.ravel(), measured) < 0.08
    assert metrics.share_below(drawn.ravel(), 100) == pytest.approx(metrics.share_below(measured, 100), abs=0.06)


def test_walks_of_one_rate_can_be_learned():
    places = learn([Lap(f"{number}", np.full(100, 50.0)) for number in range(4)], "flat", "t", "s").places
    assert draw_walks(places, [1, 2]) == pytest.approx(50.0)


def test_one_walk_is_too_few():
    with pytest.raises(UserError, match=r"^1 walk to learn from: name at least 2 beside those held out$"):
        learn(laps([1]), "one", "t", "s")


def test_hidden_seconds_teach_nothing(tmp_path):
    texts = []
    for name, value in (("first", 7777.0), ("other", 8888.0)):
        folder = tmp_path / name
        folder.mkdir()
        for file in write_walks(folder, 6):
            lines = file.read_text().splitlines()
            lines[80:120] = [f"{second + 1:.1f}\t{value}" for second in range(80, 120)]
            file.write_text("\n".join(lines) + "\n")
        found = split(find_files([folder]), "quarter:3")
        assert found.held_out_laps([])[0].known.tolist() == [value] * 40
        texts.append(encode_map(learn(found.fitted_laps([]), "x", "t", "s").places))
    assert texts[0] == texts[1]


def test_a_forecast_uses_no_second_after_its_own(learned):
    lap = laps([21])[0]
    later = replace(lap, rates=np.where(np.arange(SECONDS) < 100, lap.rates, 3.0))
    first, other = (forecast(learned.places, [each], 10, np.random.default_rng(1))[0] for each in (lap, later))
    assert np.array_equal(first[:110], other[:110])
    assert not np.array_equal(first[110:], other[110:])


def test_the_forecast_of_a_walk_does_not_depend_on_its_length(learned):
    long = laps([21])[0]
    short = replace(long, rates=long.rates[:90])
    found = forecast(learned.places, [short, long], 10, np.random.default_rng(1))
    assert [len(each) for each in found] == [90, SECONDS]
    assert np.isfinite(found[0]).all()


def test_who_knows_more_predicts_better(learned):
    pool = np.concatenate([lap.rates for lap in laps(range(1, 11))])
    found = {each.key: each for each in predictions(learned, pool, laps([21, 22, 23, 24]))}
    assert found["pooling"].gain == 0
    assert np.isnan(found["pooling"].correlation)
    assert found["forecast"].gain > 0.4
    assert found["aligned"].gain > 0.4
    assert found["aligned"].gain > found["surrogate"].gain + 0.2
    assert found["forecast"].mae_mbps < found["persistence"].mae_mbps < found["pooling"].mae_mbps
