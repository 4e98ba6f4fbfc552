"""The keys of `download`, and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.test_workload_download import download

if TYPE_CHECKING:
    from pathlib import Path


def test_only_http2_needs_a_certificate(tmp_path: Path) -> None:
    plain, secure = download(), download(protocol="h2")
    plain.prepare(tmp_path)
    assert plain.certificate is None
    secure.prepare(tmp_path)
    assert secure.certificate is not None
