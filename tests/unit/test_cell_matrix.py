"""Every workload, remedy, queue and condition with the devices of a cell: planned for each, or refused in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest

from wavebed.check.perform import CheckedCommand, command_plan
from wavebed.conditions.lookup import names
from wavebed.errors import UserError
from wavebed.path.laboratory import resolve_network
from wavebed.path.traces import Traces
from wavebed.remedy import KINDS as REMEDIES
from wavebed.run.scenario import read_plan
from wavebed.spec.types import Queue
from wavebed.workload import KINDS as WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PHONES = ("phone-1", "phone-2")
RADIO = 'radio = "nr-30khz"\nrate = "60mbit"\n'
REQUIRED = {"command": 'run = ["true"]\n', "web": 'site = "google"\n'}
"""Keys that a kind of workload does not work without."""
PATH = """
{server}
{edge}
{client}
[[path.hop]]
name = "core"
kind = "wired"
delay = "5ms"
[[path.hop]]
name = "radio"
kind = "radio"
radio = "nr-30khz"
rate = "60mbit"
[[device]]
name = "phone"
count = 2
{device}
[[workload]]
kind = "bulk"
device = "phone"
"""
ON_HOSTS = {
    "syn": {"server", "edge", "client", "device"},
    "splitter": {"edge"},
    "haproxy": {"edge"},
    "tunnel": {"server", "edge"},
    "hysteria": {"server", "edge"},
    "mptcp": {"client", "device"},
}
"""The hosts of a cell's path on which each remedy runs. A device has the remedies of ``[path.client]``."""


def planned(folder: Path, text: str) -> Any:
    file = folder / "cell.toml"
    file.write_text(text)
    (treatment,) = read_plan(file).treatments
    return treatment


@pytest.mark.parametrize("kind", WORKLOADS)
def test_every_kind_of_workload_is_planned_on_each_device(kind: str, tmp_path: Path) -> None:
    own = f'[[workload]]\nkind = "{kind}"\ndevice = "phone"\n{REQUIRED.get(kind, "")}'
    other = '[[workload]]\nkind = "download"\nname = "other"\n'  # an endless one needs another to end with
    treatment = planned(tmp_path, f'[path]\n{RADIO}[[device]]\nname = "phone"\ncount = 2\n{own}{other}')
    one, two, _ = treatment.workloads
    assert [(each.name, each.common.client_host) for each in (one, two)] == [
        (f"{phone}.{kind}", phone) for phone in PHONES
    ]
    assert type(one) is type(two)
    assert [metric.name for metric in one.known_metrics()] == [metric.name for metric in two.known_metrics()]


@pytest.mark.parametrize("host", ["server", "edge", "client", "device"])
@pytest.mark.parametrize("kind", REMEDIES)
def test_every_remedy_runs_on_a_host_of_the_cell_or_is_refused_in_one_line(
    kind: str, host: str, tmp_path: Path
) -> None:
    peer = f', peer = "{"server" if host == "edge" else "edge"}"' if kind in ("tunnel", "hysteria") else ""
    remedy = f'remedy = {{ kind = "{kind}"{peer} }}'
    given = dict.fromkeys(("server", "edge", "client", "device"), "") | {host: remedy}
    tables = {
        "server": f"[path.server]\n{given['server']}",
        "edge": f'[path.edge]\nafter = "core"\n{given["edge"]}',
        "client": f"[path.client]\n{given['client']}",
        "device": given["device"],
    }
    text = PATH.format(**tables)
    if host in ON_HOSTS[kind]:
        hosts = planned(tmp_path, text).path.hosts
        wanted = set(PHONES) if host in ("client", "device") else {host}
        assert {each.name for each in hosts if each.remedies} == wanted
        return
    with pytest.raises(UserError) as refused:
        planned(tmp_path, text)
    place = r"device[1].remedy" if host == "device" or (host == "client" and peer) else f"path.{host}.remedy"
    assert place in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["tunnel", "hysteria"])
@pytest.mark.parametrize("host", ["server", "edge"])
def test_a_remedy_of_two_ends_has_none_on_a_device(kind: str, host: str, tmp_path: Path) -> None:
    remedy = f'remedy = {{ kind = "{kind}", peer = "client" }}'
    edge = '[path.edge]\nafter = "core"\n'
    server = f"[path.server]\n{remedy}" if host == "server" else ""
    text = PATH.format(server=server, edge=edge + (remedy if host == "edge" else ""), client="", device="")
    with pytest.raises(UserError, match=f"path.{host}.remedy.{kind}.peer: {kind} carries all traffic of a single "):
        planned(tmp_path, text)


NEIGHBOURS = '[[cell.background]]\nname = "neighbour"\ncount = 3\nrate = "60mbit"\n'


@pytest.mark.parametrize("kind", ["tunnel", "hysteria"])
def test_without_devices_the_client_is_alone_beside_modelled_users_and_keeps_its_names(
    kind: str, tmp_path: Path
) -> None:
    remedy = f'remedy = {{ kind = "{kind}", peer = "client" }}'
    text = PATH.format(server="", edge=f'[path.edge]\nafter = "core"\n{remedy}', client="", device="")
    text = text.replace('[[device]]\nname = "phone"\ncount = 2\n', NEIGHBOURS).replace('device = "phone"\n', "")
    treatment = planned(tmp_path, text)
    assert [host.name for host in treatment.path.hosts] == ["server", "edge", "client"]
    assert [each.name for each in treatment.path.cell.devices] == ["client"]
    assert [(each.name, each.common.client_host) for each in treatment.workloads] == [("bulk", "client")]


