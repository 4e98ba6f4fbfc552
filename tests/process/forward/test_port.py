"""A conversation with a port: what is sent, what is taken, and what is refused."""

# ruff: noqa: ARG002 - the script is asked what a real port is asked

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.model import FrameSpec, ValueRange
from wavebed.forward.port import LocalLines, Port, PortGoneError

FRAMES = FrameSpec(
    (64, 128),
    "02:00:00:00:00:01",
    "02:00:00:00:00:02",
    ValueRange("198.18.0.2", 1),
    ValueRange("198.18.1.2", 16),
    ValueRange(49152, 64),
    ValueRange(49152, 64),
    256,
)
INFO: dict[str, object] = {
    "version": 2,
    "interface": "eth0",
    "index": 4,
    "mac": "02:00:00:00:00:01",
    "mtu": 1500,
    "up": True,
    "carrier": True,
    "carrier_changes": 2,
    "speed_mbps": None,
    "driver": "veth",
    "addresses": ["198.18.0.1/24"],
    "offloads": {"tx-udp-segmentation": True},
    "fixed": ["rx-gro-hw"],
    "machine": "boot",
    "cores": 2,
    "xdp": False,
}
FRAME_COUNTERS: dict[str, object] = {
    "unique": 3,
    "duplicates": 1,
    "reordered": 0,
    "stale": 0,
    "other_trial": 0,
    "damaged": 0,
    "foreign": 2,
    "sizes": {"64": 4},
    "first_ns": 10,
    "last_ns": 30,
    "latency": {"100": 2, "120": 1},
    "latency_min_ns": 100,
    "latency_max_ns": 120,
    "receiver_lost": 0,
    "sample": [{"time_ns": 10, "length": 60, "hex": "0200ff"}],
}


class Script:
    """Lines that answer what they are told and keep what they were asked."""

    name = "eth0"
    pid = None

    def __init__(self, *answers: object) -> None:
        self.answers = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
        self.asked: list[dict[str, object]] = []

    def ask(self, line: str, limit_s: float, tick: object = None, tick_s: float = 1.0) -> str:
        self.asked.append(json.loads(line))
        return self.answers.pop(0)

    def close(self) -> None:
        self.answers.clear()


def port(*answers: object) -> Port:
    return Port(Script(*answers))  # type: ignore[arg-type]


def ok(value: object) -> dict[str, object]:
    return {"ok": value}


def test_a_description_is_read_whole() -> None:
    info = port(ok(INFO)).describe()
    assert (info.interface, info.mtu, info.speed_mbps, info.driver) == ("eth0", 1500, None, "veth")
    assert info.offloads == {"tx-udp-segmentation": True}
    assert info.fixed == ("rx-gro-hw",)


def test_frame_counters_are_read_with_their_delays_and_samples() -> None:
    counters = port(ok(FRAME_COUNTERS)).frame_counters()
    assert (counters.unique, counters.duplicates, counters.foreign, counters.sizes) == (3, 1, 2, {64: 4})
    assert counters.latency is not None
    assert counters.latency.count == 3
    assert counters.latency.p50_s == pytest.approx(100e-9)
    assert counters.sample[0].data == b"\x02\x00\xff"


def test_frame_counters_without_a_delay_have_none() -> None:
    counters = port(
        ok({**FRAME_COUNTERS, "latency": {}, "latency_min_ns": None, "latency_max_ns": None})
    ).frame_counters()
    assert counters.latency is None


