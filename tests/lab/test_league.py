"""The league in laboratories: an emulator of others and all that belongs to it end together; the guest plays a call."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from wavebed.errors import MachineError
from wavebed.league.cells import LeagueCell, LeagueSettings, begin, run_cell
from wavebed.league.emulators import EMULATORS, NETEM, RATTAN, VIRTUAL, running
from wavebed.league.recordings import find

pytestmark = pytest.mark.timeout(1800)

FAKE = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
sleep 300 &
ip netns add left
export RATTAN_BASE=192.0.2.1
exec unshare --net "$@"
"""


def fake_rattan(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = folder / "rattan"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_an_emulator_of_others_leaves_no_process_and_no_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_rattan(tmp_path, monkeypatch, FAKE)
    recording = find("10mbit")
    with running(EMULATORS[RATTAN], recording, tmp_path, tmp_path / "log") as ends:
        assert ends.address == "192.0.2.1"
        pids = (os.getpid(), ends.server_pid, ends.client_pid)
        namespaces = {Path(f"/proc/{pid}/ns/net").readlink() for pid in pids}
        assert len(namespaces) == 3
        assert ends.processor_s() >= 0
        inside = Path(f"/proc/{ends.server_pid}/ns/pid").readlink()
        assert not Path("/run/netns/left").exists()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            assert (process / "ns/pid").readlink() != inside


def test_an_emulator_that_ends_at_once_is_reported_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_rattan(tmp_path, monkeypatch, "#!/bin/sh\necho no such option >&2\nexit 2\n")
    start = running(EMULATORS[RATTAN], find("10mbit"), tmp_path, tmp_path / "log")
    with pytest.raises(MachineError, match="Rattan did not start: no such option"), start:
        pass


def test_a_call_in_the_guest_has_the_delays_of_the_exact_queue(kernel: Path, tmp_path: Path) -> None:
    assert kernel.is_dir()
    recording = find("1mbit")
    settings = LeagueSettings((recording.name,), (VIRTUAL, NETEM), ("call",), 4)
    begin(tmp_path / "l", settings, [recording])
    found = {
        name: run_cell(tmp_path / "l", LeagueCell(recording.name, name, "call"), recording, 4)
        for name in settings.emulators
    }
    for result in found.values():
        assert not result.reason
        assert result.verdict == "valid"
    ours = found[VIRTUAL].errors
    assert ours["delay p95 ms"] == pytest.approx(ours["exact delay p95 ms"], abs=0.05)
    # tbf sends a packet at once while it has tokens for a full one.
    assert found[NETEM].errors["delay p95 ms"] == pytest.approx(recording.delay_ms, abs=0.05)
