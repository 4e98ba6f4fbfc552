"""Tests in this folder make real laboratories: they need namespaces and /dev/net/tun, and fail without."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from wavebed.virtual.guest import bytecode
from wavebed.virtual.kernel import SourceMissingError, build, kernel_folder

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def kernel() -> Path:
    """Return the folder of the guest kernel, which is built if it is not in the cache."""
    try:
        build(None, print, len(os.sched_getaffinity(0)))
    except SourceMissingError as missing:
        pytest.skip(f"needs the guest kernel: {missing}")
    return kernel_folder()


@pytest.fixture
def cache(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of the test's own, with the kernel."""
    folder = tmp_path / "cache"
    shutil.copytree(kernel, folder / "kernel" / kernel.name)
    compiled = bytecode()
    shutil.copytree(compiled, folder / "bytecode" / compiled.name)
    monkeypatch.setenv("WAVEBED_CACHE", str(folder))
    return folder
