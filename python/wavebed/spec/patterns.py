"""Pattern files by content: ``patterns/SHA256.csv``, kept compressed beside the specifications that name them."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import msgspec

from wavebed.beneath import make_folder
from wavebed.errors import UserError
from wavebed.foreign import MAX_BYTES, open_foreign, read_bytes, read_record
from wavebed.output import replace_file, replacing

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable


FOLDER = "patterns"
SITES = "sites"
"""Folder of the sites of workloads, beside the folder of the patterns."""
GIVEN = "given"
"""Folder of the user's files from a bundle, which a guest gets at their places; it stands beside the others."""
GIVEN_LIST = f"{GIVEN}/list.json"
_NAME = re.compile(rf"{FOLDER}/([0-9a-f]{{64}})\.csv")
_PIECE_BYTES = 1 << 20
_GZIP_LEVEL = 4  # a third of the time of 6, files 6 % larger


def content_name(file: str) -> tuple[str, int]:
    """Return the name of a pattern by its content, and its size in bytes.

    Parameters
    ----------
    file : str
        A file in the native format.
    """
    digest, size = hashlib.sha256(), 0
    with Path(file).open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return f"{FOLDER}/{digest.hexdigest()}.csv", size


def keep(file: str, name: str, folder: Path) -> None:
    """Keep a pattern under the name of its content in `folder`, compressed; nothing is done if it is there.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    kept = folder / f"{name}.gz"
    if kept.exists():
        return
    make_folder(kept.parent)
    with (
        Path(file).open("rb") as stream,
        replacing(kept) as whole,
        gzip.GzipFile("", "wb", _GZIP_LEVEL, cast("IO[bytes]", whole), mtime=0) as packed,
    ):
        shutil.copyfileobj(stream, packed, _PIECE_BYTES)


class GivenFile(msgspec.Struct, frozen=True):
    """A file of the user's in the folder `GIVEN`.

    Parameters
    ----------
    name : str
        Its absolute name.
    place : str
        Its name in the folder.
    """

    name: str
    place: str
    mode: int
    mtime_ns: int


def given_in(folder: Path) -> list[GivenFile]:
    """Return the files of the user's in a folder of results; none if it has none.

    Raises
    ------
    UserError
        If their list is damaged.
    """
    file = folder / GIVEN_LIST
    return read_record(file, list[GivenFile], "unpack the bundle again") if file.exists() else []


def keep_given(stored: Path, folder: Path) -> None:
    """Copy the files from a bundle to the folder of a repetition.

    Raises
    ------
    OSError
        If one cannot be written.
    """
    if not (stored / GIVEN).is_dir() or stored == folder:
        return
    make_folder(folder / GIVEN)
    for file in sorted((stored / GIVEN).iterdir()):
        replace_file(folder / GIVEN / file.name, read_bytes(file, "unpack the bundle again"))


def nearest_folder(spec: Path) -> Path:
    """Return the folder that has the files of a specification: its own, or the folder of its run."""
    here = spec.absolute().parent
    candidates = (here, *here.parents[1:2])
    return next(
        (folder for folder in candidates if any((folder / name).is_dir() for name in (FOLDER, SITES, GIVEN))), here
    )


class StoredPatterns:
    """The patterns of a specification, unpacked into memory while the block runs.

    Parameters
    ----------
    names : iterable of str
        ``patterns/SHA256.csv``, each.
    folder : pathlib.Path
        Where they are.

    Raises
    ------
    UserError
        If one is missing, or its content does not match its name.
    """

    def __init__(self, names: Iterable[str], folder: Path) -> None:
        self.descriptors: list[int] = []
        self.files: dict[str, str] = {}
        try:
            for name in names:
                self.files[name] = self._unpack(name, folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the memory."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def _unpack(self, name: str, folder: Path) -> str:
        match = _NAME.fullmatch(name)
        if match is None:
            raise UserError(f"patterns: {name!r} is no name of a pattern: write {FOLDER}/SHA256.csv")
        packed = folder / f"{name}.gz"
        digest, size = hashlib.sha256(), 0
        descriptor = os.memfd_create(name.rpartition("/")[2], 0)
        self.descriptors.append(descriptor)
        with (
            open_foreign(packed, "keep the folder patterns beside the specification") as stream,
            open(descriptor, "wb", closefd=False) as memory,
        ):
            try:
                with gzip.open(cast("io.BufferedReader", stream)) as text:
                    while piece := text.read(_PIECE_BYTES):
                        size += len(piece)
                        if size > MAX_BYTES:
                            raise UserError(f"{packed}: is larger than {MAX_BYTES >> 20} MiB: it is no pattern")
                        digest.update(piece)
                        memory.write(piece)
            except (OSError, EOFError) as error:
                raise UserError(f"{packed}: cannot be unpacked ({error}): copy it again") from None
        if digest.hexdigest() != match[1]:
            raise UserError(f"{packed}: its content does not match its name: copy it again")
        return f"/proc/self/fd/{descriptor}"
