"""Trials in virtual time: the same bytes in each run, on a busy machine, without a privilege; and what a kill leaves.

The guest kernel comes from the cache. Without one, the tests build it, which takes minutes. They are skipped only if
the archive has its source no more.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wavebed
from wavebed._core import find_core
from wavebed.virtual.guest import (
    OUTPUT,
    GuestFolder,
    guest_folder,
    kernel_arguments,
    readable,
    run_guest,
    starter_arguments,
    task_json,
)
from wavebed.virtual.kernel import SourceMissingError, build, kernel_folder, needed_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)

PING = """
title = "ping"
[path]
rate = "100mbit"
delay = "10ms"
[[workload]]
kind = "latency"
duration = "1s"
"""
CUBIC = """
title = "one flow"
[path]
rate = "20mbit"
delay = "10ms"
packet-log = true
[[workload]]
kind = "bulk"
duration = "2s"
"""
GONE_S = 30.0


@pytest.fixture(scope="module")
def kernel() -> Path:
    """Return the folder of the guest kernel, which is built if it is not in the cache."""
    try:
        build(None, print, len(os.sched_getaffinity(0)))
    except SourceMissingError as missing:
        pytest.skip(f"needs the guest kernel: {missing}")
    return kernel_folder()


@pytest.fixture
def cache(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of the test's own, with the kernel."""
    folder = tmp_path / "cache"
    shutil.copytree(kernel, folder / "kernel" / kernel.name)
    monkeypatch.setenv("WAVEBED_CACHE", str(folder))
    return folder


