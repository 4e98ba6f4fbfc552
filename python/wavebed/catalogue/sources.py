"""Fetch a set over HTTPS: with a limit of size, resumed where the server can, and checked by the hashes of git.

``https_proxy`` and ``no_proxy`` name the proxies. What was fetched stays in the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import re
import ssl
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlsplit

from wavebed.config.units import format_size
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import MAX_BYTES, open_foreign, read_bytes
from wavebed.lab.tools import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.catalogue.model import TraceSet

GITHUB = "https://github.com"
AS_RECORDED = "the hashes of git are as in that commit"
TIMEOUT_S = 60.0
"""Give a connection up after this long without a byte."""
_BLOCK_BYTES = 1 << 16
_ATTEMPTS = 3
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]{1,15})\n\Z"
)
_MOST_MEMBERS = 200_000
_REMEDY = "give the files that the page of the set offers"


@dataclass(frozen=True)
class Member:
    """A file of a set.

    Parameters
    ----------
    name : str
        Its name in the set, with ``/`` between folders and in front.
    load : callable
        Returns its content.
    """

    name: str
    load: Callable[[], bytes]


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but none that leaves HTTPS."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request."""
        schemes = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if schemes[1] not in {schemes[0], "https"}:
            raise urllib.error.URLError(f"the server leads to {schemes[1]}, away from {schemes[0]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener of HTTP and HTTPS alone, by the proxies of the environment."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirect(),
    ):
        opener.add_handler(handler)
    return opener


class _BrokenError(Exception):
    """The connection ended early; the bytes so far are kept."""


def download(url: str, file: Path, limit: int, say: Callable[[str], None]) -> None:
    """Download a file, unless it is there; go on with a part of it where the server can.

    Parameters
    ----------
    limit : int
        Most bytes.
    say : callable
        Takes one line of progress.

    Raises
    ------
    UserError
        If the answer is larger than the limit.
    WavebedError
        If it cannot be had; the part so far is kept.
    """
    if file.is_file():
        return
    part = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = part.open("ab")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WavebedError(f"{part}: {reason}: name a folder that you can write with WAVEBED_CACHE") from None
    with opened as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WavebedError(f"{url}: another wavebed fetches it: wait for that one") from None
        say(f"fetching {url}")
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                _transfer(url, stream, part.with_name(f"{part.name}.tag"), limit)
                break
            except _BrokenError as error:
                reason = str(error)
            except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
                reason = str(error) or type(error).__name__
            except urllib.error.HTTPError as error:
                error.close()
                if (
                    error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                ):  # nothing is missing, or too much is there
                    stream.truncate(0)
                    reason = error.reason
                    continue
                raise WavebedError(f"{url}: the server answers {error.code} {error.reason}: {_REMEDY}") from None
            except urllib.error.URLError as error:
                raise WavebedError(f"{url}: {error.reason}: set https_proxy if you need one, or {_REMEDY}") from None
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise WavebedError(f"{part}: {reason}: name another folder with WAVEBED_CACHE") from None
        else:
            raise WavebedError(f"{url}: {reason}: run the same command again, which goes on where the server can")
        part.rename(file)
    part.with_name(f"{part.name}.tag").unlink(missing_ok=True)


def _transfer(url: str, stream: BinaryIO, tag_file: Path, limit: int) -> None:
    """Append what is missing of an answer, or all of another answer."""
    have = stream.seek(0, os.SEEK_END)
    tag = tag_file.read_text(encoding="latin-1") if have and tag_file.is_file() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "wavebed"})  # noqa: S310 - the opener knows HTTP only
    if tag:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag)
    with _opener().open(request, timeout=TIMEOUT_S) as answer:
        goes_on = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-")
        if not goes_on:
            stream.truncate(have := 0)
            tag = answer.headers.get("ETag") or ""
            tag_file.write_text("" if tag.startswith("W/") else tag, encoding="latin-1")
        length = answer.headers.get("Content-Length")
        wanted = None if length is None or not length.isdecimal() else have + int(length)
        if wanted is not None and wanted > limit:
            raise UserError(
                f"{url}: has {format_size(wanted)}, more than the limit: give --limit {format_size(wanted)}"
            )
        while block := answer.read(_BLOCK_BYTES):
            have += len(block)
            if have > limit:
                stream.truncate(0)
                raise UserError(f"{url}: is larger than {format_size(limit)}: give a higher --limit")
            stream.write(block)
        stream.flush()
    if wanted is not None and have < wanted:
        raise _BrokenError(f"the connection broke after {have} of {wanted} bytes")


