"""A guest: a process tree that boots the kernel of virtual time and runs one command in it.

Time in a guest stands still while a process of it runs, and jumps to the next timer when all wait. The guest reads the
host's files, writes to memory, and has one folder of the host to write to.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed import __version__
from wavebed._core import find_core
from wavebed.config.data import texts_in
from wavebed.errors import MachineError, WavebedError
from wavebed.lab.confine import hidden_homes, program_files, python_files, site_folders
from wavebed.lab.tools import cache_folder, open_file, open_lock
from wavebed.spec.trial import GUEST_BYTES, IN_NAMESPACES, USUAL_GUEST_BYTES, NamespacesLab
from wavebed.virtual.channel import ANSWERS, CHANGES, MAPS, STATE, Channel
from wavebed.virtual.kernel import needed_kernel
from wavebed.workload.drafts import drafted_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from wavebed.path.model import PathModel
    from wavebed.spec.types import Network
    from wavebed.virtual.channel import Made

START_S = 1_798_761_600
"""The guest's date at its start, seconds since 1970: 2027-01-01 00:00 UTC."""
_BEGIN_S = START_S + 200
"""Laboratories begin at this date: how long the start of their programs took, in virtual time, moves nothing."""
ENTRY_NS = 1000
"""Virtual time that each entry into the kernel takes (system call, page fault), nanoseconds: a sender without a pace
ends."""
LOOP_MS = 2000
"""A program that computes this long, on the host's processor, without the kernel is taken for a loop that waits for
another: a tick passes, and the trial is not exact."""
INPUT, OUTPUT, BYTECODE = "/run/wavebed/in", "/run/wavebed/out", "/run/wavebed/bytecode"
"""The shared folders in the guest: names that are the same in each run."""
OPENED, _OPENED_OUTSIDE = "/run/wavebed/opened", "/proc/self/fd"
"""The descriptors of the kernel's process. It keeps the files of the host open that programs of the guest opened."""
_STATUS, _LOG, _CONSOLE, _TASK, _INIT = "status", "log", "console", "guest.json", "init"
_HERE = "/proc/self/cwd"
"""The folder of the guest, as the kernel finds it: the kernel seeds random numbers with its command line, so that must
have no name that changes."""
_CGROUPS, _OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_TICKS = Path("/sys/module/time/parameters")
_COMPILE = """
import compileall, importlib, sys
for name in ("wavebed.run.executor.inside", "pyarrow.parquet", "pandas", "PIL.Image", "playwright.sync_api"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
compileall.compile_dir(sys.argv[1], quiet=2)
"""
"""Compiles what guests import: all of wavebed, and of other packages what these modules import."""
_LOOK_S = 0.05
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
READS_VARIABLE = "WAVEBED_GUEST_READS"
"""Names more files and folders that guests may read, between colons."""
_OF_KERNEL = ("/dev/null", "/dev/zero", "/proc/cpuinfo", "/proc/self")
"""What the kernel itself reads of these folders."""
_OF_MACHINE = frozenset({"dev", "lost+found", "proc", "run", "sys"})
"""Folders of the root in which nothing else is readable: the guest has its own."""
_SETTINGS = "/etc"
"""Holds files that only root may read."""
_OTHERS_READ = 0o004
_NAMED_PATH = re.compile(r"/[^\s'\":;=,|&<>()]+")
"""An absolute path, alone or in the line of a shell."""
_NO_HARDWARE_RANDOM = "~0x4000000000000000:~0x40000"
"""To OpenSSL and BoringSSL: the processor has neither RDRAND nor RDSEED, whose numbers no seed fixes."""
_MACHINE = "x86_64"
_UNSAFE = " \t\n\"'\\,"
"""Characters that the kernel's command line or its mounts would take for others."""
_LAST_LINES = 3
_KILLED_FOR_MEMORY = re.compile(r"Out of memory: Killed process \d+ (\(.*?\))")
_LEAST_FREE_BYTES = 1 << 30
"""Room that guests leave on the disk of their folder, or half of what was free if that is less."""


