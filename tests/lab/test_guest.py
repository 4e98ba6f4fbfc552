"""The guest of virtual time: what it may do, how it ends, its clock, and its channel to the host."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.lab.guests import CUBIC, assert_same, ended, started

from wavebed._core import find_core
from wavebed.errors import UserError, WavebedError
from wavebed.path.control import Watch, connect, connect_to, running
from wavebed.path.live import apply_change, change_request, show, state
from wavebed.virtual.channel import ANSWERS, MAPS, STATE
from wavebed.virtual.guest import (
    OUTPUT,
    GuestFolder,
    bytecode,
    guest_folder,
    kernel_arguments,
    readable,
    run_guest,
    starter_arguments,
    task_json,
)
from wavebed.virtual.kernel import needed_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)

GONE_S = 30.0


def _on_terminal(scenario: str, folder: Path) -> str:
    """Run a scenario as `started`, with a terminal as its standard error, and return what it shows there."""
    file = folder.with_suffix(".toml")
    file.write_text(scenario)
    command = [sys.executable, "-m", "wavebed", "run", str(file), "--virtual-time", "-o", str(folder), "--trials", "1"]
    primary, secondary = pty.openpty()
    said = b""
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=secondary, env=variables) as process:
        os.close(secondary)
        with suppress(OSError):  # EIO: the command has closed it
            while piece := os.read(primary, 1 << 16):
                said += piece
        assert process.wait() == 0, said
    os.close(primary)
    return said.decode()


def test_a_terminal_shows_both_clocks_and_changes_nothing(cache: Path, tmp_path: Path) -> None:
    scenario = CUBIC.replace("2s", "30s").replace("20mbit", "4mbit")
    said = _on_terminal(scenario, tmp_path / "watched")
    assert re.search(r"trial 1 of 1, .* left: \d+\.\d s of 30\.5 s, [0-9.e+-]+ × real time", said), said
    ended(started(scenario, tmp_path / "unwatched", "--trials", "1"))
    assert_same(tmp_path / "watched", tmp_path / "unwatched")


def _laboratory_in_a_guest(process: subprocess.Popen[str], cache: Path) -> str:
    """Wait for the laboratory of a run in this cache, and for the begin of its time; return its name."""
    while True:
        if process.poll() is not None:
            pytest.fail(f"no laboratory was listed: {process.communicate()[0]}")
        mine = {f"virtual-{folder.name.removeprefix('.new-')}" for folder in (cache / "guests").glob(".new-*")}
        for lab in running():
            if lab.name in mine and (connection := connect(lab)) is not None:
                with connection, suppress(WavebedError):
                    if show(connection)["zero_ns"] is not None:
                        return lab.name
        time.sleep(0.02)


def test_a_laboratory_in_a_guest_is_watched_and_changed_and_a_rerun_repeats_that(cache: Path, tmp_path: Path) -> None:
    process = started(CUBIC.replace("2s", "30s").replace("20mbit", "4mbit"), tmp_path / "first", "--trials", "1")
    name = _laboratory_in_a_guest(process, cache)
    with connect_to(name) as connection:
        apply_change(connection, "rate", change_request("rate", "2mbit"))
        assert {each.rate_bps for each in state(connection).links} <= {2_000_000, 4_000_000}
        with pytest.raises(UserError, match="none"):
            apply_change(connection, "none.down.rate", change_request("none.down.rate", "3mbit"))
    watch = Watch(connect_to(name))
    assert watch.head.every_ms == 1000
    assert len({json.dumps(watch.next().links) for _ in range(2)}) == 2
    watch.close()
    ended(process)
    assert not [lab for lab in running() if lab.name == name]
    (trial,) = (tmp_path / "first/trials").iterdir()
    changes = [json.loads(line) for line in (trial / "changes.jsonl").read_text().splitlines()]
    assert [each["request"]["value"] for each in changes] == [2_000_000, 3_000_000]
    assert all(each["at_ns"] % 1_000_000_000 == 0 for each in changes)
    command = [sys.executable, "-m", "wavebed", "rerun", str(trial), "-o", str(tmp_path / "again")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"identical to {trial}: "), last
    assert "changes.jsonl" in last


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


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_end_ends_its_guest_first(asked: signal.Signals, cache: Path, tmp_path: Path) -> None:
    process = started(CUBIC.replace("2s", "60s"), tmp_path / "asked", "--trials", "1")
    _laboratory_in_a_guest(process, cache)
    process.send_signal(asked)
    process.communicate()
    assert process.returncode == 128 + asked
    assert _processes_in(cache / "guests") == []
    assert not list((cache / "guests").glob(".new-*"))
    assert (tmp_path / "asked/run.json").exists()


@pytest.mark.parametrize("victim", ["front", "kernel"])
def test_a_kill_leaves_no_process_and_the_next_run_removes_the_folder(victim: str, cache: Path, tmp_path: Path) -> None:
    process = started(CUBIC.replace("2s", "60s"), tmp_path / "killed", "--trials", "1")
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
    for each in (made.input, made.output, made.given, folder / "uml"):
        each.mkdir(parents=True)
    (folder / "init").symlink_to(core)
    (folder / "guest.json").write_bytes(task_json(made, bytecode(), command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}))
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


REFUSE = """
import ctypes, os, struct, sys
refused = {"personality": 135, "pivot_root": 155, "mount": 165, "umount2": 166}
refused |= {"unshare": 272, "setns": 308, "bpf": 321}
code = struct.pack("HBBI", 0x20, 0, 0, 0)
for number in refused.values():
    code += struct.pack("HBBI", 0x15, 0, 1, number)
    code += struct.pack("HBBI", 0x06, 0, 0, 0x50001)
code += struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
kept = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept))
libc = ctypes.CDLL(None)
assert libc.prctl(22, 2, program) == 0, "seccomp"
assert libc.personality(0x40000) == -1, "ADDR_NO_RANDOMIZE"
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""What Docker's filter refuses of what a laboratory or the kernel of a guest asks for."""


def test_two_runs_without_any_right_are_the_same(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(CUBIC)
    drop = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", sys.executable, "-c", REFUSE]
    folders = [tmp_path / "first", tmp_path / "second"]
    line = 'mount -t tmpfs none /dev/net && test ! -e /dev/net/tun && exec "$@"'
    for folder in folders:
        asked = ["run", "flow.toml", "--trials", "1", "--virtual-time", "-o", folder.name]
        command = ["unshare", "--mount", "sh", "-c", line, "sh", *drop, sys.executable, "-m", "wavebed", *asked]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert_same(*folders)


HOSTILE = """
echo x >/etc/wavebed-hostile
mkdir /host; mount -t hostfs none /host -o {outside} && echo mounted
chmod 777 /host; echo x >/host/file
echo x >{inside}/allowed
cat {outside}/name
cat {home}/name {settings} /etc/hostname
ls {home}
tr '\\0' '\\n' </proc/1/environ
ln -s {home}/name {inside}/link; ln {inside}/allowed {inside}/other; mknod {inside}/device b 254 0
{python} -c '{connect}'
(trap "" TERM HUP INT; setsid sh -c 'trap "" TERM HUP INT; while sleep 1; do date >>{inside}/alive; done' &) </dev/null
sleep 3
"""
CONNECT = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "{path}")):
    try:
        socket.socket(family).connect(address)
        print("connected to", address)
    except OSError as error:
        print("refused:", error)
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
    with guest_folder() as folder, socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(outside / "socket"))
        unix.listen()
        connect = CONNECT.format(port=tcp.getsockname()[1], path=outside / "socket")
        given = {"python": sys.executable, "connect": connect}
        command = HOSTILE.format(outside=outside, inside=OUTPUT, home=home, settings=closed, **given)
        run_guest(folder, ["sh", "-c", command], 1)
        said = (folder.output / "log").read_text()
        assert (folder.output / "allowed").read_text() == "x\n"
        assert {file.name for file in folder.output.iterdir()} == {
            "log",
            "status",
            STATE,
            MAPS,
            ANSWERS,
            "alive",
            "allowed",
        }, said
        assert (folder.output / "alive").read_text().count("2027") in (2, 3), "it lives as long as the guest"
        assert _processes_in(folder.folder) == []
        assert said.count("refused: ") == 2, said
    assert "mounted" not in said
    assert "what is in outside" in said, "it reads what is in no home"
    for secret in ("what is in home", "root:", "a-secret-of-the-environment"):
        assert secret not in said
    assert Path("/etc/hostname").read_text().strip() in said
    assert {each.name for each in outside.iterdir()} == {"name", "socket"}
    assert outside.stat().st_mode & 0o777 == 0o700
    assert not Path("/etc/wavebed-hostile").exists()


