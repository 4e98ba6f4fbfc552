"""The JSON Schema of a file is made from what reads it: it takes each shipped file, and all that the program takes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from wavebed import remedy
from wavebed.cli import main
from wavebed.cli.schema import NAMES, schema_text
from wavebed.config.table import fields
from wavebed.errors import UserError
from wavebed.path.tables import AirTable, EdgeTable, HopTable, HostTable, LinkTable, PathTable
from wavebed.path.timeline import StretchTable, TimelineTable
from wavebed.run.scenario import RunTable
from wavebed.scene.tables import (
    Array,
    BaseStationTable,
    CarrierTable,
    FallbackTable,
    InCar,
    Indoor,
    ObstacleTable,
    ReferenceChain,
    SceneTable,
    Timers,
    UeTable,
)
from wavebed.workload import KINDS, kind_of
from wavebed.workload.keys import Common
from wavebed.workload.site.spec import GroupTable, SiteTable

if TYPE_CHECKING:
    from msgspec import Struct

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = sorted(SCENARIOS.rglob("*.toml"))
TABLES = (
    *(LinkTable, AirTable, PathTable, HopTable, HostTable, EdgeTable, RunTable, Common),
    *(SceneTable, CarrierTable, Array, BaseStationTable, UeTable, ObstacleTable, FallbackTable, Timers),
    *(ReferenceChain, Indoor, InCar, SiteTable, GroupTable, TimelineTable, StretchTable),
    *(kind_of(kind).options_type for kind in KINDS),
    *(remedy.kind_of(kind).options_type for kind in remedy.KINDS),
)
READ_LATER = {"radio", "ue-limit", "base-station", "obstacle", "trajectory", "objects"}
"""Tables that the key passes on to another reader, which knows the rest of the file."""
SAMPLES = (
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
        for sample in (*SAMPLES, *words, *(() if field.default is None else (reader.raw(field.default),))):
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
