"""A cell of a scenario: its devices, their hosts, links and entitlements, the carrier's units, modelled users."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.path.api import Path as WavebedPath
from wavebed.path.laboratory import resolve_network
from wavebed.path.model import DrawnStart, PatternFile, ScenePattern, scene_maps
from wavebed.path.scenario import read_path
from wavebed.path.traces import Traces
from wavebed.radio.carriers import resource_block_groups
from wavebed.run.scenario import read_plan
from wavebed.scene.model import SceneModel
from wavebed.spec.network import devices, group_of, links, pattern_files, with_pattern_files

if TYPE_CHECKING:
    from wavebed.path.model import PathModel
    from wavebed.spec.types import Network, RadioCell

HOPS = """
[[path.hop]]
name = "internet"
kind = "wired"
delay = "8ms"

[[path.hop]]
name = "radio"
kind = "radio"
radio = "nr-30khz"
rate = "300mbit"
delay = "2ms"
"""
STEPS = "# wavebed pattern 1\n# kind = steps\n# duration_s = 40\n# radio = nr-30khz\ntime_s,rate_bps\n0,{rate}\n"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def done(text: str, *, hops: str = HOPS, **options: object) -> tuple[PathModel, Network, list[str]]:
        file = tmp_path / "scenario.toml"
        file.write_text(hops + text)
        traces = Traces()
        try:
            path = read_path(file, options, traces)
            return path, resolve_network(path, traces), traces.notes
        finally:
            traces.close()

    return done


def cell_of(network: Network) -> RadioCell:
    assert network.cell is not None, "the scenario has devices"
    return network.cell


def test_each_device_is_a_host_behind_the_hops_of_all(read: Any) -> None:
    _, network, _ = read('[[device]]\nname = "phone"\ncount = 2\n[[device]]\nname = "tablet"\n')
    assert [host.name for host in network.hosts] == ["server", "phone-1", "phone-2", "tablet"]
    (leg,) = network.legs
    assert (leg.start, leg.end, [hop.name for hop in leg.hops]) == ("server", "phone-1", ["internet"])
    assert devices(network) == ("phone-1", "phone-2", "tablet")
    assert [group_of(name) for name in devices(network)] == ["phone", "phone", "tablet"]
    assert [name for name, _ in links(network)] == [
        *("internet.down", "internet.up", "radio.phone-1.down", "radio.phone-1.up"),
        *("radio.phone-2.down", "radio.phone-2.up", "radio.tablet.down", "radio.tablet.up"),
    ]


def test_a_device_has_the_keys_of_the_radio_hop_unless_it_has_its_own(read: Any) -> None:
    _, network, _ = read('[[device]]\nname = "near"\n[[device]]\nname = "far"\ndown-rate = "20mbit"\ndelay = "5ms"\n')
    near, far = cell_of(network).devices
    assert [near.down[0].rate.rate_bps, near.up[0].rate.rate_bps, near.down[1].delay.delay_ns] == [
        300_000_000,
        300_000_000,
        2_000_000,
    ]
    assert [far.down[0].rate.rate_bps, far.up[0].rate.rate_bps, far.down[1].delay.delay_ns] == [
        20_000_000,
        300_000_000,
        5_000_000,
    ]


def test_an_option_stands_above_the_keys_of_every_device(read: Any) -> None:
    given = {"down-rate": "7mbit", "congestion-control": "bbr"}
    _, network, _ = read('[[device]]\nname = "near"\n[[device]]\nname = "far"\nrate = "20mbit"\n', **given)
    assert [each.down[0].rate.rate_bps for each in cell_of(network).devices] == [7_000_000, 7_000_000]
    assert {host.congestion_control for host in network.hosts} == {"bbr"}


def test_the_keys_of_the_client_are_those_of_all_devices(read: Any) -> None:
    text = """
