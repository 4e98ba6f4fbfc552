"""Several devices in one scene: one world of places for all, and what is a device's own."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wavebed.channel import ensemble, realise, realise_devices, to_pattern
from wavebed.channel.budget import LinkBudget
from wavebed.channel.devices import bodies, placed, view
from wavebed.channel.plot_devices import DeviceAlbum, devices_page, devices_picture
from wavebed.channel.propagation.blockage import blockage_db
from wavebed.channel.propagation.correlated import generators
from wavebed.channel.propagation.shadowing import LOS_CORRELATION_M, SHADOWING
from wavebed.channel.signal import signal
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.path.model import ScenePattern
from wavebed.path.traces import Traces
from wavebed.pattern import read_trace
from wavebed.pattern.model import STATES
from wavebed.scene import SceneModel, load
from wavebed.scene.geometry import Movements, displacement, positions
from wavebed.scene.model import Screen, Trajectory

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
title = "devices"
anchor = "illustrative"
duration = "{duration}"
step = "10ms"
propagation = "{propagation}"
{more}
[carrier]
technology = "nr"
frequency = "28ghz"
bandwidth = "100mhz"
[[base-station]]
name = "mast"
at = [0, 0, 10]
power = "30dbm"
"""
SECOND = '[[base-station]]\nname = "far"\nat = [200, 0, 10]\npower = "30dbm"\n'
PHONE = '[[ue]]\nname = "{name}"\nstart = [{x}, {y}, 1.5]\n{more}\n'


def scene(
    tmp_path: Path, *ues: str, duration: str = "1s", propagation: str = "umi", more: str = "", rest: str = ""
) -> SceneModel:
    file = tmp_path / "place.toml"
    head = HEAD.format(duration=duration, propagation=propagation, more=more)
    file.write_text(head + rest + "".join(ues), encoding="utf-8")
    return load(file)


def phone(name: str, x: float, y: float = 0.0, more: str = "") -> str:
    return PHONE.format(name=name, x=x, y=y, more=more)


# One world.


def shadows(place: SceneModel, seeds: range) -> np.ndarray:
    """Return the shadow fading of each device in LOS at its place, (devices, seeds), over its deviation."""
    rows = []
    for device in place.devices:
        budget = LinkBudget(view(place, device.name, 1))
        got = signal(budget, budget.sights[0], seeds, "0")
        rows.append(np.broadcast_to(got.shadowing_db, (len(seeds), budget.time_s.size))[:, 0])
    return np.array(rows)


def test_shadowing_of_two_devices_is_correlated_by_their_distance(tmp_path: Path) -> None:
    apart = (0.0, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0)
    ues = [phone(f"p{number}", 60 + far, 0.0) for number, far in enumerate(apart)]
    # Where there is a line of sight, all power but the power of NLOS, 20 dB less, has the shadow fading of LOS.
    found = np.corrcoef(shadows(scene(tmp_path, *ues), range(4000)))[0]
    expected = np.exp(-np.array(apart) / SHADOWING["umi"].los_m)
    assert found == pytest.approx(expected, abs=0.08)  # 0.07 of the field (shadowing.py), and 4000 draws
    assert (np.diff(found) < 0.02).all()


def test_close_devices_agree_on_the_line_of_sight_and_far_ones_do_not(tmp_path: Path) -> None:
    apart = (0.0, 0.5, 5.0, 400.0)
    ues = [phone(f"p{number}", 60.0, far) for number, far in enumerate(apart)]
    place = scene(tmp_path, *ues, more='line-of-sight = "drawn"')
    seen = np.array([
        [one.los[0] for one in ensemble(place, seeds=range(300), device=device.name)] for device in place.devices
    ])  # fmt: skip
    agree = (seen == seen[0]).mean(axis=1)
    chances = seen.mean(axis=1)
    assert agree[0] == 1.0
    assert 0.2 < chances[0] < 0.8
    # Two normal numbers correlated by r are on different sides of a threshold in about arccos(r)/π.
    for far, share in zip(apart[1:3], agree[1:3], strict=True):
        differ = np.arccos(np.exp(-far / LOS_CORRELATION_M["umi"])) / np.pi
        assert 1 - share == pytest.approx(differ, abs=0.08), far
    independent = chances[0] * chances[3] + (1 - chances[0]) * (1 - chances[3])
    assert agree[3] == pytest.approx(independent, abs=0.1)


