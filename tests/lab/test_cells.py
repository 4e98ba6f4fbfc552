"""Programs on the devices of a cell, in virtual time: what each of them and the group measured, twice the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.guests import assert_same, ended, started
from tests.lab.workload_trial import run_in_virtual_time

import wavebed
from wavebed.workload import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.workload_trial import Trial

pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("kernel")]

PHONES = ("phone-1", "phone-2", "phone-3")
CELL = """
title = "three phones"
[path]
[[path.hop]]
name = "core"
kind = "wired"
delay = "5ms"
[[path.hop]]
name = "radio"
kind = "radio"
radio = "nr-30khz"
rate = "60mbit"
[cell]
[[device]]
name = "phone"
count = 3
"""
EDGE = '[path.edge]\nafter = "core"\nremedy = { kind = "splitter" }\n[path.client]\nremedy = { kind = "syn" }\n'
LIGHT = {
    "bulk": 'duration = "2s"\n',
    "download": 'size = "1mb"\n',
    "latency": 'duration = "2s"\n',
    "voice": 'duration = "2s"\n',
    "record": 'duration = "2s"\n',
    "command": 'run = ["python3", "-c", "print(\'answer =\', 42)"]\nparser = "key-value"\n',
}
HEAVY = {"call": 'duration = "3s"\n', "video": 'duration = "4s"\n', "web": 'site = "google"\n'}


def workload(kind: str, keys: str, device: str = "phone") -> str:
    return f'[[workload]]\nkind = "{kind}"\ndevice = "{device}"\n{keys}'


def of_group(trial: Trial, name: str) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in trial.record.devices[name]}


@pytest.fixture(scope="module")
def light(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Every workload without a browser on every device."""
    del kernel
    text = CELL + "".join(workload(kind, keys) for kind, keys in LIGHT.items())
    return run_in_virtual_time(text, tmp_path_factory.mktemp("light"))


def test_all_kinds_of_workload_are_tried() -> None:
    assert {*LIGHT, *HEAVY} == set(KINDS)


@pytest.mark.parametrize("kind", LIGHT)
def test_every_kind_of_workload_runs_on_each_device(light: Trial, kind: str) -> None:
    for phone in PHONES:
        assert light.outcome(f"{phone}.{kind}").status == "ok", light.outcome(f"{phone}.{kind}").reason
    known = {metric.name for metric in light.outcome(f"phone-1.{kind}").metrics if metric.better != "neither"}
    assert {f"worst {name}" for name in known} <= set(of_group(light, f"phone.{kind}"))


def test_no_packet_of_any_device_is_unaccounted_for(light: Trial) -> None:
    links = {row["name"]: row for row in light.record.engine["links"]}  # type: ignore[union-attr, index]
    for phone in PHONES:
        for side in ("down", "up"):
            row = links[f"radio.{phone}.{side}"]
            assert row["delivered_segments"] > 100  # type: ignore[index, operator]
            assert row["unaccounted_segments"] == 0  # type: ignore[index]


def test_the_rates_of_the_devices_add_up_to_those_of_the_group(light: Trial) -> None:
    group = of_group(light, "phone")
    each = [of_group(light, phone) for phone in PHONES]
    for side in ("down", "up"):
        rates = [one[f"rate {side}"] for one in each]
        assert all(rates)
        assert group[f"sum of rate {side}"] == pytest.approx(sum(rates))  # type: ignore[arg-type]
        assert group[f"worst rate {side}"] == min(rates)  # type: ignore[type-var]
        # All have the same channel and the same programs.
        assert (group[f"Jain's index of rate {side}"] or 0.0) > 0.9
    cell = of_group(light, "cell")
    assert cell.items() >= group.items()
    for side in ("down", "up"):
        parts = [f"sum of air time {side}", f"air time of control {side}", f"idle air time {side}"]
        assert sum(cell[part] or 0.0 for part in parts) == pytest.approx(cell[f"slots {side}"])


def test_the_devices_share_the_air_time(light: Trial) -> None:
    group = of_group(light, "phone")
    for side in ("down", "up"):
        shares = [of_group(light, phone)[f"share of air time {side}"] for phone in PHONES]
        assert sum(shares) == pytest.approx(100)  # type: ignore[arg-type]
        assert 0 < (group[f"sum of air time {side}"] or 0.0) <= 100


