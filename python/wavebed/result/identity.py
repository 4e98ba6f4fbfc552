"""Whether two trials in virtual time are the same, byte for byte, and which input differs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wavebed.errors import UserError
from wavebed.foreign import is_file, open_foreign, read_bytes, read_record
from wavebed.lab.tools import Computing
from wavebed.printable import printable
from wavebed.result.model import EXACT
from wavebed.result.names import COMPUTING_FILE, INCOMPLETE, INPUTS_FILE, SPEC_FILE, TRIAL_FILE
from wavebed.result.parquet import read_parquet
from wavebed.secret import redacted_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from wavebed.config.data import Json
    from wavebed.result.model import TrialRecord


def computing_json(computing: Computing) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(computing)


def read_computing(folder: Path) -> Computing | None:
    """Return the processor time of a trial; ``None`` if it was not counted.

    Parameters
    ----------
    folder : pathlib.Path
        Of the trial.

    Raises
    ------
    UserError
        If the file is damaged.
    """
    file = folder / COMPUTING_FILE
    return read_record(file, Computing, INCOMPLETE) if is_file(file) else None


def computing_is_free(trial: TrialRecord) -> bool:
    """Return whether a trial ran in virtual time, with a processor that computes in no time."""
    lab = trial.resolved.get("lab")
    return isinstance(lab, dict) and lab.get("time") == "virtual" and lab.get("processor") != "host"


def is_exact(trial: TrialRecord) -> bool:
    """Return whether another run of a trial gives the same bytes, so that another attempt says nothing new."""
    checked = [check for check in trial.checks if check.code == EXACT]
    return computing_is_free(trial) and bool(checked) and all(check.holds for check in checked)


_NOT_COMPARED = {COMPUTING_FILE, INPUTS_FILE}
_PLACE = ("folder", "block", "attempt")
"""Keys of the place of a trial in its run, which a repetition has not."""
_MOST_BYTES = 64 << 20
"""Of a file whose first difference is looked for by content."""
_MOST_TOLD = 60
_MOST_LINES = 8
_SHOWN_DIGITS = 12


class Inputs(msgspec.Struct, frozen=True):
    """The inputs of a trial beside its specification: the content of ``inputs.json``.

    Parameters
    ----------
    wavebed : str
        Version, and SHA-256 of its modules, shortened.
    kernel : str
        Release of the guest's kernel.
    processor : str
        Model of the host's processor: libraries choose their code by it.
    environment : dict
        Of the guest's first command.
    files : dict
        SHA-256 of each file of the host that a program opened, by its name. For a folder its names are hashed.
    """

    wavebed: str
    kernel: str
    processor: str
    environment: dict[str, str]
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Identity:
    """What the comparison of two runs of a trial found.

    Parameters
    ----------
    first : str
        The first run, as the user named it.
    compared : sequence of str
        The files that were compared.
    difference : str
        The first difference between the results, one line; empty if they are identical.
    inputs : sequence of str
        The inputs that differ, one line each.
    inputs_known : bool
        Whether the first run recorded its inputs.
    """

    first: str
    compared: Sequence[str]
    difference: str = ""
    inputs: Sequence[str] = field(default_factory=list)
    inputs_known: bool = True

    @property
    def is_identical(self) -> bool:
        """Whether all files are the same."""
        return not self.difference

    def json(self) -> dict[str, Json]:
        """Return it for programs."""
        return {
            "first": self.first,
            "identical": self.is_identical,
            "compared": list(self.compared),
            "difference": self.difference or None,
            "inputs": list(self.inputs),
        }

    def text(self) -> str:
        """Return it for people."""
        told = [f"  input: {line}" for line in self.inputs[:_MOST_LINES]]
        if left := len(self.inputs) - _MOST_LINES:
            told += [f"  and {left} more inputs"] if left > 0 else []
        if self.is_identical:
            head = f"identical to {self.first}: {len(self.compared)} files compared: {', '.join(self.compared)}"
            return "\n".join([head, *(["inputs that differ, without an effect:", *told] if told else [])])
        if not told:
            told = ["  inputs: none differs" if self.inputs_known else "  inputs: the first run did not record them"]
        return "\n".join([f"differs from {self.first}:", *told, f"  first difference: {self.difference}"])


def inputs_json(inputs: Inputs) -> bytes:
    """Return the content of the file."""
    return redacted_json(msgspec.json.format(msgspec.json.encode(inputs), indent=1)) + b"\n"


def read_inputs(folder: Path) -> Inputs | None:
    """Return the inputs of a trial; ``None`` if it did not record them.

    Raises
    ------
    UserError
        If the file is damaged.
    """
    file = folder / INPUTS_FILE
    return read_record(file, Inputs, INCOMPLETE, most=_MOST_BYTES) if is_file(file) else None


def input_differences(there: Inputs, here: Inputs) -> list[str]:
    """Return the inputs that differ, one line each: `there` in the first run, `here` in the repetition."""
    names = ("kernel", "processor", "wavebed")
    pairs = [(name, getattr(here, name), getattr(there, name)) for name in names]
    variables = sorted({*there.environment, *here.environment})
    pairs += [
        (f"variable {each}", here.environment.get(each, "none"), there.environment.get(each, "none"))
        for each in variables
    ]
    lines = [f"{name}: {_short(one)} here, {_short(other)} there" for name, one, other in pairs if one != other]
    return lines + _file_differences(there.files, here.files)


def _file_differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Compare the files that programs opened: one of the same name and content may be in another folder."""
    known = {(Path(name).name, digest) for name, digest in there.items()}
    own = {(Path(name).name, digest) for name, digest in here.items()}
    moved = {Path(name).name: digest for name, digest in here.items() if name not in there}
    lines = []
    for name, digest in sorted(there.items()):
        last = Path(name).name
        if (last, digest) in own:
            continue
        found = here.get(name, moved.get(last))
        if found is None:
            lines.append(f"{printable(name)}: opened there only")
        else:
            lines.append(f"{printable(name)}: {found[:_SHOWN_DIGITS]} here, {digest[:_SHOWN_DIGITS]} there")
    last_names = {name for name, _ in known}
    only = [name for name in sorted(here) if Path(name).name not in last_names]
    return lines + [f"{printable(name)}: opened here only" for name in only]


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each compared file of a trial, by its name.

    Raises
    ------
    UserError
        If one cannot be read.
    """
    found = {}
    for name in _names(folder):
        with open_foreign(folder / name, INCOMPLETE) as stream:
            found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def compare_trials(first: Path, second: Path, told: str, known: Mapping[str, str] | None = None) -> Identity:
    """Compare two runs of a trial.

    Parameters
    ----------
    first, second : pathlib.Path
        Their folders.
    told : str
        What the first run is called.
    known : mapping, optional
        Hashes of the files of the first run, if not all are in its folder.

    Raises
    ------
    UserError
        If a file cannot be read.
    """
    there, here = read_inputs(first), read_inputs(second)
    names = list(_names(first)) if known is None else sorted(known, key=_order)
    own = set(_names(second))
    kinds = {name.partition("/")[0] for name in names}
    more = sorted(name for name in own - set(names) if name.partition("/")[0] in kinds)
    difference = ""
    for name in names:
        if difference := _difference(first, second, name, None if known is None else known[name]):
            break
    if not difference and more:
        difference = f"{printable(more[0])}: is there in the second run only"
    found = [] if there is None or here is None else input_differences(there, here)
    return Identity(told, names, difference, found, there is not None)


def _names(folder: Path) -> Iterator[str]:
    """Yield the names of the files of a trial that are compared, the records first."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    yield from sorted((name for name in names if name not in _NOT_COMPARED), key=_order)


