"""Remedies of a host, and a second radio: specifications, mistakes, and the share of the radio."""

from __future__ import annotations

import signal
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.memory_lab import Program
from tests.unit.test_run_trial import check, command, trial
from tests.unit.test_transport_links import LOAD, MBIT, constant, link_rows, steady

from wavebed.errors import MachineError, UserError
from wavebed.page.points import ThinnedPoints
from wavebed.path.api import Path as WavebedPath
from wavebed.remedy import remedy_of
from wavebed.report.build import path_row
from wavebed.report.figures import bottleneck
from wavebed.report.figures import second_radio_links as drawn_links
from wavebed.report.source import CapacityCourse
from wavebed.reproduce.judge import steady_of
from wavebed.result.course import bottlenecks
from wavebed.result.tables import SCHEMAS, capacity_table
from wavebed.result.transport import second_radio_links, second_radio_metrics, transport_metrics
from wavebed.run.design import ordered
from wavebed.run.folder import check_programs
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import StoredTrial, plan_of_spec, read_plan
from wavebed.spec.network import second_leg
from wavebed.spec.part import plain
from wavebed.spec.trial import RemedySpec, TrialSpec, decode_spec, encode_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.memory_lab import MemoryProcess

    from wavebed.spec.trial import TrialSpec


STARTED = '{"event":"started","method":"bpf","refused":null}\n'
BY_SYSCTL = '{"event":"started","method":"sysctl","refused":"not permitted"}\n'
WORKLOAD = command("curl")
SYN = {"interval": "100ms", "dense": "1s", "answers": False, "method": "bpf"}


@pytest.fixture(autouse=True)
def edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "wavebed-edge"
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
    monkeypatch.setenv("WAVEBED_EDGE", str(program))


def service(said: str = STARTED, *, late_s: float = 0.5, lasts_s: float | None = None, status: int = 0) -> Callable:  # type: ignore[type-arg]
    """Return a program that says something, and then waits for SIGTERM or ends."""

    def script(process: MemoryProcess) -> int:
        process.host.clock.sleep(late_s)
        process.write(said)
        number = process.next_signal(lasts_s)
        return status if number in (None, signal.SIGTERM) else -number

    return script


def scenario(folder: Path, host: str, remedy: str, *, edge: bool = False) -> Path:
    file = folder / "s.toml"
    hops = "".join(f'[[path.hop]]\nname = "{name}"\nkind = "{name}"\nrate = "9mbit"\n' for name in ("wired", "radio"))
    path = f"[path]\n{hops}[path.edge]\nafter = 'wired'\n" if edge else '[path]\nrate = "9mbit"\n'
    table = "" if edge and host == "edge" else f"[path.{host}]\n"
    file.write_text(f"{path}{table}remedy = {remedy}\n{WORKLOAD}")
    return file


def spec_of(file: Path) -> TrialSpec:
    plan = read_plan(file)
    (slot,) = ordered(plan.treatments, 1, 1)
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        return resolved.spec


def test_a_remedy_and_several_are_read_with_their_defaults(tmp_path: Path) -> None:
    one = spec_of(scenario(tmp_path, "client", '{ kind = "syn" }'))
    assert one.remedies == (RemedySpec("client", "syn", SYN),)
    two = spec_of(scenario(tmp_path, "edge", '[{ kind = "syn", dense = "2s" }, { kind = "splitter" }]', edge=True))
    assert [(each.host, each.kind) for each in two.remedies] == [("edge", "syn"), ("edge", "splitter")]
    assert two.remedies[0].options == {**SYN, "dense": "2s"}


def test_a_host_without_remedies_says_off(tmp_path: Path) -> None:
    assert spec_of(scenario(tmp_path, "client", '"off"')).remedies == ()


def test_a_run_with_a_remedy_needs_the_program_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(scenario(tmp_path, "client", '{ kind = "syn" }'))
    monkeypatch.setenv("WAVEBED_EDGE", str(tmp_path / "nowhere"))
    with pytest.raises(MachineError, match=r"WAVEBED_EDGE: .*nowhere' is not a program"):
        check_programs(plan)


