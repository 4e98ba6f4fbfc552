"""Folders of results that others made: no link in them is followed, and no program of them runs without a word."""

from __future__ import annotations

import ast
import json
import os
import shutil
import tarfile
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.made_up_campaigns import Wanted, write_campaign_folder
from tests.unit.export_example import made_run
from tests.unit.forward.example import device, record
from tests.unit.report_example import Plan, write_example

import wavebed
import wavebed.cli.options
import wavebed.cli.run
from wavebed import beneath
from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import read_bytes
from wavebed.forward.folder import write_forward
from wavebed.output import write_output
from wavebed.result import parquet
from wavebed.result.parquet import read_parquet
from wavebed.store.disk import remove_leftovers
from wavebed.store.journal import Journal
from wavebed.store.load import load_run
from wavebed.store.records import read_run, read_trial

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "root:$6$of-somebody-else:1::"
KINDS = ("run", "campaign", "forward")


def _made(kind: str, folder: Path) -> Path:
    if kind == "campaign":
        return write_campaign_folder(folder, Wanted(blocks=6, planned=6, folders=2))
    if kind == "forward":
        write_forward(folder, record(device("router", 400_000.0)))
        return folder
    return write_example(folder, Plan(blocks=1, treatments=("cubic",), excluded=False))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: _made(kind, tmp_path_factory.mktemp(kind) / "results") for kind in KINDS}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder of somebody else's files, with one file."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "keys").write_text(SECRET)
    return folder


def _copy(made: dict[str, Path], kind: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[kind], tmp_path / "results"))


# Writing.