def test_a_request_to_send_has_every_field_of_the_protocol() -> None:
    script = Script(
        ok(
            {
                "frames": 10,
                "refused": 0,
                "took_ns": 9,
                "late_max_ns": 0,
                "late_batches": 0,
                "batches": 2,
                "sender": "sendmmsg",
            }
        )
    )
    sent = Port(script).send(FRAMES, 7, 10, rate_pps=None, batch=8, deadline_s=1.5)  # type: ignore[arg-type]
    assert (sent.frames, sent.sender) == (10, "sendmmsg")
    request = script.asked[0]
    assert set(request) == {"do", "frames", "trial", "count", "rate_pps", "batch", "deadline_ns", "sender"}
    assert request["deadline_ns"] == 1_500_000_000
    assert request["frames"] == {
        "sizes_bytes": [64, 128],
        "source_mac": "02:00:00:00:00:01",
        "destination_mac": "02:00:00:00:00:02",
        "vlan": None,
        "pppoe_session": None,
        "sources": {"first": "198.18.0.2", "count": 1},
        "destinations": {"first": "198.18.1.2", "count": 16},
        "source_ports": {"first": 49152, "count": 64},
        "destination_ports": {"first": 49152, "count": 64},
        "flows": 256,
    }


def test_answering_ends_with_an_empty_list() -> None:
    script = Script(ok({}), ok({}))
    talk = Port(script)  # type: ignore[arg-type]
    talk.answer(ValueRange("198.18.0.2", 4))
    talk.answer(None)
    assert [request["addresses"] for request in script.asked] == [{"first": "198.18.0.2", "count": 4}, []]


@pytest.mark.parametrize(
    ("kind", "error"), [("wrong", UserError), ("cannot", MachineError), ("failed", WavebedError), ("odd", WavebedError)]
)
def test_an_error_of_the_port_is_one_of_ours(kind: str, error: type[WavebedError]) -> None:
    with pytest.raises(error, match="no such frame") as raised:
        port({"error": "no such frame", "kind": kind}).frame_counters()
    assert type(raised.value) is error


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "[]",
        "null",
        "{}",
        '{"ok": 3}',
        '{"ok": {}}',
        '{"error": 3, "kind": "wrong"}',
        '{"error": "x"}',
        '{"ok": {"on": 1}}',
        '{"ok": {"on": true, "off": true}}',
        '{"ok": {"on": true}, "more": 1}',
        '{"ok": {"on": NaN}}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_answer_is_refused_in_one_line(line: str) -> None:
    with pytest.raises(WavebedError) as raised:
        port(line).set_offload("rx-gro", on=True)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "fields",
    [
        {"unique": -1},
        {"unique": 1.5},
        {"unique": True},
        {"unique": "3"},
        {"sizes": {"a": 1}},
        {"sizes": []},
        {"latency": {"99999": 1}},
        {"sample": [{"time_ns": 1, "length": 60, "hex": "zz"}]},
        {"sample": [{"time_ns": 1, "length": 60}]},
        {"first_ns": "soon"},
    ],
)
def test_impossible_counters_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(WavebedError, match="frame_counters"):
        port(ok({**FRAME_COUNTERS, **fields})).frame_counters()


def test_a_port_of_another_version_is_refused() -> None:
    with pytest.raises(MachineError, match="version 3"):
        port(ok({**INFO, "version": 3})).describe()


def test_a_batch_that_no_sender_takes_is_refused() -> None:
    with pytest.raises(UserError, match="batch of 65"):
        port().send(FRAMES, 1, 1, rate_pps=1.0, batch=65, deadline_s=1.0)


# Processes


def process(tmp_path: Path, body: str) -> LocalLines:
    program = tmp_path / "program.py"
    program.write_text(f"import json, os, sys, time\n{body}\n")
    return LocalLines("eth0", [sys.executable, "-S", str(program)])


ECHO = "for line in sys.stdin:\n    print(line.strip(), flush=True)"


def test_every_question_gets_its_own_answer(tmp_path: Path) -> None:
    lines = process(tmp_path, ECHO)
    assert [lines.ask(str(n), 60.0) for n in range(3)] == ["0", "1", "2"]
    lines.close()


def test_lines_longer_than_a_pipe_pass(tmp_path: Path) -> None:
    lines = process(tmp_path, ECHO)
    long = "x" * 1_000_000
    assert lines.ask(long, 60.0) == long
    lines.close()


def test_a_port_that_does_not_answer_is_ended_within_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.forward.port.END_GRACE_S", 0.2)
    lines = process(tmp_path, "time.sleep(60)")
    with pytest.raises(PortGoneError, match=r"eth0 did not answer within 0.3 s"):
        lines.ask("hello", 0.3)
    assert lines.pid is not None
    assert not Path(f"/proc/{lines.pid}").exists()


