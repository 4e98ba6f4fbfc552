"""What the doctor says of programs, packages and AppArmor, and its table."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wavebed
from wavebed import remedy, shipped
from wavebed.cli import doctor
from wavebed.cli.doctor import apparmor_check, apparmor_profile
from wavebed.extras import EXTRAS, PACKAGES
from wavebed.forward.kind import ForwardingTest
from wavebed.lab import tools
from wavebed.remedy.model import EDGE
from wavebed.run.scenario import read_plan
from wavebed.virtual import kernel
from wavebed.workload import KINDS, kind_of, read_workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syrupy.assertion import SnapshotAssertion

ROOT = Path(__file__).parents[2]
SOURCES = Path(wavebed.__file__).parent


@pytest.fixture(autouse=True)
def _no_apparmor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.apparmor_check, "__defaults__", (tmp_path / "no-such-setting",))


@pytest.fixture
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "find_kernel", lambda: None)
    monkeypatch.setattr(tools, "missing", list)
    monkeypatch.setattr(doctor, "absent", lambda modules: [PACKAGES[module] for module in modules])


@pytest.fixture
def _all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        return f"{name} 1.0 {'with a library, ' * 9}"

    built = kernel.Built("7.2.12-wavebed", "0" * 64)
    monkeypatch.setattr(kernel, "find_kernel", lambda: (Path("linux"), built))
    monkeypatch.setattr(tools, "missing", lambda _: [])
    monkeypatch.setattr(tools, "version", version)
    monkeypatch.setattr(doctor, "absent", lambda _: [])
    monkeypatch.setattr(doctor, "_with_version", lambda module: f"{PACKAGES[module]} 1.0")


def _restricted(folder: Path, core: str = "/opt/wave bed/bin/wavebed-core") -> doctor.DoctorCheck:
    setting = folder / "apparmor_restrict_unprivileged_userns"
    setting.write_text("1\n")
    return apparmor_check(core, {"namespaces": "fail"}, setting)


def test_apparmor_has_two_remedies_to_type(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    check = _restricted(tmp_path)
    assert check["status"] == "warn"
    assert check["found"] == snapshot
    assert check["remedy"] == snapshot


@pytest.mark.parametrize("text", ["0\n", None])
def test_apparmor_without_the_restriction_is_well(text: str | None, tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    if text is not None:
        setting.write_text(text)
    assert apparmor_check("core", {}, setting)["status"] == "ok"


def test_a_user_whose_laboratory_works_has_been_allowed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "setting"
    setting.write_text("1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert apparmor_check("core", {"namespaces": "ok"}, setting)["status"] == "ok"
    assert apparmor_check("core", {"namespaces": "fail"}, setting)["status"] == "warn"


def _words(folder: Path) -> set[str]:
    """Return every string in the code of a package."""
    return {
        node.value
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _first_of_commands(folder: Path) -> set[str]:
    """Return the programs that a package runs by a list that begins with a name, or finds by name."""
    found: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 2:
                first, *others = [part.value if isinstance(part, ast.Constant) else None for part in node.elts]
                options = [part for part in others if isinstance(part, str) and re.match(r"--?\w", part)]
                if isinstance(first, str) and re.fullmatch(r"[a-z0-9]+", first) and options:
                    found.add(first)
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "find",
                "find_program",
                "program",
            ):
                given = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                found.update(word for word in given if isinstance(word, str))
    return found


def _declared() -> set[str]:
    return {program.name for kind in KINDS for program in kind_of(kind).programs}


def _of_remedies() -> set[str]:
    return {program for kind in remedy.KINDS for program in remedy.kind_of(kind).programs} - {EDGE}


def test_what_workloads_run_is_declared_by_one_of_them() -> None:
    run = _first_of_commands(SOURCES / "workload")
    assert run >= {"ip", "npm", "iperf3", "chromium", "openssl"}, "the search finds them"
    assert run <= _declared() | {"nice", "sh", "req"}  # `req` is a command of openssl


def test_what_the_forwarding_test_runs_is_declared() -> None:
    run = _first_of_commands(SOURCES / "forward")
    assert run >= {"ip", "taskset", "ssh", "snmpget", "iperf3"}, "the search finds them"
    assert run <= set(ForwardingTest.programs)
    assert set(ForwardingTest.programs) <= _words(SOURCES / "forward")


def test_every_program_has_a_package_and_a_user() -> None:
    assert _declared() | _of_remedies() | set(ForwardingTest.programs) == set(tools.PACKAGES)


def test_what_remedies_run_is_declared() -> None:
    run = _first_of_commands(SOURCES / "remedy")
    assert run >= {"ip", "haproxy", "openssl"}, "the search finds them"
    assert run <= _of_remedies() | {"req", "syn", "tunnel"}  # of openssl, and of wavebed-edge


def packages_of(variable: str) -> dict[str, str]:
    """Return the package of each program in a variable of the Makefile."""
    text = re.search(rf"^{variable} := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert text is not None
    words = text[1].replace("\\\n", " ").split()
    found = dict(word.split("=") for word in words if "=" in word)
    return found | {
        name: package for word in words if "=" not in word for name, package in packages_of(word[2:-1]).items()
    }


def test_the_makefile_installs_what_workloads_and_the_forwarding_test_run() -> None:
    pairs = packages_of("RUN_PROGRAMS")
    of_other_machines = {"ssh", "snmpget"}
    of_comparisons = {"haproxy", "mptcpize", "sing-box"}  # those who compare remedies install them
    left_out = of_other_machines | of_comparisons
    assert pairs == {name: package for name, package in tools.PACKAGES.items() if name not in left_out}


def test_the_makefile_installs_for_the_demo_what_its_scenario_runs() -> None:
    plan = read_plan(shipped.folder() / "demo.toml")
    workloads = [each for treatment in plan.treatments for each in treatment.workloads]
    needed = {name for each in workloads for name in each.needed_programs()}
    assert packages_of("DEMO_PROGRAMS") == {name: tools.PACKAGES[name] for name in needed}


@pytest.mark.parametrize(
    ("kind", "changed", "needed"),
    [
        ("latency", {"probe": "icmp"}, ["ping"]),
        ("latency", {"probe": "both"}, ["ping", "irtt"]),
        ("latency", {"probe": "udp", "rpm": True}, ["irtt", "curl", "nginx", "openssl"]),
        ("web", {"protocol": "h3", "tls": True}, ["chromium", "ip", "caddy", "openssl"]),
        ("web", {"protocol": "http/1.1", "tls": False}, ["chromium", "ip", "nginx"]),
        ("download", {"protocol": "h2"}, ["nginx", "curl", "openssl"]),
        ("download", {"protocol": "http/1.1"}, ["nginx", "curl"]),
        ("download", {"names": "resolver"}, ["nginx", "curl", "ip", "dnsmasq", "unshare"]),
        (
            "web",
            {"names": "resolver", "tls": False, "protocol": "http/1.1"},
            ["chromium", "ip", "nginx", "dnsmasq", "unshare"],
        ),
    ],
)
def test_a_workload_needs_what_its_keys_say(kind: str, changed: dict[str, object], needed: Sequence[str]) -> None:
    given = {"site": "google"} | changed if kind == "web" else changed
    assert read_workload({"kind": kind, **given}).needed_programs() == needed


def test_every_option_that_decides_on_a_program_exists() -> None:
    for kind in KINDS:
        options = kind_of(kind).options_type.__struct_fields__
        assert {program.option for program in kind_of(kind).programs if program.option} <= set(options)
    assert {kind_of(kind).extra for kind in KINDS} <= {"", *EXTRAS}


def test_the_shipped_profile_is_the_one_that_the_doctor_prints(tmp_path: Path) -> None:
    lines = (ROOT / "packaging/apparmor/wavebed-core").read_text().splitlines()
    shipped = [line for line in lines if not line.startswith("#")]
    places = "/{usr,usr/local,opt,opt/**,home/*/**,root/**}/bin/wavebed-core"
    assert shipped == list(apparmor_profile(places))
    assert re.search(r"/etc/apparmor\.d/wavebed-core$", lines[2])
