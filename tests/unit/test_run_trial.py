"""A whole trial in a laboratory in memory: what runs when, what is marked, and what ends it early; in virtual time."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import pytest
from tests.memory_lab import MemoryLab, Program
from tests.unit.test_run_play import Waiter

from wavebed.errors import UserError
from wavebed.lab.protocol import LIMITS, LaboratoryHungError, LaboratoryKilledError, Undelivered
from wavebed.lab.tools import Computing, ProgramTime
from wavebed.result.identity import read_computing
from wavebed.run.design import ordered
from wavebed.run.play import LOOK_EVERY_S
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import read_plan
from wavebed.run.trial import run_trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.memory_lab import MemoryProcess, Script

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab
    from wavebed.result.model import TrialRecord, WorkloadRecord
    from wavebed.run.play import RunningWorkload
    from wavebed.workload.model import Workload

PATH = '[path]\nrate = "50mbit"\ndelay = "5ms"\n'


def command(name: str, *, run: str = "", **keys: str | bool) -> str:
    """Return the table of a workload that runs the program of its name on the client."""
    rows = [f'name = "{name}"', f'run = ["{run or name}"]']
    rows += [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in keys.items()]
    return '[[workload]]\nkind = "command"\n' + "\n".join(rows) + "\n"


@dataclass
class Trial:
    """A trial of a scenario, to be run in memory."""

    folder: Path
    text: str
    lab: MemoryLab
    only: Sequence[str] = ()
    workloads: Sequence[Workload] = ()

    def start(self, *_: object) -> Lab:
        return self.lab

    def run(self, look: Callable[[Lab, Sequence[RunningWorkload]], None] = lambda *_: None) -> TrialRecord:
        scenario = self.folder / "s.toml"
        scenario.write_text(PATH + self.text)
        plan = read_plan(scenario, only=self.only)
        (slot,) = ordered(plan.treatments, 1, 1)
        partial = self.folder / "trial"
        partial.mkdir()
        with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
            if self.workloads:
                slot = replace(slot, treatment=replace(slot.treatment, workloads=self.workloads))
            return run_trial(slot, resolved, partial, look, start=self.start)


def trial(folder: Path, text: str, programs: Mapping[str, Script], only: Sequence[str] = ()) -> Trial:
    return Trial(folder, text, MemoryLab(programs), only)


def spans(record: TrialRecord) -> dict[str, object]:
    return {
        each.name: each.span and pytest.approx((each.span.start_s, each.span.end_s), abs=0.06)
        for each in record.workloads
    }


def workload(record: TrialRecord, name: str) -> WorkloadRecord:
    return next(each for each in record.workloads if each.name == name)


def check(record: TrialRecord, code: str) -> tuple[bool, str]:
    return next((each.holds, each.evidence) for each in record.checks if each.code == code)


def test_programs_run_at_the_times_of_the_scenario(tmp_path: Path) -> None:
    text = command("b", after="a", start="2s") + command("a", start="10s") + command("c")
    record = trial(tmp_path, text, {"a": Program(30.0), "b": Program(5.0), "c": Program(1.0)}).run()
    assert spans(record) == {"b": (42, 47), "a": (10, 40), "c": (0, 1)}
    assert [each.outcome.status for each in record.workloads] == ["ok", "ok", "ok"]
    assert check(record, "partial") == (True, "all workloads completed")


def test_an_omitted_workload_leaves_its_predecessor_to_its_successor(tmp_path: Path) -> None:
    text = command("a") + command("b", after="a") + command("c", after="b", start="1s")
    programs = {"a": Program(10.0), "c": Program(1.0)}
    record = trial(tmp_path, text, programs, only=["a", "c"]).run()
    assert spans(record) == {"a": (0, 10), "c": (11, 12)}


def test_a_workload_after_omitted_ones_alone_starts_by_itself(tmp_path: Path) -> None:
    text = command("a") + command("b", after="a", start="3s")
    record = trial(tmp_path, text, {"b": Program(1.0)}, only=["b"]).run()
    assert spans(record) == {"b": (3, 4)}


def test_one_that_is_stopped_at_its_limit_as_agreed_is_partial_and_the_trial_says_so(tmp_path: Path) -> None:
    text = command("long", limit="30s", may_be_stopped=True) + command("short")
    record = trial(tmp_path, text, {"long": Program(None), "short": Program(1.0)}).run()
    long = workload(record, "long")
    assert long.span is not None
    assert 30 <= long.span.end_s <= 30 + 2 * LOOK_EVERY_S
    assert (long.outcome.status, long.outcome.reason) == ("partial", "stopped at its limit of 30 s")
    assert check(record, "partial") == (False, "long: stopped at its limit of 30 s")
    assert workload(record, "short").outcome.status == "ok"


def test_one_that_was_stopped_at_its_limit_and_does_not_say_so_is_partial(tmp_path: Path) -> None:
    made = trial(tmp_path, command("a"), {})
    made.workloads = [Waiter("long", 600, limit_s=20.0), Waiter("short", 5, limit_s=20.0)]
    record = made.run()
    assert [each.outcome.status for each in record.workloads] == ["partial", "ok"]
    assert check(record, "partial") == (False, "long: stopped at its limit of 20 s")


SENDER = '[[workload]]\nkind = "command"\nrun = ["x"]\nserver-run = ["s"]\nwall-time = true\n'


def times(record: TrialRecord) -> dict[str, float | None]:
    return {each.name: each.value for each in workload(record, "command").outcome.metrics}


def ends(at_s: dict[str, float], *, heeds: bool = True) -> Script:
    """Return a server that notes when it is signalled and when it ends."""

    def script(process: MemoryProcess) -> int:
        process.next_signal(None)
        at_s["signal"] = process.host.clock.now_s()
        if not heeds:
            process.next_signal(600.0)
        return 0

    return script


def test_a_command_has_ended_when_its_last_byte_has_arrived_and_was_read(tmp_path: Path) -> None:
    at_s: dict[str, float] = {}
    made = trial(tmp_path, SENDER, {"x": Program(1.0), "s": ends(at_s)})
    made.lab.on_the_way = lambda now_s: Undelivered(unacknowledged_bytes=3000 if now_s < 2.4 else 0)
    record = made.run()
    assert times(record) == {"wall time": pytest.approx(1.0), "delivery time": pytest.approx(2.4, abs=0.03)}
    assert 2.5 <= at_s["signal"] <= 2.6, "a server may answer the last byte"
    assert workload(record, "command").outcome.status == "ok"


@pytest.mark.parametrize("left", [Undelivered(queued_segments=7), Undelivered(unread_bytes=9)])
def test_data_that_is_on_the_way_at_the_limit_is_a_doubt(tmp_path: Path, left: Undelivered) -> None:
    at_s: dict[str, float] = {}
    made = trial(tmp_path, SENDER + 'drain = "3s"\n', {"x": Program(1.0), "s": ends(at_s)})
    made.lab.on_the_way = lambda _: left
    record = made.run()
    assert times(record)["delivery time"] is None
    assert at_s["signal"] == pytest.approx(4.0, abs=0.05)
    doubt = f"command: 3 s after its end data was still on the way: {left}: raise drain"
    assert (record.verdict, doubt in record.reasons) == ("invalid", True)


def test_a_server_that_answers_the_last_byte_is_awaited_again(tmp_path: Path) -> None:
    made = trial(tmp_path, SENDER, {"x": Program(1.0), "s": ends({})})
    made.lab.on_the_way = lambda now_s: Undelivered(queued_segments=int(now_s < 2 or 2.05 < now_s < 3))
    assert times(made.run())["delivery time"] == pytest.approx(3.0, abs=0.03)


def test_data_of_another_workload_is_not_awaited(tmp_path: Path) -> None:
    at_s: dict[str, float] = {}
    made = trial(tmp_path, SENDER + command("other"), {"x": Program(1.0), "s": ends(at_s), "other": Program(4.0)})
    made.lab.on_the_way = lambda _: Undelivered(queued_segments=1)
    assert times(made.run())["delivery time"] is None
    assert at_s["signal"] == pytest.approx(1.0, abs=0.05)


def test_a_server_has_its_grace_to_write_what_it_found(tmp_path: Path) -> None:
    made = trial(tmp_path, SENDER + 'grace = "7s"\n', {"x": Program(1.0), "s": ends({}, heeds=False)})
    record = made.run()
    assert made.lab.started[0].returncode == -signal.SIGKILL
    assert spans(record)["command"] == (0, 8)


def test_one_that_must_not_be_stopped_has_failed_at_its_limit(tmp_path: Path) -> None:
    record = trial(tmp_path, command("long", limit="30s"), {"long": Program(None)}).run()
    assert record.verdict == "failed"
    assert "stopped at its limit of 30 s: raise limit" in record.reasons[0]


def test_one_that_overruns_its_limit_is_killed_if_it_ignores_the_signal(tmp_path: Path) -> None:
    deaf = Program(None, on_signal={signal.SIGINT: None})
    made = trial(
        tmp_path, command("deaf", limit="30s") + command("next", after="deaf"), {"deaf": deaf, "next": Program(1.0)}
    )
    record = made.run()
    assert made.lab.started[0].returncode == -signal.SIGKILL
    first, following = workload(record, "deaf").span, workload(record, "next").span
    assert first is not None
    assert following is not None
    assert 33 <= first.end_s <= 33 + 2 * LOOK_EVERY_S
    assert following.start_s == pytest.approx(first.end_s)


def test_one_that_overruns_its_grace_ends_the_trial_and_the_others(tmp_path: Path) -> None:
    made = trial(tmp_path, command("a"), {"a": Program(None)})
    stuck = Waiter("stuck", 600, limit_s=20.0, slow_to_stop_s=600.0)
    made.workloads = [stuck, Waiter("other", 600, limit_s=600.0)]
    record = made.run()
    assert record.verdict == "failed"
    assert record.reasons[0] == "stuck: did not end within 10 s of being asked to"
    assert workload(record, "other").outcome.reason == "the laboratory ended before it"
    assert not made.lab.is_alive()


def test_one_that_fails_says_its_last_line_and_the_others_go_on(tmp_path: Path) -> None:
    programs = {"bad": Program(3.0, status=2, errors="begun\nno route to host\n"), "good": Program(50.0)}
    record = trial(tmp_path, command("bad") + command("good"), programs).run()
    assert workload(record, "bad").outcome.reason == "bad ended with 2: no route to host"
    assert workload(record, "good").outcome.status == "ok"
    assert spans(record) == {"bad": (0, 3), "good": (0, 50)}


def test_one_whose_program_is_not_there_fails_alone(tmp_path: Path) -> None:
    record = trial(tmp_path, command("absent") + command("good"), {"good": Program(5.0)}).run()
    assert workload(record, "absent").outcome.reason == "'absent': no such program"
    assert workload(record, "good").outcome.status == "ok"


def test_one_whose_server_never_opens_its_port_fails_and_the_others_run(tmp_path: Path) -> None:
    text = command("good") + '[[workload]]\nkind = "command"\nname = "bad"\nrun = ["x"]\nserver-run = ["s", "{port}"]\n'

    def silent(process: MemoryProcess) -> int:
        process.write(errors="no license\n")
        return -(process.next_signal(None) or 0)

    made = trial(tmp_path, text, {"good": Program(5.0), "s": silent})
    record = made.run()
    assert workload(record, "bad").outcome.reason == "server-run does not open port 20020 within 10 s: no license"
    assert workload(record, "bad").span is None
    assert spans(record)["good"] == (0, 5)
    assert [process.args for process in made.lab.started] == [["s", "20020"], ["good"]]


def test_servers_are_up_before_time_begins(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "command"\nrun = ["x"]\nserver-run = ["s", "{port}"]\n'
    record = trial(tmp_path, text, {"x": Program(2.0), "s": Program(None, ports=(20_000,), opens_s=6.0)}).run()
    assert spans(record) == {"command": (0, 2)}
    assert workload(record, "command").outcome.status == "ok"


def opened(at_s: dict[str, float], ports: Sequence[int], opens_s: float) -> tuple[Script, Script]:
    """Return a server that opens ports, and a client; both note when."""

    def server(process: MemoryProcess) -> int:
        process.host.clock.sleep(opens_s)
        process.listen(*ports)
        at_s["open"] = process.host.clock.monotonic_s()
        return -(process.next_signal(None) or 0)

    def client(process: MemoryProcess) -> int:
        at_s["client"] = process.host.clock.monotonic_s()
        return 0

    return server, client


def test_a_command_waits_for_a_port_of_each_server_whichever_it_is(tmp_path: Path) -> None:
    at_s: dict[str, float] = {}
    server, client = opened(at_s, (8080,), 4.0)
    text = SENDER + 'servers = ["t"]\n'
    record = trial(tmp_path, text, {"x": client, "s": server, "sh": Program(None, ports=(53,), opens_s=1.0)}).run()
    assert at_s["open"] <= at_s["client"] <= at_s["open"] + 0.1
    assert workload(record, "command").outcome.details == {}


@pytest.mark.parametrize(("keys", "waits_s"), [("", 10.0), ("wait-for-port = 0\n", 0.0)])
def test_a_server_without_a_port_is_awaited_for_ten_seconds_unless_told(
    tmp_path: Path, keys: str, waits_s: float
) -> None:
    at_s: dict[str, float] = {}
    server, client = opened(at_s, (), 0.0)
    record = trial(tmp_path, SENDER + keys, {"x": client, "s": server}).run()
    assert at_s["client"] - at_s["open"] == pytest.approx(waits_s, abs=0.2)
    told = workload(record, "command").outcome.details.get("programs on the server")
    assert told == ("0 of 1 have opened a port after 10 s: wait-for-port = 0 waits for none" if waits_s else None)


def test_a_server_that_has_done_its_work_is_not_awaited(tmp_path: Path) -> None:
    at_s: dict[str, float] = {}
    _, client = opened(at_s, (), 0.0)
    made = trial(tmp_path, SENDER, {"x": client, "s": Program(0.5)})
    begun_s = made.lab.clock.monotonic_s()
    made.run()
    assert 0.5 <= at_s["client"] - begun_s < 1.0


def test_a_server_that_dies_ends_its_workload_with_its_last_line(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "command"\nrun = ["x"]\nserver-run = ["s", "{port}"]\n' + command("good")
    server = Program(15.0, status=4, errors="no more\n", ports=(20_000,))
    record = trial(tmp_path, text, {"x": Program(None), "s": server, "good": Program(50.0)}).run()
    assert workload(record, "command").outcome.reason == "server-run ended with 4: no more"
    assert spans(record)["good"] == (0, 50)
    span = workload(record, "command").span
    assert span is not None
    assert 15 <= span.end_s <= 17


def test_probes_go_on_until_all_others_have_ended_and_for_their_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavebed.lab.protocol.find", lambda name: name)
    text = '[[workload]]\nkind = "latency"\ntail = "4s"\n' + command("load")
    record = trial(tmp_path, text, {"ping": Program(None, on_signal={signal.SIGINT: 0}), "load": Program(50.0)}).run()
    assert spans(record) == {"latency": (0, 54), "load": (0, 50)}


def test_a_probe_that_dies_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.lab.protocol.find", lambda name: name)
    text = '[[workload]]\nkind = "latency"\n' + command("load")
    ping = Program(7.0, status=2, errors="ping: sendmsg: no buffer space\n")
    record = trial(tmp_path, text, {"ping": ping, "load": Program(50.0)}).run()
    reason = workload(record, "latency").outcome.reason
    assert reason == "ping ended early with 2: ping: sendmsg: no buffer space"
    assert spans(record) == {"latency": (0, 7), "load": (0, 50)}


def test_an_interruption_ends_everything_at_once(tmp_path: Path) -> None:
    made = trial(
        tmp_path, command("a") + command("b", start="100s"), {"a": Program(None, on_signal={signal.SIGINT: None})}
    )

    def interrupt(lab: Lab, _acts: object) -> None:
        if lab.clock.now_s() >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.run(interrupt)
    assert 30 <= made.lab.clock.now_s() <= 30 + LOOK_EVERY_S
    assert not made.lab.is_alive()
    assert [process.args for process in made.lab.started] == [["a"]]
    assert made.lab.started[0].has_ended


def test_the_path_changes_at_its_time_while_workloads_run(tmp_path: Path) -> None:
    made = trial(tmp_path, command("load"), {"load": Program(50.0)})
    shown: list[Json] = []

    def change(lab: Lab, _acts: object) -> None:
        if lab.clock.now_s() >= 20 and not shown:
            lab.set(rate="10mbit")
            shown.append(lab.show()["links"])

    record = made.run(change)
    ((at_s, key, value),) = made.lab.changes
    assert 20 <= at_s <= 20 + LOOK_EVERY_S
    assert (key, value) == ("rate", "10mbit")
    assert isinstance(shown[0], list)
    assert [cast("dict[str, Json]", link)["rate"] for link in shown[0]] == ["10mbit", "10mbit"]
    assert spans(record) == {"load": (0, 50)}


def after_30_s(process: MemoryProcess, action: Callable[[], None]) -> int:
    """Go on until a signal; after 30 s something happens."""
    process.host.clock.sleep(30.0)
    action()
    return -(process.next_signal(None) or 0)


def test_a_laboratory_that_hangs_is_a_failed_trial_with_its_cause(tmp_path: Path) -> None:
    made = trial(tmp_path, command("load"), {"load": lambda process: after_30_s(process, process.host.lab.hang)})
    record = made.run()
    assert record.verdict == "failed"
    assert record.reasons[0] == "laboratory 'memory' hangs: it did not answer"
    assert made.lab.clock.now_s() <= 30 + LIMITS.look_s + LOOK_EVERY_S


def test_a_laboratory_that_ends_by_itself_fails_what_still_runs(tmp_path: Path) -> None:
    programs = {"load": lambda process: after_30_s(process, process.host.lab.close), "done": Program(5.0)}
    made = trial(tmp_path, command("load") + command("done"), programs)
    record = made.run()
    assert workload(record, "load").outcome.reason == "laboratory 'memory' has ended"
    assert workload(record, "done").outcome.status == "ok"
    assert made.lab.clock.now_s() <= 30 + 2 * LOOK_EVERY_S


@pytest.mark.parametrize(
    "error",
    [
        LaboratoryHungError("laboratory 'x' did not start within 20 s: see wavebed doctor"),
        LaboratoryKilledError("the laboratory was killed"),
    ],
)
def test_a_laboratory_that_does_not_start_in_time_or_is_killed_is_a_failed_trial(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trial(tmp_path, command("load"), {})

    def start(*_: object) -> Lab:
        raise error

    monkeypatch.setattr(made, "start", start)
    record = made.run()
    assert (record.verdict, record.workloads) == ("failed", [])
    assert record.reasons[0] == str(error)


def test_the_processor_time_of_a_trial_in_virtual_time_has_a_file_of_its_own(tmp_path: Path) -> None:
    one = trial(tmp_path, command("a") + command("b"), {"a": Program(1.0), "b": Program(1.0)})
    one.lab.computing = Computing(f"{3:020}", (ProgramTime("a", "client", f"{1:020}", f"{2:020}"),))
    record = one.run()
    assert read_computing(tmp_path / "trial") == one.lab.computing
    assert "host_cpu_ns" not in record.engine
    assert {process.args[0]: process.host.workload for process in one.lab.started} == {"a": "a", "b": "b"}


def test_a_trial_whose_processor_time_nobody_counts_has_no_such_file(tmp_path: Path) -> None:
    trial(tmp_path, command("a"), {"a": Program(1.0)}).run()
    assert read_computing(tmp_path / "trial") is None
    (tmp_path / "computing.json").write_text('{"total_ns": "-1"}')
    with pytest.raises(UserError, match=r"computing\.json: is not as documented"):
        read_computing(tmp_path)