def test_devices_at_one_place_share_the_world_and_not_the_fading(tmp_path: Path) -> None:
    one, other = realise_devices(scene(tmp_path, phone("a", 60), phone("b", 60)), seed=3)
    for part in ("path loss", "shadowing"):
        assert np.array_equal(one.losses_db[part], other.losses_db[part]), part
    assert one.los.tolist() == other.los.tolist()
    assert not np.allclose(one.losses_db["fading"], other.losses_db["fading"], atol=0.1)


def test_a_device_has_the_same_channel_whatever_others_there_are(tmp_path: Path) -> None:
    alone = realise(scene(tmp_path, phone("a", 60, more='hold = "portrait"')), seed=2)
    many = scene(tmp_path, phone("b", 80), phone("a", 60, more='hold = "portrait"'), phone("c", 61, 1.0))
    among = realise(many, seed=2, device="a")
    assert np.array_equal(alone.sinr_db, among.sinr_db)
    together = {one.scene.ue.name: one for one in realise_devices(many, seed=2)}
    assert list(together) == ["b", "a", "c"]
    assert np.array_equal(together["a"].sinr_db, among.sinr_db)
    assert np.array_equal(together["b"].sinr_db, realise(many, seed=2).sinr_db), "the first one"


def test_the_only_ue_of_a_scene_keeps_its_draws(tmp_path: Path) -> None:
    text = (tmp_path / "one.toml", HEAD.format(duration="1s", propagation="umi", more=""))
    text[0].write_text(text[1] + "[ue]\nstart = [60, 0, 1.5]\n", encoding="utf-8")
    place = load(text[0])
    assert (place.devices, place.ue.name, place.ue.stream) == ((), "ue", "")
    assert view(place, None, 1) is place
    assert view(place, "ue", 1) is place
    assert to_pattern(realise(place), "down").cell is None
    rngs = generators([1], "fading 0")
    budget = LinkBudget(place)
    assert budget.scene.ue.stream == ""
    assert rngs[0].random() == generators([1], f"fading 0{place.ue.stream}")[0].random()


# What is in the way.


def test_a_bus_shades_whom_it_passes_in_turn(tmp_path: Path) -> None:
    bus = (
        '[[obstacle]]\nname = "bus"\nkind = "bus"\nat = [100, 25]\nheading = "90deg"\nheight = 8\n'
        'trajectory = [{ go-to = [-100, 25], speed = "20m/s" }]\n'
    )
    ues = [phone(f"p{number}", -20 + 10 * number, 30.0) for number in range(5)]
    place = scene(tmp_path, *ues, bus, duration="10s", propagation="free-space")
    blocked = STATES.index("blocked")
    times = []
    for one in realise_devices(place):
        shaded = np.flatnonzero(one.state == blocked)
        assert shaded.size, one.scene.ue.name
        assert (np.diff(shaded) == 1).all(), "once"
        times.append(one.time_s[shaded].mean())
    # The ray crosses y = 25 at 25/30 of the device's x; the bus begins at x = 100 with 20 m/s.
    assert times == pytest.approx([(100 - 25 / 30 * (-20 + 10 * number)) / 20 for number in range(5)], abs=0.02)
    assert [later < earlier for earlier, later in pairwise(times)] == [True] * 4


