"""Process untrusted files within limits of time and memory."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import resource
import selectors
import signal
import time
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.config.problems import Problem, one_of
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import is_file, is_there
from wavebed.prepared import prepared
from wavebed.workload.drafts import date_files, drafted_folder
from wavebed.workload.site.model import BuiltSite, Site
from wavebed.workload.site.spec import read_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    Builder = Callable[[Path], None]

LEAST_MEMORY_BYTES = 512 << 20
MEMORY_FOR_A_BYTE = 4
_ORPHAN_S = 60
WAIT_FOR_A_SECOND = 6
"""Longest wait for a second of processor time: on a busy machine a process gets a part of a processor."""
_ERRORS = {error.exit_status: error for error in (WavebedError, UserError)}
_TOO_MUCH = 4
_LONGEST_LINE = 4096


def bounded(name: str, do: Callable[[], None], limit_s: float, size_bytes: int) -> None:
    """Call `do` in a process of its own, which leaves only files.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    limit_s : float
        Processor time that it may take.
    size_bytes : int
        Size of the file: it may take four times as much memory, and half a gigabyte in any case.

    Raises
    ------
    UserError
        If it exceeds a limit, or raises an error.
    WavebedError
        If it fails for another reason.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _inside(do, writing, max(size_bytes * MEMORY_FOR_A_BYTE, LEAST_MEMORY_BYTES), limit_s)
    os.close(writing)
    try:
        line = _line(reading, time.monotonic() + WAIT_FOR_A_SECOND * limit_s)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if line is None:
        raise UserError(f"{name}: is not imported after {WAIT_FOR_A_SECOND * limit_s:g} s: name a smaller one")
    if line == "" and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        raise UserError(f"{name}: takes longer than {limit_s:g} s to import: name a smaller one")
    if line == "":
        raise WavebedError(f"{name}: the import ended without a word (status {status})")
    code, _, said = line.partition(" ")
    if int(code) == _TOO_MUCH:
        raise UserError(f"{name}: takes too much memory to import: name a smaller one")
    if int(code) != 0:
        raise _ERRORS.get(int(code), WavebedError)(said)


def _line(reading: int, end: float) -> str | None:
    """Return the child's line; empty if there is none in time."""
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while not data.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                return None
            more = os.read(reading, _LONGEST_LINE)
            if not more:
                break
            data += more
    return data.decode("utf-8", "replace").removesuffix("\n")


def _inside(do: Callable[[], None], writing: int, memory_bytes: int, limit_s: float) -> None:
    """Run in the child, which ends with its parent."""
    try:
        gc.freeze()  # the parent's objects, which would be copied by being looked at
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        # The parent ends it before; this is for one that has lost its parent.
        signal.setitimer(signal.ITIMER_REAL, WAIT_FOR_A_SECOND * limit_s + _ORPHAN_S)
        resource.setrlimit(resource.RLIMIT_DATA, (_held_bytes() + memory_bytes, resource.RLIM_INFINITY))
        answer = _answer(do)
    except BaseException as error:  # noqa: BLE001 - nothing of the parent's may go on in the child
        answer = f"{WavebedError.exit_status} {type(error).__name__}: {error}"
    with suppress(OSError):
        os.write(writing, f"{' '.join(answer.split())[:_LONGEST_LINE]}\n".encode("utf-8", "replace"))
    os._exit(0)


def _answer(do: Callable[[], None]) -> str:
    try:
        do()
    except WavebedError as error:
        return f"{error.exit_status} {error}"
    except MemoryError:
        return f"{_TOO_MUCH}"
    except OSError as error:
        return f"{WavebedError.exit_status} {error.filename or 'the cache'}: {error.strerror}: cannot be built there"
    return "0"


def _held_bytes() -> int:
    """Return the present data size of this process, from the kernel."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


_SHIPPED = re.compile(r"(?:(?:scenarios/)?sites/)?([A-Za-z0-9._-]+?)(\.toml|\.json)?", re.ASCII)
_SITE_FILES = (".toml", ".json")
"""Endings of shipped sites: specifications and structures."""
_MANIFEST = ".site.json"  # no host is called like this
_FORMAT = 3
IMPORT_LIMIT_S = 10.0
"""Limit for the import of a recording or a saved page."""


def _shipped_folder() -> Path:
    return Path(str(resources.files("wavebed"))) / "scenarios" / "sites"


def shipped_sites() -> tuple[str, ...]:
    """Return the names of the sites that come with the program."""
    return tuple(sorted(file.stem for file in _shipped_folder().iterdir() if file.suffix in _SITE_FILES))


def load_site(name_or_file: str, cache: Path) -> BuiltSite:
    """Return a site with its files, from `cache` or newly made there.

    Parameters
    ----------
    name_or_file : str
        A specification (``.toml``); a structure (``.json``); a recording (``.har``); a saved page (``.html``,
        ``.htm``) with its folder; a folder with an ``index.html``; or if there is no such file the name of a shipped
        site such as ``cnn``.
    cache : pathlib.Path
        The cache; sites go to ``sites`` in it.

    Raises
    ------
    UserError
        If there is no such site, or its file is wrong: one line with the file, the key, the rule and the remedy.
    WavebedError
        If the cache cannot be written.
    """
    file = find_site(name_or_file)
    ending = file.suffix.lower()
    try:
        if ending == ".har":
            key, builder = _of_har(file)
        elif ending == ".json":
            key, builder = _of_structure(file)
        elif is_page(file):
            key, builder = _of_page(file)
        else:
            key, builder = _of_spec(file)
    except OSError as error:
        raise UserError(f"{error.filename or file}: {error.strerror}: name a site's file") from None
    try:
        return _cached(cache / "sites" / f"{_safe(file.stem)}-{key[:16]}", builder)
    except OSError as error:
        raise WavebedError(f"{error.filename or cache}: {error.strerror}: the site cannot be built there") from None


def is_page(file: Path) -> bool:
    """Return whether a site's file is a saved page: a document, or a folder with one."""
    return (is_there(file) and file.is_dir()) or file.suffix.lower() in {".html", ".htm"}


