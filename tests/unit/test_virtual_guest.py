"""The plan of a guest of virtual time: the kernel's command line, the first process's task, the environment; and which
runs are in virtual time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.result_folders import open_run

from wavebed.cli import main
from wavebed.errors import MachineError, UserError
from wavebed.lab import tools
from wavebed.lab.protocol import LIMITS
from wavebed.result.model import RunRecord
from wavebed.run import backend
from wavebed.run.design import ordered
from wavebed.run.executor import guests
from wavebed.run.executor.block import BlockTask, TrialTask
from wavebed.run.executor.guests import GuestCourse, progress_text
from wavebed.run.executor.inside import exactness
from wavebed.run.folder import in_virtual_time
from wavebed.run.progress import Live
from wavebed.run.resolve import Resolver, read_spec
from wavebed.run.scenario import Plan, plan_of_spec, read_plan
from wavebed.run.times import default_time, guest_bytes_of, with_time
from wavebed.spec.trial import IN_NAMESPACES, USUAL_GUEST_BYTES, NamespacesLab
from wavebed.virtual import guest, kernel
from wavebed.virtual.channel import PROGRESS, Step, Told, tell
from wavebed.virtual.guest import GuestFolder, environment, kernel_arguments, readable, task_json
from wavebed.virtual.kernel import Built

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

SCENARIO = """
title = "one flow"
[path]
rate = "10mbit"
[[workload]]
kind = "bulk"
"""


def _plan(folder: Path, more: str = "") -> Plan:
    file = folder / "scenario.toml"
    file.write_text(SCENARIO + more)
    return read_plan(file)


def test_the_kernels_command_line_is_the_same_in_each_folder_but_for_its_own_options() -> None:
    first, second = (kernel_arguments(GuestFolder(Path(name)), 7) for name in ("/cache/.new-1", "/cache/.new-22"))
    assert {one for one, other in zip(first, second, strict=True) if one != other} == {"uml_dir=/cache/.new-1/uml"}
    assert first[-3:] == ["--", "guest-init", "/proc/self/cwd/guest.json"]
    for wanted in ("time-travel=inf-cpu", "norandmaps", "random-seed=7", "ro", "rootfstype=hostfs"):
        assert wanted in first
    assert f"time-travel-start={guest.START_S}000000000" in first


def test_the_environment_is_sorted_and_keeps_nothing_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", "/cache")
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    allowed, hidden, linked, named = (tmp_path / name for name in ("opt", "home", "linked", "named"))
    for folder in (allowed, hidden, named):
        (folder / "bin").mkdir(parents=True)
    (named / "bin/tool").write_text("")
    linked.symlink_to(allowed)
    searched = f"{hidden}/bin:{linked}/bin:/usr/bin:relative:{allowed}/absent:{named}/bin:/{'x' * 300}"
    given = {"PATH": searched, "LANG": "de_DE.UTF-8", "SSH_AUTH_SOCK": "/x", "WAVEBED_CORE": "/core"}
    reads = [f"{linked}/", f"{named}/bin/tool"]
    made = environment(given, reads)
    assert list(made) == sorted(made)
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert made["PATH"] == f"{system}:/venv/bin:{linked}/bin:{named}/bin"
    assert environment(given | {"PATH": f"/venv/bin:{searched}"}, reads) == made
    assert (made["PYTHONHASHSEED"], made["TZ"], made["LC_ALL"]) == ("0", "UTC", "C.UTF-8")
    assert made["WAVEBED_CORE"] == "/core"
    assert not {"LANG", "SSH_AUTH_SOCK"} & made.keys()


def test_the_task_shares_folders_of_which_one_is_writable() -> None:
    task = json.loads(task_json(GuestFolder(Path("/cache/one")), Path("/cache/code"), ["true"], {"A": "b"}))
    assert [(each["outside"], each["writable"]) for each in task["shared"]] == [
        ("/cache/one/in", False),
        ("/cache/one/out", True),
        ("/cache/code", False),
        ("/proc/self/fd", False),
    ]
    assert task["given"] == "/cache/one/given"
    assert task["command"] == ["true"]
    assert task["environment"] == {"A": "b"}
    assert task["status"].startswith(f"{guest.OUTPUT}/")


@pytest.mark.parametrize("name", ["with blank", "with,comma", 'with"quote'])
def test_a_folder_that_the_kernel_would_misread_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / name))
    with pytest.raises(MachineError, match="name another folder with WAVEBED_CACHE"), guest.guest_folder():
        pass


def test_the_key_and_the_option_are_the_same(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    assert not in_virtual_time(plan)
    assert plan.treatments[0].lab == IN_NAMESPACES
    by_option = with_time(plan, "virtual")
    by_key = _plan(tmp_path, '[lab]\ntime = "virtual"\n')
    assert by_key.treatments[0].lab == NamespacesLab("virtual")
    assert by_option.treatments[0].lab == with_time(by_key).treatments[0].lab
    assert by_option.overrides == {"lab.time": "virtual"}
    assert in_virtual_time(by_option)
    assert in_virtual_time(by_key)


def test_the_processor_of_an_option_overrides_that_of_the_scenario(tmp_path: Path) -> None:
    slow = _plan(tmp_path, '[lab]\ntime = "virtual"\nprocessor = "host"\nslower = 4\n')
    (of_option, of_scenario) = (with_time(slow, processor=each).treatments[0].lab for each in ("exact", "host"))
    assert isinstance(of_option, NamespacesLab)
    assert isinstance(of_scenario, NamespacesLab)
    assert (of_option.processor, of_option.slower) == ("exact", 1.0)
    assert (of_scenario.processor, of_scenario.slower) == ("host", 4.0)
    assert with_time(slow, processor="exact").overrides["lab.processor"] == "exact"
    with pytest.raises(UserError, match="--processor: is for virtual time: add --virtual-time"):
        with_time(_plan(tmp_path), "real", processor="host")


def test_a_machine_without_landlock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_LANDLOCK_CREATE_RULESET", 4095)  # a call that no kernel has
    plan = _plan(tmp_path)
    assert kernel.NO_LANDLOCK in with_time(plan, "virtual").notes
    assert kernel.NO_LANDLOCK not in with_time(plan, "real").notes
    monkeypatch.setattr(guests, "needed_kernel", lambda: (Path("linux"), Built("7.2", "")))
    assert guests.Guests(Live("test")).site([]).machine["landlock"] == "none"


def test_treatments_in_both_times_are_refused(tmp_path: Path) -> None:
    plan = _plan(tmp_path, '[[treatment]]\nname = "a"\nset = { "lab.time" = "virtual" }\n[[treatment]]\nname = "b"\n')
    with pytest.raises(UserError, match='treatment b is in real time, and others are not: write time = "virtual"'):
        in_virtual_time(plan)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a kernel be installed."""
    built = (Path("linux"), Built("7.2", ""))
    monkeypatch.setattr("wavebed.run.times.find_kernel", lambda: built)