[path.client]
congestion-control = "bbr"
sysctl = { "net.ipv4.tcp_ecn" = 1 }
[[device]]
name = "near"
[[device]]
name = "far"
congestion-control = "cubic"
sysctl = { "net.ipv4.tcp_sack" = 0 }
"""
    _, network, _ = read(text)
    _, near, far = network.hosts
    assert (near.congestion_control, far.congestion_control) == ("bbr", "cubic")
    assert near.sysctls["net.ipv4.tcp_ecn"] == far.sysctls["net.ipv4.tcp_ecn"] == "1"
    assert (near.sysctls.get("net.ipv4.tcp_sack"), far.sysctls["net.ipv4.tcp_sack"]) == (None, "0")


def test_the_edge_may_be_the_host_before_the_radio(read: Any) -> None:
    _, network, _ = read('[path.edge]\nafter = "internet"\n[[device]]\nname = "phone"\n')
    assert [(leg.start, leg.end, len(leg.hops)) for leg in network.legs] == [
        ("server", "edge", 1),
        ("edge", "phone", 0),
    ]


def test_a_path_of_one_hop_is_the_radio_of_its_devices(read: Any) -> None:
    _, network, _ = read('[[device]]\nname = "phone"\n', hops='[path]\nradio = "lte"\nrate = "50mbit"\n')
    assert [(leg.start, leg.end, leg.hops) for leg in network.legs] == [("server", "phone", ())]
    assert (cell_of(network).name, cell_of(network).down.units) == ("radio", 25)


@pytest.mark.parametrize(
    ("technology", "blocks", "groups"),
    [
        *(("nr", 36, 18), ("nr", 37, 10), ("nr", 72, 18), ("nr", 73, 10), ("nr", 144, 18), ("nr", 145, 10)),
        *(("nr", 273, 18), ("nr", 66, 17), ("lte", 6, 6), ("lte", 15, 8), ("lte", 50, 17), ("lte", 100, 25)),
    ],
)
def test_groups_of_resource_blocks_are_those_of_the_standards(technology: Any, blocks: int, groups: int) -> None:
    assert resource_block_groups(technology, blocks) == groups


@pytest.mark.parametrize(
    ("cell", "units"),
    [
        ("", (18, 18)),
        ('bandwidth = "20mhz"', (13, 13)),
        ('down-bandwidth = "20mhz"', (13, 18)),
        ("units = 5\nup-units = 7", (5, 7)),
    ],
)
def test_units_come_from_the_carrier_unless_they_are_given(read: Any, cell: str, units: tuple[int, int]) -> None:
    _, network, _ = read(f'[cell]\n{cell}\n[[device]]\nname = "phone"\n')
    assert (cell_of(network).down.units, cell_of(network).up.units) == units


def test_units_come_from_the_carrier_of_a_scene(read: Any) -> None:
    _, network, _ = read('[[device]]\nname = "phone"\nscene = "stadium/mmwave"\n')
    assert cell_of(network).down.units == 17  # 264 resource blocks of 400 MHz


def test_keys_of_a_scheduler_are_for_both_directions_or_one(read: Any) -> None:
    text = """
[cell]
scheduler = "round-robin"
up-scheduler = "maximum-rate"
average-slots = 50
down-devices-per-slot = 8
control-units = 1
[[device]]
name = "phone"
"""
    _, network, _ = read(text)
    down, up = cell_of(network).down, cell_of(network).up
    assert (down.policy, down.average_slots, down.devices_per_slot, down.control_units) == ("round_robin", 50, 8, 1)
    assert (up.policy, up.average_slots, up.devices_per_slot, up.control_units) == ("maximum_rate", 50, None, 1)


def test_a_5qi_gives_the_level_and_a_guaranteed_rate_may_be_of_one_direction(read: Any) -> None:
    text = """
