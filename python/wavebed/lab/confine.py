"""Confined programs: a user of their own, no capabilities, a read-only file system.

A confined program sees only the necessary files of the user's home, has a temporary folder of its own in memory, and
gets few of the user's variables. `Host.start` starts one; ``wavebed-core`` confines it.
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


Capability: TypeAlias = Literal["net_admin"]

_USERS = range(63_719, 65_520)
"""Part of the numbers that no account has: systemd gives them (61184 to 65519) to services for as long as they run."""
_HOMES = ("/home", "/root", "/run/user")
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - names to leave out
_SITES = ("site-packages", "dist-packages")
_MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class Confined:
    """The exceptions of a confined program.

    Parameters
    ----------
    read : sequence of path
        Readable paths in a home or a temporary folder; world-readable files elsewhere are readable anyway.
    write : sequence of path
        Folders that it owns. While it runs, a file in them can be a link that it made.
    capabilities : sequence of str
        ``net_admin``: settings of its host's network.
    """

    read: Sequence[str | os.PathLike[str]] = ()
    write: Sequence[str | os.PathLike[str]] = ()
    capabilities: Sequence[Capability] = ()

    def request(self, argv: Sequence[str]) -> dict[str, Json]:
        """Return the request to ``wavebed-core`` for the program of `argv`."""
        read = [*program_files(argv[0]), *_both(os.fspath(path) for path in self.read)]
        return {
            "read": list(dict.fromkeys(read)),
            "write": [os.path.abspath(folder) for folder in self.write],  # noqa: PTH100 - links stay as they are
            "capabilities": list(self.capabilities),
        }


@cache
def confined_user() -> int:
    """Return the user and group number of confined programs, which no account of this machine has.

    Raises
    ------
    MachineError
        If all numbers are in use.
    """
    for number in _USERS:
        try:
            pwd.getpwuid(number)
        except KeyError:
            try:
                grp.getgrgid(number)
            except KeyError:
                return number
    raise MachineError(f"users {_USERS.start} to {_USERS.stop - 1}: all exist: confined programs need an unused number")


def confinement_rules() -> dict[str, Json]:
    """Return the table ``confine`` of a laboratory file: user, hidden folders, and readable paths in them."""
    return {"user": confined_user(), "hidden": [*hidden_homes()], "read": [*python_files()]}


def hidden_homes() -> list[str]:
    """Return the folders of users: a confined program sees only what it needs of them."""
    homes = [*_HOMES]
    own = (os.environ.get("HOME", ""), _home_of_account())
    homes.extend(home for home in own if home.startswith("/") and not _holds_system(home))
    return sorted(set(_both(homes)))


def _holds_system(home: str) -> bool:
    """Return whether a home contains a part of the system and cannot be hidden."""
    return any(Path(folder).is_relative_to(home) for folder in _SYSTEM)


def _home_of_account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def python_files() -> list[str]:
    """Return the files of this interpreter, wavebed and its packages, for programs that are modules of wavebed."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    return list(dict.fromkeys(_both([*prefixes, *program_files(sys.executable), *module_path(), *site_folders()])))


def site_folders() -> list[str]:
    """Return the folders of this interpreter's installed packages."""
    return [path for path in sys.path if _is_site(path)]


def _is_site(path: str) -> bool:
    return Path(path).name in _SITES


def module_path() -> list[str]:
    """Return the folders for ``PYTHONPATH`` with which a program without this home finds wavebed and its packages."""
    package = str(Path(__file__).parents[2])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # Python finds the user's site by the variable HOME, which differs in a confined program.
    users = [path for path in sys.path if _is_site(path) and not path.startswith((sys.prefix, sys.base_prefix))]
    # The program has folders of its own for temporary files. To show the machine's would hide them.
    kept = [
        path
        for path in given
        if path.startswith("/") and not any(Path(each).is_relative_to(path) for each in _TEMPORARY)
    ]
    wanted = [package, *kept, *users]
    return [path for path in dict.fromkeys(wanted) if not path.startswith(sys.prefix + "/lib")]


def program_files(program: str) -> list[str]:
    """Return the file of a program and the links to it."""
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
    """Return the absolute paths, with links and with links resolved."""
    return [text for path in paths for text in (os.path.abspath(path), os.path.realpath(path))]  # noqa: PTH100


def hand_over(folder: str | os.PathLike[str], user: int) -> None:
    """Make the user of confined programs the owner of a folder and its content."""
    _walk(folder, user, user)


def take_back(folder: str | os.PathLike[str]) -> list[str]:
    """Make this process's user the owner of a folder after its programs have ended; return the removed names.

    Links, pipes and other special files are removed, so that the remaining files are safe to read.
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