@dataclass(frozen=True, slots=True)
class GuestFolder:
    """The folder of a guest on the host.

    Parameters
    ----------
    input, output, given : Path
        What the guest reads, the only place where it may write, and a layer of its root; all are empty at first.
    """

    folder: Path

    @property
    def input(self) -> Path:
        """What the guest reads at `INPUT`."""
        return self.folder / "in"

    @property
    def output(self) -> Path:
        """What the guest writes at `OUTPUT`."""
        return self.folder / "out"

    @property
    def given(self) -> Path:
        """Files of the guest's root, which hide this machine's files of the same names."""
        return self.folder / "given"


@contextmanager
def guest_folder() -> Iterator[GuestFolder]:
    """Yield the folder of a new guest, which is removed at the end. Folders of killed processes are removed too.

    Raises
    ------
    MachineError
        If it cannot be made, or its name is none that the kernel takes.
    """
    parent = cache_folder().absolute() / "guests"
    if any(letter in str(parent) for letter in _UNSAFE):
        raise MachineError(f"{parent}: has a blank, a comma or a quote: name another folder with WAVEBED_CACHE")
    with ExitStack() as stack:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            made = GuestFolder(stack.enter_context(drafted_folder(parent)))
            for each in (made.input, made.output, made.given, made.folder / "uml"):
                each.mkdir()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise MachineError(f"{parent}: no guest can be made there: {why}") from None
        yield made


def outside_of_path(path: PathModel | Network) -> str:
    """Return why a path needs real time; empty: it does not."""
    if platform.machine() != _MACHINE:
        return f"virtual time needs a processor of {_MACHINE}"
    if path.nat:
        return "nat leads to this machine's network, which has real time"
    if path.outside_sockets:
        return "outside-sockets opens sockets of this machine, which has real time"
    return ""


def wait_for_begin() -> None:
    """Wait in a guest until laboratories begin."""
    time.sleep(max(_BEGIN_S - time.time(), 0.0))


def forced_ticks(folder: Path = _TICKS) -> tuple[int, str]:
    """Return how often a tick passed in this guest for a program that computed `LOOP_MS`, and the last such program."""
    number, program = ((folder / name).read_text(errors="replace").strip() for name in ("forced_ticks", "forced_by"))
    return int(number), program


def environment(given: Mapping[str, str], allowed: Collection[str]) -> dict[str, str]:
    """Return the environment of a guest's command: the same for each run, whoever starts it from wherever.

    A longer ``PATH`` moves the times of a trial. It has the system's folders, the interpreter's, and each folder of the
    given one that the guest may read. So an active environment of Python changes nothing.

    Parameters
    ----------
    given : mapping
        The environment of this process, whose programs must be found in the guest too.
    allowed : collection of str
        The files and folders that the guest may read (`readable`).
    """
    reads = {os.path.realpath(each) for each in allowed}
    searched = [part for part in given.get("PATH", "").split(":") if part.startswith("/") and _is_read(part, reads)]
    path = dict.fromkeys([*_PATH, str(Path(sys.executable).parent), *searched])
    own = {name: given[name] for name in ("WAVEBED_AGENT", "WAVEBED_CORE", "WAVEBED_EDGE") if given.get(name)}
    fixed = {
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "OPENSSL_ia32cap": _NO_HARDWARE_RANDOM,
        "PATH": ":".join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPYCACHEPREFIX": BYTECODE,
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": ":".join([str(Path(__file__).parents[2]), *filter(None, [given.get("PYTHONPATH")])]),
        "TZ": "UTC",
        "WAVEBED_CACHE": str(cache_folder().absolute()),
    }
    return dict(sorted((own | fixed).items()))


def _is_read(folder: str, reads: set[str]) -> bool:
    """Return whether a guest that reads these files and folders reads anything in a folder."""
    real = os.path.realpath(folder)
    if not os.path.isdir(real):  # noqa: PTH112 - a folder behind a closed one is none, and no error
        return False
    return is_in(real, reads) or any(os.path.dirname(each) == real for each in reads)  # noqa: PTH120 - each is real


def is_in(name: str, folders: set[str]) -> bool:
    """Return whether a file or folder is one of these, or in one of them."""
    return name in folders or any(str(above) in folders for above in Path(name).parents)