def test_auto_is_virtual_where_the_kernel_is_installed(tmp_path: Path, installed: None) -> None:
    for plan in (with_time(_plan(tmp_path), None, "auto"), with_time(_plan(tmp_path, '[lab]\ntime = "auto"\n'))):
        assert in_virtual_time(plan)
        assert plan.overrides == {"lab.time": "virtual"}
        assert (
            plan.notes[0] == "time: virtual, since the guest kernel is installed (--real-time for this machine's time)"
        )
    asked = with_time(_plan(tmp_path), "real", "auto")
    assert not in_virtual_time(asked)
    assert (asked.overrides, asked.notes) == ({}, ())


def test_auto_is_real_without_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.run.times.find_kernel", lambda: None)
    plan = with_time(_plan(tmp_path), None, "auto")
    assert not in_virtual_time(plan)
    assert plan.notes == ("time: real, since the guest kernel is not installed (wavebed kernel build)",)


@pytest.mark.parametrize(
    ("path", "lab", "outside", "machine", "why"),
    [
        ("nat = true", "", "", "x86_64", "nat leads to this machine's network, which has real time"),
        ('outside-sockets = "open"', "", "", "x86_64", "outside-sockets opens sockets of this machine"),
        ("", 'backend = "hosts"\nserver = "ssh://host"', "", "x86_64", "real hosts have real time"),
        ('rate = "1mbit"', "", "workers of Dask have real time", "x86_64", "workers of Dask have real time"),
        ('rate = "1mbit"', "", "", "aarch64", "virtual time needs a processor of x86_64"),
    ],
)
def test_auto_is_real_where_a_part_is_outside_of_any_guest(
    path: str,
    lab: str,
    outside: str,
    machine: str,
    why: str,
    tmp_path: Path,
    installed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO.replace('rate = "10mbit"', path) + f"[lab]\n{lab}\n")
    plan = with_time(read_plan(file), None, "auto", outside)
    assert not in_virtual_time(plan)
    assert plan.notes[-1].startswith(f"time: real, since {why}")
    if not outside:
        with pytest.raises(UserError, match=f"^--virtual-time: {why}.*: leave the option out"):
            with_time(read_plan(file), "virtual")


