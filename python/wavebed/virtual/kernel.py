"""The guest kernel of virtual time: its pinned source, its build, and where it is.

The kernel is Linux as an ordinary program (User-Mode Linux), with the configuration and the patch in `kernel/`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.lab.tools import cache_folder
from wavebed.prepared import prepared
from wavebed.workload.drafts import drafted_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PROGRAM = "linux"
_RECORD = "kernel.json"
_PACKAGE = "wavebed_kernel"
"""A package of its own, since its licence is another: `plugins/wavebed-kernel`."""
_CONFIG = "config"
_PIECE_BYTES = 1 << 20
_FETCH_S = 60.0
_PACKAGES = {
    "ar": "binutils",
    "bc": "bc",
    "bison": "bison",
    "flex": "flex",
    "gcc": "gcc",
    "make": "make",
    "patch": "patch",
    "strip": "binutils",
    "tar": "tar",
    "xz": "xz-utils",
}
"""The programs of a build, and the Debian package of each."""
_SAME_EVERYWHERE = {
    "KBUILD_BUILD_USER": "wavebed",
    "KBUILD_BUILD_HOST": "wavebed",
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
    "LC_ALL": "C",
}
"""Two builds by one compiler are the same program."""
_ASK_S = 10.0
_OTHER_PROCESSORS = (
    *("alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze", "mips", "nios2"),
    *("openrisc", "parisc", "powerpc", "riscv", "s390", "sh", "sparc", "xtensa"),
)
_SKIPPED = ("Documentation", "samples", "drivers/gpu/drm/amd", *(f"arch/{name}" for name in _OTHER_PROCESSORS))
"""Parts of the source that this kernel does not use."""


NO_LANDLOCK = (
    "this machine has no Landlock (Linux 5.13 and later, `landlock` in lsm=): a guest's own kernel alone keeps it"
    " from other files"
)
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1


class SourceMissingError(WavebedError):
    """The source of the kernel cannot be downloaded."""


class Source(msgspec.Struct, frozen=True):
    """A source of the kernel.

    Parameters
    ----------
    version : str
        Of Linux.
    package : str
        Name of the Debian package's file, which holds the source archive.
    sha256 : str
        Of that file.
    """

    version: str
    package: str
    sha256: str

    @property
    def series(self) -> str:
        """The version without its last part, which names the patch."""
        return ".".join(self.version.split(".")[:2])


SOURCE = Source(
    "7.2.12",
    "linux-source-7.2_7.2.12-1~bpo13+1_all.deb",
    "73ca6c22599ba411ab3179642d33501ca2c90174e13c3c8d86e996ea1cbf2a8f",
)
"""Linux 7.2 of Debian's trixie-backports. The archive moves on: a kept file of this hash can be named instead."""
_ADDRESS = "http://deb.debian.org/debian/pool/main/l/linux/"


class Built(msgspec.Struct, frozen=True):
    """An installed kernel.

    Parameters
    ----------
    release : str
        What ``uname -r`` says in a guest: the version of Linux, and a hash of source, patch and configuration.
    sha256 : str
        Of the program.
    source, source_sha256 : str
        The Debian package of its source, and its hash.
    """

    release: str
    sha256: str
    source: str = ""
    source_sha256: str = ""


def _shipped(name: str) -> Path:
    """Return a file of the folder `kernel`."""
    from importlib import resources

    return Path(str(resources.files("wavebed"))) / "kernel" / name


def _patch_file() -> Path:
    return _shipped(f"{SOURCE.series}.patch")


def release() -> str:
    """Return the release of the kernel that this version of wavebed needs: its version and a hash of what it is of."""
    return f"{SOURCE.version}{_suffix()}"


def _suffix() -> str:
    digest = hashlib.sha256(SOURCE.sha256.encode())
    for file in (_patch_file(), _shipped(_CONFIG)):
        digest.update(file.read_bytes())
    return f"-wavebed-{digest.hexdigest()[:12]}"


def kernel_folder() -> Path:
    """Return where the kernel of this version of wavebed is kept."""
    return cache_folder() / "kernel" / release()


