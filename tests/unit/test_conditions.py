"""Conditions: shipped ones, and those of the QUIC network simulator."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wavebed
from wavebed.cli import main
from wavebed.conditions import find, load_scene, lookup, names
from wavebed.conditions.condition import condition, condition_names
from wavebed.conditions.lookup import find_low_orbit
from wavebed.errors import UserError
from wavebed.path.laboratory import loss_pattern
from wavebed.path.model import LimitedLoss, LostPackets, LostTimes, ScenePattern
from wavebed.path.scenario import read_path
from wavebed.path.traces import Traces
from wavebed.scene.model import shipped
from wavebed.spec.types import ConstantDelay, ConstantRate, IndependentLoss

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.path.model import PathModel


def path_of(scene: str, **options: object) -> PathModel:
    return wavebed.Path.of(scene=scene, **options).model


@pytest.mark.parametrize("name", names("condition"))
def test_every_condition_is_a_whole_path(name: str) -> None:
    hop = path_of(name).hops[0]
    assert isinstance(hop.down.rate, ScenePattern)
    assert isinstance(hop.up.rate, ScenePattern)
    if name.endswith("/leo"):
        assert hop.down.rate.scene is hop.up.rate.scene is find_low_orbit(name)
        assert (hop.down.delay, hop.down.loss, hop.down.loss_at) == (hop.down.rate, hop.down.rate, "entry")
        assert hop.down.radio is None
        return
    assert hop.down.rate.scene is load_scene(name)
    assert hop.down.radio is not None
    assert hop.down.delay == hop.up.delay
    assert isinstance(hop.down.delay, ConstantDelay)
    assert hop.down.delay.delay_ns >= 1_000_000


@pytest.mark.parametrize("name", condition_names())
def test_a_condition_is_explained_and_cites_or_says_that_it_cannot(name: str) -> None:
    found = condition(name)
    assert all(len(text) > 80 for text in (found.happens, found.shows))
    for variant in found.variants:
        assert variant.published or "no publication" in variant.note, variant.name


def test_the_thirteen_conditions_are_there_on_each_technology_where_they_are_sensible() -> None:
    assert {name: [variant.technology for variant in condition(name).variants] for name in condition_names()} == {
        "cell-edge-night": ["mid-band", "lte"],
        "cell-edge-rush-hour": ["mid-band", "lte"],
        "high-speed-train": ["mid-band", "lte"],
        "home-cpe-tree": ["mmwave", "mid-band"],
        "lift": ["mid-band", "lte"],
        "motorway-handover": ["mid-band", "lte"],
        "parking-garage": ["mid-band", "lte"],
        "stadium": ["mmwave", "mid-band", "lte"],
        "starlink-drive": ["leo"],
        "starlink-home": ["leo"],
        "street-corner": ["mmwave", "mid-band", "lte"],
        "underground": ["mid-band", "lte"],
        "walk-past-bus": ["mmwave", "mid-band", "lte"],
    }


def test_a_name_without_a_variant_is_its_first_one() -> None:
    assert find("lift") == find("lift/mid-band")
    assert find("lift").name == "lift/mid-band"
    assert load_scene("lift") is load_scene("lift/mid-band")
    assert find("lift/lte") != find("lift")


@pytest.mark.parametrize("name", shipped())
def test_a_radio_scene_stays_a_radio_scene(name: str) -> None:
    assert find(name).hop == {"scene": name}
    hop = path_of(name).hops[0]
    assert hop.down.delay is None
    assert hop.down.loss is None


def test_a_file_stands_before_a_condition_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scene = (wavebed.shipped.folder("scenes") / "kau-e5g-1.toml").read_text(encoding="utf-8")
    (tmp_path / "lift").write_text(scene, encoding="utf-8")
    hop = path_of("lift").hops[0]
    assert isinstance(hop.down.rate, ScenePattern)
    assert hop.down.rate.scene.title.startswith("kau-e5g")
    assert hop.down.delay is None


def test_a_key_beside_the_name_stands_above_that_of_the_condition() -> None:
    hop = path_of("lift", up_delay="30ms", loss="1%").hops[0]
    assert hop.down.delay == ConstantDelay(10_000_000)
    assert hop.up.delay == ConstantDelay(30_000_000)
    assert hop.up.loss == IndependentLoss(0.01)
    assert path_of("lift", delay="1ms").hops[0].down.delay == ConstantDelay(1_000_000)


def test_a_scenario_names_a_condition_and_options_another(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text('[path]\nscene = "stadium/lte"\nup-delay = "2ms"\n', encoding="utf-8")
    hop = read_path(file, {}, Traces()).hops[0]
    assert (hop.down.delay, hop.up.delay) == (ConstantDelay(10_000_000), ConstantDelay(2_000_000))
    other = read_path(file, {"scene": "motorway-handover"}, Traces()).hops[0]
    assert isinstance(other.down.rate, ScenePattern)
    assert other.down.rate.scene.name == "motorway-handover-mid-band"
    assert other.up.delay == ConstantDelay(15_000_000)


def test_a_condition_without_a_radio_replaces_the_whole_hop(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text('[path]\nscene = "stadium/lte"\nloss = "7%"\nqueue = "codel"\n', encoding="utf-8")
    hop = read_path(file, {"scene": "simple-p2p --delay=5ms --bandwidth=8Mbps --queue=9"}, Traces()).hops[0]
    assert hop.down.rate == hop.up.rate == ConstantRate(8_000_000)
    assert hop.down.radio is None
    assert hop.down.loss is None
    assert str(hop.down.queue) == str(hop.up.queue)
    assert hop.down.queue is not None
    assert hop.down.queue.kind == "droptail"


def test_the_profiles_are_budgets_in_both_directions() -> None:
    hop = path_of("5qi-2").hops[0]
    assert hop.down.rate is None
    assert hop.down.delay == hop.up.delay == ConstantDelay(150_000_000)
    assert hop.down.loss == hop.up.loss == IndependentLoss(0.001)
    assert path_of("5qi-74").hops[0].down.loss == IndependentLoss(1e-8)


def test_every_profile_has_the_budget_of_the_standard() -> None:
    # TS 23.501 Table 5.7.4-1: packet delay budget in milliseconds, packet error rate as a power of ten.
    table = {
        number: (delay_ms, power)
        for delay_ms, power, numbers in (
            *((100, 2, (1, 66)), (150, 3, (2,)), (50, 3, (3,)), (300, 6, (4, 6, 8, 9)), (75, 2, (65,))),
            *((100, 3, (7, 67)), (150, 6, (71,)), (300, 4, (72,)), (300, 8, (73,)), (500, 8, (74,)), (500, 4, (76,))),
            *((100, 6, (5,)), (60, 6, (69,)), (200, 6, (70,)), (50, 2, (79,)), (10, 6, (80,)), (10, 4, (82, 83))),
            *((30, 5, (84,)), (5, 5, (85,)), (5, 4, (86,)), (5, 3, (87,)), (10, 3, (88,)), (15, 4, (89,))),
        )
        for number in numbers
    }
    assert sorted(table) == [profile.number for profile in lookup.PROFILES.values()]
    for profile in lookup.PROFILES.values():
        delay_ms, power = table[profile.number]
        hop = path_of(f"5qi-{profile.number}").hops[0]
        assert hop.down.delay == ConstantDelay(delay_ms * 1_000_000)
        assert isinstance(hop.down.loss, IndependentLoss)
        assert hop.down.loss.probability == pytest.approx(10.0**-power)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("motorway-handovr", "no such file, scene or condition: did you mean motorway-handover"),
        ("lift/mmwave", "the condition 'lift' has no such variant: write lift/mid-band or lift/lte"),
        ("5qi-99", "did you mean 5qi-9"),
        ("nothing-like-it", "wavebed scenes lists the names"),
        ("street-canyon-buss", "did you mean street-canyon-bus"),
    ],
)
def test_a_bad_name_gets_one_line_with_the_nearest(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["scenes", name], ["shell", "--scene", name, "--print-laboratory"], ["channel", name]):
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert says in said
        assert said.count("\n") == 1
    with pytest.raises(UserError, match=r"^--scene: [^\n]*$"):
        wavebed.Path.of(scene=name)


def test_a_mistake_in_a_scenario_names_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    for name, says in (("lift/wifi", "has no such variant"), ("rebind", "has no NAT"), ("simple-p2p", "missing")):
        file.write_text(f'[path]\nscene = "{name}"\n', encoding="utf-8")
        with pytest.raises(UserError, match=rf"^[^\n]*scenario.toml: path.scene: {name}: [^\n]*{says}[^\n]*$"):
            read_path(file, {}, Traces())


def test_a_map_has_a_name_too(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"map\.json"):
        find(str(tmp_path / "map.json"))


def test_the_page_of_a_condition_has_both_figures_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenes", "stadium"]) == 0
    page = capsys.readouterr().out
    assert "seeds 1 to 20" in page
    assert "published, down rate: mean 320.7 Mbit/s" in page.replace("\n    ", " ")
    assert "tested: ours within 30 % of 320.7mbit" in page.replace("\n    ", " ")
    assert main(["scenes", "lift/lte"]) == 0
    page = capsys.readouterr().out
    assert "lift/lte: LTE" in page
    assert "lift/mid-band: 5G" not in page


def test_json_has_the_figures_with_their_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenes", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in every["conditions"]] == list(condition_names())
    assert main(["scenes", "lift/lte", "--json"]) == 0
    (variant,) = json.loads(capsys.readouterr().out)["variants"]
    assert variant["name"] == "lift/lte"
    assert variant["down_median_bps"]["p5"] <= variant["down_median_bps"]["p50"] <= variant["down_median_bps"]["p95"]
    assert 20 < variant["rtt_idle_ms"] < 100
    assert main(["scenes", "5qi-80", "--json"]) == 0
    profile = json.loads(capsys.readouterr().out)
    assert (profile["packet_delay_budget_ms"], profile["packet_error_rate"]) == (10, "0.0001%")
    assert "not a measured network" in profile["statement"]
    for name, kind in (("street-canyon-bus", "scene"), ("simple-p2p --delay=1ms --bandwidth=1Mbps --queue=9", "quic")):
        assert main(["scenes", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kind"] == kind


@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>")])
def test_a_plot_has_a_panel_for_each_variant(kind: str, begin: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"lift.{kind}"
    assert main(["scenes", "lift", "--plot", str(file), "--seed", "3"]) == 0
    assert file.read_bytes().startswith(begin)
    if kind == "html":
        text = file.read_text(encoding="utf-8")
        assert "lift/mid-band: 5G mid-band, seed 3" in text
        assert "lift/lte: LTE, seed 3" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lift", "--plot", "a.pdf"], "must end in .png, .svg or .html"),
        (["--plot", "a.png"], "requires NAME"),
        (["5qi-1", "--plot", "a.png"], "is no condition"),
        (["lift", "--plot", "a.png", "--seed", "x"], "--seed"),
    ],
)
def test_a_wrong_plot_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenes", *arguments]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""


def test_a_condition_can_be_realised_by_the_channel_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["channel", "lift/lte", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["scene"] == "lift-lte"
    assert main(["channel", "5qi-1"]) == 2
    assert "has no radio" in capsys.readouterr().err


LINK = "--delay=15ms --bandwidth=10Mbps --queue=25"


def links(scene: str):  # type: ignore[no-untyped-def]
    hop = wavebed.Path.of(scene=scene).model.hops[0]
    return hop.down, hop.up


@pytest.mark.parametrize(
    "scene",
    [
        f"simple-p2p {LINK}",
        f"drop-rate {LINK} --rate_to_client=10 --rate_to_server=20",
        f"droplist {LINK} --drops_to_client=1,3,15",
        f"blackhole {LINK} --on=10s --off=2s",
    ],
)
def test_every_scenario_is_a_link_with_a_rate_a_delay_and_a_queue(scene: str) -> None:
    for link in links(scene):
        assert link.rate == ConstantRate(10_000_000)
        assert link.delay == ConstantDelay(15_000_000)
        assert link.queue is not None
        assert (link.queue.kind, link.queue.limit.packets) == ("droptail", 25)


def test_a_drop_rate_is_that_of_its_direction() -> None:
    down, up = links(f"drop-rate {LINK} --rate_to_client=10 --rate_to_server=20")
    assert (down.loss, up.loss) == (IndependentLoss(0.1), IndependentLoss(0.2))
    down, up = links(f"drop-rate {LINK} --rate_to_client=30 --rate_to_server=20 --burst_to_client=3")
    assert (down.loss, up.loss) == (LimitedLoss(0.3, 3), IndependentLoss(0.2))


def test_a_droplist_names_the_packets_of_its_direction() -> None:
    down, up = links(f"droplist {LINK} --drops_to_client=3,1,1 --drops_to_server=5")
    assert (down.loss, up.loss) == (LostPackets((1, 3)), LostPackets((5,)))
    assert links(f"droplist {LINK}")[0].loss is None


def test_a_blackhole_opens_and_closes_so_many_times() -> None:
    second = 10**9
    once = LostTimes(((10 * second, 12 * second),))
    assert [link.loss for link in links(f"blackhole {LINK} --on=10s --off=2s")] == [once, once]
    down, up = links(f"blackhole {LINK} --on=10s --off=2s --repeat=2 --direction=toserver")
    assert down.loss is None
    assert up.loss == LostTimes(((10 * second, 12 * second), (22 * second, 24 * second)))


def test_an_asymmetric_link_has_rates_and_queues_of_its_own() -> None:
    down, up = links(
        "asymmetric-p2p --delay=20ms --forward-data-rate=10Mbps --forward-queue=25 --return-data-rate=512kbps"
        " --return-queue=9 --drop-rate-to-server=4"
    )
    assert (down.rate, up.rate) == (ConstantRate(10_000_000), ConstantRate(512_000))
    assert (down.queue.limit.packets, up.queue.limit.packets) == (25, 9)
    assert (down.loss, up.loss) == (None, IndependentLoss(0.04))


@pytest.mark.parametrize("scenario", lookup.REFUSED)
def test_what_the_engine_cannot_do_is_refused_with_a_remedy(scenario: str) -> None:
    with pytest.raises(UserError, match=f"^--scene: {scenario}: [^\n]*: (use|interrupt)[^\n]*$"):
        wavebed.Path.of(scene=f"{scenario} {LINK}")


@pytest.mark.parametrize(
    ("scene", "says"),
    [
        ("simple-p2p", "options are missing: add --delay= --bandwidth= --queue="),
        (f"simple-p2p {LINK} --delai=3ms", "--delai: unknown key: did you mean 'delay'?"),
        (f"simple-p2p {LINK} now", "'now' is no option: write --NAME=VALUE"),
        ("simple-p2p --delay=15 --bandwidth=10Mbps --queue=25", "--delay=15: write a time such as 15ms"),
        ("simple-p2p --delay=15ms --bandwidth=10Mbit --queue=25", "--bandwidth=10Mbit: write a rate such as 10Mbps"),
        ("simple-p2p --delay=15ms --bandwidth=10Mbps --queue=0", "--queue=0: write a whole number from 1"),
        (f"drop-rate {LINK} --rate_to_client=101 --rate_to_server=1", "--rate_to_client=101: write a whole number"),
        (f"droplist {LINK} --drops_to_client=0,1", "numbers of packets from 1"),
        (f"blackhole {LINK} --on=1s --off=0s", "--off=0s: write a time above 0"),
        (f"blackhole {LINK} --on=1s --off=1s --direction=up", "one of both, toclient, toserver"),
        (f"blackhole {LINK} --on='1s", "a quotation mark is missing"),
    ],
)
def test_a_wrong_option_gets_one_line(scene: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        wavebed.Path.of(scene=scene)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(0, 3))
def test_listed_packets_are_lost_and_no_others(numbers: list[int], seed: int) -> None:
    pattern, end = loss_pattern(LostPackets(tuple(sorted(set(numbers)))), "down", seed)
    assert end == "hold"
    rows = np.searchsorted(pattern.index, np.arange(400), side="right") - 1
    assert pattern.loss is not None
    lost = np.flatnonzero(pattern.loss[np.minimum(rows, len(pattern) - 1)]) + 1
    assert lost.tolist() == sorted(set(numbers))


def test_times_are_lost_from_their_begin_to_their_end() -> None:
    pattern, end = loss_pattern(LostTimes(((0, 5), (7, 9))), "down", 1)
    assert end == "hold"
    assert pattern.loss is not None
    assert list(zip(pattern.index.tolist(), pattern.loss.tolist(), strict=True)) == [(0, 1), (5, 0), (7, 1), (9, 0)]


@pytest.mark.parametrize("most", [1, 3])
def test_limited_losses_never_exceed_their_row_and_keep_their_probability(most: int) -> None:
    pattern, end = loss_pattern(LimitedLoss(0.3, most), "down", 7)
    assert end == "repeat"
    assert pattern.loss is not None
    lost = np.repeat(pattern.loss, pattern.lengths()).astype(int)
    runs = [len(list(group)) for value, group in groupby(lost.tolist()) if value]
    assert max(runs) == most
    arriving = 0.7 / (1 - 0.3 ** (most + 1))  # the Markov chain of losses in a row, which `most` ends
    assert lost.mean() == pytest.approx(1 - arriving, abs=0.01)


def test_losses_differ_between_directions_and_seeds_and_repeat_for_one() -> None:
    loss = LimitedLoss(0.2, 3)
    first, again, up, other = (
        loss_pattern(loss, direction, seed)[0] for direction, seed in (("down", 1), ("down", 1), ("up", 1), ("down", 2))
    )
    assert first.same_series(again)
    assert not first.same_series(up)
    assert not first.same_series(other)