def _order(name: str) -> tuple[int, str]:
    """Return the place of a file: series by their times say more of a cause than the record of the trial."""
    order = (SPEC_FILE, "series/packets.parquet", "series/links.parquet")
    return (order.index(name) if name in order else len(order) + name.count(TRIAL_FILE), name)


def _difference(first: Path, second: Path, name: str, digest: str | None) -> str:
    """Return the first difference between two files of a name; empty if there is none."""
    shown = printable(name)
    if not is_file(second / name):
        return f"{shown}: is not there in the second run"
    new = read_bytes(second / name, INCOMPLETE)
    if not is_file(first / name):
        return "" if hashlib.sha256(new).hexdigest() == digest else f"{shown}: has another hash"
    old = read_bytes(first / name, INCOMPLETE)
    if old == new:
        return ""
    where = _where(first / name, second / name, old, new)
    return "" if where is None else f"{shown}: {where}"


def _where(first: Path, second: Path, old: bytes, new: bytes) -> str | None:
    """Return where two files differ; ``None`` if they differ in their place alone."""
    name = first.name
    if name in (SPEC_FILE, TRIAL_FILE):
        return _json_difference(_without_place(old, first), _without_place(new, second), "")
    if name.endswith(".parquet"):
        return _table_difference(read_parquet(first), read_parquet(second)) or _byte(old, new)
    if name.endswith(".gz"):
        unpacked = _unpacked(old), _unpacked(new)
        if None not in unpacked and unpacked[0] != unpacked[1]:
            old, new = unpacked  # type: ignore[assignment]
    try:
        return _line(old.decode(), new.decode())
    except UnicodeDecodeError:
        return _byte(old, new)


