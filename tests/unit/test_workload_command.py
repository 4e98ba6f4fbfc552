"""The keys of `command`."""

from __future__ import annotations

import pytest

from wavebed.config.problems import Problem
from wavebed.workload import read_workload


def test_a_program_is_an_array_and_a_line_is_for_the_shell() -> None:
    assert read_workload({"kind": "command", "run": ["a", "b c"]}).options.run == ["a", "b c"]
    assert read_workload({"kind": "command", "run": "a | b"}).options.run == ["sh", "-c", "a | b"]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({}, "run: is missing: write run = "),
        ({"run": []}, "run: an array is not a command"),
        ({"run": 3}, "run: 3 is not a command"),
        ({"run": ["a", 3]}, "run: 3 is not text: write each argument"),
        ({"run": [""]}, "run: has an empty name"),
        ({"run": " "}, "run: ' ' is not text"),
        ({"run": ["a"], "parser": "xml"}, "parser: 'xml' is not a choice: write one of none, json-numbers"),
        ({"run": ["a"], "may-be-stopped": "yes"}, "may-be-stopped: 'yes' is neither true nor false"),
    ],
)
def test_a_wrong_value_is_said_with_its_key(keys: dict[str, object], line: str) -> None:
    with pytest.raises(Problem) as caught:
        read_workload({"kind": "command", **keys})
    assert str(caught.value).startswith(line)