def test_a_person_shades_those_behind_and_never_the_own_device(tmp_path: Path) -> None:
    ues = (phone("front", 39.4, more="body = true"), phone("behind", 40.0), phone("aside", 40.0, 8.0, "body = true"))
    place = scene(tmp_path, *ues, propagation="free-space")
    front, behind, aside = (one.losses_db["blockage"].max() for one in realise_devices(place))
    assert front == pytest.approx(0, abs=0.1)
    assert behind > 5
    assert aside == pytest.approx(0, abs=0.1)
    assert [body.name for body in view(place, "front", 1).bodies] == ["aside"]
    assert [body.name for body in view(place, "behind", 1).bodies] == ["front", "aside"]


@pytest.mark.parametrize("walks", [True, False])
def test_bodies_computed_together_lose_what_each_does(tmp_path: Path, walks: bool) -> None:
    rng = np.random.default_rng(4)
    more = 'body = true\ntrajectory = [{{ go-to = [{x:.2f}, {y:.3f}], until = "4s" }}]'
    ues = []
    for number in range(12):
        x, y = 40.9 - 2 * rng.random(), number / 6 - 1
        goes = more.format(x=x + 2 * rng.random(), y=y) if number % 2 else "body = true"
        ues.append(phone(f"p{number}", x, y, goes))
    way = 'trajectory = [{ go-to = [41, 3], until = "3s" }]' if walks else ""
    place = scene(tmp_path, *ues, phone("own", 41, 0.2, way), duration="4s")
    seen = view(place, "own", 1)
    time_s = np.arange(0, 4, 0.001)
    where = positions(seen.ue.trajectory, time_s)
    mast = seen.base_stations[0].position_m
    together = blockage_db(mast, where, time_s, (), 28e9, seen.bodies)
    each = blockage_db(mast, where, time_s, seen.bodies, 28e9)
    assert each.max() > 3
    apart = np.abs(together - each)
    # Straight between places 25 mm apart, but where somebody comes to be behind the own device: that is sudden.
    assert np.quantile(apart, 0.98) < 0.15
    assert apart.mean() < 0.05
    assert walks or apart.max() < 0.15


def test_movements_computed_together_are_those_of_each() -> None:
    corners = [(0.0, 1.0, 3.5), (0.0, 1.0, 3.5), (0.0, 9.0), (0.0,)]
    rng = np.random.default_rng(2)
    tracks = [Trajectory(times, tuple(map(tuple, rng.normal(size=(len(times), 3)).tolist()))) for times in corners]
    for time_s in (np.linspace(0, 10, 401), np.linspace(1.2, 1.9, 8), np.array([3.5, 3.5, 9.0]), np.zeros(1)):
        together = Movements([None, *tracks])
        each = np.stack([displacement(track, time_s) for track in (None, *tracks)])
        assert np.moveaxis(together.displacement_m(time_s), 0, 2) == pytest.approx(each, abs=1e-12)
    steps = [np.linalg.norm(np.diff(track.position_m, axis=0), axis=1).sum() for track in tracks]
    assert together.travelled_m(np.array([0.0, 99.0])) == pytest.approx(np.array([[0, far] for far in (0, *steps)]))


# Places that a seed draws.


CROWD = phone("seat", 30, 0, 'count = 24\narea-to = [36, 3.2]\nbody = true\ntrajectory = [{ stay = "1s" }]')