def fetch(chosen: TraceSet, limit: int, say: Callable[[str], None]) -> Iterator[Member]:
    """Fetch a set, check its hashes, and yield its files.

    Raises
    ------
    UserError
        If wavebed cannot fetch this set, or it is larger than the limit.
    WavebedError
        If it cannot be had, or is not what the catalogue says.
    """
    if chosen.repository is None or chosen.commit is None:
        raise UserError(
            f"{chosen.name}: wavebed cannot fetch it: {chosen.how}; then wavebed trace get {chosen.name} FOLDER"
        )
    cache = cache_folder() / "traces" / chosen.name / chosen.commit
    base = f"{GITHUB}/{chosen.repository}"

    def content(name: str) -> Path:
        file = cache / PurePosixPath(name).name
        download(f"{base}/raw/{chosen.commit}/{quote(name)}", file, limit, say)
        return file

    def resolved(member: Member) -> Member:
        """Exchange a pointer of Git LFS for the content that it names."""
        return Member(member.name, lambda: _resolved(member, content, limit))

    if chosen.trees:
        archive = cache / "archive.tar.gz"
        download(f"{base}/archive/{chosen.commit}.tar.gz", archive, limit, say)
        found = _trees(archive, chosen.trees)
        _check(archive, chosen.trees, found)
        for member in _tar_members(archive, chosen.trees):
            yield resolved(member)
    for name, wanted in chosen.blobs.items():
        file = content(name)
        _check(file, {name: wanted}, {name: _blob_of(file)})
        yield from members_of(file)


def _check(file: Path, wanted: dict[str, str], found: dict[str, str]) -> None:
    """Refuse, and remove from the cache, what is not as the catalogue says."""
    for name, value in wanted.items():
        if found.get(name) != value:
            file.unlink()
            other = found.get(name)
            fault = f"has the hash {other}, the catalogue says {value}" if other else "is not in it"
            raise WavebedError(f"{file}: {name} {fault}: it was removed; fetch it again, or {_REMEDY}")


def _resolved(member: Member, content: Callable[[str], Path], limit: int) -> bytes:
    data = member.load()
    pointer = _POINTER.fullmatch(data)
    if pointer is None:
        return data
    wanted, size = pointer[1].decode(), int(pointer[2])
    if size > limit:
        raise UserError(f"{member.name}: has {format_size(size)}, more than the limit: give a higher --limit")
    file = content(member.name.lstrip("/"))
    data = read_bytes(file, _REMEDY)
    if hashlib.sha256(data).hexdigest() != wanted:
        file.unlink()
        raise WavebedError(f"{file}: is not the file that {member.name} names: it was removed; fetch it again")
    return data


def members_of(path: Path) -> Iterator[Member]:
    """Yield the files of a folder, of an archive (``.zip``, ``.tar``, ``.tar.gz``), or a single file.

    Raises
    ------
    UserError
        If it cannot be read, or an archive is damaged or unpacks to too much.
    """
    if path.is_dir():
        yield from _folder_members(path)
    elif path.name.endswith(".zip"):
        yield from _zip_members(path)
    elif path.name.endswith((".tar", ".tar.gz", ".tgz")):
        yield from _tar_members(path, None)
    else:
        yield Member(f"/{path.name}", lambda: _whole(path))