def test_a_specification_keeps_them(tmp_path: Path) -> None:
    spec = spec_of(scenario(tmp_path, "client", '{ kind = "syn", answers = true }'))
    text = encode_spec(spec)
    assert decode_spec(text, "spec.json") == spec
    plan = plan_of_spec(StoredTrial(spec, tmp_path), tmp_path / "spec.json")
    (slot,) = ordered(plan.treatments, 1, 1)
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        assert resolved.spec.remedies == spec.remedies
    wrong = replace_remedies(spec, {**SYN, "interval": "2s"})
    with pytest.raises(UserError, match=r"remedies\[1\].options.interval: '2s' is out of range"):
        plan_of_spec(StoredTrial(wrong, tmp_path), tmp_path / "spec.json")


def replace_remedies(spec: TrialSpec, options: dict[str, object]) -> TrialSpec:
    import msgspec

    remedies = (RemedySpec("client", "syn", options),)  # type: ignore[arg-type]
    return msgspec.structs.replace(spec, remedies=remedies)


@pytest.mark.parametrize(
    ("host", "remedy", "line"),
    [
        ("client", '"syn"', "path.client.remedy: 'syn' is not a table: write"),
        ("client", "{}", "path.client.remedy.kind: is missing: write one of syn, splitter"),
        ("client", '{ kind = "sin" }', "path.client.remedy.kind: .*did you mean 'syn'"),
        ("client", '{ kind = "syn", intervall = "1s" }', "path.client.remedy.intervall: unknown key"),
        ("client", '{ kind = "syn", interval = "1ms" }', "path.client.remedy.interval: .* out of range"),
        ("client", '[{ kind = "syn" }, { kind = "syn" }]', "'syn' is there twice: leave one out"),
        ("client", "[]", "path.client.remedy: there are 0: write 1 to 8"),
        ("client", '{ kind = "splitter" }', r"'splitter' is no remedy of this host: write it in \[path.edge\]"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, host: str, remedy: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        read_plan(scenario(tmp_path, host, remedy))


def in_trial(folder: Path, remedy: str, edge_program: object, workload: object | None = None):  # type: ignore[no-untyped-def]
    text = f"[path.client]\nremedy = {remedy}\n{WORKLOAD}"
    return trial(folder, text, {"wavebed-edge": edge_program, "curl": workload or Program(3.0)})  # type: ignore[dict-item]


def test_a_remedy_runs_from_before_the_workloads_until_after_them(tmp_path: Path) -> None:
    made = in_trial(tmp_path, '{ kind = "syn" }', service())
    record = made.run()
    remedy, workload = made.lab.started
    assert remedy.args[1:] == ["syn", "--json", "--interval", "100000us", "--dense", "1000000us"]
    assert workload.args == ["curl"]
    assert (remedy.returncode, workload.returncode) == (0, 0)
    assert check(record, "remedy") == (True, "syn on client")
    assert record.workloads[0].outcome.status == "ok"
    assert (tmp_path / "trial" / "raw" / "remedy.client.syn.log").read_text() == STARTED


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (service("wavebed-edge: syn: no\n", lasts_s=0.0, status=3), "on client: syn: no"),
        (service("", lasts_s=0.0, status=4), "on client: it ended with status 4"),
        (service("", late_s=30.0), "syn on client did not start within 10 s"),
        (service(BY_SYSCTL), "syn on client: the kernel refuses the program: not permitted"),
    ],
)
def test_a_trial_whose_remedy_does_not_start_is_invalid_and_runs_nothing(
    tmp_path: Path, program: object, line: str
) -> None:
    made = in_trial(tmp_path, '{ kind = "syn" }', program)
    record = made.run()
    assert check(record, "remedy") == (False, line)
    assert record.verdict == "invalid"
    assert f"check failed: every remedy worked: {line}" in record.reasons
    assert [process.args[0].rpartition("/")[2] for process in made.lab.started] == ["wavebed-edge"]


def test_a_program_that_does_not_become_ready_is_killed(tmp_path: Path) -> None:
    made = in_trial(tmp_path, '{ kind = "syn" }', service("", late_s=30.0))
    made.run()
    (remedy,) = made.lab.started
    assert remedy.wait() == -signal.SIGKILL


def test_settings_alone_are_enough_where_they_are_asked_for(tmp_path: Path) -> None:
    made = in_trial(tmp_path, '{ kind = "syn", method = "sysctl" }', service(BY_SYSCTL))
    assert check(made.run(), "remedy") == (True, "syn on client")
    assert made.lab.started[0].args[-1] == "--no-bpf"


def test_a_remedy_that_ends_early_or_in_error_invalidates_its_trial(tmp_path: Path) -> None:
    early = in_trial(tmp_path, '{ kind = "syn" }', service(STARTED + "gone\n", lasts_s=1.0, status=1)).run()
    assert check(early, "remedy") == (False, "on client: gone: before the end of the trial")
    assert early.verdict == "invalid"
    other = tmp_path / "other"
    other.mkdir()
    wrong = in_trial(other, '{ kind = "syn" }', service(status=1)).run()
    assert check(wrong, "remedy") == (False, f"on client: {STARTED.strip()}")


def test_a_trial_without_remedies_has_no_check_of_them(tmp_path: Path) -> None:
    record = trial(tmp_path, WORKLOAD, {"curl": Program(1.0)}).run()
    assert "remedy" not in {each.code for each in record.checks}


def test_the_keys_of_a_splitter_become_settings_of_its_program() -> None:
    options = {"down": "bbr", "up": "cubic", "copy": "read-write", "window": "15ms"}
    arguments = remedy_of("splitter", options).arguments()  # type: ignore[attr-defined]
    assert arguments == [
        "splitter",
        *("--set", "rules=true", "--set", "drain=1s", "--set", "copy=read-write"),
        *("--set", "client-congestion-control=bbr", "--set", "server-congestion-control=cubic"),
        *("--set", "window-queue=15000us"),
    ]


def test_a_treatment_sets_a_remedy(tmp_path: Path) -> None:
    file = scenario(tmp_path, "client", '{ kind = "syn" }')
    changed = '[[treatment]]\nname = "slow"\nset = { "path.client.remedy" = { kind = "syn", interval = "200ms" } }\n'
    file.write_text(file.read_text() + changed)
    (treatment,) = read_plan(file).treatments
    path = replace(treatment).path
    (client,) = (host for host in path.hosts if host.name == "client")  # type: ignore[union-attr]
    assert client.remedies[0].options["interval"] == "200ms"


HOPS = """[path]
[[path.hop]]
name = "internet"
kind = "wired"
delay = "10ms"
[[path.hop]]
name = "radio"
kind = "radio"
rate = "50mbit"
delay = "2ms"
"""
EDGE = "[path.edge]\nafter = 'internet'\n"
SECOND = '[path.second-radio]\nrate = "20mbit"\nup-rate = "5mbit"\ndelay = "15ms"\n'
BULK = '[[workload]]\nkind = "bulk"\n'


def spec_of_text(folder: Path, text: str) -> TrialSpec:
    file = folder / "s.toml"
    file.write_text(text)
    plan = read_plan(file)
    (slot,) = ordered(plan.treatments[:1], 1, 1)
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        return resolved.spec


def lab_of(folder: Path, text: str, **options: str) -> Any:
    file = folder / "s.toml"
    file.write_text(text)
    return WavebedPath.load(file, **options).laboratory()


@pytest.mark.parametrize(("edge", "hosts"), [("", ["server", "client"]), (EDGE, ["server", "edge", "client"])])
def test_it_is_a_leg_beside_all_hops_between_the_last_two_hosts(tmp_path: Path, edge: str, hosts: list[str]) -> None:
    network = spec_of_text(tmp_path, HOPS + edge + SECOND + command("x")).network
    assert [host.name for host in network.hosts] == hosts
    leg = second_leg(network)
    assert leg is network.legs[-1]
    assert leg is not None
    assert (leg.start, leg.end) == (hosts[-2], "client")
    assert [(hop.name, hop.kind) for hop in leg.hops] == [("second-radio", "radio")]
    rates = [side[0].rate.rate_bps for side in (leg.hops[0].down, leg.hops[0].up)]  # type: ignore[union-attr]
    assert rates == [20 * MBIT, 5 * MBIT]


def test_without_it_the_network_has_no_trace_of_it(tmp_path: Path) -> None:
    network = spec_of_text(tmp_path, HOPS + EDGE + command("x")).network
    assert second_leg(network) is None
    assert (len(network.legs), second_radio_links(network)) == (2, [])


def test_the_laboratory_file_has_it_after_the_row(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, HOPS + EDGE + SECOND)
    assert [[hop["name"] for hop in leg["hops"]] for leg in lab["network"]["legs"]] == [
        ["internet"],
        ["radio"],
        ["second-radio"],
    ]


def test_its_queue_is_as_long_as_its_own_round_trip_needs(tmp_path: Path) -> None:
    fast = SECOND.replace("20mbit", "1gbit")
    network = spec_of_text(tmp_path, HOPS + EDGE + fast + command("x")).network
    stage = network.legs[-1].hops[0].down[0]
    # 1 Gbit/s for 50 ms (10 ms of the wired hop and its own 15 ms, twice) in packets of 1500 bytes.
    assert stage.queue.limit.packets == 4167  # type: ignore[union-attr]


def test_options_of_a_link_leave_it_alone(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, HOPS + SECOND, rate="1mbit")
    assert lab["network"]["legs"][-1]["hops"][0]["down"][0]["rate"]["rate_bps"] == 20 * MBIT


def test_a_treatment_adds_it_and_a_specification_keeps_it(tmp_path: Path) -> None:
    treatment = '[[treatment]]\nname = "two"\nset = { "path.second-radio.rate" = "7mbit" }\n'
    spec = spec_of_text(tmp_path, HOPS + command("x") + treatment)
    assert second_leg(spec.network) is not None
    assert decode_spec(encode_spec(spec), "spec.json") == spec


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[path]\nsecond-radio = 'lte'\n", "path.second-radio: 'lte' is not a table: write .path.second-radio."),
        (HOPS + SECOND + "ratte = 1\n", "path.second-radio.ratte: unknown key.*did you mean 'rate'"),
        (HOPS + SECOND + "name = 'lte'\n", "path.second-radio.name: unknown key"),
        (HOPS + SECOND + "queue-unit = 'bit'\n", "path.second-radio.queue-unit: 'bit' is not a choice"),
        (HOPS.replace("[path]", "[path]\nnat = true") + SECOND, "path.second-radio: cannot be used with nat"),
        (HOPS.replace('"radio"\nkind', '"second-radio"\nkind') + SECOND, "path.second-radio: is the name of a hop too"),
    ],
)
def test_a_mistake_of_a_second_radio_is_named_with_its_place(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        spec_of_text(tmp_path, text + command("x"))


def tables(rows: dict[str, float]) -> dict[str, pa.Table]:
    """Return the tables of links that carry so many bits in each millisecond of 10 s."""
    links = [row for link, bits in rows.items() for row in link_rows(link, steady(0, 10_000, bits))]
    capacity = [row for link in rows for row in constant((50 if link.startswith("radio") else 20) * MBIT, link)]
    return {
        "links": pa.Table.from_pylist(links, schema=SCHEMAS["links"]),
        "capacity": capacity_table(capacity),
        "flows": SCHEMAS["flows"].empty_table(),
    }


def test_the_bottleneck_is_a_link_of_the_row(tmp_path: Path) -> None:
    network = spec_of_text(tmp_path, HOPS + SECOND + command("x")).network
    found = tables({"radio.down": 25_000, "second-radio.down": 8_000})
    assert bottlenecks(found, LOAD)["down"].link == "second-radio.down"
    assert bottlenecks(found, LOAD, second_radio_links(network))["down"].link == "radio.down"


def test_processor_time_per_gb_counts_what_both_radios_delivered(tmp_path: Path) -> None:
    network = spec_of_text(tmp_path, HOPS + SECOND + command("x")).network
    found = tables({"radio.down": 24_000, "second-radio.down": 8_000, "second-radio.up": 800})
    busy = [{"time_ns": number * 10**8, "core": 0, "busy": 0.5, "softirq": 0.0} for number in range(1, 101)]
    found["cpu"] = pa.Table.from_pylist(busy, schema=SCHEMAS["cpu"])
    metrics = {each.name: each.value for each in transport_metrics(found, LOAD, second_radio_links(network))}
    assert metrics["processor time"] == pytest.approx(5)
    assert metrics["processor time per GB"] == pytest.approx(5 / 0.041)


def test_its_share_is_of_the_bytes_that_reach_the_next_host(tmp_path: Path) -> None:
    network = spec_of_text(tmp_path, HOPS + SECOND + command("x")).network
    found = tables(
        {
            "internet.down": 30_000,
            "radio.down": 24_000,
            "second-radio.down": 8_000,
            "radio.up": 10_000,
            "internet.up": 8_000,
            "second-radio.up": 0,
        }
    )
    metrics = {metric.name: (metric.value, metric.unit) for metric in second_radio_metrics(found, network)}
    assert metrics == {
        "delivered radio.down": (pytest.approx(30), "MB"),
        "delivered second-radio.down": (pytest.approx(10), "MB"),
        "share of second radio down": (pytest.approx(25), "%"),
        "delivered internet.up": (pytest.approx(10), "MB"),
        "delivered second-radio.up": (0, "MB"),
        "share of second radio up": (0, "%"),
    }


def test_without_traffic_the_share_is_unknown_and_without_it_there_are_no_metrics(tmp_path: Path) -> None:
    two = spec_of_text(tmp_path, HOPS + SECOND + command("x")).network
    empty = {"links": SCHEMAS["links"].empty_table()}
    shares = [metric.value for metric in second_radio_metrics(empty, two) if metric.unit == "%"]
    assert shares == [None, None]
    assert second_radio_metrics(empty, spec_of_text(tmp_path, HOPS + command("x")).network) == []


def test_the_report_draws_it_as_a_row_of_its_own(tmp_path: Path) -> None:
    one = path_row(plain(spec_of_text(tmp_path, HOPS + EDGE + command("x"))))
    two = path_row(plain(spec_of_text(tmp_path, HOPS + EDGE + SECOND + command("x"))))
    assert two.startswith(one)
    further = two.removeprefix(one)
    assert 'aria-label="The second radio of the client"' in further
    assert further.index("edge") < further.index("second-radio") < further.index("client</b>")
    assert "20 Mbit/s" in further


def test_the_figure_of_a_trial_shows_the_bottleneck_of_the_row_and_the_second_radio_beside_it(tmp_path: Path) -> None:
    resolved = plain(spec_of_text(tmp_path, HOPS + SECOND + command("x")))
    rates = {"internet.down": 90.0, "radio.down": 50.0, "second-radio.down": 20.0}
    courses = {
        link: CapacityCourse(ThinnedPoints(np.array([0.0, 9.0]), np.full(2, rate * MBIT)), [])
        for link, rate in rates.items()
    }
    made = SimpleNamespace(record=SimpleNamespace(resolved=resolved, engine={}), courses=courses, end_s=9.0)
    assert bottleneck([made], "down") == "radio.down"  # type: ignore[list-item]
    assert drawn_links(resolved, "up") == ["second-radio.up"]
    alone = plain(spec_of_text(tmp_path, HOPS + command("x")))
    made.record.resolved = alone
    assert bottleneck([made], "down") == "second-radio.down"  # type: ignore[list-item]
    assert drawn_links(alone, "down") == []


def test_models_of_steady_transfers_go_by_the_first_radio(tmp_path: Path) -> None:
    steady_path = steady_of(spec_of_text(tmp_path, HOPS + EDGE + SECOND + BULK))
    assert steady_path is not None
    assert (steady_path.link_mbps, steady_path.rtt) == (50, pytest.approx(0.024))