def find_kernel() -> tuple[Path, Built] | None:
    """Return the program and what is known of it, from the cache or from the package `wavebed-kernel`.

    ``None``: neither has a whole one for this version of wavebed.
    """
    from importlib.util import find_spec

    package = find_spec(_PACKAGE)
    folders = [kernel_folder(), *([Path(package.origin).parent] if package and package.origin else [])]
    return next(filter(None, map(_kernel_in, folders)), None)


def _kernel_in(folder: Path) -> tuple[Path, Built] | None:
    try:
        found = msgspec.json.decode((folder / _RECORD).read_bytes(), type=prepared(Built))
        with (folder / _PROGRAM).open("rb") as program:
            digest = hashlib.file_digest(program, "sha256").hexdigest()
    except (OSError, msgspec.MsgspecError):
        return None
    is_right = digest == found.sha256 and found.release == release()
    return (folder / _PROGRAM, found) if is_right else None


def has_landlock() -> bool:
    """Return whether this machine's kernel keeps a guest from other files (landlock(7))."""
    import ctypes

    ask = (_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    return ctypes.CDLL(None).syscall(*ask) > 0  # type: ignore[no-any-return]


def needed_kernel() -> tuple[Path, Built]:
    """Return the program and what is known of it.

    Raises
    ------
    MachineError
        If it is not installed.
    """
    found = find_kernel()
    if found is None:
        raise MachineError(f"the kernel of virtual time ({release()}) is not installed: run `wavebed kernel build`")
    return found


def install(program: Path) -> Built:
    """Keep a kernel that was built elsewhere by this version of wavebed.

    Raises
    ------
    MachineError
        If it cannot be kept.
    UserError
        If it is not that kernel.
    """
    digest = _sha256(program)
    told = f"name the program `linux` of {release()}, which `wavebed kernel build` of this version makes"
    try:
        asked = subprocess.run(
            [program.absolute(), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        raise UserError(f"{program}: is no kernel that runs here: {told}") from None
    if asked != release():
        raise UserError(f"{program}: is another kernel: {told}")
    with _kept_in_cache() as draft:
        kept = draft / "kept"
        kept.mkdir()
        shutil.copy(program, kept / _PROGRAM)
        (kept / _PROGRAM).chmod(0o755)
        shutil.copy(_shipped(_CONFIG), kept / _CONFIG)
        return _keep(kept, digest)


@contextmanager
def _kept_in_cache() -> Iterator[Path]:
    """Yield a draft folder beside the kernel's. An error of the file system is an error of the machine."""
    parent = kernel_folder().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with drafted_folder(parent) as draft:
            yield draft
    except OSError as error:
        raise MachineError(f"{parent}: no kernel can be kept there: {(error.strerror or str(error)).lower()}") from None


def _keep(kept: Path, digest: str) -> Built:
    built = Built(release(), digest, SOURCE.package, SOURCE.sha256)
    (kept / _RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(built)))
    folder = kernel_folder()
    shutil.rmtree(folder, ignore_errors=True)
    kept.rename(folder)
    return built


def build(archive: Path | None, say: Callable[[str], None], jobs: int) -> Built:
    """Build the kernel, unless it is there, and keep it in the cache.

    Parameters
    ----------
    archive : Path, optional
        The Debian package of the source; it is downloaded without.
    say : callable
        Gets a line at the start of each step.
    jobs : int
        Compilers at the same time.

    Raises
    ------
    MachineError
        If this machine cannot build it: another processor, a program is missing, the disk is full, or a step fails.
    UserError
        If `archive` is another file than the pinned one.
    SourceMissingError
        If the source cannot be downloaded.
    WavebedError
        If what was downloaded is another source, or does not take the configuration.
    """
    if (found := find_kernel()) is not None:
        return found[1]
    if platform.machine() != "x86_64":
        raise MachineError(f"virtual time needs an x86-64 processor, and this is {platform.machine()}")
    if lacking := [name for name in _PACKAGES if shutil.which(name) is None]:
        packages = " ".join(sorted({_PACKAGES[name] for name in lacking}))
        raise MachineError(f"{', '.join(lacking)}: not found: run `apt-get install {packages}`")
    if archive is not None and _sha256(archive) != SOURCE.sha256:
        raise UserError(f"{archive}: is not {SOURCE.package}: its SHA-256 is not {SOURCE.sha256}")
    with _kept_in_cache() as draft:
        if archive is None:
            say(f"fetching the source of Linux {SOURCE.version}")
            archive = _fetch(draft)
        say("unpacking it")
        tree = _unpack(archive, draft)
        say("configuring it")
        _run(["patch", "--strip=1", "--batch", f"--input={_patch_file()}"], tree)
        _configure(tree)
        say("compiling it")
        _make(tree, f"--jobs={jobs}", _PROGRAM)
        _run(["strip", _PROGRAM], tree)
        kept = draft / "kept"
        kept.mkdir()
        shutil.move(tree / _PROGRAM, kept / _PROGRAM)
        shutil.copy(tree / ".config", kept / _CONFIG)
        return _keep(kept, _sha256(kept / _PROGRAM))


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None


def _fetch(folder: Path) -> Path:
    """Download the pinned package."""
    file = folder / SOURCE.package
    remedy = f"find {SOURCE.package} elsewhere, and name it with --source"
    try:
        with urllib.request.urlopen(_ADDRESS + SOURCE.package, timeout=_FETCH_S) as answer, file.open("wb") as stream:  # noqa: S310 - a fixed address
            shutil.copyfileobj(answer, stream, _PIECE_BYTES)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise SourceMissingError(f"{_ADDRESS}{SOURCE.package}: {reason}: {remedy}") from None
    if _sha256(file) != SOURCE.sha256:
        raise WavebedError(f"{_ADDRESS}{SOURCE.package}: has another SHA-256 than {SOURCE.sha256}: {remedy}")
    return file


def _unpack(package: Path, folder: Path) -> Path:
    """Unpack the source from the package, without what this kernel does not use; return its folder."""
    name = f"linux-source-{SOURCE.series}"
    data, inner = folder / "data.tar.xz", folder / f"{name}.tar.xz"
    for command, output in (
        (["ar", "p", str(package.absolute()), "data.tar.xz"], data),
        (["tar", "-xJOf", str(data), f"./usr/src/{name}.tar.xz"], inner),
    ):
        with output.open("wb") as stream:
            _run(command, folder, stream)
    data.unlink()
    _run(["tar", "-xf", str(inner), *(f"--exclude={name}/{part}/*.[chS]" for part in _SKIPPED)], folder)
    inner.unlink()
    return folder / name


def _configure(tree: Path) -> None:
    """Write the configuration, and check that each wanted line holds."""
    _make(tree, "tinyconfig")
    wanted = [line for line in _shipped(_CONFIG).read_text().splitlines() if line.startswith("CONFIG_")]
    with (tree / ".config").open("a") as stream:
        stream.writelines(f"{line}\n" for line in wanted)
    _make(tree, "olddefconfig")
    found = set((tree / ".config").read_text().splitlines())
    on = {line.split("=")[0] for line in found if line.startswith("CONFIG_")}
    refused = [line for line in wanted if (line.split("=")[0] in on if line.endswith("=n") else line not in found)]
    if refused:
        raise WavebedError(f"the source of Linux {SOURCE.version} does not take {', '.join(sorted(refused))}")


def _make(tree: Path, *targets: str) -> None:
    _run(["make", "ARCH=um", f"LOCALVERSION={_suffix()}", *targets], tree)


def _run(command: Sequence[str], folder: Path, output: IO[bytes] | None = None) -> None:
    """Run a step, which writes to `output`; its last lines are in the error."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **_SAME_EVERYWHERE},
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout or b"").decode(errors="replace").strip().splitlines()
        if any("No space left on device" in line for line in said):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise MachineError(f"{command[0]} failed with {done.returncode}: {' | '.join(said[-3:])}")
