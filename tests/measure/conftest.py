"""Tests in this folder judge rates and times of the real machine, one after another.

`--witnesses` leaves one of each family: what `.ci/run` looks at.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.browser.conftest import browser  # noqa: F401 - a fixture

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "lab")]  # helper modules

WITNESSES: tuple[str, ...] = (
    "test_laboratory.py::test_the_directions_have_their_own_delays",
    "test_laboratory.py::test_a_transfer_gets_the_rate_less_its_headers",
    "test_laboratory.py::test_a_device_passes_its_packets_per_second",
    "test_check.py::test_an_exit_status_can_be_required_and_wall_time_is_measured",
    "test_remedy_syn.py::test_a_download_begins_soon_after_an_outage",
    "test_bridge.py::test_a_bridge_fails_open_within_a_tenth_of_a_second",
    "forward/test_devices.py::test_a_shaped_device_lets_its_packet_rate_through",
    "test_hosts.py::test_a_trial_between_two_hosts_has_the_figures_of_the_path_between_them",
)
"""Families: delay, rate, verdict, remedy, bridge, forwarding, hosts. `tests/lab` has others, in virtual time."""


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
