"""A trial as a value: resolved once, printed, kept, read again, and refused in one line where it is wrong."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.run.design import ordered
from wavebed.run.resolve import Resolver, read_spec
from wavebed.run.scenario import plan_of_spec, read_plan
from wavebed.spec.trial import TrialSpec, encode_spec
from wavebed.store.records import spec_json

if TYPE_CHECKING:
    from wavebed.run.scenario import Plan
    from wavebed.workload.web import WebOptions

BUFFERS = """
title = "two buffers"
[path]
trace = "walk.txt"
down-delay = "5ms"
[run]
trials = 2
[[workload]]
kind = "download"
size = "2mb"
[[workload]]
kind = "latency"
[[treatment]]
name = "small"
set = { "workload.download.size" = "1mb", "path.queue" = "droptail:100p" }
[[treatment]]
name = "large"
set = { "workload.download.size" = "5mb" }
"""
WALK = "0.5\t20\n1.0\t0\n2.5\t30\n3.0\t5\n"
"""Seconds and Mbit/s: converted, since the engine reads the native format only."""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "walk.txt").write_text(WALK)
    file = tmp_path / "buffers.toml"
    file.write_text(BUFFERS)
    return file


def resolved(plan: Plan, folder: Path | None) -> list[TrialSpec]:
    """Return the specifications of all trials, in their order."""
    found = []
    with closing(Resolver(plan, folder)) as resolver:
        for slot in ordered(plan.treatments, plan.trials, plan.seed):
            with resolver.resolved(slot) as each:
                found.append(each.spec)
    return found


def test_a_trace_that_changes_during_a_run_ends_it(tmp_path: Path) -> None:
    trace = tmp_path / "walk.csv"
    head = "# wavebed pattern 1\n# kind = steps\n# duration_s = 3\ntime_s,rate_bps\n"
    trace.write_text(f"{head}0,1000000\n")
    file = tmp_path / "s.toml"
    file.write_text('[path]\ntrace = "walk.csv"\nqueue = "droptail:100p"\n[[workload]]\nkind = "download"\n')
    plan = read_plan(file, trials=2)
    first, second = ordered(plan.treatments, plan.trials, plan.seed)
    with closing(Resolver(plan, None)) as resolver:
        with resolver.resolved(first):
            pass
        trace.write_text(f"{head}0,1000000\n1,50\n")
        with pytest.raises(WavebedError, match=r"walk\.csv: changed during the run"), resolver.resolved(second):
            pass


def test_a_scene_is_realised_once_and_each_seed_has_patterns_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[path]\nscene = "kau-e5g-1"\n[[workload]]\nkind = "download"\n')
    first, second = resolved(read_plan(file, trials=2), None)
    assert not set(first.patterns) & set(second.patterns)
    assert {(origin.source, origin.mode, origin.direction) for origin in first.patterns.values()} == {
        ("scene", "3gpp", "down"),
        ("scene", "3gpp", "up"),
    }
    assert resolved(read_plan(file), None) == [first]


def test_a_site_given_as_a_file_is_kept_beside_the_specification(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    shop = 'title = "shop"\nsource = "made up"\norigins = ["a.example"]\ndocument = "1kb"\n'
    (tmp_path / "a" / "shop.toml").write_text(shop)
    (tmp_path / "a" / "s.toml").write_text(f'[path]\n[[workload]]\nkind = "web"\nsite = "{tmp_path}/a/shop.toml"\n')
    assert main(["resolve", str(tmp_path / "a" / "s.toml"), "-o", str(tmp_path / "spec.json")]) == 0
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "copied").mkdir()
    for name in ("spec.json", "sites"):
        shutil.move(tmp_path / name, tmp_path / "copied" / name)
    file = tmp_path / "copied" / "spec.json"
    plan = plan_of_spec(read_spec(file), file)
    site = Path(cast("WebOptions", plan.treatments[0].workloads[0].options).site)
    assert site.parent.parent == tmp_path / "copied" / "sites"
    assert "a.example" in site.read_text()
    (tmp_path / "again").mkdir()
    assert resolved(plan, tmp_path / "again") == [read_spec(file).spec]


def test_a_site_is_read_and_kept_once_for_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.toml").write_text('[path]\n[run]\ntrials = 3\n[[workload]]\nkind = "web"\nsite = "cnn"\n')
    (tmp_path / "run").mkdir()
    kept: list[str] = []
    monkeypatch.setattr("wavebed.workload.site.saved.keep_site", lambda given, _folder: kept.append(given) or given)
    assert len(resolved(read_plan(tmp_path / "s.toml"), tmp_path / "run")) == 3
    assert kept == ["cnn"]


def change(spec: dict[str, Any], way: str, value: object) -> None:
    """Set a value in a specification; `way` is dotted, numbers are places in arrays."""
    *parts, last = (int(part) if part.isdigit() else part for part in way.split("."))
    place: Any = spec
    for part in parts:
        place = place[part]
    place[last] = value


@pytest.mark.parametrize(
    ("way", "value", "said"),
    [
        ("seed", -1, "seed: expected `int` >= 0"),
        ("version", 2, "is of version 2; this wavebed reads version 1: install a newer wavebed"),
        ("network.mtu", 100, "network.mtu: expected `int` >= 1280"),
        ("network.extra", 1, "network: object contains unknown field `extra`"),
        ("network.legs.0.hops.0.down.0.overhead_bytes", 5000, r"overhead_bytes: expected `int` <= 1000"),
        ("network.legs.0.hops.0.down.0.queue.limit", {}, "a limit is in bytes, packets or time_ns"),
        ("network.legs.0.hops.0.down.0.queue.kind", "fifo", "invalid value 'fifo'"),
        ("workloads", [], "workloads: expected `array` of length >= 1"),
        ("workloads.0.kind", "ftp", "workloads.download.kind: 'ftp' is not a choice"),
        ("workloads.0.options.size", "2", "workloads.download.options.size: '2' has no unit"),
        ("workloads.0.options.sise", "2mb", "workloads.download.options.sise: unknown key: did you mean 'size'?"),
    ],
)
def test_a_wrong_specification_is_refused_in_one_line(
    scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], way: str, value: object, said: str
) -> None:
    assert main(["resolve", str(scenario), "-o", str(tmp_path / "spec.json")]) == 0
    spec = json.loads((tmp_path / "spec.json").read_text())
    change(spec, way, value)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    capfd.readouterr()
    assert main(["run", str(tmp_path / "spec.json"), "-o", str(tmp_path / "out")]) == 2
    printed = capfd.readouterr().err
    assert printed.startswith(f"wavebed: {tmp_path}/spec.json: ")
    assert said in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_options_that_change_a_scenario_do_not_change_a_specification(scenario: Path, tmp_path: Path) -> None:
    assert main(["resolve", str(scenario), "-o", str(tmp_path / "spec.json")]) == 0
    for option in (["--set", "path.rate=1mbit"], ["--workload", "download"], ["--trials", "2"], ["--seed", "3"]):
        assert main(["run", str(tmp_path / "spec.json"), *option]) == 2


def test_a_trial_with_a_secret_says_that_it_was_left_out(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[path]\n[[workload]]\nkind = "command"\nrun = ["curl", "--token", "abc123", "server"]\n')
    (spec,) = resolved(read_plan(file), None)
    kept = spec_json(json.loads(encode_spec(spec)))
    assert "abc123" not in kept
    with pytest.raises(UserError, match="a secret was left out of the results"):
        plan_of_spec(read_spec_text(tmp_path, kept), tmp_path / "spec.json")


def read_spec_text(folder: Path, text: str) -> Any:
    """Return the stored trial that a text holds."""
    (folder / "spec.json").write_text(text)
    return read_spec(folder / "spec.json")


def test_the_schema_names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "trial"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"TrialSpec", "Network", "Hop", "BottleneckStage", "RadioStage", "WifiStage"} <= schema["$defs"].keys()
    assert main(["schema", "trail"]) == 2


def test_rerun_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rerun", str(tmp_path / "gone")]) == 2
    assert "there is no such trial" in capsys.readouterr().err
    (tmp_path / "trials/0001-a").mkdir(parents=True)
    assert main(["rerun", str(tmp_path / "0001-a")]) == 2
    assert "has no spec.json" in capsys.readouterr().err
