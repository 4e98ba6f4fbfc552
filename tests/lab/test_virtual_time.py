"""Trials in virtual time: the same bytes in each run, on a busy machine, without a privilege; and what a kill leaves.

The guest kernel comes from the cache. Without one, the tests build it, which takes minutes. They are skipped only if
the archive has its source no more.
"""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wavebed
from wavebed._core import find_core
from wavebed.errors import UserError, WavebedError
from wavebed.path.control import connect, connect_to, running
from wavebed.path.live import apply_change, change_request, show, state
from wavebed.path.watch import Watch
from wavebed.result.names import COMPUTING_FILE, INPUTS_FILE
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
LINK = """
[path]
rate = "20mbit"
delay = "10ms"
packet-log = true
"""
WORKLOADS = {
    "page": '[[workload]]\nkind = "web"\nsite = "google"\nprotocol = "http/1.1"\ntls = false\nlimit = "20s"\n',
    "video": '[[workload]]\nkind = "video"\nduration = "4s"\nsegment = "2s"\nlimit = "20s"\n',
    "download": '[[workload]]\nkind = "download"\nsize = "1mb"\nprotocol = "h2"\n',
    "command": """
[[workload]]
kind = "command"
name = "python"
run = ["python3", "-c", "import random, time; print('drawn =', random.random()); print('now =', time.time())"]
parser = "key-value"
[[workload]]
kind = "command"
name = "iperf3"
run = ["iperf3", "-4", "-c", "{server}", "-p", "{port}", "-t", "1", "-J"]
server-run = ["iperf3", "-s", "-1", "-p", "{port}"]
parser = "iperf3"
""",
}
SCENARIOS = {name: f'title = "{name}"\n{LINK}{text}' for name, text in WORKLOADS.items()}


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
    compiled = bytecode()
    shutil.copytree(compiled, folder / "bytecode" / compiled.name)
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
    apart = (COMPUTING_FILE, INPUTS_FILE)
    files = [file for file in trials.rglob("*") if file.is_file() and file.name not in apart]
    return {str(file.relative_to(trials)): file.read_bytes() for file in files}


def _differing(first: Path, second: Path, but: tuple[str, ...] = ()) -> list[str]:
    one, other = _files(first), _files(second)
    assert one.keys() == other.keys()
    return [name for name, content in one.items() if other[name] != content and not name.endswith(but)]


def _assert_same(first: Path, second: Path, but: tuple[str, ...] = ()) -> None:
    assert not _differing(first, second, but)


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
    assert (spec["lab"]["time"], spec["lab"]["processor"]) == ("virtual", "exact")
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


