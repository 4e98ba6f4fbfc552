"""The programs of workloads and remedies: path, package, version; the cache folder; and whether this is a guest."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from wavebed.errors import MachineError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType


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
"""The command that installs a program without a Debian package."""

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
    """Return the names of a program on different systems."""
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
    except OSError as error:  # in a container, exec of ping fails: its file capability is not allowed there
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


Time = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{20}\Z")]
"""Nanoseconds, twenty digits."""


class ProgramTime(msgspec.Struct, frozen=True):
    """The processor time of a program that was started for a workload.

    Parameters
    ----------
    workload, host : str
        For what and where it was started.
    before_ns : str or None
        What all programs of the laboratory had used when it started. ``None``: the kernel does not count it.
    own_ns : str or None
        What it used. ``None``: it did not end, or the kernel does not count it.
    """

    workload: str
    host: str
    before_ns: Time | None = None
    own_ns: Time | None = None


class Computing(msgspec.Struct, frozen=True):
    """The processor time in user code of a trial's programs.

    Parameters
    ----------
    total_ns : str
        Of all programs.
    programs : tuple of ProgramTime
        In the order in which they were started.
    """

    total_ns: Time
    programs: tuple[ProgramTime, ...] = ()

    @property
    def total_s(self) -> float:
        """How long all programs computed, seconds."""
        return _seconds(self.total_ns)

    def of_s(self, workload: str) -> float:
        """Return an upper bound of the processor time of a workload's programs, seconds.

        Orphans and programs without a recorded end may belong to any workload, so their time counts. Time before the
        workload's first program started on the client does not: it delayed nothing that the workload measures. For a
        workload without programs this is the time of all programs.
        """
        own = [each for each in self.programs if each.workload == workload]
        if not own:
            return self.total_s
        of_nobody_s = max(self.total_s - sum(_seconds(each.own_ns) for each in self.programs), 0.0)
        before_s = next((_seconds(each.before_ns) for each in own if each.host not in ("server", "edge")), 0.0)
        most_s = sum(_seconds(each.own_ns) for each in own) + of_nobody_s
        return min(most_s, max(self.total_s - before_s, 0.0))


def _seconds(time: str | None) -> float:
    return int(time or 0) / 1e9


FOLDER = Path("/run/lock")


def open_lock(end: str = "") -> int | None:
    """Open the file ``wavebed-USER<end>.lock`` of this user, which nobody else can open, so that nobody else locks it.

    Returns
    -------
    int or None
        A descriptor that is not inherited. ``None``: there is no place for the file.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.geteuid()
    for file in (FOLDER / f"wavebed-{user}{end}.lock", *([Path(runtime) / f"wavebed{end}.lock"] if runtime else [])):
        with suppress(OSError):
            if user == 0 and file.lstat().st_uid != 0:
                file.unlink()  # another user has made it, who could lock it
        descriptor = open_file(file)
        if descriptor is None:
            continue
        found = os.fstat(descriptor)
        if found.st_uid == user and stat.S_ISREG(found.st_mode):
            os.fchmod(descriptor, 0o600)  # an earlier version let all users open it
            return descriptor
        os.close(descriptor)
    return None


def open_file(file: Path) -> int | None:
    """Open a file to lock it, or make it for this user alone; ``None`` if neither is possible."""
    # First without O_CREAT: with it the kernel refuses to open another user's file in a world-writable folder
    # (fs.protected_regular).
    for make in (0, os.O_CREAT | os.O_EXCL, 0):
        with suppress(OSError):
            return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | make, 0o600)
    return None


Place: TypeAlias = tuple[str, str, str]
"""The module, its file, and the name of the function in it."""
_MAIN = "__main__"


def place_of_function(function: Callable[..., object]) -> Place:
    """Return where another process finds a function.

    Raises
    ------
    UserError
        If it finds it nowhere: a lambda, or a function in another function.
    """
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", ""))
    if not name or "<" in name or module is None:
        raise UserError(f"{name or function!r}: cannot be imported by another process: define it in a module")
    try:
        file = inspect.getsourcefile(module) or ""
    except TypeError:  # a built-in module, or a session in a terminal
        file = ""
    if module.__name__ == _MAIN and not file:
        raise UserError(f"{name}: cannot be imported by another process: define it in a file")
    return module.__name__, file, name


def function_at(place: Place) -> Callable[..., object]:
    """Return the function at a place; the module of a script is imported by another name, so its main part is not run.

    Raises
    ------
    ImportError, AttributeError
        If it is not there.
    """
    module, file, name = place
    found: object = _module(module, file)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value] # the other process took it from there


def _module(name: str, file: str) -> ModuleType:
    """Import a module by its name or, as pytest does with test files, by its file."""
    if name == _MAIN:
        name = "__script__"
    try:
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    except ModuleNotFoundError:
        pass  # a folder above it is no package
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a module of Python"
    assert spec.loader is not None, "a module of Python"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