def _whole(file: Path) -> bytes:
    data = read_bytes(file, "name the folder of a set")
    if _POINTER.fullmatch(data):
        raise UserError(f"{file}: is a pointer of Git LFS: run git lfs pull in its repository")
    return data


def _folder_members(folder: Path) -> Iterator[Member]:
    files: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(root, name) for name in sorted(names) if not name.startswith(".")]
        if len(files) > _MOST_MEMBERS:
            raise UserError(f"{folder}: has more than {_MOST_MEMBERS} files: name the folder of one set")
    for file in files:
        name = f"/{folder.absolute().name}/{file.relative_to(folder).as_posix()}"
        yield Member(name, lambda file=file: _whole(file))  # type: ignore[misc]


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged archive into one line."""
    damaged = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, NotImplementedError, RuntimeError)
    try:
        yield
    except damaged as error:
        raise UserError(f"{path}: the archive cannot be unpacked ({error}): fetch it again") from None


def _inner_name(path: Path, name: str) -> str | None:
    """Return the name of a file of an archive; ``None`` for files of its maker's system."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\\" in name or not parts:
        raise UserError(f"{path}: holds a file of the name {name!r}, outside the archive: do not use it")
    return None if parts[0] == "__MACOSX" or parts[-1].startswith(".") else f"/{'/'.join(parts)}"


def _zip_members(path: Path) -> Iterator[Member]:
    with open_foreign(path, _REMEDY) as stream, _sound(path), zipfile.ZipFile(stream) as archive:
        for info in archive.infolist()[:_MOST_MEMBERS]:
            name = None if info.is_dir() else _inner_name(path, info.filename)
            if name is not None:

                def load(info: zipfile.ZipInfo = info) -> bytes:
                    with _sound(path), archive.open(info) as file:
                        return _bounded(path, info.filename, file)

                yield Member(name, load)


def _bounded(path: Path, name: str, file: IO[bytes]) -> bytes:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UserError(f"{path}: {name} unpacks to more than {format_size(MAX_BYTES)}: do not use it")
    return data


def _tar_members(path: Path, trees: dict[str, str] | None) -> Iterator[Member]:
    """Yield the files of an archive; of an archive of GitHub those below some folders, without its own folder."""
    for name, info, file in _tar_files(path, trees):
        if info.isreg() and file is not None and not name.rpartition("/")[2].startswith("."):
            data: list[bytes] = []

            def load(name: str = name, file: IO[bytes] = file, data: list[bytes] = data) -> bytes:
                if not data:
                    with _sound(path):
                        data.append(_bounded(path, name, file))
                return data[0]

            yield Member(name, load)


def _tar_files(path: Path, trees: dict[str, str] | None) -> Iterator[tuple[str, tarfile.TarInfo, IO[bytes] | None]]:
    with open_foreign(path, _REMEDY) as stream, _sound(path), tarfile.open(fileobj=stream, mode="r|*") as archive:
        for count, info in enumerate(archive):
            if count > _MOST_MEMBERS:
                raise UserError(f"{path}: holds more than {_MOST_MEMBERS} files: do not use it")
            if info.type in {tarfile.XGLTYPE, tarfile.XHDTYPE} or info.isdir():
                continue
            name = _inner_name(path, info.name) if trees is None else f"/{info.name}"
            if trees is not None:
                _inner_name(path, info.name)
                name = f"/{info.name.partition('/')[2]}"
            if name is None or (trees is not None and not any(name.startswith(f"/{folder}/") for folder in trees)):
                continue
            yield name, info, archive.extractfile(info) if info.isreg() else None


def _git_hash(kind: str, size: int) -> hashlib._Hash:
    return hashlib.sha1(f"{kind} {size}\0".encode(), usedforsecurity=False)


def _blob_of(file: Path) -> str:
    """Return the hash of a file as git names it."""
    found = _git_hash("blob", file.stat().st_size)
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            found.update(block)
    return found.hexdigest()


