"""The command line of laboratories and bridges: what it hands to the core, refuses and shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.test_bridge_command import PORTS

from wavebed._core import find_core
from wavebed.cli import main
from wavebed.errors import MachineError, UserError
from wavebed.path.launch import clean_environment
from wavebed.path.live import change_request

CORE = """#!/bin/sh
test "$1" = lab || exit 9
echo "proxy ${http_proxy:-none}"
cat "$2"
exit 42
"""


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "core"
    program.write_text(CORE)
    program.chmod(0o755)
    monkeypatch.setenv("WAVEBED_CORE", str(program))
    return program


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wavebed", "shell", *arguments]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


def test_the_command_becomes_the_core_and_gives_its_status(core: Path) -> None:
    done = shell("--rate", "10mbit", "--server", "iperf3 -s", "--name", "mine", "--", "curl", "-v", "--", "x")
    assert done.returncode == 42, done.stderr
    laboratory = json.loads(done.stdout.partition("\n")[2])
    assert laboratory["name"] == "mine"
    assert laboratory["command"] == {"host": "client", "argv": ["curl", "-v", "--", "x"], "confined": False}
    assert laboratory["background"] == [{"host": "server", "argv": ["/bin/sh", "-c", "iperf3 -s"], "confined": False}]
    assert laboratory["confine"] is None
    assert laboratory["summary_file"] is None


TRACE = "# wavebed pattern 1\n# kind = steps\n# duration_s = 2\ntime_s,rate_bps\n0,5000000\n1,9000000\n"


@pytest.mark.parametrize(
    "command",
    [
        "shell --trace <(cat walk.csv) --print-laboratory",
        "shell --trace=<(cat walk.csv) --queue droptail:50ms --print-laboratory",
        "shell --scenario <(cat walk.toml) --print-laboratory",
        "resolve <(cat walk.toml)",
    ],
)
def test_a_trace_and_a_scenario_may_come_from_a_pipe_of_the_users_shell(tmp_path: Path, command: str) -> None:
    (tmp_path / "walk.csv").write_text(TRACE)
    (tmp_path / "walk.toml").write_text('[path]\ntrace = "walk.csv"\n[[workload]]\nkind = "latency"\nduration = "5s"\n')
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    line = ["bash", "-c", f'"{sys.executable}" -m wavebed {command}']
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=variables)
    assert done.returncode == 0, done.stderr
    assert '"pattern"' in done.stdout


def test_proxies_do_not_come_along(core: Path) -> None:
    done = shell("--", "true", http_proxy="http://localhost:3128", HTTPS_PROXY="x")
    assert done.stdout.startswith("proxy none\n")
    assert clean_environment({"No_Proxy": "a", "HOME": "/"}) == {"HOME": "/"}


def test_without_a_command_the_users_shell_runs(core: Path) -> None:
    done = shell(SHELL="/bin/zsh")
    assert json.loads(done.stdout.partition("\n")[2])["command"]["argv"] == ["/bin/zsh"]


def test_logs_get_a_folder_and_a_summary(core: Path, tmp_path: Path) -> None:
    done = shell("--log", str(tmp_path / "a/b"), "--", "true")
    laboratory = json.loads(done.stdout.partition("\n")[2])
    assert (tmp_path / "a/b").is_dir()
    assert laboratory["log_dir"] == str(tmp_path / "a/b")
    assert laboratory["summary_file"] == str(tmp_path / "a/b/summary.json")


def test_a_converted_trace_can_be_read_by_the_core(core: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.down"
    trace.write_text("1\n2\n2\n5\n")
    core.write_text("#!/bin/sh\ncat /proc/self/fd/3 | head -n 1\n")
    done = shell("--trace", str(trace), "--trace-format", "mahimahi", "--queue", "infinite", "--", "true")
    assert done.stdout == "# wavebed pattern 1\n", done.stderr


def test_the_laboratory_can_be_printed_without_a_core(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_CORE", "/no/such/program")
    assert main(["shell", "--delay", "5ms", "--print-laboratory"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "time stands still at the prompt of a shell: write a command after --"),
        (("--nat", "--", "true"), "nat leads to this machine's network, which has real time: leave the option out"),
        (("--outside-sockets", "open", "--", "true"), "outside-sockets opens sockets of this machine"),
    ],
)
def test_what_virtual_time_cannot_be_is_refused_in_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shell", "--virtual-time", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"wavebed: --virtual-time: {said}")


def test_nothing_heavy_is_imported_for_a_native_path() -> None:
    code = (
        "import sys; from wavebed.cli import main; "
        "main(['shell', '--rate', '1mbit', '--print-laboratory']); "
        "heavy = ['numpy', 'matplotlib', 'asyncio', 'difflib', 'importlib.resources', 'wavebed.cli.help',"
        " 'wavebed.cli.mistakes', 'wavebed.config.suggest']; "
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables)
    assert done.stderr == "[]\n"


def test_the_core_of_the_environment_wins(core: Path) -> None:
    assert find_core() == str(core)


def test_a_wrong_core_is_a_problem_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CORE", "/no/such/program")
    with pytest.raises(MachineError, match="WAVEBED_CORE"):
        find_core()


def test_changes_of_a_running_laboratory() -> None:
    assert change_request("rate", "50mbit") == {"do": "set", "link": None, "key": "rate_bps", "value": 50_000_000}
    assert change_request("radio.up.delay", "5ms") == {
        "do": "set",
        "link": "radio.up",
        "key": "delay_ns",
        "value": 5_000_000,
    }
    assert change_request("loss", "1%")["value"] == 0.01
    outage = {"do": "set", "link": "radio.down", "key": "outage_ns", "value": 2_000_000_000}
    assert change_request("radio.down.outage", "2s") == outage


def test_a_pattern_travels_as_its_text(tmp_path: Path) -> None:
    text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps\n0,1000\n"
    (tmp_path / "p.csv").write_text(text)
    request = change_request("pattern", str(tmp_path / "p.csv"))
    assert (request["key"], request["value"]) == ("pattern", text)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rtae", "1mbit", "rtae: unknown key: did you mean 'rate'"),
        ("radio.rate", "1mbit", "radio.rate: 'radio' is no link: write HOP.down"),
        ("rate", "1", "rate: '1' has no unit"),
        ("loss", "0.1", "loss: '0.1' has no percent sign"),
        ("pattern", "no-such-file", "pattern: no-such-file: no such file"),
    ],
)
def test_a_wrong_change_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        change_request(key, value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ctl", "nobody", "show"], "'nobody' is no running laboratory"),
        (["ctl", "nobody", "set"], "set: requires a change"),
        (["ctl", "nobody", "set", "rate"], "'rate': has no '='"),
        (["ctl", "nobody", "show", "rate=1mbit"], "show takes no more arguments"),
        (["ctl", "nobody", "shw"], "action: 'shw' is not a choice: did you mean 'show'?"),
        (["ctl", "set", "rate=1mbit"], "set: names no laboratory: write wavebed ctl LAB set"),
        (["ctl", "set", "set", "rate=1mbit"], "'set' is no running laboratory"),
    ],
)
def test_a_wrong_use_of_ctl_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAVEBED_LAB", raising=False)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("action", [["show"], ["set", "rate=1mbit"], ["timeline"], ["timeline", "seek", "90s"]])
def test_an_action_without_a_name_concerns_the_laboratory_around_it(
    action: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEBED_LAB", "gone")
    assert main(["ctl", *action]) == 2
    assert "'gone' is no running laboratory" in capsys.readouterr().err


PACKAGING = Path(__file__).parents[2] / "packaging/bridge"
BRIDGE_CORE = """#!/bin/sh
test "$1" = bridge || exit 9
cat "$2"
exit 42
"""


def test_a_bridge_becomes_the_core_and_gives_its_status(tmp_path: Path) -> None:
    program = tmp_path / "core"
    program.write_text(BRIDGE_CORE)
    program.chmod(0o755)
    command = [sys.executable, "-m", "wavebed", "bridge", *PORTS, "--rate", "10mbit", "--name", "mine"]
    command += ["--log", str(tmp_path / "logs"), "--on-failure", "open"]
    path = os.pathsep.join(path for path in sys.path if path)
    variables = os.environ | {"PYTHONPATH": path, "WAVEBED_CORE": str(program)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 42, done.stderr
    bridge = json.loads(done.stdout)
    assert {key: bridge[key] for key in ("name", "a", "b", "force", "on_failure")} == {
        "name": "mine",
        "a": "eth1",
        "b": "eth2",
        "force": False,
        "on_failure": "open",
    }
    assert (tmp_path / "logs").is_dir()
    assert bridge["summary_file"] == str(tmp_path / "logs/summary.json")


def test_systemd_takes_the_unit_and_its_example_is_a_bridge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = (PACKAGING / "wavebed-bridge@.service").read_text()
    assert "ExecStart=wavebed bridge --name %i $OPTIONS" in unit
    copy = tmp_path / "wavebed-bridge@.service"
    # Verified on a machine that has another program in the place of wavebed.
    copy.write_text(unit.replace("ExecStart=wavebed ", "ExecStart=/bin/true "))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    # It speaks of other units of the machine too.
    assert done.returncode == 0, done.stderr
    assert "wavebed-bridge" not in done.stderr
    (options,) = [
        line.removeprefix("OPTIONS=")
        for line in (PACKAGING / "example.conf").read_text().splitlines()
        if line.startswith("OPTIONS=")
    ]
    assert main(["bridge", "--print-bridge", *options.split()]) == 0
    assert json.loads(capsys.readouterr().out)["on_failure"] == "closed"