def is_shipped(name_or_file: str) -> bool:
    """Return whether a site is a shipped one."""
    return find_site(name_or_file).parent == _shipped_folder()


def find_site(name_or_file: str) -> Path:
    """Return the file of a site.

    Raises
    ------
    UserError
        If it is the name of neither a file nor a shipped site.
    """
    if "\0" in name_or_file or not name_or_file:
        raise UserError(f"{name_or_file!r}: is not a file: write its name")
    file = Path(name_or_file)
    name = _SHIPPED.fullmatch(name_or_file)
    if not is_there(file) and name is not None:
        for ending in (name[2],) if name[2] else _SITE_FILES:
            inner = _shipped_folder() / f"{name[1]}{ending}"
            if is_file(inner):
                return inner
        if not file.suffix:
            raise UserError(f"{file}: no such file or site: {one_of(str(file), shipped_sites())}")
    return file


def _of_structure(file: Path) -> tuple[str, Builder]:
    from wavebed.workload.site.build import builder_version
    from wavebed.workload.site.structure import read_structure
    from wavebed.workload.site.structured import StructuredSite

    structure = read_structure(file)
    key = _digest(builder_version(), repr(structure))
    return key, lambda folder: _fill(folder, StructuredSite(structure).build(folder))


def _of_spec(file: Path) -> tuple[str, Builder]:
    from wavebed.workload.site.build import build_site, builder_version

    spec = read_spec(file)

    def build(folder: Path) -> None:
        try:
            _fill(folder, build_site(spec, folder))
        except Problem as problem:
            raise UserError(f"{file}: {problem}") from None

    return _digest(builder_version(), repr(spec)), build


def _of_har(file: Path) -> tuple[str, Builder]:
    from wavebed.workload.site.build import builder_version
    from wavebed.workload.site.har import import_har, read_har

    data = read_har(file)
    key = _digest(builder_version(), file.name, hashlib.sha256(data).hexdigest())
    return key, lambda folder: bounded(
        str(file), lambda: _fill(folder, import_har(file, data, folder)), IMPORT_LIMIT_S, len(data)
    )


def _of_page(file: Path) -> tuple[str, Builder]:
    from wavebed.workload.site.build import builder_version
    from wavebed.workload.site.saved import find_page

    page = find_page(file)
    key = _digest(builder_version(), file.name, page.digest())
    return key, lambda folder: bounded(
        str(file), lambda: _fill(folder, page.copy(folder)), IMPORT_LIMIT_S, page.largest_bytes
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join([f"format {_FORMAT}", *parts]).encode("utf-8", "surrogateescape")).hexdigest()


def _safe(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower(), flags=re.ASCII)[:40] or "site"


def _cached(folder: Path, build: Builder) -> BuiltSite:
    """Return the site in `folder`; make it first if it is missing or incomplete."""
    built = _read(folder)
    if built is not None:
        return built
    folder.parent.mkdir(parents=True, exist_ok=True)
    with drafted_folder(folder.parent) as work:
        work.chmod(0o755)  # servers read it, as whoever they are
        made = work / "new"
        made.mkdir()
        build(made)
        date_files(made)
        _put(made, folder, work)
    built = _read(folder)
    if built is None:
        raise WavebedError(f"{folder}: the site is not whole: something else writes there")
    return built


def _fill(made: Path, site: Site) -> None:
    """Write the manifest of a site beside its files."""
    (made / _MANIFEST).write_text(json.dumps(msgspec.to_builtins(site)), encoding="utf-8")


def _put(made: Path, folder: Path, work: Path) -> None:
    """Move a complete site to its place, unless another run has put one there."""
    try:
        made.rename(folder)
    except OSError:
        if _read(folder) is None:
            folder.rename(work / "old")
            made.rename(folder)


def _read(folder: Path) -> BuiltSite | None:
    """Return the site in a folder; ``None`` if it is missing or incomplete."""
    try:
        built = BuiltSite(
            msgspec.convert(json.loads((folder / _MANIFEST).read_text(encoding="utf-8")), prepared(Site)), folder
        )
        whole = all(built.path_of(entry).stat().st_size == entry.bytes for entry in built.site.objects if entry.file)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return built if whole else None
