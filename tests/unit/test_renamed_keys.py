"""Old names of keys and options: read for one release, with a note, and as if the new name had been written."""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import pytest
from msgspec import Struct

from wavebed.cli import main
from wavebed.config.problems import Problem
from wavebed.config.reader import unread
from wavebed.config.renamed import with_new_names
from wavebed.config.table import Key, fields, table
from wavebed.config.values import number
from wavebed.errors import RenamedWarning, UserError
from wavebed.path.api import Path as WavebedPath
from wavebed.path.model import PathModel
from wavebed.pattern.files import read_trace
from wavebed.pattern.formats.base import ReadOptions
from wavebed.run.change import changed, with_new_keys
from wavebed.run.scenario import read_plan
from wavebed.scene import load
from wavebed.spec.types import ConstantDelay, ConstantRate, ReorderStage

if TYPE_CHECKING:
    from pathlib import Path


class Inner(Struct, frozen=True):
    new: Annotated[int, Key(number(0, 9), "a number", was="old")] = 0


_INNER_KEYS = functools.partial(fields, Inner)


class Outer(Struct, frozen=True):
    inner: Annotated[Inner, Key(table(Inner, "{ … }"), "a table", was="within")] = Inner()
    part: Annotated[object, Key(unread("[[part]]", {}, each=_INNER_KEYS), "tables")] = ()
    plain: Annotated[int, Key(number(0, 9), "a number")] = 0


def renamed(given: dict[str, object], prefix: str = "") -> tuple[dict[str, object], list[str]]:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("default", RenamedWarning)
        found = with_new_names(given, fields(Outer), "file.toml: " if not prefix else "", prefix)
    return found, [str(note.message) for note in notes]


def test_new_names_stay_and_say_nothing() -> None:
    given = {"plain": 1, "inner": {"new": 2}, "part": [{"new": 3}], "unknown": {"old": 4}}
    assert renamed(given) == (given, [])


def test_old_names_become_new_ones_at_every_depth() -> None:
    found, notes = renamed({"within": {"old": 1}, "plain": 2, "part": [{"old": 3}, {"old": 4}]})
    assert list(found.items()) == [("inner", {"new": 1}), ("plain", 2), ("part", [{"new": 3}, {"new": 4}])]
    after = "write the new name, since the next release refuses the old one"
    assert notes == [
        f"file.toml: within: is now called inner: {after}",
        f"file.toml: within.old: is now called new: {after}",
        f"file.toml: part.old: is now called new: {after}",
    ]


def test_a_table_of_an_option_is_read_too() -> None:
    found, notes = renamed({"within": "{ old = 1 }"}, "--")
    assert found == {"inner": {"new": 1}}
    assert [note.rpartition(":")[0] for note in notes] == [
        "--within: is now called --inner",
        "--within.old: is now called new",
    ]


@pytest.mark.parametrize("value", ["{ old", "text", 3, [1, "x"], None])
def test_what_is_no_table_is_left_to_its_reader(value: object) -> None:
    assert renamed({"inner": value, "part": value}) == ({"inner": value, "part": value}, [])


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"within": {}, "inner": {}}, "within"),
        ({"inner": {"new": 1, "old": 1}}, "inner.old"),
        ({"part": [{}, {"new": 1, "old": 1}]}, r"part\[2\].old"),
    ],
)
def test_both_names_are_refused(given: dict[str, object], place: str) -> None:
    new = "inner" if place == "within" else "new"
    with pytest.raises(Problem, match=f"^{place}: is the old name of {new!r}, which is given too: remove the old one$"):
        renamed(given)


SCENARIO = '[path]\n{line}\n[[workload]]\nkind = "download"\nsize = "1mb"\n'


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "old.toml"
    file.write_text(SCENARIO.format(line='join = "off"'))
    return file


def test_an_old_key_of_a_scenario_means_what_the_new_one_means(scenario: Path) -> None:
    with pytest.warns(RenamedWarning, match=r"old\.toml: path\.join: is now called coalesce"):
        assert WavebedPath.load(scenario).laboratory()["network"]["coalesce"] == {"kind": "off"}


def test_an_old_option_means_what_the_new_one_means() -> None:
    with pytest.warns(RenamedWarning, match=r"^--join: is now called --coalesce"):
        assert WavebedPath.of(join="slot").laboratory()["network"]["coalesce"] == {"kind": "slot"}


def test_a_new_option_overrides_an_old_key(scenario: Path) -> None:
    with pytest.warns(RenamedWarning, match=r"path\.join"):
        assert WavebedPath.load(scenario, coalesce="slot").laboratory()["network"]["coalesce"] == {"kind": "slot"}