def test_a_crowd_has_a_place_of_its_own_for_each_and_for_each_seed(tmp_path: Path) -> None:
    place = scene(tmp_path, CROWD.replace("start = [30, 0, 1.5]", "start = [30, 0, 2]").replace("3.2]", "3.2, 4]"))
    assert [device.name for device in place.devices] == [f"seat-{number}" for number in range(1, 25)]
    one, other = (
        np.array([device.trajectory.position_m[0] for device in placed(place, seed).devices]) for seed in (1, 2)
    )
    assert placed(place, 1) == placed(place, 1)
    assert not np.isclose(one, other).all(axis=1).any()
    for where in (one, other):
        assert (where[:, :2] >= [30, 0]).all()
        assert (where[:, :2] <= [36, 3.2]).all()
        assert where[:, 2] == pytest.approx(2 + where[:, 1] / 3.2 * 2)  # the stand rises
        apart = np.hypot(*(where[:, None, :2] - where[None, :, :2]).T) + 9 * np.eye(24)
        assert apart.min() >= 0.4  # half of a part, which is 0.8 m deep
    first, second = ensemble(place, seeds=[1, 2], device="seat-5")
    assert first.position_m[0].tolist() == pytest.approx(one[4].tolist())
    assert second.position_m[0].tolist() == pytest.approx(other[4].tolist())
    assert np.array_equal(second.rate_bps, realise(place, seed=2, device="seat-5").rate_bps)


def test_a_crowd_on_a_line_walks_together(tmp_path: Path) -> None:
    walk = 'count = 4\nline-to = [50, 10]\ntrajectory = [{ go-to = [30, 20], until = "1s" }]'
    place = placed(scene(tmp_path, phone("walker", 30, 0, walk)), 5)
    for device in place.devices:
        x, y, _ = device.trajectory.position_m[0]
        assert y == pytest.approx((x - 30) / 2)
        assert displacement(device.trajectory, np.array([1.0]))[0].tolist() == pytest.approx([0, 20, 0])


def test_a_member_of_a_crowd_stands_in_no_obstacle(tmp_path: Path) -> None:
    crate = '[[obstacle]]\nname = "crate"\nkind = "box"\nfrom = [30.5, 0.2]\nto = [30.9, 0.9]\nheight = 2\n'
    place = scene(tmp_path, phone("seat", 30, 0, "count = 2\narea-to = [32, 1]"), crate)
    for seed in range(60):
        x, y, _ = placed(place, seed).devices[0].trajectory.position_m[0]
        assert not (30.5 < x < 30.9 and 0.2 < y < 0.9), seed
        assert 30.25 <= x <= 30.75


def test_bodies_stand_under_their_devices_and_move_with_them(tmp_path: Path) -> None:
    more = 'body = true\ntrajectory = [{ go-to = [50, 0], until = "1s" }]'
    (body,) = bodies(scene(tmp_path, phone("a", 40, more=more)))
    assert isinstance(body.shape, Screen)
    assert body.shape.centre_m == pytest.approx((40, 0, 0.0))
    assert (body.shape.width_m, body.shape.height_m, body.transmission_loss_db) == (0.3, 1.7, float("inf"))
    assert body.trajectory is not None
    assert displacement(body.trajectory, np.array([0.5]))[0].tolist() == pytest.approx([5, 0, 0])


# Handover, patterns and files.


def test_the_pattern_says_which_base_station_serves(tmp_path: Path) -> None:
    more = 'trajectory = [{ go-to = [180, 0], until = "8s" }]'
    place = scene(tmp_path, phone("walker", 20, more=more), phone("still", 30), rest=SECOND, duration="9s")
    one = realise(place, seed=1, device="walker")
    pattern = to_pattern(one, "down")
    assert pattern.cell is not None
    assert (pattern.cell[0], pattern.cell[-1]) == (0, 1)
    standing = to_pattern(realise(place, device="still"), "up").cell
    assert standing is not None
    assert np.unique(standing).tolist() == [0]
    assert pattern.state is not None
    begins = pattern.index[np.flatnonzero(np.diff(pattern.cell)) + 1]
    states = pattern.state[np.flatnonzero(np.diff(pattern.cell)) + 1]
    assert begins.size >= 1
    assert {STATES[state] for state in states} == {"handover"}, "the new one serves from the interruption on"
    assert dict(pattern.header)["device"] == "walker"


