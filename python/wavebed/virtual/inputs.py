"""The inputs of a trial in virtual time beside its specification: kernel, processor, environment, and opened files."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import wavebed
from wavebed.result.identity import Inputs
from wavebed.result.machine import machine
from wavebed.virtual.guest import environment, is_in
from wavebed.virtual.kernel import needed_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.virtual.guest import GuestFolder

_MOST_OPENED = 100_000
_HASHES: dict[tuple[str, int, int, int], str] = {}
"""By name, inode, size and time of change: the guests of a run open the same files."""


def inputs_of(opened: Sequence[str], allowed: Sequence[str], folder: GuestFolder) -> Inputs:
    """Return the inputs of a trial that has ended.

    Parameters
    ----------
    opened : sequence of str
        The files and folders of this machine that programs of the guest opened, as the guest says.
    allowed : sequence of str
        The files and folders that the guest may read; no other one is opened here.
    folder : GuestFolder
        The guest's. Of its files only the given ones are inputs.

    Raises
    ------
    MachineError
        If the kernel of virtual time is not installed.
    """
    readable = {os.path.realpath(each) for each in allowed}
    own = os.path.realpath(folder.folder)
    given = os.path.realpath(folder.given)
    inputs: dict[str, str] = {}  # the place of each file, and its name in the guest
    for name in opened[:_MOST_OPENED]:
        is_given = given in map(str, Path(name).parents)
        is_whole = name.startswith("/") and os.path.realpath(name) == name
        if is_whole and is_in(name, readable) and (is_given or not is_in(name, {own})):
            inputs[name] = name.removeprefix(given) if is_given else name
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # hashlib lets other threads run
        digests = pool.map(_digest, inputs)
    files = {name: digest for name, digest in zip(inputs.values(), digests, strict=True) if digest}
    return Inputs(
        wavebed=f"{wavebed.__version__} {_own_code()[:12]}",
        kernel=needed_kernel()[1].release,
        processor=_processor(),
        environment=environment(os.environ, allowed),
        files=files,
    )


def _digest(name: str) -> str:
    """Return the SHA-256 of a file, or of the names in a folder; nothing of what is neither or gone."""
    try:
        found = os.lstat(name)
        if stat.S_ISDIR(found.st_mode):
            names = sorted(os.fsencode(each.name) for each in Path(name).iterdir())
            return hashlib.sha256(b"\0".join(names)).hexdigest()
        if not stat.S_ISREG(found.st_mode):
            return ""
        key = (name, found.st_ino, found.st_size, found.st_mtime_ns)
        if key not in _HASHES:
            with Path(name).open("rb") as stream:
                _HASHES[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        return _HASHES[key]
    except OSError:
        return ""


@cache
def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model of the processor with its features: libraries choose their code by the features."""
    told = machine()["processor"]
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return told
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    told += "".join(
        f", {name} {values[key]}"
        for name, key in (("family", "cpu family"), ("model", "model"), ("stepping", "stepping"))
        if key in values
    )
    flags = " ".join(sorted(values.get("flags", "").split()))
    return f"{told}, features {hashlib.sha256(flags.encode()).hexdigest()[:12]}" if flags else told


@cache
def _own_code() -> str:
    """Return the SHA-256 of the modules of wavebed: guests read their bytecode, which is no file of the list."""
    digest = hashlib.sha256()
    root = Path(wavebed.__file__).parent
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