@pytest.mark.parametrize("options", [{"join": "off", "coalesce": "off"}, {}])
def test_both_names_of_a_key_are_told_by_file_and_option(tmp_path: Path, options: dict[str, object]) -> None:
    if options:
        with pytest.raises(UserError, match=r"^--join: is the old name of '--coalesce', which is given too"):
            WavebedPath.of(**options)
    else:
        (tmp_path / "both.toml").write_text(SCENARIO.format(line='join = "off"\ncoalesce = "off"'))
        with pytest.raises(UserError, match=r"both\.toml: path\.join: is the old name of 'coalesce'"):
            WavebedPath.load(tmp_path / "both.toml")


def test_a_command_tells_each_old_name_once(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # one command does not silence the next
        assert main(["shell", "--scenario", str(scenario), "--join", "off", "--print-laboratory"]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert [line.partition(": is now called")[0] for line in lines] == [
            f"wavebed: note: {scenario}: path.join",
            "wavebed: note: --join",
        ]


def test_help_does_not_show_old_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["shell", "--help"])
    shown = capsys.readouterr().out
    assert "--coalesce" in shown
    assert "--join" not in shown


def test_a_change_by_an_old_key_changes_the_new_one() -> None:
    with pytest.warns(RenamedWarning, match=r"^--set: path\.join: is now called coalesce"):
        changes = with_new_keys({"path.join": "off", 'path.server.sysctl."a.b"': 1, "run.trials": 2}, "--set: ")
    assert changes == {"path.coalesce": "off", 'path.server.sysctl."a.b"': 1, "run.trials": 2}
    assert changed({"path": {"coalesce": "slot"}}, changes)["path"] == {
        "coalesce": "off",
        "server": {"sysctl": {"a.b": 1}},
    }


def test_treatments_by_old_keys_are_recorded_under_the_new_ones(scenario: Path) -> None:
    treatments = '[[treatment]]\nname = "{0}"\nset = {{ "path.join" = "{0}" }}\n'
    scenario.write_text(scenario.read_text() + treatments.format("off") + treatments.format("slot"))
    with pytest.warns(RenamedWarning) as notes:
        plan = read_plan(scenario)
    assert [dict(arm.changes) for arm in plan.treatments] == [{"path.coalesce": "off"}, {"path.coalesce": "slot"}]
    assert {str(note.message).partition(": is now")[0] for note in notes} == {f"{scenario}: path.join"}


def test_set_and_a_treatment_collide_under_either_name(scenario: Path) -> None:
    scenario.write_text(scenario.read_text() + '[[treatment]]\nname = "a"\nset = { "path.join" = "off" }\n')
    with (
        pytest.warns(RenamedWarning, match="join"),
        pytest.raises(UserError, match=r"--set changes path\.coalesce too"),
    ):
        read_plan(scenario, overrides={"path.coalesce": "slot"})


HOPS = """[[path.segment]]
name = "internet"
kind = "wired"
delay = "5ms"
[[path.segment]]
name = "radio"
kind = "radio"
rate = "1mbit"
[[workload]]
kind = "download"
size = "1mb"
"""


def test_segments_of_a_path_are_its_hops(tmp_path: Path) -> None:
    file = tmp_path / "old.toml"
    file.write_text(HOPS)
    with pytest.warns(RenamedWarning, match=r"old\.toml: path\.segment: is now called hop"):
        model = WavebedPath.load(file).model
    assert [hop.name for hop in model.hops] == ["internet", "radio"]


@pytest.mark.parametrize("key", ["segment", "hop"])
def test_a_hop_is_changed_by_its_old_and_its_new_key(tmp_path: Path, key: str) -> None:
    file = tmp_path / "old.toml"
    file.write_text(f"{HOPS}[[treatment]]\nname = 'a'\nset = {{ 'path.{key}.radio.rate' = '3mbit' }}\n")
    with pytest.warns(RenamedWarning):
        plan = read_plan(file, overrides={f"path.{key}.internet.delay": "7ms"})
    (arm,) = plan.treatments
    assert (dict(plan.overrides), dict(arm.changes)) == (
        {"path.hop.internet.delay": "7ms"},
        {"path.hop.radio.rate": "3mbit"},
    )
    assert isinstance(arm.path, PathModel)
    internet, radio = arm.path.hops
    assert (internet.down.delay, radio.up.rate) == (ConstantDelay(7_000_000), ConstantRate(3_000_000))


SCENE = """title = "t"
anchor = "illustrative"
duration = "10s"
others = "30%"
[carrier]
technology = "nr"
frequency = "28ghz"
bandwidth = "100mhz"
[[station]]
name = "mast"
at = [0, 0, 10]
power = "30dbm"
[handset]
start = [50, 0, 1.5]
way = [{ stay = "1s" }]
[[obstacle]]
name = "bus"
kind = "bus"
at = [20, 0]
way = [{ stay = "2s" }]
[device]
packets-per-second = 5
[fallback]
propagation = "uma"
others = "40%"
[fallback.carrier]
technology = "lte"
frequency = "2ghz"
bandwidth = "20mhz"
[fallback.station]
name = "roof"
at = [0, 50, 20]
power = "40dbm"
"""
NEW_SCENE_NAMES = {
    "others": "cell-load",
    "station": "base-station",
    "handset": "ue",
    "handset.way": "trajectory",
    "obstacle.way": "trajectory",
    "device": "ue-limit",
    "fallback.others": "cell-load",
    "fallback.station": "base-station",
}


def test_an_old_scene_is_the_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(SCENE)
    keys = {name.rpartition(".")[2]: key for name, key in NEW_SCENE_NAMES.items()}
    new.write_text(re.sub(r"\w+", lambda word: keys.get(word[0], word[0]), SCENE))
    with pytest.warns(RenamedWarning) as notes:
        scene = load(old)
    assert {str(note.message).partition(": write")[0] for note in notes} == {
        f"{old}: {name}: is now called {key}" for name, key in NEW_SCENE_NAMES.items()
    }
    assert replace(scene, name="new", source=new) == load(new)


def test_a_limit_of_the_ue_is_read_by_its_old_key_and_option() -> None:
    with pytest.warns(RenamedWarning, match=r"^--device: is now called --ue-limit"):
        (hop,) = WavebedPath.of(device="{ packets-per-second = 5 }").model.hops
    assert hop.down.ue_limit is not None
    assert hop.down.ue_limit.down_packets_per_s == 5


@pytest.mark.parametrize("key", ["reorder", "up-reorder"])
def test_a_share_of_reordered_packets_is_a_probability(tmp_path: Path, key: str) -> None:
    file = tmp_path / "old.toml"
    file.write_text(f'[path]\n{key} = {{ share = "1%", delay = "2ms" }}\n')
    with pytest.warns(RenamedWarning, match=rf"old\.toml: path\.{key}\.share: is now called probability"):
        (hop,) = WavebedPath.load(file).model.hops
    assert hop.up.reorder == ReorderStage(0.01, 2_000_000)


def test_a_column_of_loss_may_still_be_in_shares(tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    file.write_text("time,rate,loss\n0,1,0.5\n1,1,0\n")
    columns = ("time=time:s", "rate=rate:mbit", "loss=loss:{}")
    with pytest.warns(RenamedWarning, match=r"^--columns loss=loss:share: share: is now called probability"):
        old = read_trace(file, "table", ReadOptions(columns=tuple(column.format("share") for column in columns)))
    new = read_trace(file, "table", ReadOptions(columns=tuple(column.format("probability") for column in columns)))
    assert old.loss is not None
    assert new.loss is not None
    assert old.loss.tolist() == new.loss.tolist()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            ("path.join", "path.coalesce"),
            r"^--set\.path\.join: is the old name of 'path\.coalesce', which is given too",
        ),
        (("path.segment.a.rate", "path.hop.a.rate"), r"^--set\.path\.segment\.a\.rate: is the old name of"),
        (("path.segment.a.device", "path.hop.a.device"), r"^--set\.path\.hop\.a\.device: is the old name of"),
    ],
)
def test_both_names_of_a_change_are_refused(scenario: Path, keys: tuple[str, ...], message: str) -> None:
    with (
        warnings.catch_warnings(action="ignore", category=RenamedWarning),
        pytest.raises(UserError, match=message),
    ):
        read_plan(scenario, overrides=dict.fromkeys(keys, "off"))


def test_both_names_in_a_treatment_are_refused(scenario: Path) -> None:
    scenario.write_text(
        scenario.read_text() + "[[treatment]]\nname = 'a'\nset = { 'path.join' = 'off', 'path.coalesce' = 'off' }\n"
    )
    with (
        warnings.catch_warnings(action="ignore", category=RenamedWarning),
        pytest.raises(
            UserError, match=r"old\.toml: treatment\[1\]\.set\.path\.join: is the old name of 'path\.coalesce'"
        ),
    ):
        read_plan(scenario)
