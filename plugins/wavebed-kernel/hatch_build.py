# ruff: noqa: INP001 - hatchling finds it by its name
"""Adds the built kernel to the wheel: `WAVEBED_KERNEL` names its folder, in wavebed's cache."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "wavebed_kernel"
PATCHES = Path(__file__).resolve().parents[2] / "python" / "wavebed" / "kernel"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """The hook of hatchling."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling calls it so
        """Name the files and the tag of the wheel."""
        folder = Path(os.environ["WAVEBED_KERNEL"])
        files = [folder / "linux", folder / "kernel.json", folder / "config", *sorted(PATCHES.glob("*.patch"))]
        build_data["force_include"].update({str(file): f"{PACKAGE}/{file.name}" for file in files})
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{_c_library(folder / 'linux')}_x86_64"


def _c_library(program: Path) -> int:
    """Return the least version 2.N of the GNU C library that a program needs."""
    told = subprocess.run(["readelf", "--version-info", "--wide", program], check=True, capture_output=True, text=True)
    return max(int(found) for found in re.findall(r"GLIBC_2\.([0-9]+)", told.stdout))
