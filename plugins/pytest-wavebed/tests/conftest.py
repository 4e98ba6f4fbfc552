"""What the tests of the plugin share."""

import os

import pytest

# Runs of tests beside each other, and beside other runs of the machine, are not under test.
os.environ["WAVEBED_LOCK"] = "/nowhere/lock"


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs inside have this plugin only: others take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