def test_the_variable_is_the_default_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_time("auto") == "real", "as tests/conftest.py says"
    monkeypatch.setenv("WAVEBED_TIME", "")
    assert default_time("auto") == "auto"
    monkeypatch.setenv("WAVEBED_TIME", "slow")
    with pytest.raises(UserError, match=r"^WAVEBED_TIME: 'slow' is no time: write auto, real or virtual$"):
        default_time("auto")
    plan = with_time(_plan(tmp_path, '[lab]\ntime = "real"\n'), None, "virtual")
    assert not in_virtual_time(plan)


def test_a_check_of_a_program_that_no_guest_reads_is_in_real_time(
    tmp_path: Path, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []

    def perform(plan: Plan, *_: object, **__: object) -> None:
        plans.append(plan)
        raise UserError("seen")

    monkeypatch.setattr("wavebed.check.perform.perform_check", perform)
    monkeypatch.setenv("WAVEBED_TIME", "auto")
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "bin").mkdir(parents=True)
    elsewhere.mkdir()
    program = home / "bin/tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    for folder, words in ((elsewhere, ["tool"]), (elsewhere, ["true"]), (home, ["tool"])):
        monkeypatch.chdir(folder)
        assert main(["check", "--rate", "1mbit", "--", *words]) == 2
    assert [in_virtual_time(plan) for plan in plans] == [False, True, True]
    assert plans[0].notes[-1] == f"time: real, since no guest reads {program} (WAVEBED_GUEST_READS)"


def test_the_options_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--virtual-time", "--real-time", "--", "true"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def _stored(folder: Path, overrides: dict[str, str]) -> Path:
    open_run(folder, RunRecord("", "", "scenario.toml", overrides, [], "", 1, 1, {}, {}, [], []), "")
    return folder


def test_a_run_that_goes_on_keeps_its_time(tmp_path: Path, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Plan] = []
    monkeypatch.setattr("wavebed.cli.run.perform", lambda plan, _: ran.append(plan) or 0)
    _plan(tmp_path, '[lab]\ntime = "auto"\n')
    for time in ("real", "virtual"):
        folder = _stored(tmp_path / time, {"lab.time": time})
        assert main(["run", str(tmp_path / "scenario.toml"), "--resume", "-o", str(folder)]) == 0
        assert in_virtual_time(ran[-1]) == (time == "virtual")
        assert ran[-1].overrides == {"lab.time": time}


def test_real_hosts_have_real_time(tmp_path: Path) -> None:
    lab = 'backend = "hosts"\nserver = "ssh://host"\n'
    text = SCENARIO.replace('rate = "10mbit"\n', "")
    file = tmp_path / "hosts.toml"
    file.write_text(f"{text}[lab]\n{lab}")
    with pytest.raises(UserError, match="--virtual-time: real hosts have real time"):
        with_time(read_plan(file), "virtual")
    file.write_text(f'{text}[lab]\n{lab}time = "virtual"\n')
    with pytest.raises(UserError, match=r"lab\.time: is for emulated hosts"):
        read_plan(file)


def test_a_trial_in_virtual_time_never_runs_in_real_time(tmp_path: Path) -> None:
    plan = with_time(_plan(tmp_path), "virtual")
    slot = ordered(plan.treatments, 1, 1)[0]
    with Resolver(plan, None).resolved(slot) as resolved, pytest.raises(MachineError, match="not in a guest"):
        backend.start_lab(resolved, tmp_path, LIMITS)


def test_the_specification_says_that_time_was_virtual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _plan(tmp_path)
    assert main(["resolve", str(tmp_path / "scenario.toml"), "--virtual-time"]) == 0
    text = capsys.readouterr().out
    lab = json.loads(text)["lab"]
    assert (lab["time"], lab["memory_bytes"]) == ("virtual", 2000 << 20)
    file = tmp_path / "spec.json"
    file.write_text(text)
    stored = plan_of_spec(read_spec(file), file)
    assert guest_bytes_of(with_time(stored)) == 2000 << 20
    assert guest_bytes_of(with_time(stored, "real")) is None


