"""Programs are found, and asked for their version without waiting for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavebed.errors import MachineError
from wavebed.lab import tools


def test_a_program_that_is_missing_has_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda *_, **__: None)
    assert tools.missing(["nginx", "curl"]) == ["nginx", "curl"]
    with pytest.raises(MachineError, match="nginx: not found: run `apt-get install nginx-light`"):
        tools.find("nginx")


def test_the_folder_of_the_cache_is_absolute_whatever_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", "here")
    assert tools.cache_folder() == Path.cwd() / "here"


def test_programs_without_a_debian_package_have_a_command_of_their_own() -> None:
    assert tools.install_commands(["haproxy", "ip"]) == ["apt-get install haproxy iproute2"]
    line = tools.not_found(["nft", "sing-box"])
    assert line.startswith("nft, sing-box: not found: run `apt-get install nftables` and `go install ")
    assert "@v" in line, "a version that is known to work"
