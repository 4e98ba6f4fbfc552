"""The sandbox: what passes through it, and that nothing is left of it whichever way it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wavebed._core import find_core
from wavebed.errors import MachineError
from wavebed.forward import sandbox

WITHIN_S = 60.0
"""Longer than any of this takes on a slow machine: what hangs fails."""

BUSY = "ip netns add inner; ip link add wbsandbox type dummy; (trap '' INT TERM HUP; sleep 300) & echo ready; "

TERMINAL = """
import os, sys
os.setsid()
os.close(os.open(os.ttyname(0), os.O_RDWR))
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Takes the terminal on its standard input for its own."""

COUNTING = """
import signal, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print('ready', flush=True)
deadline = time.monotonic() + 50
while not seen and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)
print('seen', len(seen), flush=True)
"""

PLACING = """
import subprocess, sys
from wavebed.forward.sandbox import pin
from wavebed.forward.port import Port
from wavebed.forward.sandbox import napi_instances
for command in ('add wba type veth peer name wbb', 'set wba up', 'set wbb up'):
    subprocess.run(['ip', 'link', *command.split()], check=True)
assert napi_instances('wba') == []
with Port.local('wba') as port:
    assert port.set_offload('rx-gro', on=True)
open('/sys/class/net/wba/threaded', 'w').write('1')
(number,) = napi_instances('wba')
pin(number, int(sys.argv[1]))
print(number, flush=True)
input()
"""


def run(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [find_core(), "sandbox", "--", *command],
        input=text,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def start(script: str, **options: bool) -> subprocess.Popen[str]:
    command = [find_core(), "sandbox", "--", "sh", "-c", script]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=WITHIN_S)
    return process.returncode


def stat_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def descendants(pid: int) -> set[int]:
    """Return the numbers of all processes below one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(stat_of(int(entry.name))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def gone(pids: set[int]) -> bool:
    """Wait until none of the processes is left; one that nobody has taken leave of has ended too."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        left = set()
        for pid in pids:
            try:
                if stat_of(pid)[0] != "Z":
                    left.add(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        if not left:
            return True
        time.sleep(0.02)
    return False


def interfaces() -> set[str]:
    return {entry.name for entry in Path("/sys/class/net").iterdir()}


def test_exit_status_and_standard_streams_pass_through() -> None:
    done = run("sh", "-c", "cat; echo error >&2; exit 7", text="data")
    assert (done.returncode, done.stdout, done.stderr) == (7, "data", "error\n")


def test_the_working_folder_stays(tmp_path: Path) -> None:
    command = [find_core(), "sandbox", "--", "pwd"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert Path(done.stdout.strip()) == tmp_path


def test_the_end_by_a_signal_is_told_as_a_shell_does() -> None:
    assert run("sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


def test_a_program_that_is_not_there_is_one_line_and_status_2() -> None:
    done = run("no-such-program-anywhere")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "wavebed-core: cannot run no-such-program-anywhere: No such file or directory (os error 2)"
    ]


def test_inside_are_an_own_loopback_and_own_process_numbers() -> None:
    done = run("sh", "-c", "ls /sys/class/net; cat /sys/class/net/lo/flags; ls -d /proc/[0-9]* | wc -l; ip netns")
    names, flags, processes = done.stdout.split()
    assert names == "lo"
    assert int(flags, 16) & 1 == 1, "up"
    assert int(processes) < 10
    assert done.returncode == 0


def test_a_namespace_inside_leaves_no_name_outside() -> None:
    # Other tests make files in /run; only namespaces have names there.
    names = Path("/run/netns")
    before = names.exists(), set(names.glob("*"))
    assert run("sh", "-c", "ip netns add inner && ip netns").stdout == "inner\n"
    assert (names.exists(), set(names.glob("*"))) == before
    assert "/run/netns/inner" not in Path("/proc/self/mountinfo").read_text()


def test_when_the_command_ends_all_that_it_left_behind_ends() -> None:
    process = start(BUSY + "read line; exit 3")
    inside = descendants(process.pid)
    assert len(inside) >= 3, "init, the shell, the sleeper"
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert end(process) == 3
    assert gone(inside)


@pytest.mark.parametrize("victim", ["front", "init", "command"])
def test_when_either_end_is_killed_nothing_is_left(victim: str) -> None:
    before = interfaces()
    process = start(BUSY + "wait")
    inside = descendants(process.pid)
    init = min(pid for pid in inside if int(stat_of(pid)[1]) == process.pid)
    command = next(pid for pid in inside if int(stat_of(pid)[1]) == init)
    assert Path(f"/proc/{init}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    os.kill({"front": process.pid, "init": init, "command": command}[victim], signal.SIGKILL)
    status = end(process)
    assert status == {"front": -signal.SIGKILL, "init": 1, "command": 128 + signal.SIGKILL}[victim]
    assert gone(inside)
    assert interfaces() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_front_reaches_the_command(number: signal.Signals) -> None:
    script = f"trap 'exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    process = start(script)
    process.send_signal(number)
    assert end(process) == 9


def test_ctrl_c_in_a_terminal_reaches_the_command_once() -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", TERMINAL, find_core(), "sandbox", "--", sys.executable, "-c", COUNTING]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    asked = False
    deadline = time.monotonic() + WITHIN_S
    while b"\n" not in text.partition(b"seen")[2] and time.monotonic() < deadline:
        text += os.read(ours, 1024)
        if b"ready" in text and not asked:
            asked = True
            os.write(ours, b"\x03")
    os.close(ours)
    process.wait(WITHIN_S)
    assert b"seen 1" in text, text


def test_without_root_a_cell_is_made_in_a_user_namespace_or_the_refusal_is_one_line() -> None:
    if os.geteuid() != 0:
        pytest.skip("every other test here shows it")
    core = Path("/tmp") / f"wavebed-core-{os.getpid()}"  # where any user can run it
    core.write_bytes(Path(find_core()).read_bytes())
    core.chmod(0o755)
    try:
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(core), "sandbox", "--"]
        done = subprocess.run(
            [*command, "sh", "-c", "ip netns add inner && ip netns"],
            cwd="/", capture_output=True, text=True, timeout=WITHIN_S, check=False,
        )  # fmt: skip
    finally:
        core.unlink()
    if done.returncode == 3:
        assert len(done.stderr.splitlines()) == 1
    else:
        assert (done.returncode, done.stdout) == (0, "inner\n")


def in_sandbox(statements: str) -> list[str]:
    """Run Python inside and return the lines that it prints."""
    done = run(sys.executable, "-c", statements)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_only_threads_that_poll_an_interface_are_placed() -> None:
    (line,) = in_sandbox(
        "from wavebed.forward.sandbox import pin\n"
        "from wavebed.errors import MachineError\n"
        "try: pin(1, 0)\n"
        "except MachineError as error: print(error)\n"
    )
    assert line == "napi: no thread napi/…-1 can be seen on this machine"


def test_the_thread_that_polls_an_interface_is_kept_on_a_processor() -> None:
    core = max(os.sched_getaffinity(0))
    command = [find_core(), "sandbox", "--", sys.executable, "-c", PLACING, str(core)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    number = process.stdout.readline().strip()
    names = {}
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            names[entry.read_text().strip()] = int(entry.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    placed = os.sched_getaffinity(names[f"napi/wba-{number}"])
    process.communicate("\n", timeout=WITHIN_S)
    assert placed == {core}


def test_a_command_enters_the_cell_once() -> None:
    (first, second) = in_sandbox(
        "from wavebed.forward import sandbox\nsandbox.enter(['forward'])\nprint(sandbox.inside())\nprint('still here')"
    )
    assert (first, second) == ("True", "still here")


def test_outside_threads_cannot_be_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAVEBED_PIN", raising=False)
    assert not sandbox.inside()
    with pytest.raises(MachineError, match="inside a sandbox only"):
        sandbox.pin(1, 0)


def test_entering_starts_the_same_command_inside(tmp_path: Path) -> None:
    statements = "from wavebed.forward import sandbox; sandbox.enter(['--version'])"
    environment = {key: value for key, value in os.environ.items() if key != "WAVEBED_PIN"}
    done = subprocess.run(
        [sys.executable, "-c", statements],
        capture_output=True, text=True, timeout=WITHIN_S, check=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.startswith("wavebed ")
