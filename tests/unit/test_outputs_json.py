"""Published formats: outputs of --json, schemas, and formats of files."""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from tests.outputs import checked
from tests.unit.report_example import write_example

import wavebed
import wavebed.cli
from wavebed import remedy
from wavebed.campaign.read import read_campaign
from wavebed.channel.placemap import load_map
from wavebed.check.judge import Decision, PercentileBounds
from wavebed.check.requirement import parse_requirement
from wavebed.check.result import CheckResult
from wavebed.check.trials import JudgedTrial
from wavebed.cli import COMMANDS, build_parser, main
from wavebed.cli.outputs import OUTPUTS, output_schema
from wavebed.cli.references import formats_page, outputs_page
from wavebed.cli.schema import NAMES, schema_text
from wavebed.config.table import fields
from wavebed.errors import UserError
from wavebed.formats import FORMATS, FORWARD, MAP, PATTERN, RESULTS, TRIAL, Format
from wavebed.path.control import Running
from wavebed.path.tables import AirTable, EdgeTable, HopTable, HostTable, LinkTable, PathTable
from wavebed.path.timeline import StretchTable, TimelineTable, load_timeline
from wavebed.pattern import read_trace
from wavebed.record.judge import Judged, Judgement
from wavebed.run.scenario import RunTable, read_plan
from wavebed.scene import load as load_scene
from wavebed.scene.tables import (
    Array,
    BaseStationTable,
    CarrierTable,
    InCar,
    Indoor,
    ObstacleTable,
    ReferenceChain,
    SceneFallbackTable,
    SceneTable,
    Timers,
    UeTable,
)
from wavebed.spec.trial import load_spec
from wavebed.stats.intervals import Method
from wavebed.stats.verdict import Finding, Margin
from wavebed.store.records import read_trial
from wavebed.workload import KINDS, kind_of
from wavebed.workload.model import Common
from wavebed.workload.site.spec import GroupTable, SiteTable
from wavebed.workload.site.spec import read_spec as read_site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msgspec import Struct


CLI = Path(wavebed.cli.__file__).parent
UNITS = (
    "_s", "_ms", "_us", "_ns", "_bps", "_mbps", "_mpps", "_pps", "_db", "_dbm", "_bytes", "_share", "_percent",
    "_segments", "_packets", "_frames", "pps",
)  # fmt: skip
WITHOUT_UNIT = {
    "score",
    "next_score",
    "files",
    # counts
    "trials", "blocks", "blocks_planned", "blocks_ended", "blocks_needed", "blocks_sent", "blocks_failed",
    "comparisons", "regressions", "without_values", "not_excluded", "trials_counted", "baseline_count", "new_count",
    "count", "pairs", "pairs_told_apart", "stored", "attempts", "resumed", "objects", "rows", "packets",
    "drawn_walks", "link_failures", "inside", "outside", "missing", "segments", "verdicts", "frames",
    # a number of its own kind
    "seed", "seeds_for_interval", "seeds", "uid", "version", "rank_by_estimate", "rank_best", "rank_worst",
    "ranks_gained", "throughput_rank", "small_rank", "confined_user", "speed",
    # bytes are the unit
    "bytes",
    # no unit: fractions, probabilities, distances of distributions
    "level", "p", "p_adjusted", "cliffs_delta", "ratio", "ratio_low", "ratio_high", "margin", "loss", "ks",
    "floor_ks", "harm", "minute_correlation", "distance_fitted", "distance_held_out", "cpu_busy_max", "formula",
}  # fmt: skip
IN_UNIT_OF_METRIC = {
    "median", "value", "bound", "low", "high", "estimate", "difference", "difference_low", "difference_high",
    "baseline_median", "new_median", "live_median", "replayed_median", "published", "reading_error", "ours", "drawn",
    "fitted", "held_out",
}  # fmt: skip
"""In the unit that the key ``unit`` names, beside it or around it."""
OF_KEY_AROUND = {
    "p5",
    "p10",
    "p50",
    "p90",
    "p95",
    "least",
    "none",
    "low",
    "high",
    "floor",
    "target",
    "fitted",
    "held_out",
}
"""In the unit of the key whose value has them, or, of distances of distributions, without one."""