def test_jobs_belong_to_virtual_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _plan(tmp_path)
    campaign = tmp_path / "campaign.toml"
    campaign.write_text(
        'title = "rates"\nscenario = "scenario.toml"\n[campaign]\nblocks = 2\n[[factor]]\nname = "rate"\n'
        'key = "path.rate"\nvalues = ["10mbit", "20mbit"]\n[compare]\nfactor = "rate"\nbaseline = "10mbit"\n'
        '[[primary]]\nworkload = "bulk"\nmetric = "goodput"\nmargin = "10%"\n'
    )
    assert main(["campaign", "run", str(campaign), "--jobs", "2", "-o", str(tmp_path / "out")]) == 2
    assert "--jobs: belongs to virtual time" in capsys.readouterr().err
    assert main(["campaign", "run", str(campaign), "--virtual-time", "--executor", "dask://h:1"]) == 2
    assert "--executor: virtual time runs on this machine" in capsys.readouterr().err


def test_without_its_kernel_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "empty"))
    _plan(tmp_path)
    assert main(["run", str(tmp_path / "scenario.toml"), "--virtual-time", "-o", str(tmp_path / "out")]) == 3
    assert "is not installed: run `wavebed kernel build`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with a secret, a project, and a neighbour's home beside it."""
    made = tmp_path / "homes" / "me"
    for name in (".ssh", "project"):
        (made / name).mkdir(parents=True)
    (tmp_path / "homes" / "shared").mkdir()
    (tmp_path / "homes" / "link").symlink_to(made)
    monkeypatch.setattr(guest, "hidden_homes", lambda: [str(made), str(tmp_path / "homes" / "other")])
    monkeypatch.setattr(guest, "python_files", list)
    monkeypatch.setattr(guest, "program_files", lambda _: [])
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "cache"))
    return made


def _within(paths: list[str], folder: Path) -> set[str]:
    return {path.removeprefix(str(folder)) for path in paths if path.startswith(str(folder))}


def test_a_guest_reads_no_home_but_what_is_beside_it(home: Path) -> None:
    assert _within(readable(), home.parent) == {"/shared"}
    assert not {"/", "/proc", "/sys", "/run", "/dev", "/etc/shadow"} & set(readable())
    assert {"/usr", "/proc/cpuinfo"} <= set(readable())


@pytest.mark.parametrize("named", ["/me", ""])
def test_a_named_home_is_readable_without_its_hidden_files(home: Path, named: str) -> None:
    found = _within(readable([f"{home.parent}{named}"]), home.parent)
    assert found == {"/shared", *(["/me/project"] if named else [])}


def test_a_guest_reads_what_the_specification_and_the_user_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(guest.READS_VARIABLE, f"{home}/project:relative:")
    assert "/me/project" in _within(readable(), home.parent)
    assert "/me/.ssh" in _within(readable([f"{home}/.ssh", f"{home}/absent"]), home.parent)