FALLBACK = """
[[obstacle]]
name = "wall"
kind = "metal"
at = [39, 0]
width = 20
height = 20
present = [["1s", "3s"]]
[timers]
t310 = "100ms"
[fallback]
propagation = "uma"
[fallback.carrier]
technology = "lte"
frequency = "1.8ghz"
bandwidth = "20mhz"
[fallback.base-station]
name = "roof"
at = [-100, 0, 25]
power = "46dbm"
"""


def test_the_fallback_carrier_is_the_last_base_station(tmp_path: Path) -> None:
    one = realise(scene(tmp_path, phone("a", 40), FALLBACK, duration="3s", propagation="free-space"))
    pattern = to_pattern(one, "down")
    assert pattern.cell is not None
    assert pattern.state is not None
    assert np.unique(pattern.cell).tolist() == [0, 1]
    assert ((pattern.cell == 1) == (pattern.state == STATES.index("fallback"))).all()
    assert to_pattern(one, "down", cells=False).cell is None
    assert to_pattern(realise(load("crowd-sub6")), "down").cell is None, "recorded patterns keep their columns"


def test_a_path_takes_the_pattern_of_a_device(tmp_path: Path) -> None:
    place = scene(tmp_path, phone("a", 40), phone("b", 90), rest=SECOND)
    with_traces = Traces()
    try:
        one, other = (
            with_traces.pattern(ScenePattern(place, "3gpp", "down", device=name), 4) for name in ("a", "b")
        )  # fmt: skip
        assert one == to_pattern(realise(place, seed=4, device="a"), "down")
        assert other == to_pattern(realise(place, seed=4, device="b"), "down")
        with pytest.raises(UserError, match=r"scene place: has no device 'c': write one of a, b"):
            with_traces.pattern(ScenePattern(place, "3gpp", "down", device="c"), 4)
    finally:
        with_traces.close()


