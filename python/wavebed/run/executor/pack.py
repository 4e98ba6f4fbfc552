"""A trial's folder as one file: the contents of its files one after the other, and a list of their names and sizes.

It has no format that could hide links, holes or further names: the list is checked before a byte is written.
"""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING, Annotated

import msgspec

from wavebed.errors import UserError
from wavebed.stranger import MOST_FILES, Budget, Count, Name, StrangerError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Packed", "PackedFile", "pack", "packed_file", "read_packed", "unpack", "with_file"]

_PIECE_BYTES = 1 << 20


class PackedFile(msgspec.Struct, frozen=True):
    """A file below the folder."""

    name: Name
    size_bytes: Count


class Packed(msgspec.Struct, frozen=True):
    """A packed folder.

    Parameters
    ----------
    name : str
        Of the folder.
    sha256 : str
        Of the contents of all files.
    files : tuple of PackedFile
        In the order of their contents.
    """

    name: Name
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    files: Annotated[tuple[PackedFile, ...], msgspec.Meta(max_length=MOST_FILES)]

    @property
    def size_bytes(self) -> int:
        """Return the size of all contents."""
        return sum(each.size_bytes for each in self.files)


def packed_file(folder: Path, trial: str) -> Path:
    """Return the file of a packed trial in a folder."""
    return folder / f"{trial}.packed"


def read_packed(folder: Path, trial: str, offset: int, size: int) -> bytes:
    """Return a piece of a packed trial in a folder."""
    with packed_file(folder, trial).open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


def pack(folder: Path, file: Path) -> Packed:
    """Write the contents of a folder's files into a file.

    Raises
    ------
    OSError
        If a file cannot be read, or the packed one not be written.
    UserError
        If something in the folder is neither file nor folder.
    """
    files, digest = [], hashlib.sha256()
    with file.open("wb") as target:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise UserError(f"{folder.name}: {name!r} is no file or folder inside a trial")
            if path.is_dir():
                continue
            begun = target.tell()
            with path.open("rb") as source:
                while piece := source.read(_PIECE_BYTES):
                    digest.update(piece)
                    target.write(piece)
            files.append(PackedFile(name, target.tell() - begun))
    return Packed(folder.name, digest.hexdigest(), tuple(files))


def with_file(packed: Packed, file: Path, name: str, content: bytes) -> Packed:
    """Add a file to a packed folder, whose contents are in `file`.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    digest = hashlib.sha256()
    with file.open("r+b") as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
        stream.write(content)
    digest.update(content)
    return Packed(packed.name, digest.hexdigest(), (*packed.files, PackedFile(name, len(content))))


def unpack(stream: IO[bytes], packed: Packed, folder: Path) -> None:
    """Make a folder from what `pack` wrote: regular files and their folders, with the default permissions.

    Parameters
    ----------
    stream : file
        The contents; they are read once, in order, and not beyond their size.

    Raises
    ------
    OSError
        If the folder cannot be written.
    StrangerError
        If a name leads out of the folder or comes twice, the files are too many or too large, or the content differs.
    """
    budget = Budget()
    for each in packed.files:
        budget.file(each.name, each.size_bytes)
    digest = hashlib.sha256()
    folder.mkdir()
    for each in packed.files:
        path = folder / each.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            target = path.open("xb")
        except (FileExistsError, NotADirectoryError):
            raise StrangerError(f"{folder.name}: {each.name!r} came twice") from None
        left = each.size_bytes
        with target:
            while left:
                piece = stream.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise StrangerError(f"{folder.name}: {each.name!r} is cut off")
                digest.update(piece)
                target.write(piece)
                left -= len(piece)
    if digest.hexdigest() != packed.sha256:
        raise StrangerError(f"{folder.name}: arrived damaged")
