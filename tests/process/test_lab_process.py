"""Processes in a laboratory whose news come late: a second or more after the signal that ended them."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

from wavebed.errors import UserError
from wavebed.path.process import LabProcess
from wavebed.workload.waiting import end_within

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from wavebed.path.control import Connection

LATE_S = 1.3


class Conversation:
    """Stands for the connections to a laboratory; news of the end come `LATE_S` after what caused it.

    Parameters
    ----------
    ended : bool
        Whether the process ends by itself, and the laboratory knows of it when it is asked to send a signal.
    """

    def __init__(self, *, ended: bool) -> None:
        self._ended = ended
        self._due_s: float | None = None
        self._status = 0

    def answer(self, timeout_s: float | None = None) -> dict[str, int]:
        left_s = 3600.0 if self._due_s is None else self._due_s - time.monotonic()
        if timeout_s is not None and timeout_s < left_s:
            time.sleep(timeout_s)
            raise TimeoutError
        time.sleep(max(left_s, 0.0))
        return {"exit": self._status}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._ended:
            self._due_s = time.monotonic() + LATE_S
            raise UserError("there is no such process")
        if request["signal"] == signal.SIGKILL:
            self._due_s = time.monotonic() + LATE_S
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