def test_settings_that_only_root_reads_are_left_out(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "etc"
    for name, mode in (("open/file", 0o644), ("mixed/open", 0o644), ("mixed/closed", 0o600), ("closed/file", 0o644)):
        file = settings / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.chmod(mode)
    (settings / "closed").chmod(0o700)
    monkeypatch.setattr(guest, "_SETTINGS", str(settings))
    monkeypatch.setattr(guest, "hidden_homes", lambda: [str(tmp_path / "homes"), str(settings / "nobody")])
    assert _within(readable(), settings) == {"/open", "/mixed/open"}


def test_the_paths_of_a_block_are_those_of_its_specifications(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    slot = ordered(plan.treatments, 1, 1)[0]
    with Resolver(plan, None).resolved(slot) as resolved:
        spec = resolved.spec
    spec = msgspec.structs.replace(spec, treatment="sh -c 'cat /a/b;x --y=/c/d:/e'")
    task = BlockTask(1, (TrialTask(1, spec),), {}, (), 1, "all", alone=False)
    assert {"/a/b", "/c/d", "/e"} <= set(guests.named_paths(task))


def test_a_trial_in_which_a_tick_was_forced_is_marked_as_not_exact() -> None:
    assert exactness(3, lambda: (3, "python3")).holds
    found = exactness(3, lambda: (5, "python3"))
    assert (found.holds, found.severity, found.code) == (False, "suspect", "exact")
    assert found.evidence == "not exact: python3 computed for 2 s without the kernel, 2 times"


def test_the_models_of_the_processor_are_on_the_kernels_command_line(tmp_path: Path) -> None:
    folder = GuestFolder(Path("/cache/one"))

    def given(keys: str) -> set[str]:
        lab = with_time(_plan(tmp_path, f"[lab]\n{keys}\n"), "virtual").treatments[0].lab
        assert isinstance(lab, NamespacesLab)
        wanted = ("time-travel-entry", "time-travel-host")
        return {each for each in kernel_arguments(folder, 1, lab) if each.startswith(wanted)}

    assert given("") == given('processor = "exact"') == {"time-travel-entry=1000"}
    assert given('processor = "infinite"') == set()
    assert given('processor = "host"\nslower = 4') == {"time-travel-entry=1000", "time-travel-host=400"}


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ('memory = "3"', r"lab\.memory: "),
        ('memory = "80gib"', r"lab\.memory: '80gib' is no size from 1024mib to 64000mib"),
        ('processor = "fast"', r"lab\.processor: "),
        ("slower = 4", r'lab\.slower: is for processor = "host"'),
        ('processor = "host"\nslower = 0', r"lab\.slower: 0 is no number from 0\.01 to 1000"),
        ('processor = "host"\nslower = true', r"lab\.slower: true is no number"),
    ],
)
def test_a_processor_that_cannot_be_is_refused(tmp_path: Path, keys: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        _plan(tmp_path, f"[lab]\n{keys}\n")


def test_a_processor_belongs_to_virtual_time_and_to_all_treatments(tmp_path: Path) -> None:
    plan = _plan(tmp_path, '[lab]\nprocessor = "host"\n')
    with pytest.raises(UserError, match=r"lab\.processor: is for virtual time: add --virtual-time"):
        with_time(plan)
    assert "no two runs are the same" in with_time(plan, "virtual").notes[-1]
    treatments = '[[treatment]]\nname = "a"\nset = { "lab.processor" = "host" }\n[[treatment]]\nname = "b"\n'
    with pytest.raises(UserError, match=r"\[lab\]: processor or memory is not the same for all treatments"):
        in_virtual_time(with_time(_plan(tmp_path, treatments), "virtual"))


def test_the_memory_of_a_guest_is_what_the_option_the_scenario_or_the_workloads_say(tmp_path: Path) -> None:
    def memory(plan: Plan) -> str:
        (treatment,) = plan.treatments
        assert isinstance(treatment.lab, NamespacesLab)
        return kernel_arguments(GuestFolder(tmp_path), 1, treatment.lab)[0]

    little = _plan(tmp_path)
    assert memory(with_time(little, "virtual")) == "mem=2000M"
    command = "[[workload]]\nkind = 'command'\nname = 'it'\nrun = ['true']\n"
    assert memory(with_time(_plan(tmp_path, command), "virtual")) == "mem=4000M"
    said = _plan(tmp_path, '[lab]\nmemory = "3GiB"\n')
    assert memory(with_time(said, "virtual")) == "mem=3072M"
    by_option = with_time(said, "virtual", memory_bytes=1 << 30)
    assert memory(by_option) == "mem=1024M"
    assert by_option.overrides == {"lab.time": "virtual", "lab.memory": "1024mib"}
    assert guest_bytes_of(by_option) == 1 << 30
    with pytest.raises(UserError, match=r"lab\.memory: is for virtual time: add --virtual-time"):
        with_time(said)
    with pytest.raises(UserError, match="--guest-memory: is for virtual time: add --virtual-time, or leave it out"):
        with_time(little, memory_bytes=1 << 30)
    assert main(["shell", "--guest-memory", "80gib", "--", "true"]) == 2


@pytest.mark.parametrize(
    ("limits", "number"),
    [
        ({}, 8),
        ({"a/cpu.max": "300000 100000"}, 3),
        ({"a/cpu.max": "max 100000", "cpu.max": "50000 100000"}, 1),
        ({"a/memory.max": f"{5 * USUAL_GUEST_BYTES}"}, 5),
        ({"memory.max": "max"}, 8),
    ],
)
def test_as_many_guests_run_as_the_limits_of_the_cgroup_allow(
    limits: dict[str, str], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text("0::/a\n")
    for name, text in limits.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    monkeypatch.setattr(guest, "_cgroup_limits", partial(guest._cgroup_limits, root=tmp_path / "cgroup", own=own))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 30}[name])
    assert len(guest.processors()) == number


