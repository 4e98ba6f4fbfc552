"""The rules of the folders: a test that uses more than its folder has fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
CONFTEST = """
from pathlib import Path
from tests import needs
needs.TESTS = Path(__file__).parent / "tests"
needs.NOISE = 0.01
def pytest_configure(config):
    config.pluginmanager.register(needs.Needs())
"""
USES = """
import multiprocessing, os, socket, subprocess, threading, time
import pytest

def test_computes():
    assert socket.socketpair()

def test_process():
    subprocess.run(["true"])

def test_fork():
    if os.fork() == 0:
        os._exit(0)

def test_port():
    socket.create_server(("127.0.0.1", 0)).close()

def test_connection():
    socket.socket().connect_ex(("127.0.0.1", 9))

def test_sleep():
    time.sleep(0.01)

def test_sleep_of_a_thread():
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()

def test_late():
    pytest.skip("inconclusive: the machine was late")

def test_long():
    began = time.process_time()
    while time.process_time() < began + 1.1:
        pass
"""
ALL = {name.partition("(")[0] for name in USES.split("def test_")[1:]}


@pytest.fixture(autouse=True)
def rules(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the tests of a made-up folder to the rules."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "python")]))
    pytester.makeconftest(CONFTEST)


@pytest.mark.parametrize(
    ("folder", "fails"),
    [
        ("unit", ALL - {"computes"}),
        ("validation", ALL - {"computes", "long"}),
        ("process", {"late"}),
        ("lab", {"late"}),
        ("browser", {"late"}),
        ("measure", set()),
    ],
)
def test_a_test_that_uses_more_than_its_folder_has_fails(
    folder: str, fails: set[str], pytester: pytest.Pytester
) -> None:
    (pytester.path / "tests" / folder).mkdir(parents=True)
    (pytester.path / "tests" / folder / "test_uses.py").write_text(USES)
    done = pytester.run(sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider")
    failed = {line.partition("::test_")[2].partition(" ")[0] for line in done.outlines if line.startswith("FAILED ")}
    assert failed == fails


def test_a_test_outside_the_folders_is_an_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "tests" / "others").mkdir(parents=True)
    (pytester.path / "tests" / "others" / "test_it.py").write_text("def test_it(): pass")
    done = pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*tests are in unit, validation, process*, not in others"])