_OUTPUTS = {"campaign": ("report.html", "tables/answers.csv", "tables/summary.tex", "figures/a.svg")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_replaces_links_in_the_folder_and_leaves_their_targets(
    kind: str, made: dict[str, Path], victim: Path, tmp_path: Path
) -> None:
    folder = _copy(made, kind, tmp_path)
    links = [folder / name for name in _OUTPUTS.get(kind, ("report.html",))]
    for link in links:
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(victim / "keys")
    assert main(["report", str(folder)]) == 0
    for link in links:
        if link.name != "a.svg":
            assert not link.is_symlink()
            assert SECRET not in link.read_text()
    assert (victim / "keys").read_text() == SECRET


@pytest.mark.parametrize("name", ["tables", "figures"])
def test_a_report_writes_into_no_linked_folder(
    name: str, made: dict[str, Path], victim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _copy(made, "campaign", tmp_path)
    (folder / name).symlink_to(victim)
    assert main(["report", str(folder)]) == UserError.exit_status
    assert f"{name!r} is a symbolic link" in capsys.readouterr().err
    assert [each.name for each in victim.iterdir()] == ["keys"]


def test_an_output_that_is_named_inside_the_folder_follows_no_link_either(
    made: dict[str, Path], victim: Path, tmp_path: Path
) -> None:
    folder = _copy(made, "run", tmp_path)
    (folder / "page.html").symlink_to(victim / "keys")
    (folder / "pages").symlink_to(victim)
    assert main(["report", str(folder), "-o", str(folder / "page.html")]) == 0
    assert main(["report", str(folder), "-o", str(folder / "pages" / "page.html")]) == UserError.exit_status
    assert (victim / "keys").read_text() == SECRET
    assert [each.name for each in victim.iterdir()] == ["keys"]


def test_a_link_that_a_user_named_outside_is_followed(made: dict[str, Path], tmp_path: Path) -> None:
    folder = _copy(made, "run", tmp_path)
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "page.html").symlink_to(tmp_path / "real.html")
    assert main(["report", str(tmp_path / "link"), "-o", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "real.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["journal.jsonl", "pipe"])
def test_a_journal_is_continued_in_a_regular_file_only(name: str, victim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    if name == "pipe":
        os.mkfifo(folder / "journal.jsonl")
    else:
        (folder / "journal.jsonl").symlink_to(victim / "keys")
    with Journal() as journal, pytest.raises(WavebedError, match=r"symbolic link|neither a regular file"):
        journal.reopen(folder)
    assert (victim / "keys").read_text() == SECRET


def test_no_leftover_is_removed_through_a_link(made: dict[str, Path], victim: Path, tmp_path: Path) -> None:
    folder = _copy(made, "run", tmp_path)
    (victim / ".wavebed-letters").write_text("a letter")
    (victim / ".0001-cubic.partial").mkdir()
    (folder / "metrics").symlink_to(victim)
    shutil.rmtree(folder / "trials")
    (folder / "trials").symlink_to(victim)
    remove_leftovers(folder, ours=True)
    assert sorted(each.name for each in victim.iterdir()) == [".0001-cubic.partial", ".wavebed-letters", "keys"]


def test_nothing_is_made_renamed_or_removed_through_a_link(victim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "in").symlink_to(victim)
    (folder / "mine").write_text("mine")
    beneath.guard(folder)
    tries: list[Callable[[], object]] = [
        lambda: beneath.make_folder(folder / "in"),
        lambda: beneath.make_folders(folder / "in" / "new" / "newer"),
        lambda: beneath.remove(folder / "in" / "keys"),
        lambda: beneath.rename(folder / "in" / "keys", folder / "keys"),
        lambda: beneath.rename(folder / "mine", folder / "in" / "keys"),
        lambda: beneath.remove_tree(folder / "in", ignore_errors=False),
        lambda: beneath.open_beneath(folder / "in" / "keys", os.O_RDONLY),
        lambda: beneath.open_beneath(folder / "in" / ".." / "keys", os.O_RDONLY),
        lambda: beneath.open_beneath(folder / ".." / "home" / "keys", os.O_RDONLY),
    ]
    for each in tries:
        with pytest.raises(OSError, match=r"symbolic link|leads out"):
            each()
    beneath.remove_tree(folder / "in")
    with pytest.raises(UserError, match="leads out of the folder of results"):
        write_output(folder / ".." / "home" / "keys", "mine")
    assert (victim / "keys").read_text() == SECRET
    assert [each.name for each in victim.iterdir()] == ["keys"]
    beneath.remove(folder / "in")
    assert not (folder / "in").is_symlink()


# Reading.


def _commands(kind: str, folder: Path, tmp_path: Path) -> list[list[str]]:
    compare = ["compare", str(folder), "--baseline", str(folder)]
    if kind == "run":
        return [["report", str(folder)], [*compare, "--margin", "bulk.goodput=5%"]]
    if kind == "campaign":
        return [compare]
    return [["report", str(folder)], ["compare", str(folder), str(folder), "-o", str(tmp_path / "page.html")]]


def _is_told(folder: Path, tmp_path: Path, said: str) -> bool:
    """Return whether the secret is in anything that was printed or written."""
    pages = [folder / "report.html", tmp_path / "page.html"]
    texts = [said, *(page.read_text() for page in pages if page.exists() and not page.is_symlink())]
    return any(SECRET in text or b64encode(SECRET.encode()).decode() in text for text in texts)


@pytest.mark.parametrize("kind", KINDS)
def test_no_reader_follows_the_link_that_any_file_may_be(
    kind: str, made: dict[str, Path], victim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _copy(made, kind, tmp_path)
    shown: dict[str, Path] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            shown.setdefault(file.name if file.parent != folder else f"/{file.name}", file)
    refused = 0
    for file in shown.values():
        whole = file.read_bytes()
        file.unlink()
        file.symlink_to(victim / "keys")
        for command in _commands(kind, folder, tmp_path):
            status = main(command)
            told = capsys.readouterr()
            assert not _is_told(folder, tmp_path, told.out + told.err), f"{command}: {file} is shown"
            assert status in (0, UserError.exit_status, WavebedError.exit_status), f"{command}: {file}: {told.err}"
            unread = ("is a symbolic link", "no trial counts")
            assert not told.err or any(text in told.err for text in unread), f"{command}: {file}: {told.err}"
            refused += "is a symbolic link" in told.err
        file.unlink()
        file.write_bytes(whole)
    assert refused >= 1, "some files are needed"


@pytest.mark.parametrize("inside", ["trials", "trials/0001-cubic", "trials/0001-cubic/series"])
def test_no_reader_follows_a_link_on_the_way(inside: str, made: dict[str, Path], tmp_path: Path) -> None:
    folder = _copy(made, "run", tmp_path)
    (folder / inside).rename(tmp_path / "elsewhere")
    (folder / inside).symlink_to(tmp_path / "elsewhere")
    run = load_run(folder)
    with pytest.raises(UserError, match=f"{Path(inside).name!r} is a symbolic link"):
        run.table("links")
    assert main(["report", str(folder)]) == 0  # it tells of files that it cannot read, and has no figure
    page = (folder / "report.html").read_text()
    assert "is a symbolic link" in page or "no trial has series" in page


def test_a_trial_of_the_record_is_not_outside(made: dict[str, Path], tmp_path: Path) -> None:
    folder = _copy(made, "run", tmp_path)
    (folder / "trials" / "0001-cubic").rename(tmp_path / "elsewhere")
    text = (folder / "run.json").read_text().replace('"0001-cubic"', '"../../elsewhere"')
    (folder / "run.json").write_text(text)
    with pytest.raises(UserError, match="leads out of the folder of results"):
        read_trial(load_run(folder).path("../../elsewhere"))


def test_a_name_typed_inside_a_folder_of_results_may_lead_out(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _copy(made, "run", tmp_path)
    monkeypatch.chdir(folder)
    assert main(["report", ".", "-o", "../page.html"]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    with pytest.raises(OSError, match="leads out of the folder of results"):
        beneath.open_beneath(Path("trials/../../page.html"), os.O_RDONLY)


def test_a_link_that_appears_between_look_and_read_is_refused(victim: Path, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "results"
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "file").write_text("mine")
    beneath.guard(folder)
    look = os.stat

    def exchanged(*given: object, **more: object) -> os.stat_result:
        found = look(*given, **more)  # type: ignore[arg-type]
        if given[0] == "file":
            (folder / "raw" / "file").unlink()
            (folder / "raw" / "file").symlink_to(victim / "keys")
        return found

    monkeypatch.setattr(os, "stat", exchanged)
    with pytest.raises(UserError):
        read_bytes(folder / "raw" / "file", "name another")


def test_exports_and_explanations_read_no_link(victim: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    folder = made_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    (table,) = folder.glob("trials/*/series/flows.parquet")
    table.unlink()
    table.symlink_to(victim / "keys")
    for words in (["export", str(folder)], ["export", str(folder), "--format", "csv"]):
        assert main(words) == UserError.exit_status
        assert "is a symbolic link" in capsys.readouterr().err


# Tables that expand.

_MOST = 1 << 26


def _bomb(kind: str, file: Path) -> None:
    if kind in ("text", "numbers"):
        rows = pa.array([0] * 100_000, pa.int32())
        same = pa.DictionaryArray.from_arrays(rows, pa.array(["x" * 20_000]))
        pq.write_table(pa.table({"text": same}), file, compression="zstd", store_schema=kind == "numbers")
    elif kind == "rows":
        with pq.ParquetWriter(file, pa.schema([("zero", pa.float64())]), compression="zstd") as writer:
            zeros = pa.table({"zero": pa.array([0.0]).take(pa.array([0] * (1 << 20)))})
            for _ in range(9):
                writer.write_table(zeros)
    elif kind == "pages":
        schema = pa.schema([("z", pa.string())])
        with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
            zeros = pa.table({"z": ["\0" * 20_000_000]})
            for _ in range(4):
                writer.write_table(zeros)
    elif kind == "prefixes":
        texts = ["y" * 10_000 + chr(33 + number) for number in range(60)]
        pq.write_table(pa.table({"z": texts}), file, use_dictionary=False, column_encoding={"z": "DELTA_BYTE_ARRAY"})
    elif kind == "lists":
        rows = pa.array([0] * 20)
        numbers = pa.array([[0] * 1_000_000], pa.list_(pa.int8())).take(rows)
        pq.write_table(pa.table({"z": numbers}), file, compression="zstd")
    elif kind == "lists of texts":
        rows = pa.array([0] * 20)
        pq.write_table(pa.table({"z": pa.array([["x" * 100_000] * 1000]).take(rows)}), file, compression="zstd")
    elif kind == "kinds":
        pq.write_table(pa.table({"z": pa.array([b"12"], pa.binary(2))}), file)
    elif kind == "codec":
        pq.write_table(pa.table({"z": ["x"]}), file, compression="brotli")
    elif kind == "letters":
        broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
        pq.write_table(pa.table({"z": broken}), file)
    else:
        pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["z", "z"]), file)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("text", "is larger than 64 MiB in memory"),
        ("numbers", "is larger than 64 MiB in memory"),
        ("rows", "is larger than 64 MiB in memory"),
        ("pages", "is larger than 64 MiB in memory"),
        ("prefixes", "'z' has texts in an encoding that no table here has"),
        ("lists", "is larger than 64 MiB in memory"),
        ("lists of texts", "is larger than 64 MiB in memory"),
        ("kinds", "'z' has values of a kind that no table here has"),
        ("codec", "is compressed by BROTLI, which no table here is"),
        ("letters", "cannot be read"),
        ("twice", "has two columns of one name"),
    ],
)
def test_a_table_that_expands_is_refused_before_it_is_decoded(
    kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MOST_BYTES", _MOST)
    file = tmp_path / "table.parquet"
    _bomb(kind, file)
    assert file.stat().st_size < 200_000
    before = pa.total_allocated_bytes()
    with pytest.raises(UserError, match=said) as refused:
        read_parquet(file)
    assert "\n" not in str(refused.value)
    assert pa.total_allocated_bytes() - before < _MOST


@pytest.mark.parametrize("bytes_", [b"\xff" * 40, b"\x1c" * 400, b"\x19\xf1\xff\xff\xff\xff\x7f", b""])
def test_a_damaged_header_of_a_page_is_one_line(bytes_: bytes, tmp_path: Path) -> None:
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"z": ["a", "b"]}), file, compression="zstd")
    data = file.read_bytes()
    file.write_bytes(data[:4] + bytes_ + data[4 + len(bytes_) :])
    if bytes_:
        with pytest.raises(UserError, match=r"cannot be read|encoding"):
            read_parquet(file)
    else:
        assert read_parquet(file).column("z").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("fault", ["lost", "text"])
@pytest.mark.parametrize("name", ["links", "events", "samples", "flows"])
def test_a_column_that_is_missing_or_of_another_type_is_one_line(
    name: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = made_run(tmp_path, packet_log=False) / "trials/0001-cubic"
    file = trial / f"series/{name}.parquet"
    table = pq.read_table(file)
    column = next(field.name for field in table.schema if not pa.types.is_string(field.type))
    place, texts = table.column_names.index(column), pa.array(["x"] * len(table))
    pq.write_table(table.remove_column(place) if fault == "lost" else table.set_column(place, column, texts), file)
    with pytest.raises(UserError, match=f"{column!r}") as refused:
        load_run(trial.parents[1]).table(name)
    assert "\n" not in str(refused.value)
    assert main(["explain", str(trial)]) in (0, UserError.exit_status)
    assert capsys.readouterr().err.count("\n") <= 1


def test_a_trial_whose_table_lacks_newer_columns_is_explained(tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "samples/results-1.tar.xz") as sample:
        sample.extractall(tmp_path, filter="data")
    (links,) = tmp_path.rglob("links.parquet")
    assert "link_failures" not in pq.read_schema(links).names
    assert main(["explain", str(links.parents[1])]) == 0


# Programs.


def _stored(tmp_path: Path, *, confined: bool) -> Path:
    """Write the folder of a trial that runs a program, and return it."""
    words = "" if confined else "confined = false\n"
    (tmp_path / "s.toml").write_text(f'[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n{words}')
    trial = tmp_path / "results" / "trials" / "0001-as-described"
    trial.mkdir(parents=True)
    assert main(["resolve", str(tmp_path / "s.toml"), "-o", str(trial / "spec.json")]) == 0
    return tmp_path / "results" / "0001-as-described"


@pytest.fixture
def reran(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the plans that would have run."""
    plans: list[object] = []
    monkeypatch.setattr(wavebed.cli.run, "perform", lambda plan, *_: plans.append(plan) or 0)
    return plans


def test_a_program_that_is_not_confined_runs_again_only_with_a_word(
    reran: list[object], tmp_path: Path, capsys
) -> None:
    trial = _stored(tmp_path, confined=False)
    assert main(["rerun", str(trial)]) == UserError.exit_status
    said = capsys.readouterr().err
    assert "runs a program with your privileges (confined = false): read the file, then add --trust" in said
    assert said.count("\n") == 1
    assert not reran
    assert main(["rerun", str(trial), "--trust"]) == 0
    assert len(reran) == 1


def test_ones_own_confined_programs_run_again_without_a_word(reran: list[object], tmp_path: Path) -> None:
    assert main(["rerun", str(_stored(tmp_path, confined=True))]) == 0
    assert len(reran) == 1


def test_a_folder_of_another_user_runs_again_only_with_a_word(
    reran: list[object], tmp_path: Path, capsys, monkeypatch
) -> None:
    trial = _stored(tmp_path, confined=True)
    monkeypatch.setattr(wavebed.cli.options.os, "geteuid", lambda: os.getuid() + 1)
    assert main(["rerun", str(trial)]) == UserError.exit_status
    said = capsys.readouterr().err
    assert "belongs to" in said
    assert "then add --trust" in said
    assert not reran
    monkeypatch.setenv("SUDO_UID", str(os.getuid()))
    assert main(["rerun", str(trial)]) == 0
    monkeypatch.delenv("SUDO_UID")
    assert main(["rerun", str(trial), "--trust"]) == 0
    assert len(reran) == 2


def test_the_campaign_of_another_user_goes_on_only_with_a_word(
    made: dict[str, Path], tmp_path: Path, capsys, monkeypatch
) -> None:
    folder = _copy(made, "campaign", tmp_path)
    monkeypatch.setattr(wavebed.cli.options.os, "geteuid", lambda: os.getuid() + 1)
    assert main(["campaign", "run", "--resume", str(folder)]) == UserError.exit_status
    assert "then add --trust" in capsys.readouterr().err
    assert main(["campaign", "run", "--resume", str(folder), "--trust"]) == UserError.exit_status
    assert "is gone: the campaign" in capsys.readouterr().err


def test_a_stored_trial_is_no_link(tmp_path: Path, capsys) -> None:
    trial = _stored(tmp_path, confined=True)
    file = tmp_path / "results" / "trials" / trial.name / "spec.json"
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    assert main(["rerun", str(trial)]) == UserError.exit_status
    assert "is a symbolic link" in capsys.readouterr().err
    assert json.loads((tmp_path / "elsewhere.json").read_text())


# No way around.

_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "rename", "rmdir", "touch"}
_FUNCTIONS = {
    "os": {"open", "rename", "replace", "unlink", "remove", "mkdir", "makedirs", "rmdir", "link", "symlink"},
    "shutil": {"rmtree", "copy", "copy2", "copyfile", "copytree", "move"},
    "gzip": {"open"},
    "tarfile": {"open"},
    "pq": {"read_table", "write_table", "ParquetFile", "ParquetWriter"},
}
_PACKAGES = (
    *("campaign", "check", "cli", "compare", "experiment", "explain", "export", "forward", "mcp", "record", "report"),
    *("interface", "reproduce", "result", "run", "store"),
)
"""Those that open files in folders of results; the others work for one trial, in a folder that nobody has yet."""
_ALLOWED = {
    "cli/doctor.py": "settings of the kernel",
    "cli/references.py": "templates of the package",
    "cli/record.py": "the folder that the user named",
    "cli/process.py": "standard streams, memory",
    "store/disk.py": "the folder that the user named",
    "experiment/inputs.py": "wavebed-core",
    "experiment/machine_lock.py": "locks of the machine, without links",
    "forward/cpu.py": "/proc",
    "forward/cpu_remote.py": "a temporary folder",
    "forward/sandbox.py": "namespaces",
    "forward/setup.py": "settings of the kernel",
    "mcp/scenarios.py": "scenarios of this server, without links",
    "reproduce/judge.py": "a table of the package",
    "reproduce/studies.py": "a file of the package",
    "result/tables.py": "the engine's own file, in a folder of this run",
    "result/machine.py": "/proc",
    "run/bundle.py": "a bundle, in a temporary folder of this command",
    "run/executor/remote.py": "blocks that arrive, in a folder of this run",
    "run/executor/carrier.py": "blocks that arrive, in a folder of this run",
    "run/executor/guests.py": "the folder of a guest, in the cache",
    "run/executor/inside.py": "the guest's own files",
    "run/executor/block.py": "the worker's own folder",
    "run/executor/worker.py": "the worker's own folder",
}
"""Files that open something else by its name, and what."""


def _opens(node: ast.AST) -> bool:
    """Return whether a call opens, makes or removes something by a name."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return called.id == "open"
    if not isinstance(called, ast.Attribute):
        return False
    if isinstance(called.value, ast.Name) and called.value.id in _FUNCTIONS:
        # What `open_foreign` or `replacing` opened is a stream.
        streams = [
            isinstance(each, ast.Call) or (isinstance(each, ast.Name) and each.id == "stream") for each in node.args
        ]
        return called.attr in _FUNCTIONS[called.value.id] and not any(streams)
    first = node.args[0] if node.args else None
    names_mode = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return called.attr in _METHODS or (called.attr == "open" and names_mode)


def test_files_in_folders_of_results_are_opened_by_one_module() -> None:
    root = Path(wavebed.__file__).parent
    found = {}
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            lines = [node.lineno for node in ast.walk(ast.parse(file.read_text())) if _opens(node)]
            if lines:
                found[str(file.relative_to(root))] = lines
    around = {name: lines for name, lines in found.items() if name not in _ALLOWED}
    assert not around, "open them by wavebed.foreign, wavebed.output or wavebed.beneath"
    assert not _ALLOWED.keys() - found.keys(), "these open nothing by name any more"


def test_every_reader_guards_its_folder(made: dict[str, Path], tmp_path: Path) -> None:
    folder = _copy(made, "run", tmp_path)
    for read in (read_run, load_run):
        read(folder)
        assert beneath.is_beneath(folder / "report.html")
