"""Workloads and metrics of the devices of a cell and of their groups."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import resource
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec import structs
from msgspec.structs import replace
from tests.memory_lab import MemoryLab, Program
from tests.unit.test_remedies import service
from tests.unit.test_run_checks import DEPARTURE, HOST, LINK
from tests.unit.test_run_play import Waiter
from tests.unit.test_transport_links import constant, link_rows, steady

from wavebed.check.judge import decide
from wavebed.check.requirement import check_known, parse_requirement
from wavebed.check.trials import link_metrics, seen
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.lab.protocol import MachineClock
from wavebed.lab.tools import Computing, ProgramTime
from wavebed.path.model import CellModel, DeviceModel, Link
from wavebed.result.devices import device_metrics, known_device_metrics, members_of, of_groups, together, worst_of
from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.result.tables import CELL_SCHEMAS, SCHEMAS, capacity_table
from wavebed.run.checks import engine_checks
from wavebed.run.design import ordered
from wavebed.run.devices import allow_files, check_names, on_devices, own_name, with_own_predecessors
from wavebed.run.play import AT_ONCE, open_all, perform
from wavebed.run.remedies import Remedies
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import StoredTrial, changed, plan_of_spec, read_plan
from wavebed.run.times import guest_bytes_of, with_time
from wavebed.run.trial import run_trial
from wavebed.spec.network import modelled_users
from wavebed.spec.trial import RemedySpec, Treatment, TrialSpec, WorkloadSpec
from wavebed.spec.types import (
    BackgroundUser,
    CellDevice,
    CellScheduler,
    ConstantRate,
    FilesBackgroundTraffic,
    FullBufferBackgroundTraffic,
    Host,
    Network,
    RadioCell,
)
from wavebed.store.records import read_trial, trial_json
from wavebed.workload import read_workload
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.run.scenario import Plan
    from wavebed.workload.model import AnyWorkload, Session, TrialContext

SCHEDULER = CellScheduler("proportional_fair", units=17)
PHONES = ("phone-1", "phone-2", "phone-3")


def cell(*names: str) -> CellModel:
    made = tuple(DeviceModel(name, name.rpartition("-")[0] or name, Link(), Link()) for name in names)
    return CellModel("radio", SCHEDULER, SCHEDULER, made)


def workloads(of: CellModel | None, *tables: dict[str, object]) -> list[AnyWorkload]:
    found = [each for table in tables for each in on_devices(read_workload({"kind": "latency"} | table), of)]
    with_own_predecessors(found)
    return found


def names(found: Sequence[AnyWorkload]) -> list[tuple[str, str]]:
    return [(each.name, each.common.client_host) for each in found]


def test_each_device_of_a_group_has_a_workload_of_its_own() -> None:
    found = workloads(cell(*PHONES, "tablet"), {"device": "phone"}, {"device": "phone-2", "name": "b"}, {"name": "c"})
    assert names(found) == [
        *((f"{phone}.latency", phone) for phone in PHONES),
        ("phone-2.b", "phone-2"),
        ("phone-1.c", "phone-1"),
    ]
    assert {own_name(each) for each in found} == {"latency", "b", "c"}
    assert len({id(each.options) for each in found[:3]}) == 1  # content is made once
    assert names(workloads(None, {})) == [("latency", "client")]


def test_a_workload_follows_that_of_its_own_device_or_the_one_that_is_named() -> None:
    tables = ({"device": "phone", "name": "a"}, {"device": "phone", "after": "a"}, {"device": "tablet", "name": "b"})
    found = workloads(cell(*PHONES, "tablet"), *tables, {"device": "tablet", "name": "c", "after": "phone-2.a"})
    after = {each.name: each.common.after for each in found if each.common.after}
    assert after == {f"{phone}.latency": f"{phone}.a" for phone in PHONES} | {"tablet.c": "phone-2.a"}


@pytest.mark.parametrize(
    ("of", "table", "message"),
    [
        (None, {"device": "phone"}, "device: this path has no cell: remove the key, or add a table [[device]]"),
        (cell(*PHONES), {"device": "phon"}, "device: 'phon' is no device of the cell: did you mean 'phone'?"),
        (
            cell(*PHONES),
            {"device": "phone", "client": "edge"},
            'device: the client is the edge already: remove client = "edge"',
        ),
        (cell(*PHONES), {"after": "Phone.a"}, "after: 'Phone' is not a name"),
    ],
)
def test_a_device_that_does_not_fit_is_refused(of: CellModel | None, table: dict[str, object], message: str) -> None:
    with pytest.raises(Problem, match=r"^.*") as error:
        workloads(of, table)
    assert str(error.value).startswith(message)


def test_a_specification_keeps_the_device_of_a_workload(tmp_path: Path) -> None:
    specs = tuple(
        WorkloadSpec(each.name, each.kind, 0, each.common.after, 10**10, "server", each.common.client_host, {})
        for each in workloads(cell(*PHONES), {"device": "phone", "name": "a"}, {"device": "phone", "after": "a"})
    )
    network = Network(1500, False, coalesce="off", hosts=(Host("server"), *map(Host, PHONES)), legs=())
    spec = TrialSpec(1, "", "", Treatment("t", {}), 1, 1, network, {}, specs)
    (treatment,) = plan_of_spec(StoredTrial(spec, tmp_path), tmp_path).treatments
    read = treatment.workloads
    assert names(read) == [(each.name, each.client) for each in specs]
    assert [each.common.after for each in read] == [None] * 3 + [f"{phone}.a" for phone in PHONES]
    assert len({id(each.options) for each in read}) == 1


@pytest.mark.parametrize("taken", ["cell", "path"])
def test_a_device_has_no_name_of_other_figures(taken: str) -> None:
    with pytest.raises(Problem, match=f"'{taken}' has the figures of the {taken}: name the device otherwise"):
        check_names(cell("phone", taken), [])


def test_a_key_names_the_workload_of_a_device() -> None:
    tables = [{"kind": "latency", "device": "phone"}, {"kind": "latency", "device": "tablet"}]
    document = changed({"workload": tables}, {'workload."tablet.latency".limit': "9s"})
    assert [table.get("limit") for table in document["workload"]] == [None, "9s"]
    with pytest.raises(Problem) as error:
        changed({"workload": tables}, {"workload.latency.limit": "9s"})
    message = (
        """several devices have a workload 'latency': write workload."phone.latency" or workload."tablet.latency\""""
    )
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("workload.one.bulk.limit", """there is no workload 'one': write workload."one.bulk", with the quotes"""),
        ("workload.x.y", """no workload 'x': write workload."one.bulk" or workload."laptop.bulk", with the quotes"""),
        (
            "workload.laptop-2.bulk.limit",
            """a workload runs on every device of laptop: write workload."laptop.bulk\"""",
        ),
        (
            "device.laptop-2.down-rate",
            "one device of a count cannot be changed alone: write device.laptop for all, or add a table",
        ),
        ("device.laptop-x.down-rate", "there is no device 'laptop-x': did you mean 'laptop'?"),
        ("device.one-2.down-rate", "there is no device 'one-2': did you mean 'one'?"),
    ],
)
def test_a_key_that_names_no_table_of_a_cell_says_how_to_write_it(key: str, message: str) -> None:
    document = {
        "device": [{"name": "one"}, {"name": "laptop", "count": 3}],
        "workload": [{"kind": "bulk", "device": "one"}, {"kind": "bulk", "device": "laptop"}],
    }
    with pytest.raises(Problem) as error:
        changed(document, {key: 1})
    assert message in str(error.value)


