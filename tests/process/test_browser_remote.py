"""The conversation with a browser's process: told to stop it answers soon, or is given up; closed it is left alone."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_browser_remote import RealHost, agent, never  # noqa: F401

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.workload.browser.remote import Agent


HEAD = "import json, sys\nhear = lambda: json.loads(sys.stdin.readline())\n"
SAY = "print(json.dumps({'result': 1}), flush=True)\n"


def test_one_that_ends_says_its_last_line(agent: Callable[[str], Agent]) -> None:
    with pytest.raises(WavebedError, match="the_agent ended: no display"):
        agent("import sys\nsys.exit('no display')").result(threading.Event(), never)


def test_what_is_told_after_its_end_goes_nowhere(agent: Callable[[str], Agent]) -> None:
    """The numbers of its pipes may be those of other files by then."""
    one = agent(f"{HEAD}hear()\n{SAY}")
    assert one.result(threading.Event(), never)
    one.close()
    one.close()
    pipes = [os.pipe() for _ in range(4)]
    one.tell({"stop": True})
    for reading, writing in pipes:
        os.close(writing)
        assert os.read(reading, 100) == b""
        os.close(reading)


def test_messages_may_come_in_pieces_and_together(agent: Callable[[str], Agent]) -> None:
    one = agent("import json\nprint(json.dumps({'a': 'x' * 200_000}) + '\\n' + json.dumps({'b': 2}), flush=True)")
    assert len(str(one.hear(60)["a"])) == 200_000
    assert one.hear(60) == {"b": 2}