def test_the_same_cell_gives_the_same_bytes_twice(tmp_path: Path, kernel: Path) -> None:
    del kernel
    text = CELL + workload("download", LIGHT["download"]) + workload("latency", LIGHT["latency"])
    for name in ("one", "two"):
        ended(started(text, tmp_path / name))
    assert_same(tmp_path / "one", tmp_path / "two")
    results = wavebed.load(tmp_path / "one")
    metrics = results.to_pandas()  # type: ignore[union-attr]
    assert {"phone-2.download", "phone-2", "phone", "phone.download", "cell"} <= set(metrics["workload"])
    assert "Worst loaded latency increase p95 of phone.latency" in repr(results)


def test_browsers_of_several_devices_run_in_one_cell(tmp_path: Path, kernel: Path) -> None:
    del kernel
    text = CELL
    for phone, (kind, keys) in zip(PHONES, HEAVY.items(), strict=True):
        text += workload(kind, keys, phone)
    trial = run_in_virtual_time(text, tmp_path)
    for phone, kind in zip(PHONES, HEAVY, strict=True):
        assert trial.outcome(f"{phone}.{kind}").status == "ok", trial.outcome(f"{phone}.{kind}").reason


def test_the_remedies_of_the_edge_serve_all_devices_and_those_of_the_client_are_on_each(
    tmp_path: Path, kernel: Path
) -> None:
    del kernel
    trial = run_in_virtual_time(CELL.replace("[cell]", f"{EDGE}[cell]") + workload("download", ""), tmp_path)
    (check,) = [check for check in trial.record.checks if check.code == "remedy"]
    assert check.holds, check.evidence
    assert check.evidence == ", ".join(["splitter on edge", *(f"syn on {phone}" for phone in PHONES)])
    for phone in PHONES:
        assert trial.outcome(f"{phone}.download").status == "ok"


USERS = """
[[cell.background]]
name = "neighbour"
count = 4
rate = "60mbit"
traffic = { kind = "files", per-second = 4, size = "200kb" }
"""


def test_modelled_users_are_accounted_for(kernel: Path, tmp_path: Path) -> None:
    """Shares of the air time sum to the slots, by counts of links, users and slots; explain names a user."""
    del kernel
    text = CELL.replace("[path]", "[path]\npacket-log = true", 1).replace("[[device]]", f"{USERS}[[device]]")
    trial = run_in_virtual_time(text + workload("bulk", 'duration = "2s"\n'), tmp_path)
    (down,) = [each for each in trial.record.engine["cells"] if each["name"] == "radio.down"]  # type: ignore[union-attr, index, call-overload]
    users = [f"neighbour-{number}" for number in range(1, 5)]
    assert [each["name"] for each in down["background"]] == users  # type: ignore[index, union-attr, call-overload]
    links = {each["name"]: each["air_ns"] for each in trial.record.engine["links"]}  # type: ignore[union-attr, index, call-overload]
    used = sum(each["air_ns"] for each in down["background"]) + down["control_ns"]  # type: ignore[index, union-attr, call-overload]
    used += sum(links[f"radio.{phone}.down"] for phone in PHONES)
    assert 0.5 * down["slots_ns"] < used <= 1.001 * down["slots_ns"]  # type: ignore[index, call-overload, operator]
    figures = {name: of_group(trial, name) for name in (*PHONES, *users, "cell", "neighbour")}
    shares = [figures[name]["share of air time down"] for name in (*PHONES, *users)]
    assert sum(shares) == pytest.approx(100)  # type: ignore[arg-type]
    airs = sum(figures[name]["air time down"] for name in (*PHONES, *users))  # type: ignore[misc]
    cell = figures["cell"]
    assert airs + cell["air time of control down"] + cell["idle air time down"] == pytest.approx(cell["slots down"])  # type: ignore[operator]
    assert cell["idle air time down"] >= -0.5  # type: ignore[operator]
    assert figures["neighbour"]["sum of rate down"] > 1  # type: ignore[operator]
    assert sum(figures[name]["files down"] for name in users) > 5  # type: ignore[misc]
