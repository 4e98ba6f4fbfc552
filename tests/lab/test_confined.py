"""Programs of workloads can do little harm: as whom they run, what they see, know and leave behind."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.lab.workload_trial import run_scenario

from wavebed.lab.confine import Confined, confined_user, take_back
from wavebed.path.api import Path as EmulatedPath
from wavebed.workload.programs import create, read_end

if TYPE_CHECKING:
    from wavebed.path.lab import LabHost

SCRIPT = Path(__file__).with_name("confined_program.py")
SECRET = "only for the operator"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that tells what it can do, where programs find it; the operator has a home and a secret."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "key").write_text(SECRET)
    (home / "key").chmod(0o600)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPERATORS_SECRET", SECRET)
    return home


def told(host: LabHost, folder: Path, **options: object) -> dict[str, object]:
    """Run the script confined on a host, in a folder that is its own, and return what it tells."""
    done = host.run(
        [sys.executable, "-"],
        input=SCRIPT.read_text().replace("{key}", f"{os.environ['HOME']}/key"),
        capture_output=True,
        cwd=folder,
        confined=Confined(write=[folder], **options),  # type: ignore[arg-type]
    )
    assert done.returncode == 0, done.stderr
    return cast("dict[str, object]", json.loads(done.stdout))


def test_a_confined_program_is_nobody_and_knows_nothing(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    with EmulatedPath.of().up() as lab:
        found = told(lab.server, folder)
        again = told(lab.client, folder)
    assert lab.confined_user == confined_user()
    assert found["ids"] == [confined_user()] * 6
    assert found["groups"] == []
    status = cast("dict[str, str]", found["status"])
    assert {int(status[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert SECRET not in json.dumps(found)
    assert set(cast("dict[str, str]", found["variables"])) <= {
        *("PATH", "LANG", "LANGUAGE", "TERM", "TZ", "HOME", "TMPDIR", "LC_ALL", "LC_CTYPE", "PWD"),
        *("WAVEBED_SERVER", "WAVEBED_SERVER6", "WAVEBED_HOST", "WAVEBED_LAB"),
    }
    assert found["key"] == "FileNotFoundError", "the home is empty"
    assert found["shadow"] == "PermissionError"
    assert found["init"] == "PermissionError", "the laboratory's own variables are not to be read"
    assert found["wrote"] == ["/tmp", "/var/tmp", "/dev/shm", str(folder)]
    assert again["temporary"] == [], "no program sees another's temporary files"
    assert not list(Path("/tmp").glob("left-by-a-confined-program"))


def test_a_confined_program_has_an_account_and_a_home(program: Path) -> None:
    del program
    with EmulatedPath.of().up() as lab:
        done = lab.client.run(
            ["sh", "-c", "whoami; id -gn; getent passwd $(id -u) | cut -d: -f6; cat /etc/passwd"],
            capture_output=True,
            confined=True,
        )
        plain = lab.client.run(["id", "-un"], capture_output=True)
    assert done.stdout.splitlines()[:3] == ["wavebed-confined", "wavebed-confined", "/tmp"], done.stderr
    assert Path("/etc/passwd").read_text() in done.stdout, "those of the machine are there too"
    assert plain.stdout.strip() == pwd.getpwuid(os.geteuid()).pw_name
    assert "wavebed-confined" not in Path("/etc/passwd").read_text()


def test_a_capability_is_had_only_by_the_program_that_names_it(program: Path, tmp_path: Path) -> None:
    with EmulatedPath.of().up() as lab:
        found = told(lab.server, tmp_path, capabilities=("net_admin",))
    status = cast("dict[str, str]", found["status"])
    assert {int(status[key], 16) for key in ("CapPrm", "CapEff", "CapAmb")} == {1 << 12}
    assert int(status["CapBnd"], 16) == 0


def test_a_command_is_confined_unless_the_scenario_says_no(program: Path, tmp_path: Path) -> None:
    line = f"id -u; echo $OPERATORS_SECRET; cat {program}/key"
    keys = f'kind = "command"\nrun = {json.dumps(line)}\nany-status = true\n'
    both = f'[[workload]]\nname = "confined"\n{keys}[[workload]]\nname = "free"\n{keys}confined = false\n'
    raw = run_scenario(f'[path]\nrate = "20mbit"\n{both}', tmp_path / "run").folder / "raw"
    assert (raw / "confined" / "stdout").read_text() == f"{confined_user()}\n\n"
    assert (raw / "free" / "stdout").read_text() == f"0\n{SECRET}\n{SECRET}"


@pytest.mark.parametrize(("protocol", "name"), [("h2", "nginx"), ("h3", "caddy")])
def test_a_web_server_has_no_privileges_and_no_variables_of_the_operator(
    program: Path, tmp_path: Path, protocol: str, name: str
) -> None:
    from wavebed.workload.serve import VirtualHost, make_certificate, start_web_server

    root, folder = tmp_path / "www", tmp_path / "server"
    for each in (root, folder):
        each.mkdir()
    (root / "index.html").write_text("x")
    (root / "index.html").chmod(0o600)
    certificate = make_certificate(tmp_path / "cache", ["server"])
    with EmulatedPath.of().up() as lab:
        site = VirtualHost("server", "*", 443, root)
        server = start_web_server(lab.server, [site], protocol, folder, certificate)  # type: ignore[arg-type]
        files = [f"/proc/{server.process.pid}/{file}" for file in ("status", "environ")]
        seen = lab.server.run(["cat", *files], capture_output=True).stdout
        page = lab.client.run(
            ["curl", "-sS", "--noproxy", "*", "--http2", *certificate.curl_options(), "https://server/"],
            capture_output=True,
        )
        assert page.stdout == "x", page.stderr
    assert f"Name:\t{name}\n" in seen
    assert f"Uid:\t{confined_user()}\t" in seen
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
        assert line in seen
    assert SECRET not in seen
    assert certificate.file.stat().st_mode & 0o077 == 0
    assert "PRIVATE KEY" not in "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


def test_links_and_pipes_that_a_program_left_are_gone_before_anything_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    line = "ln -s /etc/shadow stdout.json; mkfifo pipe; mkdir in; ln -s / in/root; echo x > in/file; chmod 4755 in/file"
    with EmulatedPath.of().up() as lab:
        lab.client.run(["sh", "-c", line], cwd=folder, confined=Confined(write=[folder]), check=True)
        assert (folder / "in" / "file").stat().st_uid == confined_user()
        with pytest.raises(FileExistsError):
            create(folder / "stdout.json")
        assert read_end(folder / "stdout.json") == read_end(folder / "pipe") == ""
    assert sorted(take_back(folder)) == ["in/root", "pipe", "stdout.json"]
    left = [folder, *folder.rglob("*")]
    assert [path.name for path in left] == ["raw", "in", "file"]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in left} == {(os.geteuid(), os.getegid())}
    assert not (folder / "in" / "file").stat().st_mode & stat.S_ISUID


def test_two_programs_on_one_host_do_not_share_their_folders(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
        (folder / "file").write_text("x")
    with EmulatedPath.of().up() as lab:
        lab.client.run(["touch", theirs / "written"], confined=Confined(write=[theirs]), check=True)
        line = f"cat {theirs}/written; touch {theirs}/mine; touch {mine}/written"
        lab.client.run(["sh", "-c", line], capture_output=True, confined=Confined(write=[mine]))
    assert sorted(file.name for file in theirs.iterdir()) == ["file", "written"]
    assert sorted(file.name for file in mine.iterdir()) == ["file", "written"]


def test_shell_confines_its_command_if_it_is_told_to(program: Path, tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    line = "id -u; echo $OPERATORS_SECRET; pwd; cat $0"
    command = [sys.executable, "-m", "wavebed", "shell", "--confine", "--", "sh", "-c", line, str(program / "key")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == f"{confined_user()}\n\n/tmp\n", done.stderr
    assert SECRET not in done.stdout + done.stderr
