"""dash.js: its file, its installation and its settings."""

from __future__ import annotations

import fcntl
import json
import subprocess
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.errors import MachineError

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json

__all__ = ["ABR_RULES", "VERSION", "dashjs", "has_dashjs", "player_settings"]

VERSION = "5.2.1"
ABR_RULES = {"dynamic": ("throughputRule", "bolaRule"), "throughput": ("throughputRule",), "bola": ("bolaRule",)}
"""The active ones of the two main rules; with both, dash.js switches between them by the buffer's level."""

INSTALL_TIMEOUT_S = 120


def dashjs(cache: Path) -> Path:
    """Return the file of the player in the cache; npm installs it if it is missing.

    Raises
    ------
    MachineError
        If it is missing and npm cannot install it.
    """
    if not has_dashjs(cache):
        _install(cache / "npm")
    return _package(cache / "npm") / "dist" / "modern" / "umd" / "dash.all.min.js"


def has_dashjs(cache: Path) -> bool:
    """Return whether the player is in the cache in the right version."""
    return _is_there(cache / "npm")


def _package(folder: Path) -> Path:
    return folder / "node_modules" / "dashjs"


def _is_there(folder: Path) -> bool:
    try:
        about = json.loads((_package(folder) / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and about.get("version") == VERSION


def _install(folder: Path) -> None:
    """Install the packages of the lock file, with their hashes checked."""
    argv = ["npm", "ci", "--prefix", str(folder), "--omit=dev", "--silent", "--no-audit", "--no-fund"]
    argv += ["--ignore-scripts"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two npm cannot install in one folder at once
            if not _is_there(folder):
                for name in ("package.json", "package-lock.json"):
                    content = (resources.files("wavebed.workload") / "npm" / name).read_bytes()
                    (folder / name).write_bytes(content)
                subprocess.run(
                    argv, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=INSTALL_TIMEOUT_S
                )
    except (OSError, subprocess.SubprocessError):
        raise MachineError(f"dash.js {VERSION} is not in the cache: run `{' '.join(argv)}`") from None
    if not _is_there(folder):
        raise MachineError(f"npm did not install dash.js {VERSION}: run `{' '.join(argv)}`")


def player_settings(abr: str, buffer_s: float | None) -> dict[str, Json]:
    """Return the argument of ``updateSettings``.

    Parameters
    ----------
    abr : str
        One of `ABR_RULES`.
    buffer_s : float or None
        Target level of the buffer at any quality; the player's own with ``None``.
    """
    rules: dict[str, Json] = {rule: {"active": rule in ABR_RULES[abr]} for rule in ("throughputRule", "bolaRule")}
    streaming: dict[str, Json] = {"abr": {"rules": rules}, "utcSynchronization": {"enabled": False}}
    if buffer_s is not None:
        names = ("bufferTimeDefault", "bufferTimeAtTopQuality", "bufferTimeAtTopQualityLongForm")
        streaming["buffer"] = dict.fromkeys(names, buffer_s)
    return {"debug": {"logLevel": 0}, "streaming": streaming}
