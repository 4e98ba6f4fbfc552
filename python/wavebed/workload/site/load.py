"""Find a site by its name or file, and build it once."""

from __future__ import annotations

import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.config.problems import Problem
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import is_file, is_there
from wavebed.prepared import prepared
from wavebed.workload.drafts import date_files, drafted_folder
from wavebed.workload.site.bounded import bounded
from wavebed.workload.site.model import BuiltSite, Site
from wavebed.workload.site.spec import read_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    Builder = Callable[[Path], None]

__all__ = ["find_site", "is_page", "is_shipped", "load_site", "shipped_sites"]

_SHIPPED = re.compile(r"(?:(?:scenarios/)?sites/)?([A-Za-z0-9._-]+?)(?:\.toml)?", re.ASCII)
_MANIFEST = ".site.json"  # no host is called like this
_FORMAT = 3
IMPORT_LIMIT_S = 10.0
"""Limit for the import of a recording or a saved page."""


def _shipped_folder() -> Path:
    return Path(str(resources.files("wavebed"))) / "scenarios" / "sites"


def shipped_sites() -> tuple[str, ...]:
    """Return the names of the sites that come with the program."""
    return tuple(sorted(file.stem for file in _shipped_folder().glob("*.toml")))


def load_site(name_or_file: str, cache: Path) -> BuiltSite:
    """Return a site with its files, from `cache` or newly made there.

    Parameters
    ----------
    name_or_file : str
        A specification (``.toml``); a recording (``.har``); a saved page (``.html``, ``.htm``) with its folder; a
        folder with an ``index.html``; or if there is no such file the name of a shipped site such as ``cnn``.
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
        inner = _shipped_folder() / f"{name[1]}.toml"
        if is_file(inner):
            return inner
        if not file.suffix:
            raise UserError(f"{file}: no such file or site: write a file, or one of {', '.join(shipped_sites())}")
    return file


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
