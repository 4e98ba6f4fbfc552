"""Realisations of mode 3gpp: random streams by seed, states, directions, fallback, others' share, patterns."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from wavebed.channel import Realisation, ensemble, realise, to_pattern
from wavebed.channel.batch import _adapted
from wavebed.channel.budget import LinkBudget
from wavebed.pattern.model import STATES
from wavebed.radio.presets import PRESETS
from wavebed.scene.model import (
    Array,
    BaseStation,
    Box,
    Carrier,
    Fallback,
    Obstacle,
    SceneModel,
    Screen,
    Trajectory,
    Ue,
)
from wavebed.scene.tables import Timers
from wavebed.scene.values import CellLoad

PANEL = Array(8, 8, "3gpp", tracking_error_deg=0.5)
MAST = BaseStation("mast", (0.0, 0.0, 10.0), 30.0, 7.0, PANEL)
WALK = Trajectory((0.0, 1.0, 4.0), ((50.0, 0.0, 1.5), (50.0, 0.0, 1.5), (50.0, 9.0, 1.5)))
SCENE = SceneModel(
    name="made",
    title="A made-up walk",
    anchor="illustrative",
    source=None,
    duration_s=4.0,
    step_s=0.001,
    carrier=Carrier("nr", 28e9, 400e6, 3, 264, "DDDSU"),
    propagation="umi",
    base_stations=(MAST,),
    ue=Ue(WALK, 23.0, 9.0, Array(2, 4, "3gpp")),
    radio=PRESETS["nr-120khz"],
)
HOUSE = Obstacle("house", "building", Box((20.0, 2.0, 0.0), (30.0, 30.0, 20.0)))
PERSON = Obstacle("person", "person", Screen((49.0, 0.0, 0.0), 0.5, 1.8), present_s=((0.5, 1.5),))


def share(realisation: Realisation, state: str) -> float:
    return float((realisation.state == STATES.index(state)).mean())


def arrays(realisation: Realisation) -> dict[str, np.ndarray]:
    named = {field.name: getattr(realisation, field.name) for field in fields(realisation)}
    found = {name: value for name, value in named.items() if isinstance(value, np.ndarray)}
    return found | {f"loss {name}": value for name, value in realisation.losses_db.items()}


def assert_same(one: Realisation, other: Realisation) -> None:
    assert (one.seed, one.intervals, one.warnings) == (other.seed, other.intervals, other.warnings)
    mine, theirs = arrays(one), arrays(other)
    for name, values in mine.items():
        assert np.array_equal(values, theirs[name]), name


EVERYTHING = replace(
    SCENE,
    obstacles=(HOUSE, PERSON),
    reflection_loss_db=15.0,
    base_stations=(MAST, replace(MAST, name="far", position_m=(50.0, 80.0, 10.0))),
    duration_s=4.0005,
)
DRAWN = replace(SCENE, draws_los=True, ue=replace(SCENE.ue, hold="portrait"))


@pytest.mark.parametrize("scene", [SCENE, EVERYTHING, DRAWN], ids=["plain", "everything", "drawn"])
def test_a_seed_alone_equals_its_member_of_an_ensemble(scene: SceneModel):
    for member in ensemble(scene, seeds=[3, 11, 4, 7, 1, 2, 9, 8, 5, 6]):
        if member.seed in (3, 6):
            assert_same(member, realise(scene, seed=member.seed))


def test_one_seed_is_one_channel_and_two_seeds_are_two():
    assert_same(realise(SCENE, seed=5), realise(SCENE, seed=5))
    one, other = realise(SCENE, seed=5), realise(SCENE, seed=6)
    assert not np.array_equal(one.sinr_db, other.sinr_db)
    assert np.array_equal(one.position_m, other.position_m)


def test_an_ensemble_tells_how_far_it_is():
    heard: list[tuple[int, int]] = []
    count = sum(1 for _ in ensemble(SCENE, seeds=range(10), progress=lambda done, of: heard.append((done, of))))
    assert count == 10
    assert heard[-1] == (10, 10)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)


def test_the_parts_of_the_budget_add_up_to_the_sinr():
    got = realise(EVERYTHING, seed=2)
    loss = got.losses_db
    budget_db = loss["gain"] + loss["fading"] - loss["path loss"] - loss["shadowing"] - loss["blockage"]
    noise_dbm = -174 + 10 * np.log10(400e6) + 9
    np.testing.assert_allclose(got.sinr_db, 30 - noise_dbm + budget_db, atol=1e-9)


def test_a_building_makes_nlos_gradually():
    got = realise(replace(SCENE, obstacles=(HOUSE,)), seed=1)
    edge_s = got.intervals[0].end_s
    assert [part.state for part in got.intervals] == ["LOS", "NLOS"]
    assert np.array_equal(got.los, got.time_s < edge_s)
    assert np.array_equal(got.state == STATES.index("nlos"), ~got.los)
    path_loss = got.losses_db["path loss"]
    assert np.abs(np.diff(path_loss)).max() < 0.1  # dB in a millisecond
    before, after = path_loss[0], path_loss[-1]
    at_edge = np.interp(edge_s, got.time_s, path_loss)
    assert before + 5 < at_edge < before + 7  # half of the field: 6 dB
    assert after > before + 15


def test_a_person_blocks_the_direct_path_and_leaves_the_line_of_sight():
    got = realise(replace(SCENE, obstacles=(PERSON,)), seed=1)
    there = (got.time_s >= 0.5) & (got.time_s < 1.0)
    assert got.los.all()
    assert (got.state[there] == STATES.index("blocked")).all()
    assert got.losses_db["blockage"][there].min() > 6
    assert (got.state[got.time_s < 0.5] == STATES.index("los")).all()


def test_a_second_beam_is_the_floor_of_a_blockage():
    wall = Obstacle("sheet", "metal", Screen((48.0, 0.0, 0.0), 4.0, 4.0), present_s=((0.5, 1.5),))
    alone = realise(replace(SCENE, obstacles=(wall,)), seed=1)
    with_floor = realise(replace(SCENE, obstacles=(wall,), reflection_loss_db=12.0), seed=1)
    late = (alone.time_s > 0.6) & (alone.time_s < 0.99)
    assert alone.losses_db["blockage"][late].min() > 20
    assert np.allclose(with_floor.losses_db["blockage"][late], 12.0)


def test_others_take_their_share_over_time():
    alone = realise(SCENE, seed=1)
    shared = realise(replace(SCENE, cell_load=(CellLoad(1.0, 0.25), CellLoad(2.0, 0.75))), seed=1)
    left = np.where(alone.time_s < 1, 1, np.where(alone.time_s < 2, 0.75, 0.25))
    assert np.array_equal(shared.rate_bps, (alone.rate_bps * left).astype(np.int64))
    assert np.array_equal(shared.up_rate_bps, (alone.up_rate_bps * left).astype(np.int64))
    assert np.array_equal(shared.sinr_db, alone.sinr_db)


def test_the_uplink_has_the_power_of_the_handset():
    weak = realise(replace(SCENE, ue=replace(SCENE.ue, power_dbm=-8.0)), seed=4)  # 3.7 dB of shadow
    full = realise(SCENE, seed=4)
    assert np.array_equal(weak.rate_bps, full.rate_bps)
    assert weak.up_rate_bps.mean() < 0.8 * full.up_rate_bps.mean()


def test_the_sinr_of_a_link_is_that_of_one_layer_and_more_layers_carry_more():
    """Radio link monitoring does not see layers (TS 38.133 8.1): they share the power of the data alone."""
    one, two = (realise(replace(SCENE, carrier=replace(SCENE.carrier, layers=most)), seed=1) for most in (1, 2))
    assert np.array_equal(two.sinr_db, one.sinr_db)
    assert two.rate_bps.mean() > 1.5 * one.rate_bps.mean()


@pytest.mark.parametrize("layers", [1, 4])
def test_a_carrier_says_what_its_data_have_and_need(layers: int):
    scene = replace(SCENE, carrier=replace(SCENE.carrier, layers=layers, evm=0.08, implementation_loss_db=2.0))
    budget = LinkBudget(scene)
    down_db, up_db = np.array([np.linspace(-5, 40, 4000)]), np.array([np.linspace(-30, 15, 4000)])
    air = _adapted(budget, budget.sights[0], down_db, up_db, 1.0)
    for sinr_db, data_db, need_db, bler, rate_bps in (
        (down_db, air.data_db, air.need_db, air.bler, air.rate_bps),
        (up_db, air.up_data_db, air.up_need_db, air.up_bler, air.up_rate_bps),
    ):
        assert data_db.shape == need_db.shape == sinr_db.shape
        assert (data_db <= sinr_db + 10 * np.log10(264) - 2).all()
        assert ((bler < 0.1) == (data_db > need_db))[rate_bps > 0].all()
        assert (bler != np.round(bler, 4)).any()
    assert np.array_equal(air.sinr_db, down_db)


BEHIND_STEEL = replace(
    SCENE,
    duration_s=8.0,
    base_stations=(replace(MAST, power_dbm=-16.0),),
    obstacles=(Obstacle("sheet", "metal", Box((45.0, -10.0, 0.0), (45.5, 20.0, 30.0)), present_s=((2.0, 5.0),)),),
)
LTE = Fallback(
    Carrier("lte", 1.8e9, 20e6, None, 100),
    BaseStation("roof", (-100.0, 0.0, 25.0), 46.0, 5.0, Array()),
    "uma",
    0.4,
)


def test_without_a_fallback_carrier_a_lost_link_is_an_outage():
    got = realise(BEHIND_STEEL, seed=4)
    gone = got.state == STATES.index("outage")
    assert 0.3 < gone.mean() < 0.45  # 3 s and the timers, of 8 s
    assert set(got.rate_bps[gone]) == set(got.up_rate_bps[gone]) == {0}
    assert set(got.mcs[gone]) == {-1}
    assert got.rate_bps[~gone].min() > 0


def test_falls_back_with_a_gap_each_way_and_the_rates_of_the_other_carrier():
    got = realise(replace(BEHIND_STEEL, fallback=LTE), seed=4)
    codes = got.state[np.concatenate(([True], got.state[1:] != got.state[:-1]))]
    names = [STATES[code] for code in codes if STATES[code] not in ("blocked", "nlos")]
    assert names == ["los", "outage", "handover", "fallback", "handover", "los"]
    gap = got.state == STATES.index("handover")
    assert gap.sum() == pytest.approx((0.07 + 0.076) / 0.001, abs=2)
    assert got.rate_bps[gap].max() == 0
    rates = got.rate_bps[got.state == STATES.index("fallback")]
    assert rates.min() > 5e6
    assert rates.max() <= 0.6 * 76e6  # 100 blocks of LTE carry 75.4 Mbit/s in one layer; others use 40 %
    assert_same(got, next(r for r in ensemble(replace(BEHIND_STEEL, fallback=LTE), seeds=[1, 4]) if r.seed == 4))


def test_a_split_bearer_has_the_rates_of_the_fallback_carrier_at_all_times():
    scene = replace(BEHIND_STEEL, fallback=LTE)
    plain, got = realise(scene, seed=4), realise(scene.with_bearer("split"), seed=4)
    assert plain.fallback is None
    assert got.fallback is not None
    assert np.array_equal(plain.rate_bps, got.rate_bps)
    fallen = got.state == STATES.index("fallback")
    assert fallen.any()
    assert np.array_equal(got.fallback.rate_bps[fallen], got.rate_bps[fallen])
    assert np.array_equal(got.fallback.up_data_db[fallen], got.up_data_db[fallen])
    assert 5e6 < got.fallback.rate_bps.min() <= got.fallback.rate_bps.max() <= 0.6 * 76e6
    for direction in ("down", "up"):
        both, alone = to_pattern(got, direction), to_pattern(plain, direction)
        assert both.fallback_rate_bps is not None
        assert both.fallback_sinr_mdb is not None
        row = both.state == STATES.index("fallback")
        assert np.array_equal(both.fallback_rate_bps[row], both.rate_bps[row])
        assert np.array_equal(both.fallback_sinr_mdb[row], both.sinr_mdb[row])
        without = replace(both, fallback_rate_bps=None, fallback_sinr_mdb=None, fallback_need_mdb=None)
        assert without.merged() == alone
    seeds = ensemble(scene.with_bearer("split"), seeds=[1, 4])
    again = next(each for each in seeds if each.seed == 4).fallback
    assert again is not None
    assert all(np.array_equal(one, other) for one, other in zip(got.fallback, again, strict=True))


def test_hands_over_to_the_nearer_station():
    two = replace(
        SCENE,
        base_stations=(MAST, replace(MAST, name="next", position_m=(50.0, 40.0, 10.0))),
        ue=replace(SCENE.ue, trajectory=Trajectory((0.0, 3.0), ((5.0, 0.0, 1.5), (45.0, 40.0, 1.5)))),
    )
    got = realise(two, seed=1)
    assert got.serving[0] == 0
    assert got.serving[-1] == 1
    assert share(got, "handover") == pytest.approx(0.05 / 4.0, abs=0.002)


def test_the_length_of_a_handover_is_drawn_by_the_seed():
    walk = Trajectory((0.0, 3.0), ((5.0, 0.0, 1.5), (45.0, 40.0, 1.5)))
    two = replace(
        SCENE,
        base_stations=(MAST, replace(MAST, name="next", position_m=(50.0, 40.0, 10.0))),
        ue=replace(SCENE.ue, trajectory=walk),
        timers=Timers(handover_s=(0.03, 0.4)),
    )
    seeds = range(1, 9)
    lengths = [share(got, "handover") * 4.0 for got in ensemble(two, seeds=seeds)]
    assert all(0.028 <= length <= 0.402 for length in lengths)
    assert max(lengths) > min(lengths) + 0.1
    assert [share(realise(two, seed=seed), "handover") * 4.0 for seed in seeds] == lengths


def test_handovers_of_the_anchor_interrupt_a_kept_cell():
    timers = Timers(anchor_every_s=0.5, anchor_s=(0.1,))
    scene = replace(SCENE, fallback=LTE, timers=timers, duration_s=4.0)
    gaps = [share(got, "handover") * 4.0 for got in ensemble(scene, seeds=range(1, 31))]
    assert np.mean(gaps) == pytest.approx(4.0 / 0.5 * 0.1 / (1 + 0.1 / 0.5), rel=0.2)
    assert share(realise(scene, seed=7), "handover") * 4.0 == gaps[6]
    assert share(realise(replace(scene, timers=Timers()), seed=7), "handover") == 0.0


def test_drawn_los_differs_between_seeds_and_has_intervals_of_its_own():
    far = replace(DRAWN, ue=replace(DRAWN.ue, trajectory=Trajectory((0.0, 4.0), ((60.0, 0.0, 1.5), (60.0, 99.0, 1.5)))))
    several = list(ensemble(far, seeds=range(20)))
    shares = [r.los.mean() for r in several]
    assert min(shares) < 0.3
    assert max(shares) > 0.7
    for got in several:
        lengths = dict.fromkeys(("LOS", "NLOS"), 0.0)
        for part in got.intervals:
            lengths[part.state] += part.end_s - part.start_s
        assert lengths["LOS"] / 4.0 == pytest.approx(got.los.mean(), abs=1e-3)


def test_tdd_fades_alike_in_both_directions_and_fdd_does_not():
    def apart(scene: SceneModel) -> bool:
        """With equal ends, the two directions have one SINR where they fade alike."""
        even = replace(scene, ue=replace(scene.ue, power_dbm=-40.0, noise_figure_db=7.0))
        even = replace(even, base_stations=(replace(MAST, power_dbm=-40.0),))
        got = realise(even, seed=3)
        return not np.allclose(got.data_db, got.up_data_db)

    lte = Carrier("lte", 2.6e9, 20e6, None, 100)
    walk = replace(SCENE, carrier=lte, radio=PRESETS["lte"])
    assert apart(walk)
    assert not apart(replace(walk, carrier=replace(lte, frame="DSUUDDSUUD")))


def test_a_range_is_left_with_one_warning():
    low = replace(SCENE, base_stations=(replace(MAST, position_m=(0.0, 0.0, 3.0)),))
    got = realise(low, seed=1)
    assert any("height of the base station 3 m" in line for line in got.warnings)
    assert len(set(got.warnings)) == len(got.warnings)
    assert realise(SCENE, seed=1).warnings == ()


def test_a_pattern_has_the_series_and_says_where_it_is_from():
    got = realise(
        replace(SCENE, obstacles=(PERSON,), base_stations=(replace(MAST, position_m=(0.0, 0.0, 8.0)),)), seed=2
    )
    for direction, rate, bler in (("down", got.rate_bps, got.bler), ("up", got.up_rate_bps, got.up_bler)):
        pattern = to_pattern(got, direction)
        place = np.searchsorted(pattern.index, np.rint(got.time_s * 1e9), side="right") - 1
        assert np.array_equal(pattern.rate_bps[place], rate)
        assert np.allclose(pattern.bler[place], np.where(rate > 0, bler, 0), atol=5e-5)
        assert np.array_equal(pattern.state[place], got.state)
        assert len(pattern) < len(got.time_s)
        header = dict(pattern.header)
        assert header["title"] == "A made-up walk"
        assert (header["mode"], header["seed"], header["radio"]) == ("3gpp", "2", "nr-120khz")
        assert header["direction"] == direction
        assert "8 m" in header["warning-1"]
