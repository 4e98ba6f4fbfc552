"""A trial's folder as one file: an uncompressed tar archive, since its tables and raw outputs are compressed."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from wavebed.errors import UserError

__all__ = ["Packed", "pack", "unpack"]

_PIECE_BYTES = 1 << 20


class Packed(msgspec.Struct, frozen=True):
    """A packed folder.

    Parameters
    ----------
    name : str
        Of the folder.
    size_bytes : int
        Of the archive.
    sha256 : str
        Of the archive.
    """

    name: str
    size_bytes: int
    sha256: str


def pack(folder: Path, file: Path) -> Packed:
    """Write a folder into an archive.

    Raises
    ------
    OSError
        If the archive cannot be written.
    """
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(folder, "")
    with file.open("rb") as stream:
        return Packed(folder.name, file.stat().st_size, hashlib.file_digest(stream, "sha256").hexdigest())


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Make a folder from an archive: regular files and folders, with the default permissions.

    Parameters
    ----------
    stream : file
        The archive; it is read once, in order.

    Raises
    ------
    OSError
        If the folder cannot be written.
    UserError
        If the archive is damaged, or has other members.
    """
    folder.mkdir()
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE_BYTES) as archive:
            for member in archive:
                _take(archive, member, folder)
    except tarfile.TarError as error:
        raise UserError(f"{folder.name}: is a damaged archive ({error})") from None


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isreg() or member.isdir()):
        raise UserError(f"{folder.name}: {member.name!r} is no file or folder inside a trial")
    if member.isdir():
        (folder / name).mkdir(exist_ok=True)
        return
    content = archive.extractfile(member)
    assert content is not None, "a regular file"
    with content, (folder / name).open("xb") as target:
        while piece := content.read(_PIECE_BYTES):
            target.write(piece)