def kernel_arguments(folder: GuestFolder, seed: int, lab: NamespacesLab = IN_NAMESPACES) -> list[str]:
    """Return the command line of the kernel.

    Parameters
    ----------
    seed : int
        Of the guest's random numbers.
    lab : NamespacesLab
        Has the model of the processor, and the memory.
    """
    processor = [] if lab.processor == "infinite" else [f"time-travel-entry={ENTRY_NS}"]
    if lab.processor == "host":
        processor.append(f"time-travel-host={round(lab.slower * 100)}")
    return [
        f"mem={(lab.memory_bytes or USUAL_GUEST_BYTES) >> 20}M",
        "rootfstype=hostfs",
        "ro",
        f"init={_HERE}/{_INIT}",
        "con=null",
        "con0=null,fd:1",
        "quiet",
        "panic=-1",
        "time-travel=inf-cpu",
        *processor,
        f"time-travel-loop={LOOP_MS}",
        f"time-travel-start={START_S * 10**9}",
        f"random-seed={seed}",
        "norandmaps",
        "seccomp=auto",
        f"uml_dir={folder.folder / 'uml'}",
        "umid=guest",
        "--",
        "guest-init",
        f"{_HERE}/{_TASK}",
    ]


def starter_arguments(folder: GuestFolder, processor: int, files: Iterable[str]) -> list[str]:
    """Return the command line that makes ``wavebed-core`` the kernel, without the kernel's arguments.

    Parameters
    ----------
    files : iterable of str
        What the guest may read besides its folder.
    """
    arguments = ["guest", f"--parent={os.getpid()}", f"--processor={processor}"]
    arguments += [f"--writable={each}" for each in (folder.output, folder.folder / "uml")]
    return [*arguments, *(f"--readable={each}" for each in [*files, str(folder.folder)])]


def bytecode() -> Path:
    """Return the folder of this installation's bytecode for guests; make it, or bring it up to date.

    A guest uses no other bytecode, and writes none: whether modules were compiled moves the times of programs. What is
    not in the folder, or older than its source, each process of a guest compiles.

    Raises
    ------
    MachineError
        If it cannot be made.
    """
    source = Path(__file__).parents[1]
    installed = hashlib.sha256(f"{sys.prefix}:{source}".encode()).hexdigest()[:12]
    folder = cache_folder().absolute() / "bytecode" / f"{sys.implementation.cache_tag}-{__version__}-{installed}"
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with drafted_folder(folder.parent) as draft:
                made = draft / "made"
                made.mkdir()
                made.chmod(0o755)  # programs in a guest read it as another user
                _compile(source, made)
                with suppress(OSError):  # another process has made it meanwhile
                    made.rename(folder)
        elif folder.stat().st_mtime_ns < _changed_ns(source):
            _compile(source, folder)
    except OSError as error:
        raise MachineError(f"{folder}: cannot be made: {(error.strerror or str(error)).lower()}") from None
    return folder


@cache
def _changed_ns(source: Path) -> int:
    """Return when a module of wavebed last changed, or a package was last installed; each process looks once."""
    sites = filter(Path.exists, map(Path, site_folders()))
    return max(file.stat().st_mtime_ns for file in (*source.rglob("*.py"), *sites))


def _compile(source: Path, folder: Path) -> None:
    """Compile what guests import into a folder, which gets the date of the start."""
    start_ns = time.time_ns()
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables["PYTHONPYCACHEPREFIX"] = str(folder)
    argv = [sys.executable, "-c", _COMPILE, str(source)]
    subprocess.run(argv, env=variables, stdin=subprocess.DEVNULL, capture_output=True, umask=0o022, check=False)
    os.utime(folder, ns=(start_ns, start_ns))


def task_json(folder: GuestFolder, bytecode: Path, command: Sequence[str], variables: Mapping[str, str]) -> bytes:
    """Return what the guest's first process does, as `guest.rs` of ``wavebed-core`` reads it."""
    task = {
        "command": list(command),
        "environment": dict(variables),
        "given": str(folder.given),
        "shared": [
            {"outside": str(folder.input), "inside": INPUT, "writable": False},
            {"outside": str(folder.output), "inside": OUTPUT, "writable": True},
            {"outside": str(bytecode), "inside": BYTECODE, "writable": False},
            {"outside": _OPENED_OUTSIDE, "inside": OPENED, "writable": False},
        ],
        "log": f"{OUTPUT}/{_LOG}",
        "channel": {
            "changes": f"{INPUT}/{CHANGES}",
            **{name: f"{OUTPUT}/{name}" for name in (STATE, MAPS, ANSWERS)},
        },
        "status": f"{OUTPUT}/{_STATUS}",
    }
    return msgspec.json.encode(task)