def _started(scenario: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    file = folder.with_suffix(".toml")
    file.write_text(scenario)
    command = [sys.executable, "-m", "wavebed", "run", str(file), "--virtual-time", "-o", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _ended(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate()
    assert process.returncode == 0, said


def _files(folder: Path) -> dict[str, bytes]:
    trials = folder / "trials"
    return {str(file.relative_to(trials)): file.read_bytes() for file in trials.rglob("*") if file.is_file()}


def _assert_same(first: Path, second: Path) -> None:
    one, other = _files(first), _files(second)
    assert one.keys() == other.keys()
    assert not [name for name, content in one.items() if other[name] != content]


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep every processor busy beside the test."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def test_ping_has_the_delay_of_the_path_and_two_runs_are_the_same(cache: Path, tmp_path: Path, busy: None) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for process in [_started(PING, folder, "--trials", "1") for folder in folders]:  # both at once
        _ended(process)
    _assert_same(*folders)
    results = wavebed.load(folders[0])
    (trial,) = results.record.trials  # type: ignore[union-attr]
    assert (trial.verdict, trial.reasons) == ("valid", [])
    spec = json.loads((folders[0] / "trials" / trial.folder / "spec.json").read_text())
    assert spec["lab"] == {"kind": "namespaces", "time": "virtual"}
    sent = (folders[0] / "trials" / trial.folder / "raw/latency/ping.txt.gz").read_bytes()
    least, _, most, deviation = gzip.decompress(sent).decode().splitlines()[-1].split(" = ")[1].split()[0].split("/")
    assert 20.0 < float(least) <= float(most) < 20.1, "milliseconds"
    assert float(deviation) < 0.01
    run = json.loads((folders[0] / "run.json").read_text())
    assert run["versions"]["kernel"] == needed_kernel()[1].release
    assert run["overrides"] == {"lab.time": "virtual"}


def test_two_runs_of_a_flow_are_the_same_and_another_seed_is_not(cache: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        _ended(_started(CUBIC, folder, "--trials", "2"))
    _assert_same(*folders)
    names = {name.split("/", 1)[1] for name in _files(folders[0])}
    assert {"series/links.parquet", "series/departures.parquet", "series/packets.parquet"} <= names


def _processes_in(folder: Path) -> list[str]:
    """Return the processes whose working folder is below a folder: all of a guest."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.readlink().is_relative_to(folder):
                found.append(place.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("victim", ["front", "kernel"])
def test_a_kill_leaves_no_process_and_the_next_run_removes_the_folder(victim: str, cache: Path, tmp_path: Path) -> None:
    process = _started(CUBIC.replace("2s", "60s"), tmp_path / "killed", "--trials", "1")
    guests = cache / "guests"
    deadline = time.monotonic() + 120
    while not list(guests.glob(".new-*/out/log")):
        assert time.monotonic() < deadline, "the guest starts"
        time.sleep(0.1)
    time.sleep(1)  # somewhere in the trial, or before it
    if victim == "front":
        process.kill()
    else:
        (kernel,) = [each for each in _processes_in(guests) if "linux" in Path(f"/proc/{each}/comm").read_text()]
        os.kill(int(kernel), signal.SIGKILL)
    said, _ = process.communicate()
    deadline = time.monotonic() + GONE_S
    while _processes_in(guests):
        assert time.monotonic() < deadline, _processes_in(guests)
        time.sleep(0.1)
    if victim == "kernel":
        assert process.returncode == 1
        assert "the guest of virtual time ended early: its kernel was killed by signal 9" in said
    time.sleep(1.1)  # a younger folder may belong to a guest that begins
    with guest_folder() as made:
        assert list(guests.glob(".new-*")) == [made.folder]
    assert not list(guests.glob(".new-*"))


def _guest_of_nobody(folder: Path, core: Path, command: list[str]) -> str:
    """Run a command in a guest of a user without any privilege, and return what it printed."""
    made = GuestFolder(folder)
    for each in (made.input, made.output, folder / "uml"):
        each.mkdir(parents=True)
    (folder / "init").symlink_to(core)
    (folder / "guest.json").write_bytes(task_json(made, command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}))
    for each in (folder, *folder.rglob("*")):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    kernel, _ = needed_kernel()
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
    starter = starter_arguments(made, min(os.sched_getaffinity(0)), [*readable([str(core)]), str(kernel)])
    done = subprocess.run(
        [*drop, "--bounding-set=-all", str(core), *starter, "--", str(kernel), *kernel_arguments(made, 1)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (made.output / "status").exists(), done.stdout
    text = (made.output / "log").read_text()
    assert (made.output / "status").read_text() == "0", text
    return text


def test_a_user_without_privileges_makes_laboratories_in_a_guest(cache: Path, open_folder: Path) -> None:
    core = open_folder / "wavebed-core"
    shutil.copy(find_core(), core)
    report = json.loads(_guest_of_nobody(open_folder / "guest", core, [str(core), "doctor", "--json"]))
    assert report["can_run"], report
    names = {each["name"]: each["status"] for each in report["checks"]}
    assert names["namespaces"] == "ok"


@pytest.fixture
def open_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder, with the cache in it, that every user can reach: pytest's own are closed."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="wavebed-test-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        shutil.copytree(cache / "kernel", folder / "cache" / "kernel")
        monkeypatch.setenv("WAVEBED_CACHE", str(folder / "cache"))
        yield folder


HOSTILE = """
echo x >/etc/wavebed-hostile
mkdir /host; mount -t hostfs none /host -o {outside} && echo mounted
chmod 777 /host; echo x >/host/file
echo x >{inside}/allowed
cat {outside}/name
cat {home}/name {settings} /etc/hostname
ls {home}
tr '\\0' '\\n' </proc/1/environ
"""


def test_a_guest_writes_to_its_folder_alone_and_reads_no_secret(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, home = tmp_path / "outside", tmp_path / "home"
    for each in (outside, home):
        each.mkdir(mode=0o700)
        (each / "name").write_text(f"what is in {each.name}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SECRET", "a-secret-of-the-environment")
    closed = next(each for each in Path("/etc").rglob("*shadow") if not each.stat().st_mode & 0o004)
    with guest_folder() as folder:
        command = HOSTILE.format(outside=outside, inside=OUTPUT, home=home, settings=closed)
        run_guest(folder, ["sh", "-c", command], 1)
        said = (folder.output / "log").read_text()
        assert (folder.output / "allowed").read_text() == "x\n"
    assert "mounted" not in said
    assert "what is in outside" in said, "it reads what is in no home"
    for secret in ("what is in home", "root:", "a-secret-of-the-environment"):
        assert secret not in said
    assert Path("/etc/hostname").read_text().strip() in said
    assert [each.name for each in outside.iterdir()] == ["name"]
    assert outside.stat().st_mode & 0o777 == 0o700
    assert not Path("/etc/wavebed-hostile").exists()


def test_random_numbers_and_the_date_follow_from_the_seed(cache: Path) -> None:
    told = []
    for seed in (1, 1, 2):
        with guest_folder() as folder:
            command = ["sh", "-c", "date +%s; od -An -N16 -tx8 /dev/urandom; ip -br link"]
            assert run_guest(folder, command, seed) == 0
            told.append((folder.output / "log").read_text())
    assert told[0] == told[1] != told[2]
    assert told[0].startswith("1798761610\n"), "ten seconds after the start"
    assert "lo " in told[0]