def metric(name: str, value: float | None, unit: str = "ms", better: str = "lower") -> Metric:
    return Metric(name, value, unit, better, "test")  # type: ignore[arg-type]


def figures(metrics: Sequence[Metric]) -> dict[str, float | None]:
    return {each.name: each.value for each in metrics}


def test_a_group_has_the_worst_device_and_the_mean_and_of_rates_what_they_share() -> None:
    assert figures([*together(metric("loss", None, "%"), [1.0, 4.0, 1.0])]) == {"worst loss": 4.0, "mean loss": 2.0}
    rates = figures([*together(metric("goodput", None, "Mbit/s", "higher"), [1.0, 2.0, 3.0])])
    assert rates == {
        "worst goodput": 1.0,
        "mean goodput": 2.0,
        "sum of goodput": 6.0,
        "Jain's index of goodput": pytest.approx(36 / (3 * 14)),
    }
    assert figures([*together(metric("count", None, "", "neither"), [1.0, 2.0])]) == {"mean count": 1.5}
    assert set(figures([*together(metric("loss", None), [1.0, None])]).values()) == {None}


def test_groups_are_those_of_the_names_and_all_devices() -> None:
    assert members_of(PHONES) == {"phone": [*PHONES], "cell": [*PHONES]}
    assert members_of(["phone", "tablet"]) == {"cell": ["phone", "tablet"]}
    assert members_of(["phone-1", "tablet"]) == {"phone": ["phone-1"], "cell": ["phone-1", "tablet"]}
    assert members_of(["phone-1"]) == {"phone": ["phone-1"], "cell": ["phone-1"]}
    assert members_of(["phone"]) == {}