def test_one_pass_writes_a_pattern_for_each_device_and_direction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = scene(tmp_path, phone("a", 40), phone("b", 90), rest=SECOND)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert main(["channel", "place.toml", "-o", "d.csv", "--up-output", "folder", "--seed", "7"]) == 0
    assert sorted(file.name for file in tmp_path.rglob("*.csv")) == [
        *("d.a.csv", "d.b.csv", "place.up.a.csv", "place.up.b.csv"),
    ]
    assert read_trace(tmp_path / "d.b.csv") == to_pattern(realise(place, seed=7, device="b"), "down")
    assert main(["channel", "place.toml", "-o", "e.csv", "--seeds", "2"]) == 0
    assert sorted(file.name for file in tmp_path.glob("e.*")) == [
        *("e.a.seed-1.csv", "e.a.seed-2.csv", "e.b.seed-1.csv", "e.b.seed-2.csv"),
    ]
    assert main(["channel", "place.toml", "--device", "b", "-o", "one.csv", "--seed", "7"]) == 0
    assert read_trace(tmp_path / "one.csv") == read_trace(tmp_path / "d.b.csv")
    capsys.readouterr()
    assert main(["channel", "place.toml"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"^device +LOS +SINR +capacity down +up +BLER +handovers$", table, re.MULTILINE)
    assert [line.split()[0] for line in table.splitlines()[3:]] == ["a", "b"]
    assert main(["channel", "place.toml", "--device", "c"]) == 2
    assert capsys.readouterr().err == (
        "wavebed: --device: scene place: has no device 'c': write one of a, b\n"
    )  # fmt: skip


def test_pictures_show_every_device_and_are_the_same_each_time(tmp_path: Path) -> None:
    more = 'trajectory = [{ go-to = [60, 5], until = "1s" }]'
    place = scene(tmp_path, phone("a", 40, more=more), CROWD.replace("24", "3"))

    def album(seeds: tuple[int, ...]) -> DeviceAlbum:
        made = DeviceAlbum()
        for seed in seeds:
            for one in realise_devices(place, seed=seed):
                made.add(one)
        return made

    page = devices_page(album((1,)).view())
    assert page == devices_page(album((1,)).view())
    for name in ("a", "seat-1", "seat-2", "seat-3"):
        assert f'"label":"{name}"'.encode() in page
    assert page.count(b"<i title=") == 4
    picture = devices_picture(album((1, 2)).view(), "svg")
    assert picture == devices_picture(album((1, 2)).view(), "svg")
    few = DeviceAlbum()
    few.add(realise(place, device="seat-2"))
    assert devices_picture(few.view(), "svg"), "a laboratory may have some of them"
    rows = album((1, 2)).rows()
    assert [row.name for row in rows] == ["a", "seat-1", "seat-2", "seat-3"]
    assert {len(row.cells()) for row in rows} == {7}


@pytest.mark.parametrize("name", ["stadium", "street-crowd"])
def test_a_shipped_scene_of_many_devices_is_realised(name: str) -> None:
    place = replace(load(name), step_s=0.05)
    found = list(realise_devices(place))
    assert len(found) >= 12
    assert all(one.rate_bps.mean() > 1e8 for one in found)
    assert {int(cell) for one in found for cell in np.unique(one.serving)} == {0, 1}, "handover"


# Mistakes.


@pytest.mark.parametrize(
    ("ues", "said"),
    [
        ("ue = 3\n", "ue: 3 is not a table: write [ue] on a line of its own"),
        (phone("a", 40) + phone("a", 50), "ue.a.name: 'a' is the name of another one: write a name of its own"),
        ('[[ue]]\nstart = [1, 2, 3]\n', "ue.0.name: is missing: write name = NAME"),
        (phone("a", 40, more="cuont = 2"), "ue.a.cuont: unknown key: did you mean 'count'?"),
        (phone("a", 40, more="count = 65\nline-to = [1, 1]"), "ue.a.count: 65"),
        (phone("a", 40, more="count = 3"), "ue.a.area-to: is missing: write line-to = [x, y]"),
        (phone("a", 40, more="count = 3\nline-to = [40, 0]"), "ue.a.line-to: is start: write another place"),
        (phone("a", 40, more="line-to = [40, 1]"), "ue.a.line-to: belongs to a crowd: add count = 24"),
        (
            phone("a", 40, more="count = 3\nline-to = [40, 1]\narea-to = [50, 1]"),
            "ue.a.area-to: and line-to exclude each other",
        ),
        (phone("a" * 31, 40, more="count = 12\nline-to = [40, 9]"), "name: is too long for"),
        (
            phone("a", 40, more="count = 40\nline-to = [40, 9]") + phone("b", 60, more="count = 40\nline-to = [60, 9]"),
            "ue: there are 80 UEs: write 1 to 64",
        ),
        (phone("a", 40) + phone("b", 40, more="body = true"), "ue.b: meets a within 0.05 m: move one of them"),
        (phone("a", 40) + phone("b", 0, more="").replace("1.5]", "10]"), "base-station.0.at: the UE 'b'"),
        (phone("a", 40) + phone("b", 40).replace("1.5]", "-1]"), "ue.b.start: the UE 'b' is underground at 0 s"),
        (
            phone("crate", 40)
            + '[[obstacle]]\nname = "crate"\nkind = "box"\nfrom = [60, 0]\nto = [61, 1]\nheight = 2\n',
            "obstacle.crate.name: is the name of a UE: write a name of its own",
        ),
        (
            phone("a", 40) + '[[obstacle]]\nname = "box"\nkind = "box"\nfrom = [39, -1]\nto = [41, 1]\nheight = 2\n',
            "obstacle.box: the UE 'a' is inside it",
        ),
        (phone("a", 40) + phone("b", 50) + "[reference]\n", "reference: belongs to a scene with one UE"),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_line(tmp_path: Path, ues: str, said: str) -> None:
    more, tables = (ues, "") if ues.startswith("ue =") else ("", ues)
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        scene(tmp_path, tables, more=more)
    assert "\n" not in str(refused.value)
