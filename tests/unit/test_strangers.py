"""What other machines send is decoded in one module: a scan of the sources finds a bypass."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import wavebed
from wavebed.stranger import StrangerError, decode, is_inside, lines_of, one_line

PACKAGE = Path(wavebed.__file__).parent
HEARS = ("hosts", "run/executor")
"""Here, messages of other machines arrive."""
ELSEWHERE = {
    "hosts/live.py": "requests of other processes of the same user",
    "hosts/samples.py": "a text of a bounded sample, whose fields are read by type",
    "run/executor/guests.py": "results of a guest of the same user, by type",
    "run/executor/inside.py": "the block of the front, in a guest",
    "run/executor/worker.py:run_task": "the block of the front, on a worker",
}
DECODERS = {"loads", "load", "decode", "raw_decode", "reader", "DictReader", "read_text", "read_bytes", "read_json"}
HARMLESS = {"hosts/agent.py": {"decode", "read_bytes"}, "hosts/host.py": {"decode"}}
"""Bytes made text, and the agent's own program."""


def decoding(path: Path) -> list[str]:
    """Return where a module decodes by itself."""
    name = path.relative_to(PACKAGE).as_posix()
    found = []
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef) or {name, f"{name}:{function.name}"} & ELSEWHERE.keys():
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = node.func.attr
                if called in DECODERS - HARMLESS.get(name, set()):
                    found.append(f"{name}:{node.lineno}: {called}")
    return found


def test_messages_of_other_machines_are_decoded_by_one_module() -> None:
    files = [path for folder in HEARS for path in (PACKAGE / folder).rglob("*.py")]
    assert len(files) > 10
    assert [line for path in files for line in decoding(path)] == []


def test_nothing_is_unpickled() -> None:
    for path in PACKAGE.rglob("*.py"):
        names = {
            alias.name.partition(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")])
        }
        assert not names & {"pickle", "cloudpickle", "marshal", "shelve", "dill"}, path


def test_only_the_guarded_client_of_dask_is_made() -> None:
    makes = [path.name for path in PACKAGE.rglob("*.py") if "distributed.Client" in path.read_text()]
    assert makes == ["client.py"]
    imports = [path.name for path in PACKAGE.rglob("*.py") if "from distributed import Client" in path.read_text()]
    assert imports == []


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b"NaN", b'"x"', b"1e999", b"9" * 5000])
def test_whatever_is_no_message_is_one_printable_line(data: bytes) -> None:
    with pytest.raises(StrangerError, match=r"^it is malformed \(") as told:
        decode(data, msgspec.json.Decoder(int), "it")
    assert str(told.value).isprintable()


@pytest.mark.parametrize(
    "name", ["", "/", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\0", "a\n", "\ud800", "é" * 200]
)
def test_names_that_are_none_of_a_file_below(name: str) -> None:
    assert not is_inside(name)


def test_names_of_files_below() -> None:
    assert all(map(is_inside, ["a", "raw/deep/ü.bin", ".x", "a b", "..a"]))


def test_foreign_text_is_one_line_of_bounded_length() -> None:
    assert one_line("a\n\x1b[31mb\t c") == "a \\x1b[31mb c"
    assert len(one_line("x" * 10**6)) == 1001


def test_lines_come_in_pieces_and_half_a_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("a\n" + "b" * 65_535 + "\nhalf")
    assert [len(line) for line in lines_of(file)] == [1, 65_535]