def test_workloads_of_one_name_make_one_of_the_group_and_of_the_cell() -> None:
    metrics = {f"{name}.call": [metric("loss", float(place))] for place, name in enumerate((*PHONES, "tablet"))}
    metrics["tablet.web"] = [metric("on load", 1.0)]
    found = of_groups(metrics, [*PHONES, "tablet"])
    assert {name: figures(each) for name, each in found.items()} == {
        "phone.call": {"worst loss": 2.0, "mean loss": 1.0},
        "cell.call": {"worst loss": 3.0, "mean loss": 1.5},
    }
    assert worst_of("phone.call.worst loss") == "phone.call.loss"
    assert worst_of("phone.call.mean loss") == ""


def test_a_requirement_on_a_group_is_on_its_worst_device() -> None:
    metrics = {(f"{name}.call", "loss"): metric("loss", 1.0) for name in PHONES}
    for group, found in of_groups({key[0]: [each] for key, each in metrics.items()}, PHONES).items():
        metrics |= {(group, each.name): each for each in found}
    for name, key in {
        "phone.call.loss": ("phone.call", "worst loss"),
        "phone.call.mean loss": ("phone.call", "mean loss"),
        "phone-2.call.loss": ("phone-2.call", "loss"),
        "cell.call.loss": ("cell.call", "worst loss"),
    }.items():
        assert parse_requirement(f"{name} p90 < 2 ms").key(metrics) == key
    with pytest.raises(Problem, match=r"several workloads have it: write one of phone\.call\.loss, cell\.call\.loss"):
        parse_requirement("loss p90 < 2 ms").key(metrics)
    with pytest.raises(Problem, match=r"did you mean 'phone\.call\.loss'"):
        parse_requirement("phone.call.los p90 < 2 ms").key(metrics)


def network(*devices: str):
    from types import SimpleNamespace

    made = tuple(CellDevice(name, (), ()) for name in devices)
    return SimpleNamespace(cell=RadioCell("radio", SCHEDULER, SCHEDULER, made), legs=(), hosts=())


def tables(bits_per_ms: dict[str, float], air_ns: dict[str, int] | None = None) -> dict[str, pa.Table]:
    rows = [
        row
        for name, bits in bits_per_ms.items()
        for row in link_rows(f"radio.{name}.down", steady(0, 10_000, bits, 5.0, 9000))
    ]
    links = pa.Table.from_pylist(rows, schema=SCHEMAS["links"])
    if air_ns is not None:
        air = [air_ns[row["link"].split(".")[1]] for row in rows]
        if "air_ns" in links.column_names:
            links = links.drop_columns(["air_ns"])
        links = links.append_column("air_ns", pa.array(air, pa.int64()))
    capacity = [row for name in bits_per_ms for row in constant(link=f"radio.{name}.down")]
    flows = [
        {"time_ns": at * 10**9, "host": host, "cookie": number, "local": local, "remote": remote}
        | {"bytes_acked": 10**6 * at if host == "server" else 0, "busy_us": 10**6 * at if host == "server" else 0}
        for number, name in enumerate(bits_per_ms, 1)
        for host, local, remote in (
            ("server", "198.18.0.1:80", f"198.18.0.{number + 1}:9"),
            (name, f"198.18.0.{number + 1}:9", "198.18.0.1:80"),
        )
        for at in range(10)
    ]
    return {
        "links": links,
        "capacity": capacity_table(capacity),
        "flows": pa.Table.from_pylist(flows, schema=SCHEMAS["flows"]),
    }


