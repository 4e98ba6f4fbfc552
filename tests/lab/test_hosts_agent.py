"""The agent of real hosts, started on this machine: files, confinement, and its end with everything inside."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed._core import find_agent
from wavebed.errors import MachineError, UserError
from wavebed.hosts.agent import Agent, HostAddress
from wavebed.hosts.host import AgentHost
from wavebed.lab.confine import Confined
from wavebed.lab.protocol import LaboratoryGoneError, MachineClock

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 60.0


@contextmanager
def agent(*memory: Path) -> Iterator[AgentHost]:
    host = AgentHost("server", HostAddress(), MachineClock(), memory)
    try:
        host.hello({"server": "192.0.2.1"})
        yield host
    finally:
        host.close(WAIT_S)


def output(host: AgentHost, script: str, **more: object) -> str:
    confined = Confined(**more) if more else True  # type: ignore[arg-type]
    return host.run(["sh", "-c", script], capture_output=True, timeout=WAIT_S, confined=confined).stdout


def test_a_program_sees_its_files_at_their_paths_and_writes_nothing_on_the_disk(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "given").write_text("from here")
    with agent(tmp_path) as host:
        assert output(host, f"cat {folder}/given; echo made > {folder}/made", write=[folder]) == "from here"
        assert not (folder / "made").exists(), "it is in memory"
        host.fetch_written(WAIT_S)
    assert (folder / "made").read_text() == "made\n"


def read_bytes() -> int:
    """Return how many bytes this process has read so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_the_holes_of_a_sparse_file_are_neither_read_nor_stored(tmp_path: Path) -> None:
    file = tmp_path / "content" / "large"
    file.parent.mkdir()
    with file.open("wb") as stream:
        stream.truncate(20 << 30)
        stream.seek(10 << 30)
        stream.write(b"middle")
    before = read_bytes()
    with agent(tmp_path) as host:
        script = f"stat -c '%s %b' {file}; dd if={file} bs=1 skip={10 << 30} count=6 2>/dev/null"
        size, blocks, middle = output(host, script, read=[file.parent]).split()
    assert (int(size), middle) == (20 << 30, "middle")
    assert int(blocks) < 1000
    assert read_bytes() - before < 1 << 30


def test_a_confined_program_has_no_rights_and_no_homes(tmp_path: Path) -> None:
    with agent(tmp_path) as host:
        told = output(host, "id -u; ls /home; grep CapEff /proc/self/status; touch /etc/x 2>&1; grep server /etc/hosts")
    assert told.splitlines()[0] not in ("0", "1000")
    assert "0000000000000000" in told
    assert "Read-only file system" in told
    assert "192.0.2.1 server" in told


def test_without_root_programs_run_in_a_user_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (Path("/usr/local/bin") / f"wavebed-agent-{os.getpid()}").open("wb") as copy:
        copy.write(Path(find_agent()).read_bytes())
    program, wrapper = Path(copy.name), tmp_path / "as-nobody"
    program.chmod(0o755)
    wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups {program} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("WAVEBED_AGENT", str(wrapper))
    try:
        # The home of root, which holds this interpreter, is closed to that user.
        with agent(tmp_path / "memory", Path("/root")) as host:
            assert host.run(["id", "-u"], capture_output=True, timeout=WAIT_S, confined=True).stdout.strip() != "65534"
    finally:
        program.unlink()


def test_nothing_outside_the_folders_of_the_trial_is_written(tmp_path: Path) -> None:
    with agent(tmp_path / "memory") as host, pytest.raises(UserError, match="outside the folders of this trial"):
        host.agent.ask({"do": "file", "path": "/etc/wavebed-test", "bytes": 1})
    assert not Path("/etc/wavebed-test").exists()