[cell]
scheduler = "priority"
[[device]]
name = "voice"
5qi = 1
down-guaranteed-rate = "64kbit"
[[device]]
name = "file"
[[device]]
name = "other"
priority-level = 33
guaranteed-rate = "2mbit"
up-guaranteed-rate = "1mbit"
"""
    _, network, notes = read(text)
    found = [(each.down_service, each.up_service) for each in cell_of(network).devices]
    assert [(down.level, down.guaranteed_bps, up.guaranteed_bps) for down, up in found] == [
        (20, 64_000, None),
        (90, None, None),
        (33, 2_000_000, 1_000_000),
    ]
    assert notes == []


def test_a_5qi_that_the_scheduler_does_not_heed_is_noted(read: Any) -> None:
    _, _, notes = read('[[device]]\nname = "voice"\n5qi = 1\n')
    assert notes == ['voice: 5qi, priority-level and guaranteed-rate have an effect with the scheduler "priority" only']


@pytest.mark.parametrize(
    ("scheduler", "guaranteed", "notes"),
    [
        ("scheduler", "150mbit", []),
        (
            "scheduler",
            "200mbit",
            ["the guaranteed rates of the uplink need 117% of its slots: no scheduler can give that"],
        ),
        ("down-scheduler", "200mbit", []),
    ],
)
def test_guaranteed_rates_above_the_slots_of_a_cell_are_noted(
    read: Any, scheduler: str, guaranteed: str, notes: list[str]
) -> None:
    cell = f"[cell]\n{scheduler} = 'priority'\n"
    user = "[[cell.background]]\nname = 'user'\ndirection = 'up'\nguaranteed-rate = '150mbit'\n"
    device = f"[[device]]\nname = 'phone'\nup-guaranteed-rate = '{guaranteed}'\n"
    assert [note for note in read(cell + user + device)[2] if "slots" in note] == notes


def test_a_slice_of_one_direction_is_none_in_the_other(read: Any) -> None:
    text = """
[cell]
down-slice = [{ name = "video", share = "30%" }]
[[device]]
name = "tv"
slice = "video"
"""
    _, network, _ = read(text)
    (device,) = cell_of(network).devices
    assert (device.down_service.slice, device.up_service.slice) == ("video", None)
    assert ([each.share for each in cell_of(network).down.slices], cell_of(network).up.slices) == ([0.3], ())


def test_a_measured_set_of_traces_gives_one_to_each_device(read: Any, tmp_path: Path) -> None:
    folder = tmp_path / "walks"
    folder.mkdir()
    for number in (3, 1, 2):
        (folder / f"walk-{number}.csv").write_text(STEPS.format(rate=number * 1_000_000))
    path, network, _ = read('[[device]]\nname = "phone"\ntraces = "walks"\n')
    assert devices(network) == ("phone-1", "phone-2", "phone-3")
    assert [Path(str(getattr(each.down.rate, "file", ""))).name for each in path.cell.devices] == [
        "walk-1.csv",
        "walk-2.csv",
        "walk-3.csv",
    ]
    listed = '[[device]]\nname = "phone"\ncount = 1\ndown-traces = ["walks/walk-2.csv", "walks/walk-1.csv"]\n'
    path, network, _ = read(listed)
    (device,) = path.cell.devices
    assert device.down.rate == PatternFile(folder / "walk-2.csv")
    assert device.up.rate.rate_bps == 300_000_000
    path, _, _ = read('[[device]]\nname = "phone"\ntraces = "walks"\ndown-rate = "5mbit"\n')
    assert [device.down.rate.rate_bps for device in path.cell.devices] == [5_000_000] * 3
    assert [device.up.rate.file.name for device in path.cell.devices] == [f"walk-{number}.csv" for number in (1, 2, 3)]


def test_devices_draw_their_starts_and_losses_for_themselves(read: Any, tmp_path: Path) -> None:
    (tmp_path / "walk.csv").write_text(STEPS.format(rate=5_000_000))
    text = """
[[device]]
name = "phone"
count = 4
trace = "walk.csv"
start-at = "0s..39s"
loss = { probability = "10%", most-in-a-row = 2 }
"""
    path, network, _ = read(text)
    starts = [each.down.rate.start for each in path.cell.devices]
    assert all(isinstance(start, DrawnStart) for start in starts)
    assert len({start.drawn_ns(7) for start in starts}) > 1
    assert [each.up.rate.start for each in path.cell.devices] == starts
    files = {stage.model.file for each in cell_of(network).devices for stage in each.down if hasattr(stage, "model")}
    assert len(files) == 4


SCENE = """
title = "two walkers"
anchor = "illustrative"
duration = "2s"
step = "10ms"
propagation = "umi"

[carrier]
technology = "nr"
frequency = "3.5ghz"
bandwidth = "40mhz"
numerology = 1

[[base-station]]
name = "mast"
at = [0, 0, 10]
power = "40dbm"
array = { rows = 8, columns = 8, element = "3gpp" }