def test_each_device_has_its_rate_its_air_time_and_the_metrics_of_its_own_path() -> None:
    of_load = {"phone-1.download": TimeSpan(0, 10, True), "phone-2.download": TimeSpan(0, 10, True)}
    air = {"phone-1": 600_000, "phone-2": 200_000}
    found = device_metrics(tables({"phone-1": 6000, "phone-2": 3000}, air), of_load, network(*PHONES[:2]))
    assert list(found) == ["phone-1", "phone-2", "phone", "cell"]
    first, second, group = (figures(found[name]) for name in ("phone-1", "phone-2", "phone"))
    assert (first["rate down"], second["rate down"]) == (6.0, 3.0)
    assert (first["air time down"], second["air time down"]) == (pytest.approx(60), pytest.approx(20))
    assert first["share of air time down"] == pytest.approx(75)
    assert first["rate up"] == 0.0
    assert first["share of air time up"] is None
    assert first["share of capacity used down"] == pytest.approx(50)
    assert second["share of capacity used down"] == pytest.approx(25)
    assert first["queueing delay p50 down"] == pytest.approx(5)
    assert first["fairness between flows down"] is None  # one flow of its own
    assert group["sum of rate down"] == 9.0
    assert group["worst rate down"] == 3.0
    assert group["Jain's index of rate down"] == pytest.approx(81 / (2 * 45))
    assert group["sum of air time down"] == pytest.approx(80)
    assert group["sum of share of air time down"] == pytest.approx(100)


def test_air_time_that_is_not_counted_is_not_told() -> None:
    given = tables({"phone-1": 6000, "phone-2": 3000})
    given["links"] = given["links"].select([name for name in given["links"].column_names if name != "air_ns"])
    found = device_metrics(given, {"phone-1.a": TimeSpan(0, 10, True)}, network(*PHONES[:2]))
    assert figures(found["phone-1"])["air time down"] is None
    assert figures(found["phone"])["Jain's index of air time down"] is None


def test_the_metrics_of_devices_are_known_before_a_trial() -> None:
    of_load = {f"{name}.download": TimeSpan(0, 10, True) for name in PHONES}
    found = device_metrics(tables(dict.fromkeys(PHONES, 6000)), of_load, network(*PHONES))
    known = known_device_metrics(PHONES)
    assert list(found) == list(known)
    for name, metrics in found.items():
        assert {each.name for each in metrics} <= {each.name for each in known[name]}


def with_users() -> object:
    made = network(*PHONES[:2])
    files = FilesBackgroundTraffic(per_s=1.0, bytes=1000)
    users = [BackgroundUser(f"neighbour-{number}", ConstantRate(1_000_000), files) for number in (1, 2)]
    video = BackgroundUser("greedy", ConstantRate(1_000_000), FullBufferBackgroundTraffic())
    made.cell = structs.replace(made.cell, down_background=tuple(users), up_background=(video,))
    return made


def rows_of_users(**air_ns: int) -> dict[str, pa.Table]:
    """Return the tables of a cell for ten seconds, with this air time of each modelled user in each millisecond."""
    users = [
        {"time_ms": at, "cell": "radio.down", "user": name.replace("_", "-"), "air_ns": each, "served_bytes": 250}
        for name, each in air_ns.items()
        for at in range(10_000)
    ]
    slots = [{"time_ms": at, "cell": "radio.down", "slots_ns": 1_000_000, "control_ns": 50_000} for at in range(10_000)]
    files = [
        {"cell": "radio.down", "user": "neighbour-1", "requested_ns": 0, "ended_ns": number * 1_000_000}
        for number in range(1, 101)
    ]
    tables_of = {"cells": slots, "users": users, "files": files}
    return {name: pa.Table.from_pylist(rows, schema=CELL_SCHEMAS[name]) for name, rows in tables_of.items()}


