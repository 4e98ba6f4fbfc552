"""The Python interface: runs, comparisons, what a prompt and a notebook show, and messages about mistakes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.result_folders import open_run

import wavebed
from wavebed import extras
from wavebed.errors import MissingPackageError, UserError
from wavebed.interface.comparing import Comparison
from wavebed.interface.results import RunResults
from wavebed.result.model import Check, RunRecord, TrialRecord, WorkloadRecord
from wavebed.spec.types import ConstantRate
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.run.design import Slot
    from wavebed.run.resolve import Resolved
    from wavebed.spec.types import Network

BULK = {"kind": "bulk", "duration": "1s"}
TWO = {
    "path": {"down-rate": "20mbit", "up-rate": "5mbit", "delay": "10ms"},
    "workload": [BULK, {"kind": "latency", "duration": "1s"}],
    "treatment": [
        {"name": "short", "set": {"path.queue": "droptail:20ms"}},
        {"name": "long", "set": {"path.queue": "droptail:200ms"}},
    ],
}


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Network]:
    """The network of each trial; a trial measures the rate of its downlink and its seed, and starts no laboratory."""
    found: list[Network] = []

    def trial(
        slot: Slot, resolved: Resolved, _partial: Path, _look: object, of_machine: Callable[[], Sequence[Check]]
    ) -> TrialRecord:
        network = resolved.spec.network
        found.append(network)
        metric = Metric(
            "goodput", rates([network])[0][0] / 1e6 + 0.1 * slot.seed, "Mbit/s", "higher", "what a test wants"
        )
        workloads = [
            WorkloadRecord(each.name, each.kind, TimeSpan(0.0, 1.0, False), Outcome(metrics=[metric]))
            for each in resolved.spec.workloads
        ]
        head = (slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, "valid")
        return TrialRecord(*head, checks=list(of_machine()), workloads=workloads)

    monkeypatch.setattr("wavebed.run.runner.run_trial", trial)
    monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)
    monkeypatch.chdir(tmp_path)
    return found


def rates(networks: list[Network]) -> list[tuple[int, ...]]:
    """Return the constant rates of the radio hop: downlink and uplink, bit/s."""
    found = []
    for network in networks:
        hop = network.legs[-1].hops[-1]
        found.append(tuple(rate_of(stages) for stages in (hop.down, hop.up)))
    return found


def rate_of(stages: Sequence[object]) -> int:
    return next(rate.rate_bps for stage in stages if isinstance(rate := getattr(stage, "rate", None), ConstantRate))


def test_completion_lists_the_public_names_only() -> None:
    assert dir(wavebed) == ["Path", "Pattern", "Scene", "__version__", "compare", "load", "run", "virtual_time"]
    assert all(getattr(wavebed, name) is not None for name in dir(wavebed))


@pytest.mark.parametrize("first", ["wavebed.run.scenario", "wavebed.compare.find", "wavebed"])
def test_run_and_compare_are_called_whichever_of_their_modules_is_imported_first(first: str) -> None:
    code = (
        f"import {first}, inspect, wavebed\n"
        "print(*list(inspect.signature(wavebed.run).parameters)[:2], *inspect.signature(wavebed.compare).parameters)\n"
        "import wavebed.run.scenario, wavebed.compare.find\n"
        "print(wavebed.run.scenario.Plan.__name__, callable(wavebed.run), callable(wavebed.compare))\n"
        "print(wavebed.run.__call__.__doc__.partition(',')[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "scenario workload results margins",
        "Plan True True",
        "Run the workloads of a scenario on its path",
    ]


def test_importing_the_package_imports_none_of_its_parts() -> None:
    code = "import sys, wavebed; print(*sorted(name for name in sys.modules if name.startswith('wavebed')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["wavebed"]


def test_every_public_function_says_what_it_raises() -> None:
    for thing in (wavebed.run.__call__, wavebed.compare.__call__, wavebed.load, wavebed.Path, wavebed.Scene):
        assert "Raises\n" in (inspect.getdoc(thing) or "")


def test_a_path_on_keywords_runs_a_kind_of_workload(networks: list[Network]) -> None:
    path = wavebed.Path(rate="50mbit", down_rate="40mbit", delay="20ms")
    results = wavebed.run(path, workload="bulk", seed=7, trials=2, progress=False)
    assert rates(networks) == [(40_000_000, 50_000_000)] * 2
    assert list(results.trials["seed"]) == [7, 8]
    assert set(results.metrics["workload"]) == {"path", "bulk"} - ({"path"} - set(results.metrics["workload"]))
    assert results.record.title == repr(path)
    assert results.folder.parent.name == "runs"


def test_a_scenario_is_a_dictionary_a_file_or_a_shipped_one(networks: list[Network], tmp_path: Path) -> None:
    wavebed.run(TWO, output="one", progress=False)
    stored = (tmp_path / "one" / "scenario.toml").read_text()
    file = tmp_path / "again.toml"
    file.write_text(stored)
    again = wavebed.run(file, output="two", progress=False)
    assert networks[:2] == networks[2:]
    assert list(again.trials["treatment"].sort_values()) == ["long", "short"]
    shipped = wavebed.run("known-path", output="three", progress=False)
    assert shipped.record.scenario == "known-path.toml"


def test_settings_stand_above_the_path_of_every_treatment(networks: list[Network]) -> None:
    wavebed.run(TWO, rate="8mbit", progress=False, output="one")
    assert rates(networks) == [(8_000_000, 8_000_000)] * 2
    wavebed.run(wavebed.Path("known-path", rate="3mbit"), up_rate="1mbit", progress=False, output="two")
    assert rates(networks)[2] == (3_000_000, 1_000_000)


def test_a_setting_that_makes_treatments_alike_is_refused(networks: list[Network]) -> None:
    with pytest.raises(UserError, match=r"^down_queue: treatment short sets path\.queue, .*: leave it out$"):
        wavebed.run(TWO, down_queue="codel", progress=False)
    assert not networks


def test_workloads_are_chosen_by_name_and_added_as_tables(networks: list[Network]) -> None:
    one = wavebed.run(TWO, workload="latency", output="one", progress=False)
    assert [each["name"] for each in one.record.workloads] == ["latency"]
    more = {"kind": "download", "size": "1mb"}
    two = wavebed.run(TWO, workload=["latency", more], output="two", progress=False)
    assert [each["name"] for each in two.record.workloads] == ["latency", "download"]
    three = wavebed.run(TWO, workload=more, output="three", progress=False)
    assert [each["name"] for each in three.record.workloads] == ["bulk", "latency", "download"]


def test_the_command_in_the_results_runs_the_same_again(
    networks: list[Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wavebed.Path(rate="50mbit", queue={"kind": "codel", "ecn": True})
    results = wavebed.run(path, workload=BULK, up_rate="5mbit", progress=False, output="one")
    python, option, code = results.record.command_line
    assert (python, option) == ("python3", "-c")
    exec(code.replace("wavebed.run(", "wavebed.run(output='two', progress=False, scenario="), {})
    assert networks[0] == networks[1]


def test_a_secret_of_a_scenario_is_neither_in_the_command_nor_in_the_text(
    networks: list[Network], tmp_path: Path
) -> None:
    command = {"kind": "command", "run": ["curl", "--user", "me:hunter22", "http://server"]}
    wavebed.run(wavebed.Path(rate="1mbit"), workload=command, output="one", progress=False)
    for file in (tmp_path / "one").rglob("*"):
        assert not file.is_file() or b"hunter22" not in file.read_bytes()


def test_progress_goes_to_standard_error_unless_it_is_turned_off(
    networks: list[Network], capsys: pytest.CaptureFixture[str]
) -> None:
    wavebed.run(TWO, output="one", progress=False)
    assert capsys.readouterr() == ("", "")
    wavebed.run(TWO, output="two")
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("wavebed.run: ")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: wavebed.run("dmo"), "dmo: is neither a file nor a shipped scenario: "),
        (lambda: wavebed.run({}, workload="bulk"), "scenario: path: is missing: add a table [path]"),
        (lambda: wavebed.run({"path": {"rat": "1mbit"}}, workload="bulk"), "scenario: path.rat: unknown key: did you"),
        (lambda: wavebed.run(wavebed.Path(rate="1mbit")), 'workload: there is none: add workload="bulk"'),
        (
            lambda: wavebed.run(TWO, workload="web"),
            "workload: 'web' is no workload of this scenario: write one of",
        ),
        (lambda: wavebed.run(TWO, trials=0), "trials: 0 is out of range: "),
        (lambda: wavebed.run(TWO, seed=-1), "seed: -1 is out of range: "),
        (lambda: wavebed.run(TWO, rat="1mbit"), "rat: unknown key: did you mean 'rate'?"),
        (lambda: wavebed.run(TWO, changes={"run": 1}), "changes.run: begins with no table: "),
        (lambda: wavebed.Path(rat="1mbit"), "rat: unknown key: did you mean 'rate'?"),
        (lambda: wavebed.Path(rate="fast"), "--rate: "),
        (lambda: wavebed.Scene("street-cornr"), "street-cornr: no such file, scene or condition: did you mean street"),
        (wavebed.compare, "wavebed.compare: there are 0 results: give two or more"),
        (lambda: wavebed.compare("none", "nowhere"), "none: "),
        (lambda: wavebed.load("nowhere"), "nowhere: "),
    ],
)
def test_a_mistake_is_one_line(call: Callable[[], object], line: str, networks: list[Network]) -> None:
    with pytest.raises(UserError) as told:
        call()
    assert str(told.value).startswith(line)
    assert "\n" not in str(told.value)


@pytest.fixture
def results(networks: list[Network]) -> RunResults:
    """Six trials of two treatments."""
    return wavebed.run(TWO, trials=6, output="results", progress=False)


def test_results_name_themselves_in_a_few_lines(results: RunResults) -> None:
    shown_on_prompt = dict(line.split(maxsplit=1) for line in repr(results).splitlines())
    assert list(shown_on_prompt) == ["question", "answer", "effect", "timing", "folder"]
    assert "20.4" in shown_on_prompt["answer"]
    assert shown_on_prompt["folder"] == "results"
    shown = results._repr_html_()
    assert shown is not None
    assert shown.count("<tr>") == 3  # the head, and the goodput of each workload


def test_results_are_frames_of_pandas_and_of_polars(results: RunResults) -> None:
    frame = results.to_pandas()
    assert list(frame["value"].dropna().unique().round(1)) == [20.1, 20.2, 20.3, 20.4, 20.5, 20.6]
    frame["value"] = 0.0  # a frame of one's own
    assert results.metrics["value"].max() == pytest.approx(20.6)
    polars = pytest.importorskip("polars")
    same = results.to_polars()
    assert isinstance(same, polars.DataFrame)
    assert same.columns == list(frame.columns)
    assert same["value"].max() == pytest.approx(20.6)


def test_a_missing_value_is_null_in_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    from wavebed.page.frames import polars_frame

    frame = polars_frame({"value": __import__("numpy").array([1.0, float("nan")])})
    assert frame["value"].to_list() == [1.0, None]
    assert frame["value"].dtype == polars.Float64


@pytest.mark.parametrize(
    ("ending", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")], ids=["svg", "png", "pdf"]
)
def test_a_picture_is_written_in_the_format_of_its_ending(
    ending: str, magic: bytes, results: RunResults, tmp_path: Path
) -> None:
    file = tmp_path / f"goodput.{ending}"
    results.plot("bulk.goodput").save(file)
    assert file.read_bytes().startswith(magic)


def test_a_picture_shows_a_metric_by_its_short_name_and_says_what_was_meant(results: RunResults) -> None:
    assert "latency: goodput" in repr(results.plot()), "the metric with which the report begins"
    assert repr(results.plot("goodput")) == "Picture: scenario: bulk: goodput, Mbit/s; save(FILE) writes it"
    assert results.plot("latency.goodput").caption == "scenario: latency: goodput, Mbit/s"
    assert results.plot()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"^results: no metric 'godput': did you mean 'bulk\.goodput'"):
        results.plot("godput")
    with pytest.raises(UserError, match=r"^goodput\.gif: no format has this ending: "):
        results.plot().save("goodput.gif")


def test_a_picture_shows_what_the_scenario_asks_for(networks: list[Network]) -> None:
    asked = {**TWO, "run": {"primary": "bulk.goodput"}}
    results = wavebed.run(asked, output="asked", progress=False)
    assert "bulk: goodput" in repr(results.plot())


def test_results_without_trials_are_shown_too(tmp_path: Path) -> None:
    record = RunRecord("none", "none.toml", "", {}, [], "2026-11-21T10:00:00Z", 1, 1, {}, {}, [], [])
    open_run(tmp_path / "run", record, "")
    empty = wavebed.load(tmp_path / "run")
    assert "no trial has ended" in repr(empty)
    assert isinstance(empty, RunResults)
    assert empty._repr_html_() is not None
    with pytest.raises(UserError, match="has no metric: no trial counts"):
        empty.plot()


def test_a_comparison_shows_its_primary_metrics_and_has_the_rest(results: RunResults, networks: list[Network]) -> None:
    other = wavebed.run(TWO, trials=6, rate="30mbit", output="other", progress=False)
    found = wavebed.compare(results, "other", margins={"bulk.goodput": "5%"})
    assert isinstance(found, Comparison)
    text = repr(found)
    assert "bulk goodput" in text
    assert "latency goodput" not in text
    assert text.splitlines()[-1].endswith(" more metrics: to_pandas() has all")
    frame = found.to_pandas()
    primary = frame[frame["role"] == "primary"]
    assert list(primary["verdict"]) == ["better", "better"]
    assert list(primary["base"]) == ["short", "long"]
    assert frame["low"].dtype == "float64"
    assert "better" in (found._repr_html_() or "")
    assert "bulk: goodput" in repr(found.plot())
    assert other.folder.name == "other"
    assert repr(wavebed.compare(other.folder, results)).count("latency goodput") == 2


def test_a_scene_is_named_shown_and_used_as_a_path() -> None:
    scene = wavebed.Scene("street-canyon-bus")
    assert {"street-canyon-bus", "street-corner/lte"} <= set(wavebed.Scene.names())
    assert repr(scene).startswith("Scene('street-canyon-bus'): ")
    assert "obstacles" in (scene._repr_html_() or "")
    assert repr(wavebed.Path(scene=scene)) == repr(wavebed.Path(scene="street-canyon-bus"))
    frame = scene.to_pandas(seed=3)
    assert list(frame.columns) == ["time_s", "x_m", "y_m", "state", "sinr_db", "rate_bps", "up_rate_bps"]
    assert len(frame) == round(scene.duration_s / scene.model.step_s)
    assert int((frame["rate_bps"] * scene.model.step_s).sum()) == pytest.approx(scene.pattern(3).total_bits(), rel=1e-6)


def test_a_path_shows_each_hop_and_link() -> None:
    path = wavebed.Path(down_rate="50mbit", delay="20ms", queue="codel", seed=4)
    assert repr(path) == "Path: radio down 50mbit, 20ms; up 20ms"
    assert (path._repr_html_() or "").count("codel") == 2
    assert path.model.seed == 4
    three = repr(wavebed.Path("three-hosts"))
    assert three.count(" | ") == len(wavebed.Path("three-hosts").model.hops) - 1


@pytest.mark.parametrize(
    ("package", "call", "line"),
    [
        ("polars", lambda results: results.to_polars(), "to_polars() needs Polars: pip install 'wavebed[polars]'"),
        ("matplotlib", lambda results: results.plot(), "plot() needs Matplotlib: pip install 'wavebed[report]'"),
        (
            "pandas",
            lambda it: wavebed.load(it.folder),
            "a folder of results needs pandas: pip install 'wavebed[report]'",
        ),
        ("scipy", lambda it: wavebed.compare(it, it), "wavebed.compare needs SciPy: pip install 'wavebed[report]'"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str,
    call: Callable[[RunResults], object],
    line: str,
    results: RunResults,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = extras._is_installed
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != package and there(module))
    with pytest.raises(MissingPackageError, match="needs") as told:
        call(results)
    assert str(told.value) == line


def test_without_jinja_a_notebook_shows_the_text(results: RunResults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "jinja2")
    assert results._repr_html_() is None
    assert wavebed.Path(rate="1mbit")._repr_html_() is None
    assert repr(results).splitlines()[1:] == ["timing    12 trials, 12 counted", "folder    results"]