def test_a_workload_that_names_the_client_of_a_cell_has_the_same_name_as_one_that_does_not(tmp_path: Path) -> None:
    file = tmp_path / "cell.toml"
    file.write_text(f'[path]\n{RADIO}{NEIGHBOURS}[[workload]]\nkind = "bulk"\ndevice = "client"\n')
    plan = read_plan(file)
    (treatment,) = plan.treatments
    assert [(each.name, each.common.client_host) for each in treatment.workloads] == [("bulk", "client")]
    assert [each["name"] for each in plan.tables] == ["bulk"]


def test_a_cell_needs_devices_or_modelled_users(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"device: is missing: add \[\[device\]\] with a name, or \[\[cell.background"):
        planned(tmp_path, f'[path]\n{RADIO}[cell]\nscheduler = "round-robin"\n[[workload]]\nkind = "bulk"\n')


QUEUES = sorted(str(kind.__struct_config__.tag) for kind in get_args(Queue))


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_is_the_buffer_of_each_device(queue: str, tmp_path: Path) -> None:
    written = f"{queue}:500kb" if queue in ("droptail", "drophead") else queue
    text = PATH.format(server="", edge="", client="", device=f'queue = "{written}"')
    traces = Traces()
    try:
        network = resolve_network(planned(tmp_path, text).path, traces)
    finally:
        traces.close()
    assert network.cell is not None
    for device in network.cell.devices:
        for stages in (device.down, device.up):
            assert _tags(msgspec.to_builtins(stages[0])) & {queue}


def _tags(data: object) -> set[object]:
    if isinstance(data, dict):
        return {data.get("kind")}.union(*map(_tags, data.values()))
    return set().union(*map(_tags, data)) if isinstance(data, list | tuple) else set()


@pytest.mark.parametrize("name", [name for name in names("condition") if not name.endswith("/leo")])
def test_every_condition_with_a_radio_is_the_radio_of_each_device(name: str, tmp_path: Path) -> None:
    workload = '[[workload]]\nkind = "bulk"\ndevice = "phone"\n'
    text = f'[path]\nscene = "{name}"\n[[device]]\nname = "phone"\ncount = 2\n{workload}'
    cell = planned(tmp_path, text).path.cell
    assert [each.name for each in cell.devices] == list(PHONES)
    assert len({id(each.down.rate.scene) for each in cell.devices}) == 2, "each has its own fading"


def test_a_low_orbit_access_has_no_radio_for_a_cell(tmp_path: Path) -> None:
    workload = '[[workload]]\nkind = "bulk"\ndevice = "phone"\n'
    with pytest.raises(UserError, match=r"device\[1\].radio: is missing: a cell shares the slots of a radio"):
        planned(tmp_path, f'[path]\nscene = "starlink-home"\n[[device]]\nname = "phone"\ncount = 2\n{workload}')


USUAL = f"[path]\n{RADIO}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{USUAL}nat = true", "path.nat: is of a single client: "),
        (f'{USUAL}rebind-at = ["1s"]', "path.rebind-at: is of a single client: "),
        (f'{USUAL}[path.second-radio]\nradio = "lte"\nrate = "20mbit"', "path.second-radio: is of a single client: "),
        ('[path]\nrate = "60mbit"\nradio = "802.11ad"', r"device\[1\]\.radio: 802\.11ad gives no slots to devices: "),
        (
            '[path]\nrate = "60mbit"\nradio = "off"',
            r"device\[1\]\.radio: is missing: a cell shares the slots of a radio",
        ),
        ('[path]\nscene = "5qi-1"', r"device\[1\]: the downlink has no rate: "),
        ('[path]\nradio = "lte"\ntrace = "usb-batches-10ms"', "path.radio: cannot serve opportunities: "),
    ],
)
def test_what_does_not_fit_a_cell_is_refused_in_one_line(path: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as refused:
        planned(tmp_path, f'{path}\n[[device]]\nname = "phone"\n[[workload]]\nkind = "bulk"\n')
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("device", "host"), [(None, "near"), ("far", "far")])
def test_a_checked_command_runs_on_a_device(device: str | None, host: str) -> None:
    plan = command_plan(CheckedCommand(argv=["sh"], device=device), [], _shipped("cell"), {}, 1)
    (workload,) = plan.treatments[0].workloads
    assert (workload.name, workload.common.client_host) == (f"{host}.command", host)


@pytest.mark.parametrize(
    ("scenario", "options", "message"),
    [
        ("cell", {}, "^--device: 'fa' is no device: did you mean 'far'"),
        (None, {"rate": "1mbit"}, "^--device: the path has no devices: add "),
    ],
)
def test_a_checked_command_needs_a_device_that_is_there(
    scenario: str | None, options: Mapping[str, object], message: str
) -> None:
    file = None if scenario is None else _shipped(scenario)
    with pytest.raises(UserError, match=message):
        command_plan(CheckedCommand(argv=["sh"], device="fa"), [], file, options, 1)


def _shipped(name: str) -> Path:
    from wavebed.shipped import find

    return find(name, "scenario")
