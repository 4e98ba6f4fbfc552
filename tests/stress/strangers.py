"""What strangers send: links and tables in folders of results, answers of false laboratories, frames of far hosts."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from tests.process.test_false_laboratory import answering
from tests.process.test_hosts_hostile import EVILS, SSH
from tests.stress.figure import Figure, of_all
from tests.unit.report_example import Plan, write_example

from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.hosts.agent import Agent, HostAddress
from wavebed.lab.protocol import LaboratoryGoneError
from wavebed.result.parquet import MOST_BYTES, read_parquet

if TYPE_CHECKING:
    from tests.stress.figure import State

__all__ = ["measure"]

SECRET = "root:$6$of-somebody-else:1::"
ANSWER_WITHIN_S = 12.0
"""The limit of an answer, and 2 s of a busy machine."""
HOST_WITHIN_S = 10.0
_SHORT = 20_000
_ROWS = 6_000_000
_ANSWERS = {
    "drips": (b"", b" ", 0.2),
    "a flood": (b"", b"x" * (1 << 16), 0.0),
    "half an object": (b"{", b"", 0.0),
    "a number": (b"5\n", b"", 0.0),
    "no UTF-8": (b"\xff\xfe\n", b"", 0.0),
}


def measure() -> list[Figure]:
    """Attack readers and writers of folders, of answers and of frames."""
    return [_links(), _bomb(), *_answers(), *_hosts()]


def _links() -> Figure:
    """Report a folder in which each file in turn, and the page, is a link to somebody else's file."""
    cases = []
    with tempfile.TemporaryDirectory() as place:
        victim = Path(place) / "keys"
        folder = write_example(Path(place) / "run", Plan(blocks=1, treatments=("cubic",), excluded=False))
        page = folder / "report.html"
        for file in [page, *(path for path in sorted(folder.rglob("*")) if path.is_file())]:
            whole = file.read_bytes() if file.exists() else b""
            file.unlink(missing_ok=True)
            file.symlink_to(victim)
            victim.write_text(SECRET)
            status = _quiet(["report", str(folder)])
            shown = page.exists() and not page.is_symlink() and SECRET in page.read_text()
            held = status in (0, UserError.exit_status, WavebedError.exit_status)
            cases.append((file.relative_to(folder).as_posix(), held and not shown and victim.read_text() == SECRET))
            page.unlink(missing_ok=True)
            if file != page:
                file.unlink()
                file.write_bytes(whole)
    return of_all("links in a folder of results: followed by no reader and no writer", cases, what="files")


def _bomb() -> Figure:
    """Read a table of some kB whose texts are 120 GB."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "table.parquet"
        text = pa.DictionaryArray.from_arrays(pa.array([0] * _ROWS, pa.int32()), pa.array(["x" * _SHORT]))
        pq.write_table(pa.table({"text": text}), file, compression="zstd", store_schema=False)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        told = ""
        try:
            read_parquet(file)
        except UserError as error:
            told = str(error)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
        state: State = "met" if grown <= MOST_BYTES and told and "\n" not in told else "missed"
        found = f"{file.stat().st_size / 1e3:.0f} kB, {grown / 1e6:.0f} MB more"
    return Figure("a table of 120 GB of texts", "one line, at most 2 GiB", found, state, "" if state == "met" else told)


def _answers() -> list[Figure]:
    """Ask false laboratories."""
    cases, slowest_s = [], 0.0
    for name, given in _ANSWERS.items():
        began = time.monotonic()
        told = ""
        with answering(*given) as (connection, _):
            try:
                connection.ask({"do": "show"})
            except WavebedError as error:
                told = str(error)
        slowest_s = max(slowest_s, time.monotonic() - began)
        cases.append((name, bool(told) and told.isprintable()))
    return [
        of_all("answers of a false laboratory: one line", cases, what="kinds"),
        _within("the longest wait for it", slowest_s, ANSWER_WITHIN_S),
    ]


def _hosts() -> list[Figure]:
    """Ask far hosts that send nonsense."""
    cases, slowest_s = [], 0.0
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "ssh.py"
        os.environ["WAVEBED_SSH"] = f"{sys.executable} {program}"
        try:
            for name, evil in EVILS.items():
                program.write_text(SSH.format(evil=evil))
                began = time.monotonic()
                told = ""
                agent = Agent("client", HostAddress("far"), lambda *_: None)
                try:
                    agent.ask_clock(60)
                except LaboratoryGoneError as error:
                    told = str(error)
                slowest_s = max(slowest_s, time.monotonic() - began)
                agent.close(10)
                cases.append((name, bool(told) and told.isprintable()))
        finally:
            del os.environ["WAVEBED_SSH"]
    return [
        of_all("nonsense of a far host: one line, and its connection ends", cases, what="kinds"),
        _within("the longest wait for that", slowest_s, HOST_WITHIN_S),
    ]


def _within(name: str, took_s: float, limit_s: float) -> Figure:
    return Figure(name, f"at most {limit_s:g} s", f"{took_s:.1f} s", "met" if took_s <= limit_s else "missed")


def _quiet(argv: list[str]) -> int:
    """Run a command without its output."""
    with Path(os.devnull).open("w") as null:
        kept = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = null
        try:
            return main(argv)
        finally:
            sys.stdout, sys.stderr = kept