FILL = """
mount -t tmpfs -o size=200m none {folder} && cp -r {kernel} {compiled} {folder}/
exec {python} -m wavebed shell --virtual-time -- cat /dev/zero
"""


def test_a_guest_that_fills_the_disk_is_ended(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    monkeypatch.setenv("WAVEBED_CACHE", str(folder))
    line = FILL.format(folder=folder, kernel=cache / "kernel", compiled=cache / "bytecode", python=sys.executable)
    command = ["unshare", "--mount", "sh", "-c", line]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "the guest was ended: less than " in done.stderr.splitlines()[-1]
    assert f"MiB are free on the disk of {folder}: make room" in done.stderr


def test_a_guest_without_memory_says_so_and_names_the_option(cache: Path, tmp_path: Path) -> None:
    hungry = [sys.executable, "-c", "[bytearray(1 << 20) for _ in range(4000)]"]
    command = [sys.executable, "-m", "wavebed", "shell", "--virtual-time", "--guest-memory", "1GiB", "--", *hungry]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    said = done.stderr.splitlines()[-1]
    assert "the guest of virtual time ran out of its memory of 1024 MiB, and its kernel ended (python" in said
    assert "up to 64000 MiB, with --guest-memory or `memory` in [lab]" in said


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


LOOP = """
import sys, threading, time
sys.setswitchinterval(0.001)
flags = []
threading.Thread(target=lambda: (time.sleep(0.001), flags.append(1))).start()
while not flags: pass
print("left after", time.monotonic() < 1000)
"""


def test_a_loop_that_waits_for_another_thread_is_left_and_counted(cache: Path) -> None:
    with guest_folder() as folder:
        look = "cat /sys/module/time/parameters/forced_ticks /sys/module/time/parameters/forced_by"
        assert run_guest(folder, ["sh", "-c", f"{sys.executable} -c '{LOOP}' && {look}"], 1) == 0
        left, ticks, program = (folder.output / "log").read_text().splitlines()
    assert left == "left after True"
    assert int(ticks) > 0
    assert program.startswith("python")


COUNTER = """
import ctypes, mmap, time
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
for name, reading in (("rdtsc", "0f31"), ("rdtscp", "0f01f9")):
    code.seek(0)
    code.write(bytes.fromhex(reading + "48c1e2204809d0c3"))  # shl rdx, 32; or rax, rdx; ret
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    before_ns, counted, after_ns = time.monotonic_ns(), read(), time.monotonic_ns()
    assert before_ns < counted < after_ns, (name, before_ns, counted, after_ns)
"""


def test_the_processors_counter_counts_virtual_nanoseconds(cache: Path) -> None:
    with guest_folder() as folder:
        assert run_guest(folder, [sys.executable, "-c", COUNTER], 1) == 0, (folder.output / "log").read_text()


def test_a_program_reads_the_clock_at_the_price_of_the_kernel_and_its_computing_is_counted(cache: Path) -> None:
    asked = "import time; a, b = time.monotonic_ns(), time.monotonic_ns(); print(b - a); sum(range(3 * 10**7))"
    with guest_folder() as folder:
        assert run_guest(folder, ["sh", "-c", f"{sys.executable} -c '{asked}'; cat /proc/$$/host_cpu_ns"], 1) == 0
        reading_ns, computed_ns = map(int, (folder.output / "log").read_text().split())
    assert reading_ns == 256
    assert computed_ns > 20_000_000, "of the host"