def _on_terminal(scenario: str, folder: Path) -> str:
    """Run a scenario as `_started`, with a terminal as its standard error, and return what it shows there."""
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
    scenario = CUBIC.replace("2s", "10s")
    said = _on_terminal(scenario, tmp_path / "watched")
    assert re.search(r"trial 1 of 1: \d+\.\d s of 10\.5 s, [0-9.e+-]+ × real time, about .* left", said), said
    _ended(_started(scenario, tmp_path / "unwatched", "--trials", "1"))
    _assert_same(tmp_path / "watched", tmp_path / "unwatched")


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
    process = _started(CUBIC.replace("2s", "8s").replace("20mbit", "4mbit"), tmp_path / "first", "--trials", "1")
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
    _ended(process)
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


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_guests_give_the_same_files(name: str, cache: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for process in [_started(SCENARIOS[name], folder, "--trials", "1") for folder in folders]:  # both at once
        _ended(process)
    _assert_same(*folders)
    (trial,) = wavebed.load(folders[0]).record.trials  # type: ignore[union-attr]
    assert (trial.verdict, trial.reasons) == ("valid", [])


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
    process = _started(CUBIC.replace("2s", "60s"), tmp_path / "asked", "--trials", "1")
    _laboratory_in_a_guest(process, cache)
    process.send_signal(asked)
    process.communicate()
    assert process.returncode == 128 + asked
    assert _processes_in(cache / "guests") == []
    assert not list((cache / "guests").glob(".new-*"))
    assert (tmp_path / "asked/run.json").exists()


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
    _assert_same(*folders)


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
    assert "up to 4000 MiB, with --guest-memory or `memory` in [lab]" in said


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


def _shell(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    folder.mkdir()
    (folder / "note").write_text("read\n")
    command = [sys.executable, "-m", "wavebed", "shell", "--virtual-time", "--delay", "10ms", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False)


def test_a_command_in_a_shell_prints_the_same_in_each_run_and_its_files_are_kept(cache: Path, tmp_path: Path) -> None:
    pattern = tmp_path / "rates.csv"
    pattern.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 2\ntime_s,rate_bps\n0,5000000\n1,9000000\n")
    line = "cat note; ping -c 3 -i 1 server; date; echo lost >note; exit 7"
    options = ("--trace", str(pattern), "--summary", "s.json", "--pcap", "pcap", "--log", "log", "--", "sh", "-c", line)
    first, second = (_shell(tmp_path / name, *options) for name in ("one", "two"))
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (7, second.stdout), first.stderr
    assert first.stdout.startswith(b"read\nPING server")
    assert b"3 packets transmitted, 3 received, 0% packet loss, time 200" in first.stdout, "a second between two"
    assert b"2027" in first.stdout
    assert b"delivered 3" in first.stderr
    assert (tmp_path / "one/note").read_text() == "read\n", "what the command writes is in memory"
    summary = json.loads((tmp_path / "one/s.json").read_text())
    assert [link["delivered_segments"] for link in summary["links"]] == [3, 3]
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*.*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".pcapng", ".csv"}
    assert [name for name in files if _exact(tmp_path / "two" / name) != _exact(tmp_path / "one" / name)] == []


def _exact(file: Path) -> object:
    """Return what is the same in each run: of a summary all but how long the programs computed on the host."""
    if file.name != "s.json":
        return file.read_bytes()
    return {key: value for key, value in json.loads(file.read_text()).items() if key != "host_cpu_ns"}


def test_a_pattern_from_a_pipe_and_a_scene_come_along(cache: Path, tmp_path: Path) -> None:
    pattern = "# wavebed pattern 1\\n# kind = steps\\n# duration_s = 2\\ntime_s,rate_bps\\n0,5000000\\n1,9000000\\n"
    for path in (f"--trace <(printf '{pattern}')", "--scene street-canyon-bus"):
        line = f"{sys.executable} -m wavebed shell {path} --virtual-time -- ping -c 1 server"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "1 packets transmitted, 1 received" in done.stdout, done.stderr


SUITE = """
    import os, time
    import pytest

    @pytest.mark.wavebed(delay="20ms", seeds=2)
    def test_it(lab):
        began = time.monotonic()
        lab.client.run(["ping", "-c", "2", "server"], check=True)
        lab.record("took", time.monotonic() - began, "s")
        assert lab.seed == 1
        assert lab.client.call(where) == "client"

    def where():
        return os.environ["WAVEBED_HOST"]
"""


def test_a_test_of_pytest_runs_in_a_guest_and_its_reports_and_results_come_out(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/test_it.py").write_text(textwrap.dedent(SUITE))
    words = ["-p", "no:cacheprovider", "-p", "pytest_wavebed.plugin", "--wavebed-virtual-time"]
    for name in ("one", "two"):
        command = [sys.executable, "-m", "pytest", *words, "--wavebed-report=never", f"--wavebed-dir={tmp_path / name}"]
        done = subprocess.run(command, cwd=tmp_path / "suite", capture_output=True, text=True, check=False)
        assert "1 failed, 1 passed" in done.stdout, done.stdout
        assert "assert 2 == 1" in done.stdout
    runs = [tmp_path / name for name in ("one", "two")]
    for one in runs[0].iterdir():
        # The processor time of all programs has that of pytest, which looks at folders of this machine.
        _assert_same(one, runs[1] / one.name, but=("trial.json", "cpu.parquet"))
        (trial,) = (one / "trials").iterdir()
        assert json.loads((trial / "spec.json").read_text())["lab"]["time"] == "virtual"
        (took,) = [
            each["value"]
            for each in json.loads((trial / "trial.json").read_text())["metrics"]
            if each["name"] == "took"
        ]
        assert 1.0 < took < 1.2, "a second between two, and a round trip"


SCRIPT = """
import json, sys, time
import wavebed

def measure(lab, count):
    print("on the", lab.client.name)
    began = time.monotonic()
    lab.client.run(["ping", "-c", str(count), "server"], capture_output=True, check=True)
    return {"took": time.monotonic() - began}

def refuse(lab):
    raise ValueError("refused")

if __name__ == "__main__":
    path = wavebed.Path.of(delay="20ms", seed=3)
    for name in ("first", "second"):
        kept = {"log": f"../{name}", "summary": f"../{name}.json"}
        print(json.dumps(wavebed.virtual_time(path, measure, 2, **kept)))
    for function in (refuse, lambda lab: None):
        try:
            wavebed.virtual_time(path, function)
        except wavebed.errors.WavebedError as error:
            print(error)
"""


def test_a_function_of_a_script_runs_in_a_guest(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "script"  # the interpreter lists it: what the first call leaves is not in it
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert lines[0] == lines[2] == "on the client", done.stderr
    assert lines[1] == lines[3]
    assert 1.0 < json.loads(lines[1])["took"] < 1.2
    assert lines[4] == "ValueError: refused"
    assert "'<lambda>': cannot be imported by another process" in lines[5]
    assert 'raise ValueError("refused")' in done.stderr
    files = sorted(file.name for file in (tmp_path / "first").iterdir())
    assert "radio.down.csv" in files
    assert not [
        name for name in files if (tmp_path / "first" / name).read_bytes() != (tmp_path / "second" / name).read_bytes()
    ]


def test_a_check_allows_for_the_computing_of_its_programs(cache: Path, tmp_path: Path) -> None:
    line = f"ping -c 1 $WAVEBED_SERVER; {sys.executable} -c 'for _ in range(3 * 10**7): pass'"
    options = ["--delay", "1ms", "--seeds", "1", "--virtual-time", "--require", "wall time every < 0.1 s", "--json"]
    command = [sys.executable, "-m", "wavebed", "check", *options, "-o", "out", "--", "sh", "-c", line]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    (trial,) = (tmp_path / "out/trials").iterdir()
    required = found["requirements"][1]
    assert required["value"] < 0.1, "computing takes no time"
    assert (done.returncode, required["outcome"]) == (3, "inconclusive"), done.stderr
    assert "which virtual time leaves out: decide with --real-time" in required["reasons"][0]
    computed_ns = int(json.loads((trial / COMPUTING_FILE).read_text())["total_ns"])
    assert found["trials"][0]["computed_s"] == computed_ns / 1e9


def test_a_check_runs_a_program_that_failed_once_since_it_would_fail_again(cache: Path, tmp_path: Path) -> None:
    options = ["--delay", "1ms", "--seeds", "1", "--virtual-time", "-o", "out"]
    command = [sys.executable, "-m", "wavebed", "check", *options]
    line = "ping -c 1 $WAVEBED_SERVER; exit 3"
    done = subprocess.run([*command, "--", "sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert [trial.name for trial in (tmp_path / "out/trials").iterdir()] == ["0001-as-described"]


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


PLAYED = """
import subprocess, sys
sys.exit(subprocess.call(["curl", "-s", "-o", "/dev/null", "--", sys.argv[1]]))
"""


def _wavebed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wavebed", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_trial_of_a_block_is_repeated_alone_to_the_byte(cache: Path, tmp_path: Path) -> None:
    treatments = "".join(f'[[treatment]]\nname = "{each}"\nset = {{ "path.delay" = "{each}ms" }}\n' for each in (5, 9))
    _ended(_started(PING + treatments, tmp_path / "run", "--trials", "1"))
    second = next((tmp_path / "run/trials").glob("0002-*"))
    done = _wavebed("rerun", second, "-o", tmp_path / "again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"identical to {second}: "), done.stdout
    assert "series/links.parquet" in done.stdout.splitlines()[-1]
    files = json.loads((second / INPUTS_FILE).read_text())["files"]
    assert {"ping", "libc.so.6"} <= {Path(name).name for name in files}
    spec = json.loads((second / "spec.json").read_text())
    (second / "spec.json").write_text(json.dumps(spec | {"seed": spec["seed"] + 1}))
    other = _wavebed("rerun", second, "-o", tmp_path / "other")
    assert other.returncode == 1
    assert f"differs from {second}:\n  inputs: none differs\n  first difference: " in other.stdout


def test_a_bundle_is_repeated_without_the_users_files_and_stops_where_a_packet_was_lost(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "play.py").write_text(PLAYED)
    (user / "page").write_bytes(bytes(300_000))
    monkeypatch.chdir(user)
    path = ("--rate", "5mbit", "--delay", "10ms", "--queue", "droptail:8p", "--packet-log", "--virtual-time")
    asked = ("--seeds", "1", "--require", "path.dropped down every = 0 segments", "-o", tmp_path / "check")
    served = (
        "--server",
        "python3 -m http.server {port}",
        "--",
        "python3",
        user / "play.py",
        "http://{server}:{port}/page",
    )
    failed = _wavebed("check", *path, *asked, *served)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    (bundle,) = (tmp_path / "check/bundles").iterdir()
    assert f"bundle: {bundle}: " in failed.stderr
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(user)
    refused = _wavebed("rerun", bundle, "-o", tmp_path / "refused")
    assert "then add --trust" in refused.stderr
    done = _wavebed("rerun", bundle, "--trust", "-o", tmp_path / "again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"identical to {bundle}: "), done.stdout
    stopped = _wavebed("rerun", bundle, "--trust", "--until-late", "-o", tmp_path / "stopped")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    lines = stopped.stdout.splitlines()
    assert lines[0].startswith("stopped at ")
    assert lines[1].startswith("packet: ")
    assert "towards the client" in lines[1]
    assert lines[1].endswith("dropped at radio.down: overflow")
    (queue,) = [line for line in lines if line.startswith("radio.down") and "packets" in line]
    assert "5 Mbit/s" in queue
    assert int(queue.split()[1]) >= 8, "the queue is full when it drops"
    assert "cubic" in stopped.stdout
    assert re.fullmatch(r"exact: [0-9]+ rows of the packet log up to there are those of the first run", lines[-1])
