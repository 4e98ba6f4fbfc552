"""What channels cost, as a multiple of a peer: modes 3gpp and reference on the shipped scenes."""

from __future__ import annotations

from dataclasses import replace

from tests.costs import least_ratio

from wavebed.channel import ensemble, realise
from wavebed.channel.reference import gains, needed_db, realise_reference
from wavebed.scene import load


def test_16_seeds_of_40_s_cost_at_most_15_times_their_peer():
    """Measured, quiet and beside programs that fill the memory bus: 8 to 13 times, one seed 1.0 to 1.4 times."""
    scene = load("kau-e5g-1")
    assert (scene.duration_s, scene.step_s) == (40.0, 0.001)
    assert least_ratio(lambda: realise(scene)) < 2
    assert least_ratio(lambda: list(ensemble(scene, seeds=range(16)))) < 15


def test_the_cost_is_at_most_linear_in_time_and_in_obstacles():
    scene = load("kau-e5g-3")
    finer = replace(scene, step_s=scene.step_s / 4)
    crowded = replace(
        scene, obstacles=tuple(replace(each, name=f"{each.name} {k}") for each in scene.obstacles for k in range(4))
    )
    for longer in (finer, crowded):
        assert least_ratio(lambda longer=longer: realise(longer), lambda: realise(scene)) < 1.5 * 4


def test_40_s_in_steps_of_a_millisecond_cost_at_most_four_times_their_peer() -> None:
    """The first time, with the draw of the instances: less than a fifth of a second. Measured: 1.0 to 1.2 times."""
    scene = load("kau-e5g-1")

    def first() -> None:
        gains.cache_clear()
        needed_db.cache_clear()
        realise_reference(scene, [0])

    assert least_ratio(first) < 4
