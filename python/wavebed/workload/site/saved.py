"""Import a page saved by a browser: a document and the folder beside it."""

from __future__ import annotations

import hashlib
import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from wavebed.beneath import make_folders
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_bytes
from wavebed.output import replace_file
from wavebed.spec.patterns import SITES
from wavebed.workload.site.har import read_har
from wavebed.workload.site.har_entries import stripped
from wavebed.workload.site.load import find_site, is_page, is_shipped
from wavebed.workload.site.model import Site, SiteObject, SiteOrigin, kind_of_type, type_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


MAX_FILES = 5000
MAX_BYTES = 200_000_000
"""Of all files together."""
MAX_FOLDERS = 5000
_HOST = "page.example"
_FOLDERS = ("_files", ".files", "_Files")
_ABROAD = re.compile(
    rb"(?:\bsrc\s*=\s*|\bposter\s*=\s*|<link\b[^>]*?\bhref\s*=\s*|\burl\(\s*)[\"']?(?:https?:)?//([^\s\"'>)/?#]+)",
    re.IGNORECASE,
)
"""Where a page or a style sheet loads something from another host."""
_TEXT = ("html", "css")
_MOST_SHOWN = 80


class SavedPage:
    """A saved page.

    Parameters
    ----------
    document : pathlib.Path
        The page's file.
    folders : list of pathlib.Path
        Folders that belong to it, beside it.
    """

    def __init__(self, document: Path, folders: list[Path]) -> None:
        self._document = document
        self._root = document.parent
        within = (file for folder in folders for file in _inside(folder) if file != document)
        self._files = [document, *sorted(islice(within, MAX_FILES))]
        if len(self._files) > MAX_FILES:
            raise UserError(f"{document}: has more than {MAX_FILES} files: name a page with fewer")
        sizes = [file.lstat().st_size for file in self._files]
        if sum(sizes) > MAX_BYTES:
            raise UserError(f"{document}: has more than {MAX_BYTES // 1_000_000} MB: name a smaller page")
        self.largest_bytes = max(sizes)

    def digest(self) -> str:
        """Return a digest of all files."""
        total = hashlib.sha256()
        for file in self._files:
            data = self._read(file)
            total.update(f"{self._name(file)}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            total.update(hashlib.sha256(data).digest())
        return total.hexdigest()

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield name (relative to the folder of the document) and content of each file, the document first."""
        for file in self._files:
            yield self._name(file), self._read(file)

    def copy(self, folder: Path) -> Site:
        """Copy it into `folder`, with numbers as file names, and return its site."""
        (folder / _HOST).mkdir()
        objects: list[SiteObject] = []
        abroad: set[str] = set()
        left = MAX_BYTES
        for number, file in enumerate(self._files, 1):
            data = self._read(file)
            left -= len(data)
            if left < 0:
                raise UserError(f"{self._document}: has more than {MAX_BYTES // 1_000_000} MB: name a smaller page")
            kept = f"{number:05}{file.suffix.lower() if re.fullmatch(r'[.][A-Za-z0-9]{1,5}', file.suffix) else '.bin'}"
            (folder / _HOST / kept).write_bytes(data)
            content_type = "text/html" if file == self._document else type_of_file(file.name, data)
            kind = kind_of_type(content_type)
            if kind in _TEXT:
                abroad |= _abroad(data)
            path = "/" + quote(self._name(file).encode("utf-8", "surrogateescape"), safe="/!$&'()*+,;=:@~-._")
            objects.append(SiteObject(_HOST, path, kept, len(data), kind, content_type))
        return Site(
            name=self._document.stem,
            title=self._document.name,
            source=f"{self._document.name}: a saved page",
            first=objects[0].path,
            origins=(SiteOrigin(_HOST, _HOST),),
            objects=tuple(objects),
            notes=_notes(abroad),
            recorded=True,
        )

    @staticmethod
    def _read(file: Path) -> bytes:
        # A link that has taken the place of a file since it was looked at is not followed either.
        return read_bytes(file, "name a page with its own files", most=MAX_BYTES, follow=False)

    def _name(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix()


def find_page(file: Path) -> SavedPage:
    """Return the page that a document or a folder with an ``index.html`` is.

    Raises
    ------
    UserError
        If there is no page, or it is too large.
    """
    if file.is_dir():
        document = file / "index.html"
        if not document.is_file() or document.is_symlink():
            raise UserError(f"{file}: has no index.html: name a saved page")
        return SavedPage(document, [file])
    if file.is_symlink():
        raise UserError(f"{file}: is a symbolic link, which is not followed: name the page itself")
    if not file.is_file():
        what = "is not a regular file" if file.exists() else "no such file"
        raise UserError(f"{file}: {what}: name a saved page")
    folders = [file.with_name(file.stem + ending) for ending in _FOLDERS]
    return SavedPage(file, [each for each in folders if each.is_dir() and not each.is_symlink()])


def _inside(folder: Path) -> Iterator[Path]:
    """Return the files in a folder and below. Links are not followed: they could lead anywhere."""
    for count, (place, folders, names) in enumerate(os.walk(folder)):
        if count >= MAX_FOLDERS:
            raise UserError(f"{folder}: has more than {MAX_FOLDERS} folders: name a saved page")
        folders.sort()
        for name in sorted(names):
            file = Path(place) / name
            if file.is_file() and not file.is_symlink():
                yield file


def _abroad(text: bytes) -> set[str]:
    """Return the external hosts that a text loads from."""
    return {found[1][:_MOST_SHOWN].decode("ascii", "replace").lower() for found in _ABROAD.finditer(text)}


def _notes(abroad: set[str]) -> tuple[str, ...]:
    if not abroad:
        return ()
    shown = ", ".join(sorted(abroad)[:5])
    return (f"hosts that it loads from and that were not saved: {len(abroad)}: {shown}",)


_NAME = re.compile(rf"{SITES}/[0-9a-f]{{64}}/(?!\.{{1,2}}$)[^/\0]+")


def keep_site(given: str, folder: Path) -> str:
    """Copy what describes a site into `folder`, under the SHA-256 of its content.

    A recording is kept without headers, cookies and requests that the site does not serve.

    Parameters
    ----------
    given : str
        As `load_site` takes it.

    Returns
    -------
    str
        ``sites/SHA256/NAME``; the name of a shipped site as it is.

    Raises
    ------
    UserError
        If it cannot be read.
    OSError
        If it cannot be written.
    """
    if is_shipped(given):
        return given
    file = find_site(given)
    if is_page(file):
        page = find_page(file)
        inner = file.resolve().name if file.is_dir() else file.name
        name = f"{SITES}/{page.digest()}/{inner}"
        place = folder / name if file.is_dir() else (folder / name).parent
        _write(place, page.files())
        return name
    if file.suffix.lower() == ".har":
        try:
            data = stripped(read_har(file))
        except Problem as problem:
            raise UserError(f"{file}: {problem}") from None
    else:
        data = read_bytes(file, "name a site's file", most=MAX_TEXT_BYTES)
    name = f"{SITES}/{hashlib.sha256(data).hexdigest()}/{file.name}"
    _write((folder / name).parent, [(file.name, data)])
    return name


def kept_site(given: str, folder: Path) -> str:
    """Return the file of a site that was kept in `folder`, or `given` if it is the name of no such site."""
    return str(folder / given) if _NAME.fullmatch(given) else given


def _write(place: Path, files: Iterable[tuple[str, bytes]]) -> None:
    for name, data in files:
        file = place / name
        if not file.exists():
            make_folders(file.parent)
            replace_file(file, data)