def test_modelled_users_have_metrics_and_all_shares_are_the_slots() -> None:
    of_load = {"phone-1.download": TimeSpan(0, 10, True)}
    given = tables({"phone-1": 6000, "phone-2": 3000}, {"phone-1": 400_000, "phone-2": 200_000})
    given |= rows_of_users(neighbour_1=150_000, neighbour_2=50_000)
    found = {name: figures(metrics) for name, metrics in device_metrics(given, of_load, with_users()).items()}
    assert list(found) == ["phone-1", "phone-2", "phone", "cell", "neighbour-1", "neighbour-2", "greedy", "neighbour"]
    first, second, group, cell = (found[name] for name in ("neighbour-1", "neighbour-2", "neighbour", "cell"))
    assert (first["rate down"], first["air time down"]) == (pytest.approx(2), pytest.approx(15))
    assert "rate up" not in first
    assert (first["files down"], second["files down"]) == (100, 0)
    assert first["mean file time down"] == pytest.approx(50.5)
    assert first["file time p95 down"] == pytest.approx(95.05)
    assert second["mean file time down"] is None
    assert group["sum of rate down"] == pytest.approx(4)
    assert group["sum of air time down"] == pytest.approx(20)
    assert (found["greedy"]["rate up"], "files up" in found["greedy"]) == (0, False)
    devices = [found[name] for name in ("phone-1", "phone-2")]
    shares = [each["share of air time down"] for each in (*devices, first, second)]
    assert sum(shares) == pytest.approx(100)
    airs = sum(each["air time down"] for each in (*devices, first, second))
    assert airs + cell["air time of control down"] + cell["idle air time down"] == pytest.approx(cell["slots down"])
    assert (cell["slots down"], cell["idle air time down"]) == (pytest.approx(100), pytest.approx(15))
    users = modelled_users(with_users().cell)
    known = known_device_metrics(PHONES[:2], users)
    assert {name: list(figures(each)) for name, each in known.items()}.keys() == found.keys()
    for name, metrics in found.items():
        assert metrics.keys() <= {each.name for each in known[name]}


def test_a_direction_with_a_single_user_has_no_account_of_slots() -> None:
    given = tables({"phone-1": 6000, "phone-2": 3000}, {"phone-1": 400_000, "phone-2": 200_000})
    given |= rows_of_users(neighbour_1=150_000)
    found = figures(device_metrics(given, {"phone-1.download": TimeSpan(0, 10, True)}, with_users())["cell"])
    assert found["slots down"] == pytest.approx(100)
    assert [found[name] for name in ("slots up", "air time of control up", "idle air time up")] == [None] * 3


def test_a_load_without_length_has_no_figures_of_slots() -> None:
    given = tables({"phone-1": 6000, "phone-2": 3000}, {"phone-1": 400_000, "phone-2": 200_000})
    given |= rows_of_users(neighbour_1=150_000)
    found = figures(device_metrics(given, {"phone-1.download": TimeSpan(1.0005, 1.0005, True)}, with_users())["cell"])
    assert [found[name] for name in ("slots down", "air time of control down", "idle air time down")] == [None] * 3


def test_explain_names_the_modelled_user_whose_turn_it_was() -> None:
    from wavebed.explain.build import _sharing

    assert _sharing(with_users(), "server-phone-1.down") == ["phone-1", "phone-2", "neighbour-1", "neighbour-2"]
    assert _sharing(with_users(), "server-phone-1.up") == ["phone-1", "phone-2", "greedy"]


def test_a_path_without_a_cell_has_no_devices() -> None:
    from types import SimpleNamespace

    assert device_metrics(tables({"phone-1": 1.0}), {}, SimpleNamespace(cell=None)) == {}


def test_remedies_of_devices_start_together_each_on_its_own_device(tmp_path: Path) -> None:
    options = {"interval": "100ms", "dense": "1s", "answers": False, "method": "bpf"}
    lab = MemoryLab({"wavebed-edge": service(late_s=2.0)}, ("server", *PHONES))
    remedies = Remedies([RemedySpec(name, "syn", options) for name in PHONES], PHONES)
    begun_s = lab.clock.monotonic_s()
    with lab:
        assert remedies.start(lab, tmp_path / "raw")
        assert lab.clock.monotonic_s() - begun_s < 3.0  # one after the other they take 6 s
        assert sorted(each.host.name for each in lab.started) == [*PHONES]
        lab.begin()
        remedies.stop()
    (check,) = remedies.checks()
    assert (check.holds, check.evidence) == (True, "syn on phone-1, syn on phone-2, syn on phone-3")
    assert {file.name for file in (tmp_path / "raw").iterdir()} == {f"remedy.{name}.syn.log" for name in PHONES}


