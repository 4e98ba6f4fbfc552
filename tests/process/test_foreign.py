"""Files of others are read whole or refused in one line: never waited for, never more than they may be."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from wavebed.errors import UserError
from wavebed.path.scenario import read_document
from wavebed.scene import load as load_scene
from wavebed.workload.site import load_site

READERS = {
    "scenario": lambda file: read_document(Path(file)),
    "scene": load_scene,
    "site": lambda file: load_site(file, Path(file).parent / "cache"),
}


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of what is no regular file."""
    os.mkfifo(tmp_path / "pipe.toml")
    os.mkfifo(tmp_path / "pipe.har")
    (tmp_path / "folder.toml").mkdir()
    for name in ("device.toml", "device.har", "device.html"):
        (tmp_path / name).symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as made:
        monkeypatch.chdir(tmp_path)  # whose path may be longer than a socket's may be
        made.bind("socket.toml")
    return tmp_path


@pytest.mark.parametrize("name", ["pipe.toml", "folder.toml", "device.toml", "socket.toml"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_refused_at_once(reader: str, name: str, odd: Path) -> None:
    with pytest.raises(UserError, match=r"not a regular file|no index\.html") as refused:
        READERS[reader](str(odd / name))
    assert str(refused.value).startswith(str(odd / name))


@pytest.mark.parametrize("name", ["pipe.har", "device.har", "device.html"])
def test_no_import_waits_for_a_pipe_or_reads_a_device(name: str, odd: Path) -> None:
    with pytest.raises(UserError, match=r"regular file|symbolic link"):
        load_site(str(odd / name), odd / "cache")