def readable(named: Iterable[str] = ()) -> list[str]:
    """Return the files and folders that a guest may read, whatever a program in it does, as far as they exist.

    Homes are left out, but for the interpreter, wavebed, its cache, `named`, and what the variable
    ``WAVEBED_GUEST_READS`` names. So are the host's processes and devices, and settings that not everybody may read.

    Parameters
    ----------
    named : iterable of str
        More files and folders, which a specification names. Of a home, hidden files are left out.
    """
    hidden = [Path(home) for home in hidden_homes()]
    found, _ = _readable_in("/", hidden)
    wanted = [*_OF_KERNEL, *python_files(), *program_files(find_core()), str(cache_folder().absolute())]
    wanted += [path for path in os.environ.get(READS_VARIABLE, "").split(":") if path.startswith("/")]
    wanted += [each for path in named for each in _without_secrets(path, hidden)]
    return [*found, *(path for path in dict.fromkeys(wanted) if Path(path).exists())]


def paths_in(value: object) -> list[str]:
    """Return the absolute paths that a JSON value names, alone or in a command."""
    return sorted({path for text in texts_in(value) for path in _NAMED_PATH.findall(text)})


def _without_secrets(path: str, hidden: Sequence[Path]) -> list[str]:
    """Return a path; of a home, or a folder of homes, what is neither a home nor has a name that begins with a dot."""
    if not any(home.is_relative_to(path) for home in hidden):
        return [path]
    inside = [entry for entry in _entries(path) if not entry.name.startswith(".") and not entry.is_symlink()]
    return [entry.path for entry in inside if not any(home.is_relative_to(entry.path) for home in hidden)]


def _readable_in(folder: str, hidden: Sequence[Path]) -> tuple[list[str], bool]:
    """Return what is readable in a folder, and whether that is all."""
    found, is_all = [], True
    for entry in sorted(_entries(folder), key=lambda each: each.name):
        if entry.is_symlink():  # what it leads to is readable at its own place, or nowhere
            continue
        path = Path(entry.path)
        is_setting = path.is_relative_to(_SETTINGS)
        if path in hidden or (folder == "/" and entry.name in _OF_MACHINE) or (is_setting and _is_closed(entry)):
            is_all = False
            continue
        holds_home = any(home.is_relative_to(path) for home in hidden)
        if entry.is_dir() and (is_setting or holds_home):
            inside, is_all_inside = _readable_in(entry.path, hidden)
            found += [entry.path] if is_all_inside else inside
            is_all = is_all and is_all_inside
        else:
            found.append(entry.path)
    return found, is_all


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_closed(entry: os.DirEntry[str]) -> bool:
    """Return whether not everybody may read a file."""
    try:
        return not entry.stat().st_mode & _OTHERS_READ
    except OSError:
        return True