def _without_place(text: bytes, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{file}: is not JSON: {INCOMPLETE}") from None
    return {key: value for key, value in found.items() if key not in _PLACE} if isinstance(found, dict) else {}


def _json_difference(old: object, new: object, place: str) -> str | None:
    """Return the first value that differs, by its keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in old or key not in new:
                return f"{place}{printable(str(key))}: is in one of the two only"
            if found := _json_difference(old[key], new[key], f"{place}{printable(str(key))}."):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True), 1)
        each = (_json_difference(one, other, f"{place}{number}.") for number, (one, other) in pairs)
        return next(filter(None, each), None)
    return None if old == new else f"{place[:-1]}: {_short(new)} here, {_short(old)} there"


def _table_difference(old: pa.Table, new: pa.Table) -> str:
    """Return the first row that differs; empty if the rows are the same."""
    if old.column_names != new.column_names:
        return "has other columns"
    rows = min(len(old), len(new))
    same, column = rows, ""
    for name in old.column_names:
        one, other = old.column(name).slice(0, same), new.column(name).slice(0, same)
        if one.equals(other):
            continue
        low, high = 0, same  # the first `low` rows are the same, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if one.slice(0, middle).equals(other.slice(0, middle)) else (low, middle)
        same, column = low, name
    if column:
        here, there = (table.column(column)[same].as_py() for table in (new, old))
        return f"row {same + 1}: {column} {_short(here)} here, {_short(there)} there"
    return "" if len(old) == len(new) else f"row {rows + 1}: {len(new)} rows here, {len(old)} there"


def _unpacked(data: bytes) -> bytes | None:
    """Return the content of a gzip file; ``None`` if it is damaged or too large to be shown."""
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            found = stream.read(_MOST_BYTES + 1)
    except (OSError, EOFError):
        return None
    return found if len(found) <= _MOST_BYTES else None


def _line(old: str, new: str) -> str:
    there, here = old.splitlines(), new.splitlines()
    for number, (one, other) in enumerate(zip(there, here, strict=False), 1):
        if one != other:
            return f"line {number}: {_short(other)} here, {_short(one)} there"
    return f"line {min(len(there), len(here)) + 1}: {len(here)} lines here, {len(there)} there"


def _byte(old: bytes, new: bytes) -> str:
    same = next((place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    return f"byte {1 + (min(len(old), len(new)) if same is None else same)}"


def _short(value: object) -> str:
    """Return a foreign value as a printable text of bounded length."""
    text = printable(value if isinstance(value, str) else json.dumps(value, default=str))
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"