[[ue]]
name = "walker"
count = 2
start = [30, 0, 1.5]
line-to = [60, 0]
power = "23dbm"
array = { rows = 1, columns = 2, element = "3gpp-ue", panels = 2 }

[[ue]]
name = "desk"
start = [20, 20, 1.5]
power = "23dbm"
array = { rows = 1, columns = 2, element = "3gpp-ue", panels = 2 }
"""


def test_devices_of_a_scene_are_its_ues_by_name(read: Any, tmp_path: Path) -> None:
    (tmp_path / "square.toml").write_text(SCENE)
    text = '[[device]]\nname = "phone"\ncount = 2\nue = "walker"\n[[device]]\nname = "desk"\n'
    path, network, _ = read(text, hops='[path]\nscene = "square.toml"\nstart-at = "0s..1s"\n')
    rates = [device.down.rate for device in path.cell.devices]
    assert [rate.device for rate in rates] == ["walker-1", "walker-2", "desk"]
    assert len({id(rate.scene) for rate in rates}) == 1, "one world"
    assert len({rate.start for rate in rates}) == 1, "one time"
    assert cell_of(network).down.units == 14  # 106 resource blocks in groups of 8
    assert len(pattern_files(network)) == 6
    places = [(each["hop"], each["ue"]["y_m"][0]) for each in scene_maps(path)]
    assert places == [("radio.phone-1", 0.0), ("radio.phone-2", 0.0), ("radio.desk", 20.0)]
    text = '[[device]]\nname = "late"\ncount = 1\nue = "walker-2"\n[[device]]\nname = "desk"\n'
    path, _, _ = read(text, hops='[path]\nscene = "square.toml"\n')
    assert [device.down.rate.device for device in path.cell.devices] == ["walker-2", "desk"], "from the second on"
    with pytest.raises(UserError, match=r"device\[1\]\.ue: scene square: has no device 'sitter': "):
        read('[[device]]\nname = "sitter"\n', hops='[path]\nscene = "square.toml"\n')


def test_devices_of_a_scene_with_one_ue_have_their_own_fading(read: Any) -> None:
    text = '[[device]]\nname = "phone"\ncount = 2\nscene = "corner-lte"\n'
    path, _, _ = read(text)
    rates = [device.down.rate for device in path.cell.devices]
    assert all(isinstance(rate, ScenePattern) and isinstance(rate.scene, SceneModel) for rate in rates)
    traces = Traces()
    try:
        one, other = (traces.pattern(rate, 1).rate_bps for rate in rates)
        assert list(one) != list(other)
    finally:
        traces.close()


def test_modelled_users_have_a_rate_and_a_demand_in_one_direction(read: Any) -> None:
    text = """
[cell]
scheduler = "priority"
[[cell.background]]
name = "neighbour"
count = 2
traffic = { kind = "files", per-second = 0.5, size = "500kb" }
[[cell.background]]
name = "camera"
direction = "up"
rate = "40mbit"
5qi = 4
traffic = { kind = "on-off", rate = "8mbit", on = "2s", off = "1s" }
[[device]]
name = "phone"
"""
    _, network, _ = read(text)
    down, up = cell_of(network).down_background, cell_of(network).up_background
    assert [each.name for each in down] == ["neighbour-1", "neighbour-2"]
    assert [(each.rate.rate_bps, each.traffic.per_s, each.traffic.bytes) for each in down] == [
        (300_000_000, 0.5, 500_000)
    ] * 2
    (camera,) = up
    assert (camera.rate.rate_bps, camera.service.level) == (40_000_000, 50)
    assert (camera.traffic.rate_bps, camera.traffic.on_ns, camera.traffic.off_ns) == (8_000_000, 2 * 10**9, 10**9)


@pytest.mark.parametrize(
    ("traffic", "kind"),
    [
        ('"full-buffer"', "FullBufferBackgroundTraffic"),
        ('{ kind = "full-buffer" }', "FullBufferBackgroundTraffic"),
        ('{ kind = "user-per-file", per-second = 2, size = "1mb" }', "UserPerFileBackgroundTraffic"),
        ('{ kind = "file-after-file", size = "1mb", pause = "3s" }', "FileAfterFileBackgroundTraffic"),
        ('{ kind = "video", rate = "5mbit", segment = "2s", buffer = "9s" }', "VideoBackgroundTraffic"),
    ],
)
def test_every_kind_of_demand_is_read(read: Any, traffic: str, kind: str) -> None:
    _, network, _ = read(f'[[cell.background]]\nname = "other"\ntraffic = {traffic}\n[[device]]\nname = "phone"\n')
    (user,) = cell_of(network).down_background
    assert type(user.traffic).__name__ == kind


def test_patterns_of_devices_and_of_modelled_users_are_renamed(read: Any, tmp_path: Path) -> None:
    for name in ("walk", "other"):
        (tmp_path / f"{name}.csv").write_text(STEPS.format(rate=5_000_000))
    text = """