def test_losses_at_the_sockets_of_one_device_make_a_trial_suspect() -> None:
    links = [{**LINK, "name": f"radio.{name}.down", "delivered_segments": 100_000} for name in PHONES]
    links[1]["delivered_segments"] = 1000
    hosts = [{**HOST, "name": name} for name in ("server", *PHONES)]
    hosts[2]["udp_receive_buffer_errors"] = 50  # 5 % of its own, 0.03 % of all

    def check(code: str) -> tuple[bool, str]:
        found = engine_checks({"links": links, "hosts": hosts, "departures": [DEPARTURE]})
        return next((each.holds, each.evidence) for each in found if each.code == code)

    lost = "50 UDP datagrams lost because a socket's receive buffer was full, 50 at phone-2"
    assert check("socket-loss") == (False, lost)
    links[2]["unaccounted_segments"] = 1
    assert check("unaccounted")[1].endswith("1 unaccounted for at radio.phone-3.down")


PATH = """
[path]
[[path.hop]]
name = "core"
kind = "wired"
delay = "5ms"
[[path.hop]]
name = "radio"
kind = "radio"
radio = "nr-30khz"
rate = "100mbit"
[cell]
[[device]]
name = "phone"
count = 3
"""
COMMAND = '[[workload]]\nkind = "command"\n'


def plan_of(folder: Path, text: str, **keys: object) -> Plan:
    file = folder / "s.toml"
    file.write_text(PATH + text)
    return read_plan(file, **keys)  # type: ignore[arg-type]


def test_a_trial_runs_each_workload_on_its_device(tmp_path: Path) -> None:
    text = "".join(
        f'{COMMAND}name = "{name}"\ndevice = "phone"\nrun = ["{name}"]\nafter = "{after}"\n'.replace('after = ""\n', "")
        for name, after in (("a", ""), ("b", "a"))
    )
    plan = plan_of(tmp_path, text)
    (slot,) = ordered(plan.treatments, 1, 1)
    (tmp_path / "trial").mkdir()
    lab = MemoryLab({"a": Program(3.0), "b": Program(2.0)}, ("server", *PHONES))
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        record = run_trial(slot, resolved, tmp_path / "trial", lambda *_: None, start=lambda *_: lab)
    spans = {each.name: each.span and (round(each.span.start_s), round(each.span.end_s)) for each in record.workloads}
    assert spans == {f"{name}.a": (0, 3) for name in PHONES} | {f"{name}.b": (3, 5) for name in PHONES}
    assert sorted(each.host.name for each in lab.started) == sorted([*PHONES, *PHONES])
    assert {each.name for each in (tmp_path / "trial" / "raw").iterdir()} >= {"phone-1.a", "phone-3.b"}
    assert set(record.devices) >= {*PHONES, "phone", "cell"}
    again = (tmp_path / "again").resolve()
    again.mkdir()
    (again / "trial.json").write_text(trial_json(record))
    read = read_trial(again)
    assert {name: [*found] for name, found in read.devices.items()} == {
        name: [*found] for name, found in record.devices.items() if found
    }
    assert [each.name for each in read.workloads] == [each.name for each in record.workloads]