def test_nothing_is_done_before_the_first_request(tmp_path: Path) -> None:
    host = AgentHost("server", HostAddress(), MachineClock(), [tmp_path])
    with pytest.raises(UserError, match="the first one is hello"):
        host.agent.ask({"do": "run", "argv": ["true"]})
    with pytest.raises(MachineError, match="version"):
        host.agent.hello({"memory": [], "names": [], "version": 99})
    host.close(WAIT_S)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with agent(tmp_path) as host, pytest.raises(UserError, match="no-such-program"):
        host.start(["/usr/bin/no-such-program"])


def test_streams_arrive_whole_and_a_signal_is_told(tmp_path: Path) -> None:
    with agent(tmp_path) as host:
        done = host.run(["sh", "-c", "cat; echo err >&2; kill -9 $$"], capture_output=True, input="x" * 3_000_000)
    assert (done.returncode, len(done.stdout), done.stderr) == (-signal.SIGKILL, 3_000_000, "err\n")


def test_the_input_of_a_program_ends_while_samples_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    ours, theirs = os.pipe()
    with agent(tmp_path) as host:
        process = host.start(["cat"], stdin=ours)
        os.close(ours)
        host.agent.ask({"do": "folder", "path": str(folder)})
        sample = {"folder": str(folder), "host": "server", "zero_ns": time.monotonic_ns()}
        host.agent.ask({"do": "sample", **sample, "flows_ns": 100_000_000, "cpu_ns": 100_000_000})
        os.close(theirs)
        assert process.wait(WAIT_S) == 0
        host.agent.ask({"do": "stop_sampling"})


def test_a_high_status_is_no_signal(tmp_path: Path) -> None:
    with agent(tmp_path) as host:
        assert [host.run(["sh", "-c", f"exit {status}"]).returncode for status in (129, 255)] == [129, 255]


def test_a_signal_reaches_the_descendants_of_a_program(tmp_path: Path) -> None:
    script = "trap 'wait; exit 3' TERM; sleep 3600 & echo ready; wait"
    with agent(tmp_path) as host, (tmp_path / "said").open("wb") as said:
        process = host.start(["sh", "-c", script], stdout=said)
        end_s = time.monotonic() + WAIT_S
        while (tmp_path / "said").read_text() != "ready\n" and time.monotonic() < end_s:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 3


@pytest.mark.parametrize("victim", ["front", "init"])
def test_a_killed_agent_takes_its_programs_along(tmp_path: Path, victim: str) -> None:
    with agent(tmp_path) as host:
        process = host.start(["sh", "-c", f"exec sleep 98765.{os.getpid()}"], confined=True)
        front = host.agent._process.pid
        init = int(Path(f"/proc/{front}/task/{front}/children").read_text().split()[0])
        os.kill(front if victim == "front" else init, signal.SIGKILL)
        with pytest.raises(LaboratoryGoneError):
            process.wait(WAIT_S)
        end_s = time.monotonic() + WAIT_S
        while subprocess.run(["pgrep", "-f", f"98765.{os.getpid()}"], check=False, capture_output=True).stdout:
            assert time.monotonic() < end_s
            time.sleep(0.05)


def test_an_agent_that_cannot_be_run_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "agent"
    shutil.copy("/bin/false", broken)
    monkeypatch.setenv("WAVEBED_AGENT", str(broken))
    host = AgentHost("server", HostAddress(), MachineClock(), [tmp_path])
    with pytest.raises(MachineError, match="agent on this machine ended"):
        host.hello({})
    host.close(1.0)


def test_the_last_words_of_an_agent_are_told_though_they_are_read_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "agent"
    broken.write_text("#!/bin/sh\necho 'no room here' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("WAVEBED_AGENT", str(broken))
    read = Agent._read_errors

    def read_late(self: Agent) -> None:
        time.sleep(1.5)
        read(self)

    monkeypatch.setattr(Agent, "_read_errors", read_late)
    host = AgentHost("server", HostAddress(), MachineClock(), [tmp_path])
    with pytest.raises(MachineError, match="agent on this machine ended: no room here"):
        host.hello({})
    host.close(1.0)
