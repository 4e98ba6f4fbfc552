"""Another user takes names of laboratories, before, while and after they run: nothing leaks, each name can be used."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.ui_client import page_server

import wavebed
from wavebed.errors import UserError
from wavebed.lab.protocol import LaboratoryGoneError
from wavebed.path.control import connect_to, running

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTEMPTS = 100
WITH_LABORATORY = 10
UID = os.geteuid()


class Thief:
    """The other user's process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("name_thief.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        self.send(command)
        return self.answer()

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def thief() -> Iterator[Thief]:
    if UID != 0:
        pytest.fail("this test takes the part of another user: run it as root")
    made = Thief()
    yield made
    made.close()


def test_a_hundred_attempts_to_steal_a_name_leak_nothing(thief: Thief) -> None:
    """As `wavebed ctl` and the Python interface see them; every tenth with a laboratory that is killed."""
    for attempt in range(ATTEMPTS):
        name = f"prod-{attempt}"
        assert thief.ask(f"bind wavebed/{UID}/{name}") == "ok"
        assert thief.ask(f"bind wavebed/{UID}/{name}/{secrets.token_hex(16)}") == "ok"
        if attempt % (ATTEMPTS // WITH_LABORATORY) == 0:
            with_laboratory(thief, name)
        else:
            assert name not in [lab.name for lab in running()]
            with pytest.raises(UserError, match="is no running laboratory"):
                connect_to(name)
        assert thief.ask("bytes") == "0"
        assert thief.ask("release") == "ok"


def with_laboratory(thief: Thief, name: str) -> None:
    """Use a name that the thief has, then kill the laboratory while the thief waits for the name."""
    with wavebed.Path.of(rate="10mbit").up(name=name) as lab:
        (found,) = [each for each in running() if each.name == name]
        assert thief.ask(f"bind {found.socket}") == "taken"
        with connect_to(name) as connection:
            assert connection.ask({"do": "show"})["name"] == name
        thief.send(f"steal {found.socket}")
        os.kill(lab.pid, signal.SIGKILL)
        assert thief.answer() == "ok"
        assert name not in [each.name for each in running()]
        with pytest.raises(LaboratoryGoneError):
            lab.client.run(["true"], env={"SECRET": "secret"})
        with pytest.raises(LaboratoryGoneError):
            lab.show()
        with pytest.raises(UserError, match="is no running laboratory"):
            connect_to(name)


def ctl(*words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "wavebed", "ctl", *words)
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_names_with_control_characters_are_not_listed(thief: Thief) -> None:
    random = secrets.token_hex(16)
    assert thief.ask(f"bind wavebed/{UID}/evil\x1b[2J/{random}") == "ok"
    assert thief.ask(f"bind wavebed/65534/evil\x1b[2J/{random}") == "ok"
    assert thief.ask(f"bind wavebed/65534/fine/{random}") == "ok"
    told = ctl("--all-users").stdout
    assert "\x1b" not in told
    assert "evil" not in told
    # The other user's own laboratory is root's to see: the listener is who its name says.
    assert "fine" in told


def test_root_speaks_with_no_laboratory_of_another_user_unless_told_to(thief: Thief) -> None:
    """Not `ctl`, and never the page or its metrics; with `--all-users` nonsense is one line."""
    name = "another-users"
    assert thief.ask(f"bind wavebed/65534/{name}/{secrets.token_hex(16)}") == "ok"
    assert name not in ctl().stdout
    for words in ((name,), (name, "show"), (name, "set", "rate=1mbit"), (name, "timeline")):
        refused = ctl(*words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert (
            f"{name!r} is no running laboratory: `wavebed ctl` lists those that are, with --all-users" in refused.stderr
        )
    with page_server() as client:
        assert name not in client.get("/api/labs").body.decode()
        assert client.get(f"/api/labs/{name}").status == 404
        assert client.get("/metrics").status == 200
        assert client.send("PATCH", f"/api/labs/{name}/links", {"rate": "1mbit"}).status == 404
    assert thief.ask("bytes") == "0"
    assert thief.ask("answer [1,2") == "ok"
    told = ctl("--all-users", name)
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert f"laboratory {name!r} sent no answer of this version" in told.stderr


def test_a_name_that_another_user_has_too_is_ones_own(thief: Thief) -> None:
    with wavebed.Path.of(rate="10mbit").up(name="mine-and-his"):
        assert thief.ask(f"bind wavebed/65534/mine-and-his/{secrets.token_hex(16)}") == "ok"
        for words in (("mine-and-his",), ("--all-users", "mine-and-his")):
            assert ctl(*words).returncode == 0
    assert thief.ask("bytes") == "0"