[[cell.background]]
name = "neighbour"
trace = "other.csv"
[[device]]
name = "phone"
trace = "walk.csv"
"""
    _, network, _ = read(text)
    assert pattern_files(network) == [str(tmp_path / "walk.csv"), str(tmp_path / "other.csv")]
    renamed = with_pattern_files(network, lambda file: Path(file).name)
    assert pattern_files(renamed) == ["walk.csv", "other.csv"]


def test_a_change_names_a_device_a_modelled_user_or_a_slice(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(
        HOPS
        + """
[cell]
slice = [{ name = "video", share = "30%" }]
[[cell.background]]
name = "neighbour"
[[device]]
name = "phone"
[[device]]
name = "tablet"
[[workload]]
kind = "bulk"
"""
    )
    changes: dict[str, object] = {
        "device.tablet.down-rate": "9mbit",
        "cell.background.neighbour.rate": "8mbit",
        "cell.slice.video.share": "20%",
        "cell.scheduler": "round-robin",
    }
    path: Any = read_plan(file, overrides=changes).treatments[0].path
    assert [each.down.rate.rate_bps for each in path.cell.devices] == [300_000_000, 9_000_000]
    assert path.cell.down_background[0].rate.rate_bps == 8_000_000
    assert (path.cell.down.slices[0].share, path.cell.down.policy) == (0.2, "round_robin")
    with pytest.raises(UserError, match=r"device\.table\.rate: there is no device 'table': did you mean 'tablet'\?"):
        read_plan(file, overrides={"device.table.rate": "9mbit"})
    file.write_text(HOPS + '[[device]]\nname = "phone"\n[[workload]]\nkind = "bulk"\n')
    for key, what in (("cell.background.user.rate", "background"), ("cell.slice.video.share", "slice")):
        with pytest.raises(UserError, match=rf"{key}: there is no {what}: add one to the scenario"):
            read_plan(file, overrides={key: "9mbit"})


def test_real_hosts_have_no_cell(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    lab = '[lab]\nbackend = "hosts"\nserver = "ssh://a"\nclient = "ssh://b"\n'
    file.write_text(f'{HOPS}{lab}[[device]]\nname = "phone"\n[[workload]]\nkind = "bulk"\n')
    with pytest.raises(UserError, match="device: real hosts share no emulated cell: remove "):
        read_plan(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--devices", "10.0.0.1=cell"],
            "--devices: cell: device: a cell is no path of one device: write --scenario cell",
        ),
    ],
)
def test_an_option_for_one_device_has_no_cell(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bridge", "--a", "p", "--b", "q", *options, "--print-bridge"]) == 2
    assert capsys.readouterr().err == f"wavebed: {message}\n"


@pytest.mark.parametrize("options", [[], ["--judge"]])
def test_a_recording_has_no_cell(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "cell", *options]) == 2
    message = "cell: device: a recording is of one client: remove [cell] and [[device]]"
    assert capsys.readouterr().err == f"wavebed: {message}\n"


def bridged(tmp_path: Path, text: str, hops: str = HOPS) -> int:
    file = tmp_path / "office.toml"
    file.write_text(hops + text)
    return main(["bridge", "--a", "p", "--b", "q", "--scenario", str(file), "--print-bridge"])


def test_real_devices_of_a_bridge_are_in_the_cell_by_their_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
[[device]]
name = "phone"
address = ["192.168.1.20", "fd00::0:20", "02:00:00:00:00:0A"]
[[device]]
name = "laptop"
count = 2
address = ["192.168.1.21-192.168.1.22", "02:00:00:00:00:ff - 02:00:00:00:01:00"]
[[device]]
name = "tv"
count = 2
address = [["192.168.1.30", "fd00::30"], "192.168.1.40"]
"""
    assert bridged(tmp_path, text) == 0
    bridge = json.loads(capsys.readouterr().out)
    assert [hop["name"] for hop in bridge["hops"]] == ["internet"]
    assert {each["name"]: each["addresses"] for each in bridge["classes"]} == {
        "phone": ["192.168.1.20", "fd00::20", "02:00:00:00:00:0a"],
        "laptop-1": ["192.168.1.21", "02:00:00:00:00:ff"],
        "laptop-2": ["192.168.1.22", "02:00:00:00:01:00"],
        "tv-1": ["192.168.1.30", "fd00::30"],
        "tv-2": ["192.168.1.40"],
    }
    assert [each["host"] for each in bridge["cell"]["devices"]] == [each["name"] for each in bridge["classes"]]
    radio = '[[path.hop]]\nname = "radio"\nkind = "radio"\nradio = "nr-30khz"\nrate = "9mbit"\n'
    assert bridged(tmp_path, text, radio) == 0
    assert [hop["name"] for hop in json.loads(capsys.readouterr().out)["hops"]] == ["wire"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("", "address: is missing: a bridge needs it, such as address = "),
        ('address = "192.168.1"', "address: '192.168.1' is no address: write a MAC address as"),
        ('address = "224.0.0.1"', "address: 224.0.0.1 is no address of one device: write its own"),
        ('address = ["10.0.0.2", "10.0.0.2"]', "address: 10.0.0.2 is written twice: remove one"),
        ('address = "10.0.0.1"', "address: 10.0.0.1 is an address of 'first' too: remove one"),
        ('address = "10.0.0.2-10.0.0.4"', "address: 10.0.0.2-10.0.0.4 has 3 addresses: write count = 3"),
        ('address = "10.0.0.4-10.0.0.2"', "address: '10.0.0.4-10.0.0.2' is no range: write the lower address first"),
        ('address = "10.0.0.4-fd00::5"', "address: '10.0.0.4-fd00::5' is a range of two kinds of address"),
        ('count = 2\naddress = "10.0.0.2-10.0.0.4"', "has 3 addresses for 2 devices: write as many"),
        (
            'count = 2\naddress = "10.0.0.2"',
            "address: there are 1 entries for 2 devices: write one for each, or a range",
        ),
        ('count = 2\naddress = ["10.0.0.2-10.0.0.3", "10.0.0.9"]', "address: has ranges and single addresses"),
        ("address = []", "address: is empty: write the address of the device"),
    ],
)
def test_a_wrong_address_is_refused_in_one_line(
    keys: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'[[device]]\nname = "first"\naddress = "10.0.0.1"\n[[device]]\nname = "second"\n{keys}\n'
    assert bridged(tmp_path, text) == 2
    said = capsys.readouterr().err
    assert f"device[2].{message}" in said or message in said
    assert said.count("\n") == 1


def test_an_address_is_for_bridges(read: Any) -> None:
    with pytest.raises(UserError, match=r"device\[1\]\.address: a device of a laboratory gets its address from it"):
        read('[[device]]\nname = "phone"\naddress = "10.0.0.1"\n')


def test_the_command_of_a_shell_runs_on_the_chosen_device(capsys: pytest.CaptureFixture[str]) -> None:
    for options, host in (([], "near"), (["--device", "far"], "far")):
        assert main(["shell", "--scenario", "cell", *options, "--print-laboratory", "--", "true"]) == 0
        assert json.loads(capsys.readouterr().out)["command"]["host"] == host


def test_a_path_with_devices_shows_the_links_of_each() -> None:
    assert repr(WavebedPath("cell")).split(" | ")[1:] == [
        "radio.near down 600mbit; up 80mbit",
        "radio.middle down 150mbit; up 20mbit",
        "radio.far down 40mbit; up 5mbit",
    ]


OPEN_LOOP = '[cell]\nuplink-power = "open-loop"\n'


def test_open_loop_power_control_follows_from_the_budget_of_the_scene(read: Any, tmp_path: Path) -> None:
    (tmp_path / "square.toml").write_text(SCENE)
    hops = '[path]\nscene = "square.toml"\n'
    text = '[[device]]\nname = "walker"\ncount = 2\n[[device]]\nname = "desk"\n'
    _, network, notes = read(text, hops=hops)
    assert all(device.up[0].power is None for device in cell_of(network).devices), "the default"
    _, network, notes = read(OPEN_LOOP + text, hops=hops)
    assert not any("uplink-power" in note for note in notes)
    assert all(device.down[0].power is None for device in cell_of(network).devices)
    found = [device.up[0].power for device in cell_of(network).devices]
    scene = cast_scene(read(text, hops=hops)[0])
    noise_dbm = -174 + 10 * math.log10(scene.carrier.bandwidth_hz) + scene.base_stations[0].noise_figure_db
    for ue, power in zip(("walker-1", "walker-2", "desk"), found, strict=True):
        # At any SINR S the limit is P0 + 10·lg 2^µ + alpha·PL, and the power of a block on all N blocks is Pcmax / N.
        pcmax_dbm = scene.device(ue).power_dbm
        path_loss_db = pcmax_dbm - noise_dbm - 7.0
        block_dbm = -80 + 10 * math.log10(2**scene.carrier.numerology) + path_loss_db
        excess_db = block_dbm - (pcmax_dbm - 10 * math.log10(scene.carrier.resource_blocks))
        assert power.limit_db - power.alpha * 7.0 == pytest.approx(excess_db)
        assert (power.alpha, power.evm, power.loss_db) == (1.0, scene.carrier.evm, scene.carrier.implementation_loss_db)
    _, network, _ = read(
        OPEN_LOOP + 'uplink-p0 = "-90dbm"\nuplink-alpha = 0.8\n' + '[[device]]\nname = "desk"\n', hops=hops
    )
    power = cell_of(network).devices[0].up[0].power
    pcmax_dbm = scene.device("desk").power_dbm
    lower_db = 10 + 0.2 * (pcmax_dbm - noise_dbm)
    assert (power.alpha, power.limit_db) == (0.8, pytest.approx(found[2].limit_db - lower_db))


def cast_scene(path: PathModel) -> SceneModel:
    assert path.cell is not None
    rate = path.cell.devices[0].up.rate
    assert isinstance(rate, ScenePattern)
    assert isinstance(rate.scene, SceneModel)
    return rate.scene


def test_power_control_without_a_sinr_is_noted(read: Any) -> None:
    text = '[[device]]\nname = "phone"\nrate = "10mbit"\n[[device]]\nname = "desk"\n[[device]]\nname = "lossy"\n'
    text += 'radio = { bler = "10%" }\n'
    _, network, notes = read(OPEN_LOOP + text, hops='[path]\nscene = "corner-lte"\n')
    assert [device.up[0].power is None for device in cell_of(network).devices] == [True, False, True]
    assert "phone, lossy: uplink-power has no effect: it needs the SINR of a scene, and no bler" in notes


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ('uplink-power = "on"', r"cell\.uplink-power: "),
        ("uplink-alpha = 0.8", r'cell\.uplink-alpha: has no effect: write uplink-power = "open-loop" too'),
        ('uplink-power = "open-loop"\nuplink-p0 = "30dbm"', r"cell\.uplink-p0: 30 dBm is out of range: "),
        ('uplink-power = "open-loop"\nuplink-alpha = 2', r"cell\.uplink-alpha: "),
        ('down-uplink-power = "open-loop"', r"cell\.down-uplink-power: "),
    ],
)
def test_wrong_keys_of_power_control_are_refused(read: Any, cell: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(f'[cell]\n{cell}\n[[device]]\nname = "phone"\n')


def test_power_control_does_not_fit_the_load_of_a_scene(read: Any, tmp_path: Path) -> None:
    (tmp_path / "square.toml").write_text('cell-load = "30%"\n' + SCENE)
    with pytest.raises(UserError, match=r"uplink-power: does not fit the scene of desk, which has cell-load: use \[\["):
        read(OPEN_LOOP + '[[device]]\nname = "desk"\n', hops='[path]\nscene = "square.toml"\n')