def test_a_port_that_ends_says_its_last_words(tmp_path: Path) -> None:
    lines = process(tmp_path, "print('the interface is gone', file=sys.stderr); sys.exit(7)")
    with pytest.raises(PortGoneError, match="status 7: the interface is gone"):
        lines.ask("hello", 60.0)


def test_a_port_that_takes_its_time_to_end_says_them_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.forward.port.END_GRACE_S", 0.1)
    body = "os.close(1); time.sleep(0.5); os.write(2, b'the interface is gone'); os._exit(7)"
    with pytest.raises(PortGoneError, match="status 7: the interface is gone"):
        process(tmp_path, body).ask("hello", 60.0)


@pytest.mark.parametrize(("status", "error"), [(2, UserError), (3, MachineError)])
def test_a_port_that_cannot_begin_is_the_error_it_says(tmp_path: Path, status: int, error: type[WavebedError]) -> None:
    lines = process(tmp_path, f"print('error: no interface', file=sys.stderr); sys.exit({status})")
    with pytest.raises(error, match=r"^no interface$"):
        lines.ask("hello", 60.0)


def test_a_closed_port_is_not_asked(tmp_path: Path) -> None:
    lines = process(tmp_path, ECHO)
    lines.close()
    lines.close()
    with pytest.raises(PortGoneError, match="is closed"):
        lines.ask("hello", 1.0)


def test_an_endless_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.forward.port.LONGEST_LINE", 100_000)
    lines = process(tmp_path, "sys.stdin.readline()\nwhile True: sys.stdout.write('x' * 10000)")
    with pytest.raises(PortGoneError, match="more than 100000 bytes"):
        lines.ask("hello", 60.0)


def answers_when(there: Path) -> str:
    """Return a program that answers its question once a file is there."""
    wait = f"while not os.path.exists({str(there)!r}): time.sleep(0.01)"
    return f"sys.stdin.readline()\n{wait}\nsys.stdout.write('done\\n')"


def test_the_caller_is_called_while_it_waits(tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    lines = process(tmp_path, answers_when(enough))
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(time.monotonic())
        if len(ticks) == 2:
            enough.touch()

    assert lines.ask("go", 60.0, tick, 0.05) == "done"
    assert ticks[1] - ticks[0] >= 0.05
    lines.close()


def test_an_answer_that_came_while_the_caller_stood_still_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = 0.0
    monkeypatch.setattr("wavebed.forward.port.time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s))
    asked = tmp_path / "asked"
    lines = process(tmp_path, answers_when(asked))

    def stand_still() -> None:
        nonlocal ahead_s
        asked.touch()
        assert select.select([lines._descriptors()[0]], [], [], 60)[0]
        ahead_s = 1000.0

    assert lines.ask("go", 60.0, stand_still, 0.01) == "done"
    lines.close()


def test_an_answer_is_read_though_the_caller_takes_longer_than_its_interval(tmp_path: Path) -> None:
    lines = process(tmp_path, "sys.stdin.readline(); print('done')")
    assert lines.ask("go", 60.0, lambda: time.sleep(0.02), 0.01) == "done"
    lines.close()


def test_what_interrupts_the_wait_ends_the_port(tmp_path: Path) -> None:
    lines = process(tmp_path, "sys.stdin.readline(); sys.stdin.readline()")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lines.ask("go", 60.0, interrupt, 0.01)
    assert lines.pid is not None
    assert not Path(f"/proc/{lines.pid}").exists()


def test_a_program_that_is_not_there_is_an_error_of_the_machine() -> None:
    with pytest.raises(MachineError, match=r"cannot run /nowhere"):
        LocalLines("eth0", ["/nowhere"])


def test_a_port_is_in_a_session_of_its_own(tmp_path: Path) -> None:
    lines = process(tmp_path, ECHO)
    assert lines.pid is not None
    assert os.getsid(lines.pid) == lines.pid
    lines.close()
