"""Processes in a laboratory: late reports of their end, and several threads that wait for one."""

from __future__ import annotations

import signal
import subprocess
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.errors import UserError
from wavebed.lab.errors import LaboratoryGoneError
from wavebed.path.process import LabProcess
from wavebed.workload.waiting import end_within

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from wavebed.path.control import Connection

LATE_S = 1.3
WAIT_S = 60.0


class Conversation:
    """Stands for the connections to a laboratory, in virtual time; reports of the end come `LATE_S` after its cause.

    Parameters
    ----------
    ended : bool
        Whether the process ends by itself, and the laboratory knows of it when it is asked to send a signal.
    """

    def __init__(self, *, ended: bool) -> None:
        self._ended = ended
        self._now_s = 0.0
        self._due_s: float | None = None
        self._status = 0

    def answer(self, timeout_s: float | None = None) -> dict[str, int]:
        left_s = 3600.0 if self._due_s is None else max(0.0, self._due_s - self._now_s)
        if timeout_s is not None and timeout_s < left_s:
            self._now_s += timeout_s
            raise TimeoutError
        self._now_s += left_s
        return {"exit": self._status}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._ended:
            self._due_s = self._now_s + LATE_S
            raise UserError("there is no such process")
        if request["signal"] == signal.SIGKILL:
            self._due_s = self._now_s + LATE_S
            self._status = 128 + signal.SIGKILL
        return {}

    def close(self) -> None:
        pass

    def again(self) -> AbstractContextManager[Connection]:
        return nullcontext(cast("Connection", self))


def process(conversation: Conversation) -> LabProcess:
    return LabProcess(cast("Connection", conversation), 7, ["sleep"], conversation.again)  # type: ignore[arg-type]


def test_the_end_of_a_killed_process_is_awaited_for_longer_than_its_grace() -> None:
    assert process(Conversation(ended=False)).terminate(grace_s=0.1) == -signal.SIGKILL
    assert not end_within(process(Conversation(ended=False)), 0.0, grace_s=0.1)


def test_news_of_an_end_may_follow_the_refusal_of_a_signal_late() -> None:
    assert process(Conversation(ended=True)).terminate() == 0


class OneAnswer(Conversation):
    """Says once how the process ended, when it is let; afterwards the connection is closed."""

    def __init__(self) -> None:
        super().__init__(ended=True)
        self.waited_for = threading.Event()
        self.ends = threading.Event()
        self._answers = 0

    def answer(self, timeout_s: float | None = None) -> dict[str, int]:  # noqa: ARG002
        self._answers += 1
        if self._answers > 1:
            raise LaboratoryGoneError("the connection is closed")
        self.waited_for.set()
        assert self.ends.wait(WAIT_S)
        return {"exit": 3}


def test_two_threads_that_wait_for_a_process_get_its_status() -> None:
    conversation = OneAnswer()
    ends = process(conversation)
    statuses: list[int] = []
    waiting = threading.Thread(target=lambda: statuses.append(ends.wait(WAIT_S)))
    waiting.start()
    assert conversation.waited_for.wait(WAIT_S)
    assert ends.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        ends.wait(0.01)
    conversation.ends.set()
    assert ends.wait(WAIT_S) == 3
    waiting.join(WAIT_S)
    assert statuses == [3]
