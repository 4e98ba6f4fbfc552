"""What is made once is in the cache whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.errors import MachineError
from wavebed.workload import call_video, read_workload
from wavebed.workload.drafts import drafted
from wavebed.workload.serve import make_certificate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_draft_takes_the_place_of_its_file_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    with drafted(file) as draft:
        draft.write(b"new")
        assert not file.exists()
    assert file.read_text() == "new"
    assert list(file.parent.iterdir()) == [file]


def test_a_draft_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def write() -> None:
        with drafted(file) as draft:
            draft.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def _download(cache: Path) -> None:
    read_workload({"kind": "download"}).prepare(cache)


def _film(cache: Path) -> None:
    call_video.camera_film(cache, 32, 16, 5)


def _certificate(cache: Path) -> None:
    make_certificate(cache, ["server"])


@pytest.mark.parametrize("make", [_download, _film, _certificate])
def test_a_cache_that_is_no_folder_is_said_in_one_line(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(MachineError, match=r"cannot be made: (not a directory|file exists)"):
        make(tmp_path / "cache")