@pytest.mark.parametrize("place", ["of the machine", "of the cache"])
def test_guests_have_processors_of_their_own(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tools, "FOLDER", tmp_path if place == "of the machine" else tmp_path / "none")
    monkeypatch.setattr(guest, "processors", lambda _: [3, 5])
    monkeypatch.setattr(guest, "_LOOK_S", 0)
    caches = [tmp_path / name for name in ("one", "two")]
    for each in caches:
        (each / "guests").mkdir(parents=True)

    def taken(cache: Path) -> AbstractContextManager[int | None]:
        monkeypatch.setenv("WAVEBED_CACHE", str(cache))
        return guest._processor(iter((False, True)).__next__, None)

    with taken(caches[0]) as first:
        with taken(caches[place == "of the machine"]) as second, taken(caches[0]) as third:
            assert (first, second, third) == (3, 5, None)
        with taken(caches[0]) as again:
            assert again == 5


def test_the_package_of_the_kernel_stands_in_place_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "wavebed_kernel"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "linux").write_bytes(b"kernel")
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(package.parent)
    known = {"release": kernel.release(), "sha256": hashlib.sha256(b"kernel").hexdigest()}
    for wrong in ({"release": "7.2.0-wavebed-0"}, {"sha256": "0" * 64}):
        (package / "kernel.json").write_text(json.dumps(known | wrong))
        assert kernel.find_kernel() is None
    (package / "kernel.json").write_text(json.dumps(known))
    assert kernel.find_kernel() == (package / "linux", kernel.Built(**known))


def _step(at_s: float, number: int = 1, shown: str = "") -> Step:
    return Step(number, "cubic", 7, "running", at_s, 40.0, shown)


def _course(*steps: tuple[Step, float]) -> GuestCourse:
    course = GuestCourse()
    for step, read_s in steps:
        course.add(step, read_s)
    return course


def test_the_host_reads_the_last_step_of_a_guest_and_passes_over_what_is_none(tmp_path: Path) -> None:
    told = Told(tmp_path / PROGRESS)
    assert told.last() is None
    for at_s in (0.5, 1.0):
        tell(tmp_path / PROGRESS, _step(at_s))
    assert told.last() == _step(1.0)
    assert told.last() is None, "nothing is new"
    with (tmp_path / PROGRESS).open("ab") as stream:
        stream.write(b'{"number": 1}\nhalf a li')
        stream.flush()
        assert told.last() is None
        stream.write(b"ne\n")
    tell(tmp_path / PROGRESS, _step(1.5))
    assert told.last() == _step(1.5)
    told.close()
    tell(tmp_path / "absent", _step(2.0))
    assert not (tmp_path / "absent").exists(), "the host makes the file"


def test_progress_has_both_clocks_and_an_estimate_of_real_time() -> None:
    begins = _course((Step(1, "cubic", 7, "set-up"), 100.0))
    assert progress_text([begins], 3, 120.0) == ("trial 1 of 3, 2 min left: set-up, cubic, seed 7", 120.0)
    runs = _course((Step(1, "cubic", 7, "set-up"), 100.0), (_step(2.4), 102.0), (_step(12.4, shown="bulk"), 107.0))
    text, left_s = progress_text([runs], 3, 126.4)
    assert text == "trial 1 of 3, 57 s left: 12.4 s of 40 s, 2 × real time, cubic, seed 7, bulk"
    assert left_s == (126.4 - 12.4) / 2
    other = _course((_step(0.0, 2), 100.0), (_step(5.0, 2), 110.0))
    both = "trials 1, 2 of 3, 40 s left: 12.4 s of 40 s, 5.0 s of 40 s, 2.5 × real time"
    assert progress_text([runs, other], 3, 117.4) == (both, 40.0)


def test_the_speed_of_a_guest_begins_anew_with_its_next_trial() -> None:
    course = _course((_step(0.0), 0.0), (_step(10.0), 10.0), (_step(0.0, 2), 20.0), (_step(10.0, 2), 22.0))
    assert course.speed == 5.0
    course.add(Step(2, "cubic", 7, "analysing"), 30.0)
    assert (course.text(), course.speed) == ("analysing", 5.0)
