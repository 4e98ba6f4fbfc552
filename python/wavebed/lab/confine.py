"""Confined programs: as a user whom nobody else is, without capabilities, on a file system that is read-only.

A confined program finds the user's home empty but for what it needs, has a temporary folder of its own in memory, and
knows few of the user's variables. `LabHost.start` starts one; ``wavebed-core`` confines it.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.config.data import Json

__all__ = [
    "Capability",
    "Confined",
    "confined_user",
    "confinement_rules",
    "hand_over",
    "module_path",
    "program_files",
    "take_back",
]

Capability: TypeAlias = Literal["net_admin"]

_USERS = range(63_719, 65_520)
"""Part of the numbers that no account has: systemd gives them (61184 to 65519) to services for as long as they run."""
_HOMES = ("/home", "/root", "/run/user")
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_SITES = ("site-packages", "dist-packages")
_MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class Confined:
    """What a confined program needs.

    Parameters
    ----------
    read : sequence of path
        What it reads although it is in a home or a temporary folder; what everybody can read elsewhere, it can too.
    write : sequence of path
        Folders that become its own: what is written or read there while it runs may be a link that it made.
    capabilities : sequence of str
        ``net_admin``: settings of its host's network.
    """

    read: Sequence[str | os.PathLike[str]] = ()
    write: Sequence[str | os.PathLike[str]] = ()
    capabilities: Sequence[Capability] = ()

    def request(self, argv: Sequence[str]) -> dict[str, Json]:
        """Return what the core is told, for the program of `argv`."""
        read = [*program_files(argv[0]), *_both(os.fspath(path) for path in self.read)]
        return {
            "read": list(dict.fromkeys(read)),
            "write": [os.path.abspath(folder) for folder in self.write],  # noqa: PTH100 - links stay as they are
            "capabilities": list(self.capabilities),
        }


@cache
def confined_user() -> int:
    """Return the number of the user and of the group that confined programs are: no account of this machine has it.

    Raises
    ------
    MachineError
        If all are taken.
    """
    for number in _USERS:
        try:
            pwd.getpwuid(number)
        except KeyError:
            try:
                grp.getgrgid(number)
            except KeyError:
                return number
    raise MachineError(
        f"users {_USERS.start} to {_USERS.stop - 1}: all exist: confined programs need one that does not"
    )


def confinement_rules() -> dict[str, Json]:
    """Return the table ``confine`` of a laboratory file: as whom, and what of hidden folders every program sees."""
    return {"user": confined_user(), "hidden": list(_hidden()), "read": list(dict.fromkeys(_both(_of_python())))}


def _hidden() -> list[str]:
    homes = [*_HOMES]
    own = (os.environ.get("HOME", ""), _home_of_account())
    homes.extend(home for home in own if home.startswith("/") and not _holds_system(home))
    return sorted(set(_both(homes)))


def _holds_system(home: str) -> bool:
    """Say whether a part of the system is in a home, which then cannot be hidden."""
    return any(Path(folder).is_relative_to(home) for folder in _SYSTEM)


def _home_of_account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def _of_python() -> list[str]:
    """Return what a program needs that is a module of wavebed, run by this interpreter."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    return [*prefixes, *program_files(sys.executable), *module_path(), *(path for path in sys.path if _is_site(path))]


def _is_site(path: str) -> bool:
    return Path(path).name in _SITES


def module_path() -> list[str]:
    """Return the folders for ``PYTHONPATH`` with which a program finds wavebed and what it needs, without this home."""
    package = str(Path(__file__).parents[2])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # A site of the user is found by the variable HOME, which is another for a confined program.
    users = [path for path in sys.path if _is_site(path) and not path.startswith((sys.prefix, sys.base_prefix))]
    wanted = [package, *(path for path in given if path.startswith("/")), *users]
    return [path for path in dict.fromkeys(wanted) if not path.startswith(sys.prefix + "/lib")]


def program_files(program: str) -> list[str]:
    """Return the file of a program, and those that lead to it by links."""
    found = shutil.which(program)
    if found is None:
        return []
    files: list[str] = []
    path = os.path.abspath(found)  # noqa: PTH100 - links stay as they are
    while path not in files:
        files.append(path)
        if Path(path).is_symlink():
            path = os.path.normpath(Path(path).parent / Path(path).readlink())
    return [*files, str(Path(path).resolve())]


def _both(paths: Iterable[str]) -> list[str]:
    """Return absolute paths as they are written and as they are without links."""
    return [text for path in paths for text in (os.path.abspath(path), os.path.realpath(path))]  # noqa: PTH100


def hand_over(folder: str | os.PathLike[str], user: int) -> None:
    """Give a folder, and what is in it, to the user that confined programs are."""
    _walk(folder, user, user)


def take_back(folder: str | os.PathLike[str]) -> list[str]:
    """Make what confined programs left in a folder ours, once all have ended; remove what is neither file nor folder.

    A program may have left a link or a pipe where somebody later looks for a file: then its name is in the result. A
    name that stays can be read without care.
    """
    return _walk(folder, os.geteuid(), os.getegid(), clean=True)


def _walk(folder: str | os.PathLike[str], user: int, group: int, *, clean: bool = False) -> list[str]:
    removed: list[str] = []
    is_root = os.geteuid() == 0
    for number, (above, folders, files, at) in enumerate(os.fwalk(folder)):
        if is_root:
            os.chown(at, user, group)
        for name in [*folders, *files]:
            mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
            if clean and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                os.unlink(name, dir_fd=at)
                removed.append(os.path.relpath(Path(above) / name, folder))
            elif is_root and stat.S_ISREG(mode):
                os.chown(name, user, group, dir_fd=at, follow_symlinks=False)
        if number > _MOST_FILES:
            raise MachineError(f"{folder}: holds more than {_MOST_FILES} folders: remove it")
    return removed
