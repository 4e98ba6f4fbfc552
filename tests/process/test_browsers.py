"""Browsers: the conversation with one here, and with one on another machine, which ends with the program here."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from playwright.sync_api import Error, sync_playwright
from tests.unit.test_browser_sessions import RealHost, agent, never  # noqa: F401

from wavebed.errors import UserError, WavebedError
from wavebed.workload.browser.agent import ARGUMENTS
from wavebed.workload.browser.far import FarBrowser
from wavebed.workload.web import device_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.lab.protocol import Host
    from wavebed.workload.browser.remote import BrowserAgent


HEAD = "import json, sys\nhear = lambda: json.loads(sys.stdin.readline())\n"
SAY = "print(json.dumps({'result': 1}), flush=True)\n"


def test_one_that_ends_says_its_last_line(agent: Callable[[str], BrowserAgent]) -> None:
    with pytest.raises(WavebedError, match="the_agent ended: no display"):
        agent("import sys\nsys.exit('no display')").result(threading.Event(), never)


def test_what_is_told_after_its_end_goes_nowhere(agent: Callable[[str], BrowserAgent]) -> None:
    """The numbers of its pipes may be those of other files by then."""
    one = agent(f"{HEAD}hear()\n{SAY}")
    assert one.result(threading.Event(), never)
    one.close()
    one.close()
    pipes = [os.pipe() for _ in range(4)]
    one.tell({"stop": True})
    for reading, writing in pipes:
        os.close(writing)
        assert os.read(reading, 100) == b""
        os.close(reading)


def test_messages_may_come_in_pieces_and_together(agent: Callable[[str], BrowserAgent]) -> None:
    one = agent("import json\nprint(json.dumps({'a': 'x' * 200_000}) + '\\n' + json.dumps({'b': 2}), flush=True)")
    assert len(str(one.hear(60)["a"])) == 200_000
    assert one.hear(60) == {"b": 2}


ECHO = """#!/bin/sh
read -r line <&3
echo "$1 heard $line" >&4
echo "words of the browser" >&2
exit 7
"""


class Far:
    """A host whose programs run on this machine; its Chromium is a script."""

    name = "server"

    def __init__(self, chromium: Path) -> None:
        self.chromium = chromium
        self.started: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def program(self, _: str) -> str:
        return str(self.chromium)

    def start(self, argv: list[str], **given: Any) -> subprocess.Popen[bytes]:
        del given["confined"]
        process = subprocess.Popen(argv, start_new_session=True, **given)
        self.started.put(process)
        return process


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Far, FarBrowser]]:
    host = Far(tmp_path / "browser")
    browser = FarBrowser(cast("Host", host), [])
    yield host, browser
    browser.close()
    assert not Path(str(browser.settings()["chromium"])).parent.exists()


def start(browser: FarBrowser, errors: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the stand-in as Playwright starts Chromium; return it, and the ends of its pipes."""
    told, tell = os.pipe()
    heard, answers = os.pipe()
    moves = "a, b = map(int, sys.argv[1:3]); os.dup2(a, 13); os.dup2(b, 14); os.dup2(13, 3); os.dup2(14, 4)"
    code = f"import os, sys; {moves}; os.execv(sys.argv[3], sys.argv[3:])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WAVEBED_BROWSER": socket_of(browser)}
    program = str(browser.settings()["chromium"])
    with errors.open("wb") as log:
        stand_in = subprocess.Popen(
            [sys.executable, "-c", code, str(told), str(answers), program, "--flag"],
            pass_fds=(told, answers),
            stderr=log,
            env=environment,
        )
    os.close(told)
    os.close(answers)
    return stand_in, tell, heard


def socket_of(browser: FarBrowser) -> str:
    return str(Path(str(browser.settings()["chromium"])).parent / "socket")


def test_it_has_the_command_line_and_the_pipes_and_its_end_is_told(far: tuple[Far, FarBrowser], tmp_path: Path) -> None:
    host, browser = far
    host.chromium.write_text(ECHO)
    host.chromium.chmod(0o755)
    stand_in, tell, heard = start(browser, tmp_path / "errors")
    os.write(tell, b"hello\n")
    assert os.read(heard, 100) == b"--flag heard hello\n"
    assert os.read(heard, 100) == b"", "the pipe ends with the browser"
    assert stand_in.wait(60) == 7
    assert (tmp_path / "errors").read_bytes() == b"words of the browser\n"
    os.close(tell)
    os.close(heard)


def test_it_ends_when_its_stand_in_is_killed(far: tuple[Far, FarBrowser], tmp_path: Path) -> None:
    host, browser = far
    host.chromium.write_text("#!/bin/sh\necho up >&4\nexec sleep 60\n")
    host.chromium.chmod(0o755)
    stand_in, tell, heard = start(browser, tmp_path / "errors")
    assert os.read(heard, 100) == b"up\n"
    stand_in.kill()
    stand_in.wait(60)
    process = host.started.get(timeout=60)  # a program may speak before the thread that started it goes on
    assert process.wait(60) == -signal.SIGKILL
    os.close(tell)
    os.close(heard)


def test_a_browser_that_is_not_started_is_told_to_who_drives_it(far: tuple[Far, FarBrowser], tmp_path: Path) -> None:
    host, browser = far
    host.start = lambda *_, **__: (_ for _ in ()).throw(OSError("no memory"))  # type: ignore[method-assign]
    stand_in, tell, heard = start(browser, tmp_path / "errors")
    assert stand_in.wait(60) == 1
    assert b"no memory" in (tmp_path / "errors").read_bytes()
    os.close(tell)
    os.close(heard)


def test_the_last_list_of_features_that_are_off_names_those_of_all_lists(tmp_path: Path) -> None:
    """Chromium obeys the last list alone, and Playwright has one too."""
    arguments, browser = tmp_path / "arguments", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {arguments}\n')
    browser.chmod(0o755)
    with sync_playwright() as playwright, pytest.raises(Error):
        playwright.chromium.launch(executable_path=browser, args=ARGUMENTS, headless=True)
    head = "--disable-features="
    lists = [set(line.removeprefix(head).split(",")) for line in arguments.read_text().splitlines() if head in line]
    assert len(lists) >= 2
    assert set().union(*lists) == lists[-1]


def test_the_devices_of_playwright_are_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = device_options("Pixel 5", "web", tmp_path)
    assert described["is_mobile"] is True
    assert "default_browser_type" not in described
    monkeypatch.setattr("playwright.sync_api.sync_playwright", lambda: pytest.fail("the driver starts again"))
    assert device_options("Pixel 5", "web", tmp_path) == described
    with pytest.raises(UserError, match=r"^workload web: device: .*Pixel 5"):
        device_options("Pixel 55", "web", tmp_path)


def test_a_broken_file_of_devices_is_made_again(tmp_path: Path) -> None:
    device_options("Pixel 5", "web", tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert device_options("Pixel 5", "web", tmp_path)["is_mobile"] is True
    assert file.read_bytes() == whole


def test_no_page_of_the_address_bar_computes_beside_the_tested_one() -> None:
    """A hidden one has a renderer of its own, which costs as much as that of a small page."""
    asked = {"filter": [dict[str, object]()]}  # of every type
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS, headless=True, chromium_sandbox=False
        )
        browser.new_page().goto("data:text/html,<p>tested")
        found = browser.new_browser_cdp_session().send("Target.getTargets", asked)["targetInfos"]
        browser.close()
    assert {each["type"] for each in found} == {"page", "tab"}
