"""A bundle: one file with all that a trial in virtual time needs to be repeated elsewhere, and its results.

It is a tar of regular files, laid out as a folder of results with this one trial. Whoever reads one may have it from
anybody: names, sizes and kinds of its entries are checked before a byte is written.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
from msgspec.structs import replace

from wavebed.beneath import make_folders
from wavebed.errors import UserError
from wavebed.foreign import is_file, open_foreign, read_bytes
from wavebed.lab.tools import cache_folder
from wavebed.output import replacing
from wavebed.prepared import prepared
from wavebed.result.identity import digests, read_inputs
from wavebed.result.names import (
    BUNDLES_FOLDER,
    COMPUTING_FILE,
    INCOMPLETE,
    INPUTS_FILE,
    SPEC_FILE,
    TRIAL_FILE,
    TRIALS_FOLDER,
)
from wavebed.run.executor.carrier import needed_files
from wavebed.secret import redacted
from wavebed.spec.patterns import GIVEN, GIVEN_LIST, GivenFile, given_in
from wavebed.spec.trial import load_spec
from wavebed.store.disk import KEPT, explained
from wavebed.stranger import MOST_FILES, Budget, Line, Name, StrangerError, decode
from wavebed.virtual.guest import paths_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

BUNDLE_FILE = "bundle.json"
"""The first file of a bundle."""
_MOST_BUNDLES = 10
"""In a folder of results."""
_MOST_BYTES = 256 << 20
"""Of a bundle."""
_MOST_RESULT_BYTES = 64 << 20
"""Of the results in a bundle; of the others it has the hashes."""
_MOST_GIVEN_BYTES, _MOST_ALL_GIVEN_BYTES, _MOST_GIVEN = 1 << 20, 16 << 20, 500
"""Of a file of the user's, and of all of them; and how many."""
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
_BLOCK_BYTES = tarfile.BLOCKSIZE
_PIECE_BYTES = 1 << 20


class Bundle(msgspec.Struct, frozen=True):
    """What a bundle says of its trial: the content of ``bundle.json``.

    Parameters
    ----------
    trial : str
        Name of its folder.
    why : tuple of str
        Why there is a bundle.
    requirements : tuple of str
        The requirements of a check that the trial breaks.
    files : dict
        SHA-256 of each file of the results, in the bundle or not.
    left_out : tuple of str
        Files of the user's that programs opened and that are not in the bundle, with the reason.
    """

    version: Literal[1]
    trial: Name
    why: tuple[Line, ...]
    requirements: tuple[Line, ...]
    files: Annotated[dict[Name, str], msgspec.Meta(max_length=MOST_FILES)]
    left_out: tuple[Line, ...] = ()


_DECODER = msgspec.json.Decoder(prepared(Bundle))


