"""The Debian package: built, installed, run as its units say, removed and purged, on a copy of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wavebed._core import find_edge

ROOT = Path(__file__).parents[2]
TRIAL = Path(__file__).with_name("package_trial.py")
INIT = ROOT / "edge/packaging/openwrt/wavebed-edge.init"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package of the program that the tests use."""
    folder = tmp_path_factory.mktemp("package")
    # Its size is not judged.
    environment = os.environ | {"DEB_COMPRESSION": "1"}
    argv = [ROOT / "scripts/debian-package", find_edge(), folder]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def trial(package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the trial in namespaces of its own, which end with it."""
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*namespaces, sys.executable, str(TRIAL), str(package), str(tmp_path_factory.mktemp("copy"))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_package_has_the_version_of_the_workspace(trial: dict[str, Any]) -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert trial["installed"]["version"] == version
    assert trial["installed"]["program"] == f"wavebed-edge {version}\n"


def test_its_configuration_files_stay_the_administrators(package: Path) -> None:
    done = subprocess.run(["dpkg-deb", "--info", package, "conffiles"], capture_output=True, text=True, check=True)
    names = ("splitter.toml", "syn.conf", "tunnel/example.toml.sample")
    assert done.stdout.split() == [f"/etc/wavebed-edge/{name}" for name in names]


def test_the_installation_adds_a_user_and_starts_nothing(trial: dict[str, Any]) -> None:
    installed = trial["installed"]
    assert 0 < installed["uid"] < 1000
    assert not installed["running"]
    assert "var/lib/wavebed-edge" in installed["files"]
    places = ("etc/wavebed-edge", "usr/bin/wavebed-edge", "usr/lib/systemd/system/", "usr/share/doc/", "var/lib/")
    accounts = {"etc/passwd", "etc/shadow", "etc/group", "etc/gshadow"}
    assert all(file in accounts or file.startswith(places) for file in installed["files"]), installed["files"]


def test_systemd_takes_its_units(trial: dict[str, Any]) -> None:
    assert trial["verified"] == ""


def test_the_splitter_runs_as_its_unit_says(trial: dict[str, Any]) -> None:
    splitter = trial["splitter"]
    assert splitter["said"] == "listening 127.0.0.1:5000\n"
    assert splitter["uid"] == trial["installed"]["uid"]
    assert splitter["status"] == 0
    assert not splitter["rules after TERM"]


def test_the_tunnel_runs_as_its_unit_says(trial: dict[str, Any]) -> None:
    assert "10.99.0.0/24 dev wbt0" in trial["tunnel"]["routes"]
    assert trial["tunnel"]["status"] == 0


def test_early_connection_requests_run_as_their_unit_says(trial: dict[str, Any]) -> None:
    assert trial["syn"] == {"status": 0, "restored": True}


def test_the_removal_takes_the_rules_of_a_killed_splitter_and_keeps_the_configuration(trial: dict[str, Any]) -> None:
    assert trial["splitter"]["rules after KILL"]
    assert trial["removed"]["packet rules"] == ""
    assert "usr/bin/wavebed-edge" not in trial["removed"]["files"]
    assert "etc/wavebed-edge/splitter.toml" in trial["removed"]["files"]
    assert "var/lib/wavebed-edge/test.key" in trial["removed"]["files"]


def test_a_purge_leaves_no_file_user_rule_link_or_setting(trial: dict[str, Any]) -> None:
    assert trial["purged"] == {"files": [], "changed": {}}


def test_openwrt_starts_what_is_configured(tmp_path: Path) -> None:
    """The init script with stand-ins for the functions of procd, which print their arguments."""
    configuration = tmp_path / "wavebed-edge"
    (configuration / "tunnel").mkdir(parents=True)
    script = INIT.read_text()
    assert script.startswith("#!/bin/sh /etc/rc.common\n")
    folder, program = "CONFIGURATION=/etc/wavebed-edge", "PROGRAM=/usr/sbin/wavebed-edge"
    assert folder in script
    assert program in script
    script = script.replace(folder, f"CONFIGURATION={configuration}").replace(program, "PROGRAM=echo")
    stand_ins = "".join(
        f'{name}() {{ echo {name} "$@"; }}\n'
        for name in ("procd_open_instance", "procd_set_param", "procd_close_instance")
    )

    def started() -> list[str]:
        argv = ["sh", "-euc", stand_ins + script + "\nstart_service\nservice_stopped\n"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert started() == []
    (configuration / "splitter.toml").touch()
    (configuration / "tunnel/site.toml").touch()
    (configuration / "syn.conf").write_text('OPTIONS="--interval 50ms"\n')
    lines = started()
    commands = [line.removeprefix("procd_set_param command ") for line in lines if " command " in line]
    assert commands == [
        f"echo splitter --config {configuration}/splitter.toml",
        f"echo tunnel --config {configuration}/tunnel/site.toml",
        "echo syn --interval 50ms",
    ]
    assert [line for line in lines if "open_instance" in line] == [
        f"procd_open_instance {name}" for name in ("splitter", "tunnel-site", "syn")
    ]
    assert lines[-1] == f"splitter --config {configuration}/splitter.toml rules --remove-own"