def test_a_crowd_opens_a_few_workloads_at_once_and_all_of_them(tmp_path: Path) -> None:
    at_once = {"now": 0, "most": 0}

    class Slow(Waiter):
        def open(self, context: TrialContext) -> Session:
            at_once["now"] += 1
            at_once["most"] = max(at_once["most"], at_once["now"])
            context.clock.sleep(20.0)
            at_once["now"] -= 1
            return super().open(context)

    names = [f"phone-{number}" for number in range(1, 25)]
    crowd = [Slow(f"{name}.a", 5) for name in names]
    for name, each in zip(names, crowd, strict=True):
        each.common = replace(each.common, device=name)
    lab = MemoryLab({}, ("server", *names))
    with lab:
        running = open_all(crowd, lab, tmp_path, 1)
        lab.begin()
        perform(running, lab, lambda: None)
    assert at_once["most"] == AT_ONCE
    assert [each.problem for each in running] == [""] * 24
    assert {round(each.start_s or 0.0, 1) for each in running} == {0.0}
    assert len({each.context.port for each in running}) == 24


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        (["a"], ["phone-1.a", "phone-2.a", "phone-3.a"]),
        (["phone.a"], ["phone-1.a", "phone-2.a", "phone-3.a"]),
        (["phone-2.a", "b"], ["phone-2.a", "phone-1.b"]),
    ],
)
def test_workloads_are_chosen_by_their_names_with_and_without_the_device(
    tmp_path: Path, only: list[str], chosen: list[str]
) -> None:
    text = f'{COMMAND}name = "a"\ndevice = "phone"\nrun = ["a"]\n{COMMAND}name = "b"\nrun = ["b"]\n'
    plan = plan_of(tmp_path, text, only=only)
    assert [each.name for each in plan.treatments[0].workloads] == chosen
    assert [(table["name"], table["device"]) for table in plan.tables] == [(n, n.partition(".")[0]) for n in chosen]
    with pytest.raises(UserError, match=r"'phone-9\.a' is no workload of this scenario: did you mean"):
        plan_of(tmp_path, text, only=["phone-9.a"])


def test_many_devices_have_many_workloads_up_to_a_limit(tmp_path: Path) -> None:
    crowd = '[[device]]\nname = "crowd"\ncount = 64\n'
    workload = f'{COMMAND}name = "{{}}"\ndevice = "crowd"\nrun = ["a"]\n'
    plan = plan_of(tmp_path, crowd + "".join(map(workload.format, "abc")))
    workloads_ = plan.treatments[0].workloads
    assert len({each.name for each in workloads_}) == 192
    with pytest.raises(UserError, match="there are 256: write at most 250"):
        plan_of(tmp_path, crowd + "".join(map(workload.format, "abcd")))


def test_the_primary_metric_may_be_that_of_a_group(tmp_path: Path) -> None:
    text = '[run]\nprimary = "{}"\n[[workload]]\nkind = "download"\ndevice = "phone"\n'
    for name, primary in {
        "phone.download.goodput": "phone.download.worst goodput",
        "phone.download.sum of goodput": "phone.download.sum of goodput",
        "phone-2.download.goodput": "phone-2.download.goodput",
        "cell.Jain's index of rate down": "cell.Jain's index of rate down",
        "phone-3.rate up": "phone-3.rate up",
    }.items():
        assert plan_of(tmp_path, text.format(name)).primary == primary
    with pytest.raises(UserError, match="did you mean"):
        plan_of(tmp_path, text.format("phone.download.goodputt"))
    for name in ("phone.download.goodput", "cell.download.goodput"):  # of one device as of several
        alone = plan_of(tmp_path, text.format(name), overrides={"device.phone.count": 1})
        assert alone.primary == name.replace("goodput", "worst goodput")


