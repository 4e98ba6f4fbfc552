"""The programs of workloads and remedies: path, package, version; the cache folder; and whether this is a guest."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["PACKAGES", "End", "Program", "cache_folder", "find", "in_guest", "install_commands", "known_names"]
__all__ += ["missing", "not_found", "version"]

PACKAGES = {
    "caddy": "caddy",
    "chromium": "chromium",
    "curl": "curl",
    "dnsmasq": "dnsmasq-base",
    "ffmpeg": "ffmpeg",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "irtt": "irtt",
    "mptcpize": "mptcpize",
    "nft": "nftables",
    "nginx": "nginx-light",
    "npm": "npm",
    "openssl": "openssl",
    "ping": "iputils-ping",
    "sing-box": "github.com/sagernet/sing-box",
    "snmpget": "snmp",
    "ssh": "openssh-client",
    "taskset": "util-linux",
    "unshare": "util-linux",
}
"""The Debian package of each program, or its module in `_COMMANDS`."""
_COMMANDS = {
    "sing-box": "go install -tags with_quic github.com/sagernet/sing-box/cmd/sing-box@v1.14.1",
}
"""The command that installs a program of which Debian has no package."""

_VERSION_OPTION = {
    "caddy": "version",
    "curl": "--version",
    "ffmpeg": "-version",
    "haproxy": "-v",
    "ip": "-V",
    "iperf3": "--version",
    "irtt": "version",
    "nginx": "-v",
    "openssl": "version",
    "ping": "-V",
    "sing-box": "version",
    "snmpget": "-V",
    "ssh": "-V",
}
_VERSION_TIMEOUT_S = 20.0

End: TypeAlias = Literal["server", "client", "both", "here"]
_OTHER_NAMES = {"chromium": ("chromium-browser", "google-chrome")}
_SYSTEM_FOLDERS = "/usr/sbin:/sbin:/usr/local/sbin"


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a workload runs.

    Parameters
    ----------
    name : str
        One of `PACKAGES`.
    option : str
        The option of the workload that decides; empty: the workload always runs it.
    values : sequence
        The values of that option with which the workload runs it.
    end : str
        Where: on its ``server``, on its ``client``, on ``both``, or on the machine that runs the trial (``here``).
    """

    name: str
    option: str = ""
    values: Sequence[object] = ()
    end: End = "both"

    def is_needed(self, options: object, end: End | None = None) -> bool:
        """Return whether a workload with these options runs it, at this end of it or anywhere."""
        if end is not None and self.end not in (end, "here" if end == "here" else "both"):
            return False
        return not self.option or getattr(options, self.option) in self.values


def known_names(name: str) -> tuple[str, ...]:
    """Return the names by which systems have a program."""
    return (name, *_OTHER_NAMES.get(name, ()))


def _look_for(name: str) -> str | None:
    for candidate in known_names(name):
        path: str | None = shutil.which(candidate) or shutil.which(candidate, path=_SYSTEM_FOLDERS)
        if path is not None:
            return path
    return None


def missing(names: Iterable[str]) -> list[str]:
    """Return the programs of `names` that are not installed."""
    return [name for name in names if _look_for(name) is None]


def find(name: str) -> str:
    """Return the path of a program.

    Raises
    ------
    MachineError
        If it is not installed; the message names its package.
    """
    path = _look_for(name)
    if path is None:
        raise MachineError(not_found([name]))
    return path


def not_found(names: Sequence[str]) -> str:
    """Return the line that says that programs are missing, and what installs them."""
    commands = " and ".join(f"`{command}`" for command in install_commands(names))
    return f"{', '.join(names)}: not found: run {commands}"


def install_commands(names: Sequence[str]) -> list[str]:
    """Return the commands that install programs."""
    packages = dict.fromkeys(PACKAGES.get(name, name) for name in names if name not in _COMMANDS)
    apt = [f"apt-get install {' '.join(packages)}"] if packages else []
    return apt + [_COMMANDS[name] for name in names if name in _COMMANDS]


@cache
def version(name: str) -> str:
    """Return the first line of a program's version, or ``unknown``.

    Raises
    ------
    MachineError
        If it is not installed.
    """
    argv = [find(name), _VERSION_OPTION.get(name, "--version")]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=_VERSION_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return "unknown"
    except OSError as error:  # as of ping in a container: the file has a capability that no process there may have
        return f"cannot be started: {error.strerror}"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def in_guest() -> bool:
    """Return whether this process runs in a guest."""
    try:
        return "User Mode Linux" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def cache_folder() -> Path:
    """Return the cache folder: ``$WAVEBED_CACHE``, or ``wavebed`` in the user's cache."""
    given = os.environ.get("WAVEBED_CACHE")
    if given:
        return Path(given).absolute()  # programs inside have other working folders
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wavebed"
