"""Hand a laboratory to ``wavebed-core``: the laboratory file in memory, the variables and folders of its programs.

``wavebed shell`` becomes ``wavebed-core`` and starts with no more than this: `wavebed.path.core` costs it 50 ms.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path as FilePath

    from wavebed.config.data import Json

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")


def write_laboratory(laboratory: Mapping[str, Json]) -> int:
    """Write the laboratory file into memory and return its descriptor, which a new program inherits."""
    descriptor = os.memfd_create("laboratory.json", 0)
    with open(descriptor, "wb", closefd=False) as memory:
        memory.write(json.dumps(laboratory).encode())
    return descriptor


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that name a proxy, which nothing inside a laboratory can reach."""
    return {name: value for name, value in environment.items() if name.lower() not in _PROXIES}


def make_folder(folder: FilePath, option: str) -> None:
    """Make a folder for results.

    Raises
    ------
    UserError
        If there is something else of this name, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "cannot be made").lower()
        raise UserError(f"{option}: {str(folder)!r}: {reason}: name a folder that can be made") from None