def test_a_check_knows_the_metrics_of_devices_and_groups(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[[workload]]\nkind = "download"\ndevice = "phone"\n')
    check_known(
        [
            parse_requirement(text)
            for text in (
                "phone.download.goodput p50 > 1 mbit",
                "phone-1.download.goodput p50 > 1 mbit",
                "cell.Jain's index of rate down mean > 0.9",
                "phone.sum of rate down p50 > 1 mbit",
                "phone-2.queueing delay p95 down max < 1 s",
            )
        ],
        plan,
    )
    for text, meant in {
        "phone.download.goodputs p50 > 1 mbit": "phone.download.goodput",
        "phone.sum of rates down p50 > 1 mbit": "phone.sum of rate down",
    }.items():
        with pytest.raises(Problem, match=f"did you mean '{meant}'"):
            check_known([parse_requirement(text)], plan)
    with pytest.raises(Problem, match="is in another unit"):
        check_known([parse_requirement("phone.download.goodput p50 > 1 s")], plan)


@pytest.mark.parametrize(
    ("workload", "count", "mib"),
    [('kind = "download"', 3, 2000), ('kind = "call"', 3, 4000), ('kind = "call"', 24, 17_400)],
)
def test_a_guest_has_the_memory_that_the_crowd_needs(tmp_path: Path, workload: str, count: int, mib: int) -> None:
    crowd = f'[[device]]\nname = "crowd"\ncount = {count}\n[[workload]]\ndevice = "crowd"\n{workload}\n'
    assert guest_bytes_of(with_time(plan_of(tmp_path, crowd), "virtual")) == mib << 20


def in_virtual_time(**resolved: object) -> TrialRecord:
    """Return a trial of two phones in virtual time, whose workloads ran for 10 s."""
    found = [
        WorkloadRecord(
            f"{name}.download",
            "download",
            TimeSpan(0.0, 10.0, is_load=True),
            Outcome(metrics=[metric("download time", float(place), "s")]),
        )
        for place, name in enumerate(PHONES[:2], 1)
    ]
    of_cell = {"phone-1": [metric("rate down", 1.0, "Mbit/s", "higher")]}
    of_cell |= of_groups({each.name: each.outcome.metrics for each in found}, PHONES[:2])
    network = {"network": {"cell": {"name": "radio", "devices": [{"host": name} for name in PHONES[:2]]}}}
    lab = {"lab": {"time": "virtual"}}
    return TrialRecord(
        "0001-x", 1, "x", 1, "", 1.0, "valid", workloads=found, devices=of_cell, resolved={**network, **lab, **resolved}
    )


def test_what_programs_of_devices_computed_counts_for_their_groups() -> None:
    programs = tuple(
        ProgramTime(f"{name}.download", name, f"{0:020}", f"{seconds * 10**9:020}")
        for name, seconds in zip(PHONES, (1, 3), strict=False)
    )
    judged = seen(in_virtual_time(), computing=Computing(f"{4 * 10**9:020}", programs))
    assert {name: judged.computed_s[name] for name in ("phone-1.download", "phone.download", "phone-1")} == {
        "phone-1.download": 1.0,
        "phone.download": 3.0,
        "phone-1": 4.0,
    }
    assert judged.of_path == {"path", "phone-1"}
    (decision,) = decide([parse_requirement("phone.download.download time max < 4 s")], [judged], 1)[1:]
    assert (decision.outcome, decision.value) == ("inconclusive", 2.0)  # with 3 s of computing it may be 5 s
    (decision,) = decide([parse_requirement("phone.download.download time max < 6 s")], [judged], 1)[1:]
    assert decision.outcome == "pass"


def test_links_of_a_cell_deliver_together(tmp_path: Path) -> None:
    def link(name: str, delivered: int) -> dict[str, object]:
        return {"name": name, "delivered_bytes": delivered, "dropped_segments": {"loss": 1}}

    links = [link("core.down", 9), link("core.up", 8 * 10**6)]
    for name, mb in zip(PHONES[:2], (1, 2), strict=True):
        links += [link(f"radio.{name}.down", mb * 10**6), link(f"radio.{name}.up", 5)]
    record = dataclasses.replace(in_virtual_time(), engine={"links": links})
    found = figures(link_metrics(record, tmp_path))
    assert found["delivered down"] == pytest.approx(3 * 8 / 10)
    assert found["delivered up"] == pytest.approx(8 * 8 / 10)
    assert found["dropped down"] == 3.0


def test_a_crowd_may_open_more_files_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[1] > 4096:
            raise ValueError("not allowed to raise maximum limit")
        given.append(limits)

    monkeypatch.setattr("resource.getrlimit", lambda _: (given or [(1024, 4096)])[-1])
    monkeypatch.setattr("resource.setrlimit", set_limit)
    names_ = [f"phone-{number}" for number in range(1, 201)]
    crowd = workloads(cell(*names_), {"device": "phone"})
    allow_files(workloads(None, {}))
    for _ in range(3):  # trials of a run
        allow_files(crowd[:64])
    allow_files(crowd)
    assert given == [(1024 + 64 * 20, 4096), (4096, 4096)]


def test_a_descriptor_beyond_those_of_select_is_waited_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD, 1030)
        try:
            assert not MachineClock().wait_readable(high, 0.0)
            theirs.send(b"x")
            assert MachineClock().wait_readable(high, 0.0)
        finally:
            os.close(high)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_path_without_devices_has_no_group() -> None:
    assert members_of([]) == {}
