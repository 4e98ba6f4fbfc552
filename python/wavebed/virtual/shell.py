"""A laboratory with one command in a guest of virtual time, for ``wavebed shell``."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from wavebed._core import find_core
from wavebed.errors import WavebedError
from wavebed.output import replacing, write_output
from wavebed.spec.trial import IN_NAMESPACES, NamespacesLab
from wavebed.virtual.guest import INPUT, OUTPUT, guest_folder, paths_in, run_guest
from wavebed.virtual.kernel import NO_LANDLOCK, has_landlock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.virtual.guest import GuestFolder

_LABORATORY, _STDOUT, _STDERR = "laboratory.json", "stdout", "stderr"
_WRITTEN = {"log_dir": "series", "pcap_dir": "pcap", "summary_file": "summary.json"}
"""What the laboratory file names for outputs, and their names in the guest."""
_NETWORK = ("network", "timeline")
"""What the laboratory file names patterns in."""
_DESCRIPTOR = re.compile(r'"(/proc/[a-z0-9]+/fd/[0-9]+)"')
_START = 'cd "$1" && shift && exec "$@"'
_KEPT_OUTPUT = f'exec "$@" >{OUTPUT}/{_STDOUT} 2>{OUTPUT}/{_STDERR}'


def run_laboratory(laboratory: Mapping[str, Json], seed: int, memory_bytes: int | None = None, name: str = "") -> int:
    """Run a laboratory with its command in a guest, print what the command prints, and return its exit status.

    Parameters
    ----------
    laboratory : mapping
        The laboratory file; patterns in memory are open in this process.
    seed : int
        Of the guest's random numbers.
    memory_bytes : int, optional
        Of the guest.
    name : str
        As ``wavebed ctl`` lists it; drawn by default.

    Raises
    ------
    MachineError
        If the kernel of virtual time is not installed.
    WavebedError
        If the guest ends without a status, or the outputs cannot be written.
    """
    outputs = {key: str(given) for key in _WRITTEN if (given := laboratory[key]) is not None}
    with guest_folder() as folder:
        network = {key: value for key, value in laboratory.items() if key in _NETWORK}
        inside = json.loads(with_patterns(json.dumps(network), folder))
        written = {key: f"{OUTPUT}/{_WRITTEN[key]}" for key in outputs}
        inside = {**laboratory, **inside, **written}
        (folder.input / _LABORATORY).write_text(json.dumps(inside))
        command = [find_core(), "lab", f"{INPUT}/{_LABORATORY}"]
        lab = NamespacesLab("virtual", memory_bytes=memory_bytes)
        status = run_shown(folder, command, seed, paths_in(inside), lab, name)
        for key, given in outputs.items():
            keep(folder.output / _WRITTEN[key], given, "--summary")
    return status


def with_patterns(network: str, folder: GuestFolder) -> str:
    """Copy patterns in memory, which a network in JSON names, into the guest; return the text with their new names."""
    for number, name in enumerate(sorted(set(_DESCRIPTOR.findall(network)))):
        kept = f"pattern-{number}"
        shutil.copyfile(name, folder.input / kept)
        network = network.replace(f'"{name}"', f'"{INPUT}/{kept}"')
    return network


def run_shown(
    folder: GuestFolder,
    command: Sequence[str],
    seed: int,
    named: Sequence[str],
    lab: NamespacesLab = IN_NAMESPACES,
    name: str = "",
) -> int:
    """Run a command in a guest, in the working folder of this process; print what it prints, and return its status.

    Parameters
    ----------
    seed : int
        Of the guest's random numbers.
    named : sequence of str
        Files and folders that it may read besides the files of every guest and the working folder.
    lab : NamespacesLab
        Has the memory.
    name : str
        Of its laboratory, as ``wavebed ctl`` lists it; drawn by default.

    Raises
    ------
    MachineError
        If the kernel of virtual time is not installed.
    WavebedError
        If the guest ends without a status.
    """
    shown = [_Shown(folder.output / _STDOUT, sys.stdout), _Shown(folder.output / _STDERR, sys.stderr)]

    def show() -> bool:
        for each in shown:
            each.go_on()
        return False

    if not has_landlock():
        print(f"wavebed: note: {NO_LANDLOCK}", file=sys.stderr)
    here = Path.cwd()
    shown_command = in_this_folder(["sh", "-c", _KEPT_OUTPUT, "sh", *command], here)
    status = run_guest(folder, shown_command, seed, show, [str(here), *named], lab, name)
    assert status is not None, "nobody gives it up"
    show()
    return status


def in_this_folder(command: Sequence[str], folder: Path) -> list[str]:
    """Return what runs a command in a guest, in a working folder of this machine."""
    return ["sh", "-c", _START, "sh", str(folder), *command]


class _Shown:
    """A file of the guest, as far as it was printed."""

    def __init__(self, file: Path, stream: TextIO) -> None:
        self._file = file
        self._stream = stream
        self._printed_bytes = 0

    def go_on(self) -> None:
        """Print what is new."""
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._printed_bytes)
                new = stream.read()
        except FileNotFoundError:
            return
        if new:
            self._printed_bytes += len(new)
            bytes_stream = getattr(self._stream, "buffer", None)  # a notebook has none
            if bytes_stream is None:
                self._stream.write(new.decode(errors="replace"))
            else:
                self._stream.flush()
                bytes_stream.write(new)
            self._stream.flush()


def keep(made: Path, wanted: str, option: str) -> None:
    """Copy a file, or a folder with all in it, out of the guest, to where an option says.

    Raises
    ------
    WavebedError
        If they cannot be written.
    """
    if made.is_file():
        write_output(wanted, made.read_bytes(), option)
        return
    if not made.is_dir():  # the guest had no time to make it
        return
    try:
        for folder, _, names in os.walk(made):
            to = Path(wanted, Path(folder).relative_to(made))
            to.mkdir(parents=True, exist_ok=True)
            for name in names:
                with Path(folder, name).open("rb") as content, replacing(to / name) as kept:
                    shutil.copyfileobj(content, kept)
    except OSError as error:
        raise WavebedError(f"{error.filename}: {(error.strerror or 'cannot be written').lower()}") from None
