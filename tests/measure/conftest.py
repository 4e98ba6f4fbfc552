"""Tests in this folder judge rates and times of the real machine, one after another.

`--witnesses` leaves one of each family: what `.ci/run` looks at.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "lab")]  # helper modules

WITNESSES: tuple[str, ...] = ()
"""A test of each family: path, radio, sampling, verdict, remedy, bridge, forwarding, hosts, and four workloads."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the witnesses; a witness that does not exist is an error."""
    if not config.getoption("--witnesses"):
        return
    here = Path(__file__).parent
    own = {str(item.nodeid).removeprefix("tests/measure/"): item for item in items if item.path.is_relative_to(here)}
    if missing := [name for name in WITNESSES if name not in own]:
        raise pytest.UsageError(f"witnesses that are no tests: {', '.join(missing)}")
    chosen = [own[name] for name in WITNESSES]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
