"""Remedies on hosts: how a scenario names them, and how a trial starts, watches and stops them; in virtual time."""

from __future__ import annotations

import signal
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import Program
from tests.unit.test_run_trial import check, command, trial

from wavebed.errors import MachineError, UserError
from wavebed.remedy import remedy_of
from wavebed.run.folder import check_programs
from wavebed.run.order import ordered
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import StoredTrial, plan_of_spec, read_plan
from wavebed.spec.trial import RemedySpec, TrialSpec, decode_spec, encode_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.memory_lab import MemoryProcess

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