def run_guest(
    folder: GuestFolder,
    command: Sequence[str],
    seed: int,
    given_up: Callable[[], bool] = lambda: False,
    named: Iterable[str] = (),
    lab: NamespacesLab = IN_NAMESPACES,
    name: str = "",
    repeated: list[Made] | None = None,
) -> int | None:
    """Run a command in a guest, and return its exit status; ``None`` if it was given up.

    It waits for a processor that no other guest of this user has. Call it in the thread that lives as long as the
    guest: the kernel ends the guest with that thread.

    Parameters
    ----------
    seed : int
        Of the guest's random numbers.
    given_up : callable
        Called some times a second; whether to end the guest.
    named : iterable of str
        Files and folders that the guest may read besides the files of every guest (`readable`).
    lab : NamespacesLab
        Has the model of the processor, and the memory.
    name : str
        Of the guest's laboratory, as ``wavebed ctl`` lists it; drawn by default.
    repeated : list of Made, optional
        Changes that its first laboratory is to get at their times.

    Raises
    ------
    MachineError
        If the kernel of virtual time is not installed.
    WavebedError
        If the guest ends without a status, fills the disk, or runs out of memory.
    """
    kernel, _ = needed_kernel()
    left_bytes = min(_LEAST_FREE_BYTES, _free_bytes(folder) // 2)
    (folder.folder / _INIT).symlink_to(find_core())
    allowed = readable(named)
    (folder.folder / _TASK).write_bytes(task_json(folder, bytecode(), command, environment(os.environ, allowed)))
    name = name or f"virtual-{folder.folder.name.rpartition('-')[2]}"
    with (
        _processor(given_up, lab.memory_bytes) as processor,
        Channel(folder.input, folder.output, name, repeated) as channel,
    ):
        if processor is None:
            return None
        starter = starter_arguments(folder, processor, [*allowed, str(kernel)])
        with (folder.folder / _CONSOLE).open("wb") as console:
            process = subprocess.Popen(
                [find_core(), *starter, "--", str(kernel), *kernel_arguments(folder, seed, lab)],
                cwd=folder.folder,
                env={"LC_ALL": "C", "HOME": str(folder.folder), "PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
        try:
            while (code := _ended(process)) is None:
                channel.serve()
                if given_up():
                    return None
                _check_room(folder, left_bytes)
        finally:
            process.kill()
            process.wait()
    _check_room(folder, left_bytes)  # it may have ended by a full disk since the last look
    return _status(folder, code, lab)


def _check_room(folder: GuestFolder, left_bytes: int) -> None:
    if _free_bytes(folder) < left_bytes:
        free = f"less than {max(left_bytes >> 20, 1)} MiB are free on the disk of {cache_folder()}"
        raise WavebedError(f"the guest was ended: {free}: make room, or name a folder with WAVEBED_CACHE")


def _free_bytes(folder: GuestFolder) -> int:
    found = os.statvfs(folder.output)
    return found.f_bavail * found.f_frsize


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _status(folder: GuestFolder, code: int, lab: NamespacesLab) -> int:
    if killed := _KILLED_FOR_MEMORY.search(_text(folder.folder / _CONSOLE)):
        memory = f"of {(lab.memory_bytes or USUAL_GUEST_BYTES) >> 20} MiB"
        raise WavebedError(
            f"the guest of virtual time ran out of its memory {memory}, and its kernel ended {killed[1]}: use less, or"
            f" give it more, up to {GUEST_BYTES[1] >> 20} MiB, with --guest-memory or `memory` in [lab]"
        )
    told = _text(folder.output / _STATUS)
    if told.isdecimal():
        return int(told)
    signalled = f"its kernel was killed by signal {-code}" if code < 0 else ""
    why = told or signalled or last_lines(folder.folder / _CONSOLE) or f"its kernel ended with {code}"
    raise WavebedError(f"the guest of virtual time ended early: {why}")


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def last_lines(file: Path) -> str:
    """Return the last lines of a text file, joined; nothing if there are none."""
    lines = _text(file).splitlines()
    return " | ".join(line.strip() for line in lines[-_LAST_LINES:])


def last_words(folder: GuestFolder) -> str:
    """Return the last lines that the guest's command printed."""
    return last_lines(folder.output / _LOG)


def processors(memory_bytes: int | None = None) -> list[int]:
    """Return the processors that guests may have: as many as affinity, memory and the limits of the cgroup allow.

    Parameters
    ----------
    memory_bytes : int, optional
        Memory of each guest.
    """
    allowed = sorted(os.sched_getaffinity(0))
    memory = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    memory += [int(limit) for (limit,) in _cgroup_limits("memory.max")]
    shares = [int(quota) // int(period) for quota, period in _cgroup_limits("cpu.max")]
    return allowed[: max(min(len(allowed), min(memory) // (memory_bytes or USUAL_GUEST_BYTES), *shares), 1)]


def _cgroup_limits(name: str, root: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> Iterator[list[str]]:
    """Yield the values of a limit of this process's cgroup and of those above it, where there is one (cgroups(7))."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    for folder in (root / path, *(root / path).parents):
        if not folder.is_relative_to(root):
            return
        with suppress(OSError):
            values = (folder / name).read_text(encoding="utf-8").split()
            if values and values[0] != "max":
                yield values


@contextmanager
def _processor(given_up: Callable[[], bool], memory_bytes: int | None) -> Iterator[int | None]:
    """Yield a processor that no other guest of this user has; ``None`` if the wait was given up."""
    while not given_up():
        for number in processors(memory_bytes):
            lock = open_lock(f"-processor-{number}")
            if lock is None:
                lock = open_file(cache_folder() / "guests" / f"processor-{number}")
            if lock is None:
                raise MachineError(f"{cache_folder()}: no file can be made there")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            else:
                yield number
                return
            finally:
                os.close(lock)
        time.sleep(_LOOK_S)
    yield None