def test_every_command_with_json_has_its_outputs() -> None:
    with_json = set()
    for name in COMMANDS:
        for words, parser in _parsers(name):
            if any("--json" in action.option_strings for action in parser._actions):
                with_json.add(words)
    named = [part.strip() for output in OUTPUTS.values() for part in output.commands.split(",")]
    unnamed = {words for words in with_json if not any(part.startswith(words) for part in named)}
    assert not unnamed, "a command with --json needs a line in wavebed.cli.outputs"


def _parsers(name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    (subparsers,) = (action for action in build_parser(name)._actions if isinstance(action, argparse._SubParsersAction))
    parser = subparsers.choices[name]
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((f"{name} {verb}", sub) for verb, sub in action.choices.items())


@pytest.mark.parametrize("file", sorted(CLI.glob("*.py")), ids=lambda file: file.stem)
def test_a_command_prints_json_by_its_name(file: Path) -> None:
    inputs = {"shell.py", "bridge.py"}  # --print-laboratory and --print-bridge: the engine's input, not a result
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    printed = [call for call in calls if ast.unparse(call.func) == "print" and "json." in ast.unparse(call)]
    assert not printed or file.name in inputs, f"{file.name}: print by wavebed.cli.outputs.print_json"
    for call in calls:
        if ast.unparse(call.func) == "print_json" and isinstance(call.args[0], ast.Constant):
            assert call.args[0].value in OUTPUTS


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_schema_of_an_output_is_one_and_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", f"output/{name}"]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith(f"wavebed: {OUTPUTS[name].commands}")
    assert schema_text(f"output/{name}")


@pytest.mark.parametrize("name", [name for name in OUTPUTS if name not in {"forward", "reproduce-small-packets"}])
def test_every_number_has_its_unit_in_its_key(name: str) -> None:
    for key, around in _numbers(output_schema(name)):
        known = key.endswith(UNITS) or key in WITHOUT_UNIT
        known |= around.endswith(UNITS) or "_ms_by_" in key
        known |= key in IN_UNIT_OF_METRIC | OF_KEY_AROUND
        assert known, f"output/{name}: {around}.{key} has no unit"


def _numbers(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of numbers, each with the key around it."""
    definitions = schema.get("$defs", {})

    def look(part: Any, key: str, around: str, seen: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        if "$ref" in part:
            target = part["$ref"].rpartition("/")[2]
            if target not in seen:
                yield from look(definitions[target], key, around, (*seen, target))
        for each in part.get("anyOf", []):
            yield from look(each, key, around, seen)
        if part.get("type") in {"number", "integer"}:
            yield key, around
        for inner, value in part.get("properties", {}).items():
            yield from look(value, inner, key, seen)
        for name in ("items", "additionalProperties"):
            if isinstance(part.get(name), dict):
                yield from look(part[name], key, around, seen)
        for each in part.get("prefixItems", []):
            yield from look(each, key, around, seen)

    yield from look(schema, "", "", ())


def test_another_key_or_a_missing_one_is_found() -> None:
    schema = output_schema("report")
    Draft202012Validator(schema).validate({"report": "r.html"})
    for wrong in ({"report": "r.html", "more": 1}, {}, {"report": 1}):
        with pytest.raises(ValidationError):
            Draft202012Validator(schema).validate(wrong)


def test_the_schemas_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "output/explain: wavebed explain: why packets were late or lost" in lines
    assert main(["schema", "output/explian"]) == 2
    assert "did you mean 'output/explain'?" in capsys.readouterr().err


def test_the_page_of_the_outputs_is_up_to_date() -> None:
    stored = (Path(__file__).parents[2] / "docs/reference/outputs.md").read_text()
    assert stored == outputs_page(), "run: python -m wavebed.cli.references docs/reference/outputs.md"


def test_the_results_of_a_run(tmp_path: Path) -> None:
    from wavebed.report.metrics import summary_json

    told = checked("run", summary_json(write_example(tmp_path), None))
    assert told["trials"] > 0


def test_a_judged_recording_and_laboratories() -> None:
    method = Method("bootstrap", 1, ())
    finding = Finding("equivalent", 1.01, 0.98, 1.04, 0.95, 6, 0.4, None, "ratio", 0.1, False, None, method)
    judged = Judged("web", "on load", "ms", "lte", 100.0, 101.0, (6, 6), finding)
    checked("record-judge", Judgement(Margin(0.1, relative=True), [judged]).as_json())
    lab = Running("street", 0, "name")
    checked("ctl-list", {"laboratories": [{name: getattr(lab, name) for name in ("name", "uid", "socket")}]})
    checked("ctl-netns", {"path": "/proc/7/fd/9", "podman_options": ["--network=ns:/proc/7/fd/9", "--dns=none"]})


def test_a_check_with_and_without_a_requirement_of_numbers() -> None:
    requirement = parse_requirement("web.speed index p90 < 2500 ms")
    spread = PercentileBounds(None, 2300.0, 0.95, 29)
    decisions = [
        Decision(
            "web.speed index p90 < 2500 ms", "cubic", "fail", 3, requirement, 2000.0, "ms", 2500.0, spread,
            {1: 1900.0, 2: math.inf}, ["too slow"],
        ),
        Decision("every trial completes", "cubic", "inconclusive", 3),
    ]  # fmt: skip
    trials = [
        JudgedTrial("0001-cubic", "cubic", 1, "measured"),
        JudgedTrial("0002-cubic", "cubic", 2, "failed", ["it ended with 1"]),
    ]
    found = checked("check", CheckResult("a walk", [1, 2, 3], decisions, trials, Path("out")).json())
    assert found["requirements"][0]["values"][1] == {"seed": 2, "value": None, "decides": True}


ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(SAMPLES / name) as packed:
        packed.extractall(folder, filter="data")
    return folder


def copied(name: str, folder: Path) -> Path:
    return Path(str((folder / name).write_bytes((SAMPLES / name).read_bytes()) and folder / name))


def read_run(folder: Path) -> object:
    run = wavebed.load(folder)
    return [read_trial(folder / "trials" / line.folder) for line in run.record.trials]


SAMPLE: dict[tuple[str, int], Callable[[Path], Path]] = {
    (RESULTS.name, 1): lambda folder: unpacked("results-1.tar.xz", folder) / "run",
    (FORWARD.name, 1): lambda folder: unpacked("results-1.tar.xz", folder) / "forward",
    (FORWARD.name, 2): lambda folder: unpacked("forward-2.tar.xz", folder) / "forward",
    (TRIAL.name, 1): lambda folder: copied("trial-1.json", folder),
    (PATTERN.name, 1): lambda folder: copied("pattern-1.csv", folder),
    (MAP.name, 1): lambda folder: copied("map-1.json", folder),
    (MAP.name, 2): lambda folder: copied("map-2.json", folder),
}
READ: dict[str, Callable[[Path], object]] = {
    RESULTS.name: read_run,
    FORWARD.name: lambda folder: wavebed.load(folder).arrow("trials"),
    TRIAL.name: lambda file: load_spec(file, "none"),
    PATTERN.name: read_trace,
    MAP.name: load_map,
}
VERSION = {
    RESULTS.name: r'"schema": \d+',
    FORWARD.name: r'"schema": \d+',
    TRIAL.name: r'"version": \d+',
    PATTERN.name: r"# wavebed pattern \d+",
    MAP.name: r'"wavebed-map": \d+',
}
EVERY = [pytest.param(form, version, id=f"{form.name} {version}") for form in FORMATS for version in form.reads]


def renumbered(form: Format, sample: Path, version: int) -> Path:
    """Give the file that has the version another one; return it."""
    file = sample / "run.json" if sample.is_dir() else sample
    text, changes = re.subn(
        VERSION[form.name], lambda found: re.sub(r"\d+$", str(version), found[0]), file.read_text(), count=1
    )
    assert changes == 1
    file.write_text(text)
    return file


@pytest.mark.parametrize(("form", "version"), EVERY)
def test_every_version_that_is_read_has_a_sample(form: Format, version: int, tmp_path: Path) -> None:
    sample = SAMPLE[form.name, version](tmp_path)
    assert READ[form.name](sample)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_newer_version_is_refused_in_one_line(form: Format, tmp_path: Path) -> None:
    sample = SAMPLE[form.name, form.version](tmp_path)
    file = renumbered(form, sample, form.version + 1)
    with pytest.raises(UserError) as refused:
        READ[form.name](sample)
    line = str(refused.value)
    assert line.startswith(str(file))
    assert "\n" not in line
    assert str(form.version + 1) in line
    assert refused.value.exit_status == 2


@pytest.mark.parametrize("form", [form for form in FORMATS if form is not PATTERN], ids=lambda form: form.name)
def test_the_line_says_which_version_is_read_and_what_to_do(form: Format, tmp_path: Path) -> None:
    sample = SAMPLE[form.name, form.version](tmp_path)
    renumbered(form, sample, form.version + 1)
    with pytest.raises(UserError, match=rf"this wavebed reads \w+ {form.version}: install a newer wavebed$"):
        READ[form.name](sample)


def test_a_trial_of_a_newer_version_in_an_older_run_is_refused(tmp_path: Path) -> None:
    folder = SAMPLE[RESULTS.name, 1](tmp_path)
    file = next(folder.glob("trials/*/trial.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 2}))
    with pytest.raises(UserError, match=r"trial\.json: is of schema 2"):
        read_trial(file.parent)


def test_the_first_names_of_a_trial_are_read() -> None:
    network = load_spec(SAMPLES / "trial-1-first-names.json", "none").network
    assert [[hop.name for hop in leg.hops] for leg in network.legs] == [["radio"]]
    assert network.coalesce.time_ns == 125_000


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("scenario-edge-split.toml", read_plan),
        ("campaign-demo.toml", read_campaign),
        ("scene-street-canyon-bus.toml", load_scene),
        ("timeline-commute.toml", load_timeline),
        ("site-google.toml", read_site),
    ],
)
def test_files_that_people_wrote_for_an_earlier_version_are_read(name: str, read: Callable[[Path], object]) -> None:
    assert read(SAMPLES / name)


def test_the_page_of_formats_is_up_to_date() -> None:
    stored = (ROOT / "docs/reference/formats.md").read_text()
    assert stored == formats_page(), "run: python -m wavebed.cli.references docs/reference/formats.md"


SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = sorted(SCENARIOS.rglob("*.toml"))
TABLES = (
    *(LinkTable, AirTable, PathTable, HopTable, HostTable, EdgeTable, RunTable, Common),
    *(SceneTable, CarrierTable, Array, BaseStationTable, UeTable, ObstacleTable, SceneFallbackTable, Timers),
    *(ReferenceChain, Indoor, InCar, SiteTable, GroupTable, TimelineTable, StretchTable),
    *(kind_of(kind).options_type for kind in KINDS),
    *(remedy.kind_of(kind).options_type for kind in remedy.KINDS),
)
READ_LATER = {"radio", "ue", "ue-limit", "base-station", "obstacle", "trajectory", "objects"}
"""Tables that the key passes on to another reader, which knows the rest of the file."""
WORDS = (
    *("10ms", "2s", "0s", "125us", "100mbit", "0.5gbit", "1500b", "64kib", "64mib", "1000p", "1%", "100%", "0.01%"),
    *("5db", "-8db", "30dbm", "-90deg", "28ghz", "1.5m/s", "off", "on", "slot", "fdd", "DDDSU", "x" * 50, "a", ""),
    *("droptail:100p", "codel", "infinite", "lte", "nr-120khz", "3gpp", "study", "uhd", "others", "icmp", "up", "cut"),
    *(True, False, 0, 1, 2, 5, 14, 640, 1300, -1, 1.5, 0.0, 10**20),
    *([], [1, 2], [1.5, 2, 3], [10, 2, 2], ["a"], ["a", "b"], ["www.shop.example"], [{}]),
    [["0s", "1%"]],
    [["7s", "8s"]],
    {"technology": "nr", "frequency": "28ghz", "bandwidth": "400mhz"},
    {"name": "mast", "at": [0, 0, 10], "power": "30dbm"},
    {"start": [0, 0, 1.5], "array": {"rows": 2}},
    {},
    {
        "propagation": "uma",
        "carrier": {"technology": "lte", "frequency": "2ghz", "bandwidth": "20mhz"},
        "base-station": {"name": "mast", "at": [0, 0, 10], "power": "30dbm"},
    },
    {"net.ipv4.tcp_syn_retries": 3},
    {"packets-per-second": 5},
    {"kind": "syn"},
    [{"kind": "syn", "interval": "50ms"}, {"kind": "splitter", "down": "bbr"}],
    {"token-bucket": "1mbit", "burst": "64kb"},
    {"model": "gilbert-elliott", "p": "1%", "r": "10%"},
    {"distribution": "normal", "mean": "10ms", "spread": "1ms"},
    {"pattern": "a.csv", "end": "hold"},
    {"probability": "1%", "delay": "1ms"},
    {"preset": "lte", "harq": "off"},
    {"kind": "fq_codel", "flows": 16},
    {"wall": "low-loss", "depth": 5, "during": [["1s", "2s"]]},
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SCENARIOS)))
def test_a_shipped_file_names_a_schema_and_keeps_to_it(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    directive, _, name = text.splitlines()[0].partition(" ")
    assert directive == "#:schema"
    schema = json.loads((file.parent / name).read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(tomllib.loads(text))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(json.loads(schema_text(name)))


@pytest.mark.parametrize("file", sorted((SCENARIOS / "schema").iterdir()), ids=lambda file: file.stem)
def test_a_shipped_schema_is_up_to_date(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == schema_text(file.stem), f"run: wavebed schema {file.stem} > {file}"


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_what_the_program_reads_the_schema_takes(model: type[Struct]) -> None:
    for field in fields(model).values():
        if field.name in READ_LATER:
            continue
        reader = field.key.reader
        validator = Draft202012Validator(dict(reader.schema()))
        read = []
        words = reader.schema().get("enum", ())
        for sample in (*WORDS, *words, *(() if field.default is None else (reader.raw(field.default),))):
            try:
                reader(sample)
            except UserError:
                continue
            read.append(sample)
            assert validator.is_valid(sample), (field.name, sample)
        assert read, f"no sample is right for {field.name}: add one"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"path": {"rat": "10mbit"}}, "rat"),
        ({"path": {"up-rate": "10"}}, "10"),
        ({"path": {}, "workload": [{"kind": "bulk", "size": "2mb"}]}, "bulk"),
        ({"path": {}, "run": {"trials": 0}}, "0"),
    ],
)
def test_the_schema_of_a_scenario_refuses_what_the_program_refuses(change: object, where: str) -> None:
    errors = list(Draft202012Validator(json.loads(schema_text("scenario"))).iter_errors(change))
    assert errors
    assert where in str(errors[0].message)


def test_the_command_prints_a_schema_and_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "scene"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "wavebed: a scene file"
    assert main(["schema", "scenery"]) == 2
    assert "did you mean 'scene'" in capsys.readouterr().err