def _trees(path: Path, trees: dict[str, str]) -> dict[str, str]:
    """Return the hashes of folders of an archive of GitHub, as git names them."""
    entries: dict[str, tuple[str, str]] = {}
    for name, info, file in _tar_files(path, trees):
        if file is None:
            found = _git_hash("blob", len(info.linkname.encode()))
            found.update(info.linkname.encode())
            entries[name] = ("120000", found.hexdigest())
            continue
        found = _git_hash("blob", info.size)
        while block := file.read(_BLOCK_BYTES):
            found.update(block)
        entries[name] = ("100755" if info.mode & 0o100 else "100644", found.hexdigest())
    return {folder: tree_of(entries, f"/{folder}/") for folder in trees if _any_below(entries, folder)}


def _any_below(entries: dict[str, tuple[str, str]], folder: str) -> bool:
    return any(name.startswith(f"/{folder}/") for name in entries)


def compared(path: Path, chosen: TraceSet) -> str:
    """Return what a comparison of a user's files with the hashes of the catalogue says."""
    if not chosen.trees and not chosen.blobs:
        return "no hash is recorded"
    wanted = [*chosen.trees.items(), *chosen.blobs.items()]
    found = [(_hash_given(path, name), value) for name, value in wanted]
    if all(given == value for given, value in found):
        return AS_RECORDED
    if any(given is not None and given != value for given, value in found):
        return "differs from that commit, or is a part of it"
    return "not compared: not the whole of that commit"


def _hash_given(path: Path, name: str) -> str | None:
    """Return the hash of the file or folder of that name below `path`, or of `path` itself if it has the name."""
    path = path.absolute()
    places = [path / name, path / PurePosixPath(name).name]
    places += [path] if path.is_file() and path.suffix == PurePosixPath(name).suffix else []
    places += [path] if PurePosixPath(path.as_posix()).match(PurePosixPath(name).name) else []
    place = next((each for each in places if each.exists()), None)
    if place is None:
        return None
    try:
        if place.is_file():
            return _blob_of(place)
        entries = {
            f"/{file.relative_to(place).as_posix()}": _entry_of(file) for file in place.rglob("*") if _leaf(file)
        }
        return tree_of(entries, "/")
    except OSError as error:
        raise UserError(f"{place}: {(error.strerror or str(error)).lower()}: name a folder that you can read") from None


def _leaf(file: Path) -> bool:
    return file.is_symlink() or file.is_file()


def _entry_of(file: Path) -> tuple[str, str]:
    if file.is_symlink():
        target = str(file.readlink()).encode()
        found = _git_hash("blob", len(target))
        found.update(target)
        return "120000", found.hexdigest()
    return ("100755" if file.stat().st_mode & 0o100 else "100644"), _blob_of(file)


def tree_of(entries: dict[str, tuple[str, str]], folder: str) -> str:
    """Return the hash of a tree of git.

    Parameters
    ----------
    entries : dict of str to (str, str)
        Mode and hash of each file, by its name.
    folder : str
        The common beginning of the names of the tree, with ``/`` at its end.
    """
    rows: dict[str, tuple[str, str]] = {}
    below: dict[str, dict[str, tuple[str, str]]] = {}
    for name, entry in entries.items():
        if not name.startswith(folder):
            continue
        head, mark, _ = name.removeprefix(folder).partition("/")
        if mark:
            below.setdefault(head, {})[name] = entry
        else:
            rows[head] = entry
    for head, inner in below.items():
        rows[head] = ("40000", tree_of(inner, f"{folder}{head}/"))
    order = sorted(rows, key=lambda head: (head + ("/" if rows[head][0] == "40000" else "")).encode())
    body = b"".join(f"{rows[head][0]} {head}\0".encode() + bytes.fromhex(rows[head][1]) for head in order)
    found = _git_hash("tree", len(body))
    found.update(body)
    return found.hexdigest()