def write_bundles(run: Path, found: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[str]:
    """Write the bundles of trials, `_MOST_BUNDLES` at most, and return a line on each for the user.

    Parameters
    ----------
    run : pathlib.Path
        The folder of results.
    found : sequence
        Of each trial: the name of its folder, why there is a bundle, and the requirements that it breaks.

    Raises
    ------
    WavebedError
        If one cannot be written.
    """
    lines = []
    with explained(run, KEPT):
        for each in found[:_MOST_BUNDLES]:
            try:
                file = write_bundle(run, *each)
                lines.append(f"bundle: {file}: `wavebed rerun` repeats the trial from it, here or elsewhere")
            except UserError as error:
                lines.append(f"no bundle: {error}")
    return lines


def write_bundle(run: Path, trial: str, why: Sequence[str], requirements: Sequence[str] = ()) -> Path:
    """Write the bundle of a trial, and return its name.

    Raises
    ------
    OSError
        If it cannot be written.
    UserError
        If a file of the trial cannot be read, or its patterns and sites are too large.
    """
    folder = run / TRIALS_FOLDER / trial
    given, left_out = _given_files(run, folder)
    content = [(f"{GIVEN}/{each.place}", text) for each, text in given]
    if given:
        content.append((GIVEN_LIST, msgspec.json.encode([each for each, _ in given])))
    needed = list(_needed(run, folder))
    if sum((run / name).stat().st_size for name in needed) > _MOST_BYTES // 2:
        raise UserError(f"{trial}: its patterns and sites are larger than {_MOST_BYTES >> 21} MiB")
    bundle = Bundle(1, trial, tuple(why), tuple(requirements), digests(folder), tuple(left_out))
    file = run / BUNDLES_FOLDER / f"{trial}.tar"
    make_folders(file.parent)
    with (
        replacing(file) as target,
        tarfile.open(fileobj=cast("IO[bytes]", target), mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        _add(tar, BUNDLE_FILE, msgspec.json.format(msgspec.json.encode(bundle), indent=1))
        for name, text in content:
            _add(tar, name, text)
        for name in needed:
            _add(tar, name, read_bytes(run / name, INCOMPLETE))
        for name in _kept_results(folder, bundle):
            with suppress(ValueError):  # the name is too long for a tar: its hash is compared
                _add(tar, f"{TRIALS_FOLDER}/{trial}/{name}", read_bytes(folder / name, INCOMPLETE))
    return file


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))


def _needed(run: Path, folder: Path) -> Iterator[str]:
    """Yield the patterns and sites of a trial."""
    spec = load_spec(folder / SPEC_FILE, INCOMPLETE)
    yield from (name for name in sorted(set(needed_files(spec, run))) if not name.startswith(f"{GIVEN}/"))


def _kept_results(folder: Path, bundle: Bundle) -> Iterator[str]:
    """Yield the files of a trial that the bundle has: the records, then the smallest ones."""
    yield from (name for name in (INPUTS_FILE, COMPUTING_FILE) if is_file(folder / name))
    left = _MOST_RESULT_BYTES
    sizes = {name: (folder / name).stat().st_size for name in bundle.files}
    first = (SPEC_FILE, TRIAL_FILE, "series/packets.parquet")
    for name in sorted(sizes, key=lambda name: (name not in first, sizes[name], name)):
        left -= sizes[name]
        if left >= 0:
            yield name


def _given_files(run: Path, folder: Path) -> tuple[list[tuple[GivenFile, bytes]], list[str]]:
    """Return the user's files that programs of a trial opened, and those that are left out, with the reason."""
    inputs = read_inputs(folder)
    named = paths_in(msgspec.to_builtins(load_spec(folder / SPEC_FILE, INCOMPLETE)))
    known = {each.name: each for each in given_in(run)}
    kept: list[tuple[GivenFile, bytes]] = []
    left_out, total = [], 0
    for name, digest in sorted(inputs.files.items()) if inputs is not None else ():
        file = run / GIVEN / known[name].place if name in known else Path(name)
        of_system = _is_in(name, (*_SYSTEM, str(cache_folder())))
        if of_system or not (name in known or _is_in(name, named)) or file.is_dir():
            continue
        try:
            text, found = read_bytes(file, INCOMPLETE, most=_MOST_GIVEN_BYTES), file.stat()
        except (UserError, OSError):
            left_out.append(f"{name}: is gone or larger than {_MOST_GIVEN_BYTES >> 20} MiB")
            continue
        total += len(text)
        if hashlib.sha256(text).hexdigest() != digest:
            left_out.append(f"{name}: has changed since")
        elif _holds_secret(text):
            left_out.append(f"{name}: may hold a secret")
        elif total > _MOST_ALL_GIVEN_BYTES or len(kept) == _MOST_GIVEN:
            left_out.append(f"{name}: the files are too many or too large")
        else:
            made = GivenFile(name, str(len(kept) + 1), found.st_mode & 0o777, found.st_mtime_ns)
            kept.append((replace(known[name], place=made.place) if name in known else made, text))
    return kept, left_out


def _is_in(name: str, folders: Sequence[str]) -> bool:
    return any(Path(name).is_relative_to(each) for each in folders)


def _holds_secret(content: bytes) -> bool:
    text = content.decode(errors="replace")
    return redacted(text) != text


def is_bundle(file: Path) -> bool:
    """Return whether a file may be a bundle, by its name."""
    return is_file(file) and file.suffix == ".tar"


def open_bundle(file: Path, folder: Path) -> Bundle:
    """Unpack a bundle into an empty folder.

    Raises
    ------
    UserError
        If it is no bundle: an entry is no regular file, its name leads out of the folder, or it is too large.
    """
    try:
        with open_foreign(file, "name a bundle of a folder of results", most=_MOST_BYTES) as stream:
            _unpack(stream, folder)
        return read_bundle(folder)
    except (StrangerError, tarfile.TarError, OSError) as error:
        raise UserError(f"{file}: is no bundle ({error}): name a file of the folder {BUNDLES_FOLDER}") from None


def _unpack(stream: IO[bytes], folder: Path) -> None:
    budget = Budget(_MOST_BYTES)
    while (header := stream.read(_BLOCK_BYTES)).strip(b"\0"):
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        if not entry.isreg():
            raise StrangerError(f"{entry.name!r} is no regular file")
        budget.file(entry.name, entry.size)
        path = folder / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        left = entry.size
        with path.open("xb") as target:
            while left:
                piece = stream.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise StrangerError(f"{entry.name!r} is cut off")
                target.write(piece)
                left -= len(piece)
        stream.read(-entry.size % _BLOCK_BYTES)


def read_bundle(folder: Path) -> Bundle:
    """Return what an unpacked bundle says of its trial.

    Raises
    ------
    StrangerError
        If that is not as documented.
    """
    try:
        bundle = decode(read_bytes(folder / BUNDLE_FILE, INCOMPLETE, most=_MOST_RESULT_BYTES), _DECODER, BUNDLE_FILE)
    except UserError:
        raise StrangerError(f"it has no {BUNDLE_FILE}") from None
    if not is_file(folder / TRIALS_FOLDER / bundle.trial / SPEC_FILE):
        raise StrangerError(f"it has no {SPEC_FILE}")
    return bundle
