"""What ``wavebed shell`` writes, wherever it is told to: the summary, the series, the captures; and whoever listens."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from wavebed._core import find_core

if TYPE_CHECKING:
    from pathlib import Path

OLD = "what was there"
WAVEBED = [sys.executable, "-m", "wavebed"]


def shell(folder: Path, *options: str, command: str = "true") -> subprocess.CompletedProcess[str]:
    argv = [*WAVEBED, "shell", "--rate", "10mbit", *options, "--", "sh", "-c", command]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def is_summary(text: str) -> bool:
    return {"links", "departures", "name"} <= set(json.loads(text))


def node(path: Path, minor: int) -> Path:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    return path


def standard_output(folder: Path) -> Path:
    """Make what ``/dev/stdout`` is: a writer that replaces it must not take that of the machine."""
    link = folder / "stdout"
    link.symlink_to("/proc/self/fd/1")
    return link


# ---- --summary ----


def test_a_summary_replaces_a_file_at_once_and_touches_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "s.json"
    target.write_text(OLD)
    target.chmod(0o640)
    for name in ("s.part", "s.json.part", ".s.json.partial"):
        (tmp_path / name).symlink_to("victim")
    (tmp_path / "victim").write_text(OLD)
    with target.open() as before:
        assert shell(tmp_path, "--summary", "s.json").returncode == 0
        assert before.read() == OLD
    assert is_summary(target.read_text())
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert (tmp_path / "victim").read_text() == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".s.json.partial", "s.json", "s.json.part", "s.part", "victim",
    ]  # fmt: skip


def test_a_full_device_is_one_line_and_the_status_says_so(tmp_path: Path) -> None:
    node(tmp_path / "full", 7)
    done = shell(tmp_path, "--summary", "full")
    assert done.returncode == 1
    assert f"wavebed-core: summary_file: {tmp_path}/full: No space left on device" in done.stderr


def test_standard_output_can_be_named(tmp_path: Path) -> None:
    done = shell(tmp_path, "--summary", str(standard_output(tmp_path)), command="echo {}")
    assert done.returncode == 0
    first, _, rest = done.stdout.partition("\n")
    assert first == "{}"
    assert is_summary(rest)


def test_a_fifo_gets_the_summary_if_it_has_a_reader(tmp_path: Path) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    assert shell(tmp_path, "--summary", "fifo").returncode == 0
    reader.join(60)
    assert is_summary(read[0])
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_a_fifo_that_nobody_reads_ends_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = shell(tmp_path, "--summary", "fifo")
    assert done.returncode == 1
    assert f"summary_file: {tmp_path}/fifo: nothing has read it for 10 s" in done.stderr


# ---- --log and --pcap ----


@pytest.mark.parametrize(
    ("option", "name"),
    [("--log", "radio.down.csv"), ("--log", "departures.server-client.up.csv"), ("--pcap", "radio.down.in.pcapng")],
)
@pytest.mark.parametrize("thing", ["link", "fifo", "device"])
def test_only_regular_files_are_written_in_a_folder_of_logs(tmp_path: Path, option: str, name: str, thing: str) -> None:
    assert shell(tmp_path, option, "logs").returncode == 0
    target = tmp_path / "logs" / name
    target.unlink()
    victim = tmp_path / "victim"
    victim.write_text(OLD)
    if thing == "link":
        target.symlink_to(victim)
    elif thing == "fifo":
        os.mkfifo(target)
    else:
        node(target, 3)
    before = target.lstat().st_mode
    done = shell(tmp_path, option, "logs")
    assert done.returncode == 1
    assert f"cannot write {target}: something that is not a regular file has this name" in done.stderr
    assert (target.lstat().st_mode, victim.read_text()) == (before, OLD)


# ---- whoever listens ----


@pytest.mark.parametrize(
    "redirection", ["2>/dev/full", "2>&-", "2>&1 | true", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"]
)
def test_the_summary_is_there_and_the_status_right_whoever_listens(tmp_path: Path, redirection: str) -> None:
    argv = f"{sys.executable} -m wavebed shell --summary s.json -- sh -c 'exit 7' {redirection}"
    done = subprocess.run(
        ["bash", "-c", f"{argv}; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 7
    assert is_summary((tmp_path / "s.json").read_text())
    assert "panicked" not in done.stderr


def test_the_summary_is_there_when_the_terminal_is_closed(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    argv = [*WAVEBED, "shell", "--summary", "s.json", "--", "sh", "-c", "echo ready >ready; sleep 300"]
    run = subprocess.Popen(["setsid", "--ctty", *argv], cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < end, "its command runs"
            time.sleep(0.01)
        os.close(controller)
        run.wait(60)
    finally:
        run.kill()
        run.wait()
    assert is_summary((tmp_path / "s.json").read_text())


@pytest.mark.parametrize("words", ["list", "list --json", "doctor", "doctor --json"])
def test_what_the_core_cannot_print_is_one_line(words: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{find_core()} {words} >/dev/full"], capture_output=True, text=True, timeout=60, check=False
    )
    # With no laboratory to list, nothing is printed.
    assert (done.returncode, "panicked" in done.stderr) == (0 if words == "list" and not done.stderr else 1, False)


# ---- a disk that is full ----


@pytest.fixture
def small(tmp_path: Path):
    """A file system of 100 kB, three quarters of it taken."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", folder], check=True)
    try:
        (folder / "filler").write_bytes(bytes(96 << 10))
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("option", ["--summary", "--log", "--pcap"])
def test_a_full_disk_is_one_line_and_the_status_says_so(small: Path, option: str) -> None:
    if option == "--summary":
        (small / "filler").write_bytes(bytes(100 << 10))
    target = small / ("s.json" if option == "--summary" else "logs")
    done = shell(small, option, str(target), command="ping -q -i 0.002 -s 1000 -c 100 server")
    assert "No space left on device" in done.stderr
    assert "panicked" not in done.stderr + done.stdout
    # Segments that are missing in a capture are a doubt; packets went on all the same.
    assert done.returncode == (0 if option == "--pcap" else 1)
    if option == "--summary":
        assert [path.name for path in small.iterdir()] == ["filler"]


def test_a_process_that_is_killed_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    """The summary goes to a FIFO that is not read; the kill comes while it waits."""
    os.mkfifo(tmp_path / "fifo")
    argv = [*WAVEBED, "shell", "--summary", "fifo", "--", "sh", "-c", "echo ready >ready"]
    run = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < end, "its command runs"
            time.sleep(0.01)
        time.sleep(0.3)
        run.send_signal(signal.SIGKILL)
        run.wait(60)
    finally:
        run.kill()
        run.wait()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "ready"]
