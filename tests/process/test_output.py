"""Every option that names a file writes it by the one writer: devices, FIFOs and links stay what they are."""

from __future__ import annotations

import argparse
import os
import signal
import stat
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.forked import forked
from tests.made_up_walks import write_walks
from tests.samples_by_seed import sample
from tests.unit.forward.example import device, record
from tests.unit.report_example import write_example

from wavebed import output
from wavebed.cli import COMMANDS, build_parser, main
from wavebed.errors import UserError
from wavebed.forward.folder import write_forward
from wavebed.output import replace_file, replacing, write_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OLD = b"what was there"


@dataclass(frozen=True)
class Option:
    """An option of the command line that writes a file.

    Parameters
    ----------
    command : tuple of str
        The command with its input; ``RUN``, ``TEST``, ``OTHER``, ``TRACE``, ``WALKS``, ``SCENE``,
        ``CONDITION`` and ``PAGE`` stand for it.
    name : str
        As typed.
    file : str
        A name that fits.
    begin : bytes
        How its content begins.
    """

    command: tuple[str, ...]
    name: str
    file: str
    begin: bytes

    def __str__(self) -> str:
        words = [word for word in self.command if word.islower()]
        return f"{'-'.join(words[:2])}{self.name}".replace("/", "")


_BASELINE = ("compare", "RUN", "--baseline", "RUN")
OPTIONS = [
    Option(("report", "RUN"), "-o", "page.html", b"<!doctype html>"),
    Option(("report", "TEST"), "-o", "page.html", b"<!doctype html>"),
    Option(("compare", "TEST", "OTHER"), "-o", "page.html", b"<!doctype html>"),
    Option(("compare", "TEST", "OTHER"), "--csv", "table.csv", b"device,kind,"),
    Option((*_BASELINE, "--margin", "bulk.goodput=5%"), "--markdown", "table.md", b"**wavebed compare: passed"),
    Option(("export", "RUN", "--trial", "0001-cubic"), "-o", "trial.flent.gz", b"\x1f\x8b"),
    Option(("export", "RUN", "--trial", "0001-cubic", "--format", "perfetto"), "-o", "trial.perfetto-trace", b"\n"),
    Option(("resolve", "SCENARIO"), "-o", "spec.json", b'{\n  "version": 1,'),
    Option(("channel", "SCENE"), "-o", "down.csv", b"# wavebed pattern"),
    Option(("channel", "SCENE"), "--up-output", "up.csv", b"# wavebed pattern"),
    Option(("channel", "SCENE"), "--plot", "plot.svg", b"<?xml"),
    Option(("scenes", "CONDITION"), "--plot", "plot.svg", b"<?xml"),
    Option(("fit", "WALKS", "--held-out", "quarter:1"), "-o", "place.json", b'{\n "wavebed-map": 2,'),
    Option(("fit", "WALKS", "--held-out", "quarter:1"), "--report", "fit.html", b"<!doctype html>"),
    Option(("trace", "convert", "TRACE"), "-o", "out.csv", b"# wavebed pattern"),
    Option(("trace", "cut", "TRACE", "--to", "2s"), "-o", "out.csv", b"# wavebed pattern"),
    Option(("trace", "scale", "TRACE", "--time", "2"), "-o", "out.csv", b"# wavebed pattern"),
    Option(("trace", "plot", "TRACE"), "-o", "plot.html", b"<!doctype html>"),
    Option(("site", "profile", "PAGE"), "-o", "page.json", b'{"page": '),
]
ELSEWHERE = {
    ("record", "--output"),
    ("record", "--replay"),
    ("shell", "--log"), ("shell", "--pcap"), ("shell", "--summary"),  # tests/lab/test_outputs.py
    ("bridge", "--log"), ("bridge", "--pcap"), ("bridge", "--summary"),  # the same options
    ("ui", "--record-to"), ("ui", "--token-file"),  # tests/process/test_ui_command.py
    ("run", "--output"), ("rerun", "--output"), ("demo", "--output"),  # new folders
    ("trace", "get", "--output"), ("league", "--output"),
    ("forward", "--output"), ("reproduce", "--output"), ("campaign", "run", "--output"),
    ("campaign", "plan", "--pilot"), ("compare", "--baseline"),  # read
    ("shell", "--scenario"), ("shell", "--trace"), ("shell", "--up-trace"), ("shell", "--down-trace"),  # read
    ("bridge", "--scenario"), ("bridge", "--trace"), ("bridge", "--up-trace"), ("bridge", "--down-trace"),  # read
    ("shell", "--timeline"), ("bridge", "--timeline"),  # read
    *((name, f"--{option}") for name in ("attach", "gateway") for option in (  # the options of bridge
        "log", "pcap", "summary", "scenario", "trace", "up-trace", "down-trace", "timeline",
    )),
    ("kernel", "build", "--source"), ("fit", "--within"), ("trace", "convert", "--within"),  # read
    ("explain", "--plot"),  # tests/process/test_explain_command.py
    ("check", "--scenario"), ("check", "--trace"), ("check", "--up-trace"), ("check", "--down-trace"),  # read
    ("check", "--output"),  # a new folder
    ("check", "--junit"), ("check", "--markdown"),  # tests/process/test_check_run.py
}  # fmt: skip


def _file_options(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from _file_options(sub, (*words, name))
        elif action.option_strings and action.metavar in {"FILE", "OUT", "DIR"}:
            yield (*words, action.option_strings[-1])


def test_no_option_that_names_a_file_is_forgotten() -> None:
    found = set()
    for name in COMMANDS:
        parser = build_parser(name)._actions[-1].choices[name]
        found |= set(_file_options(parser, (name,)))
    long = {"-o": "--output"}
    here = {
        (*(word for word in option.command[:2] if word.islower()), long.get(option.name, option.name))
        for option in OPTIONS
    }
    assert found - here == ELSEWHERE
    assert here <= found


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("inputs")
    write_example(base / "run")
    for name, rate in (("slow", 3e5), ("fast", 9e5)):
        write_forward(base / name, record(device(name, rate)))
    (base / "trace.txt").write_text("0.5\t20\n1.0\t0\n2.5\t30\n3.0\t5\n")
    (base / "page").mkdir()
    (base / "page" / "index.html").write_text("<!doctype html><p>page")
    (base / "scenario.toml").write_text('[path]\nrate = "1mbit"\n[[workload]]\nkind = "download"\n')
    walks = base / "walks"
    walks.mkdir()
    write_walks(walks, 3)
    return {
        "RUN": str(base / "run"),
        "TEST": str(base / "slow"),
        "OTHER": str(base / "fast"),
        "TRACE": str(base / "trace.txt"),
        "WALKS": str(walks),
        "SCENE": "kau-e5g-1",
        "CONDITION": "lift/lte",
        "PAGE": str(base / "page"),
        "SCENARIO": str(base / "scenario.toml"),
    }


every_option = pytest.mark.parametrize("option", OPTIONS, ids=str)
drawn_options = pytest.mark.parametrize("option", sample(OPTIONS, 5), ids=str)
"""All options use the one writer, as the regular file of each shows."""


@pytest.fixture
def write(option: Option, inputs: dict[str, str]) -> Callable[[Path], int]:
    def run(path: Path) -> int:
        return main([*(inputs.get(word, word) for word in option.command), option.name, str(path)])

    return run


def bystanders(folder: Path, name: str) -> dict[str, bytes]:
    """Make files with the names that a careless writer would use for its own."""
    stem = name.partition(".")[0]
    names = [f"{name}.part", f"{stem}.part", f".{name}.partial", f".{name}.part", f"{name}.tmp", f"{name}~"]
    for each in names:
        (folder / each).write_bytes(OLD)
    return dict.fromkeys(names, OLD)


@every_option
def test_a_regular_file_is_replaced_at_once_and_nothing_else_is_touched(option: Option, write, tmp_path: Path) -> None:
    target = tmp_path / option.file
    target.write_bytes(OLD)
    target.chmod(0o640)
    others = bystanders(tmp_path, option.file)
    with target.open("rb") as before:
        assert write(target) == 0
        assert before.read() == OLD, "the file that was open was overwritten, not replaced"
    assert target.read_bytes().startswith(option.begin)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != target} == others


@drawn_options
def test_a_device_stays_a_device(option: Option, write, tmp_path: Path) -> None:
    target = tmp_path / option.file
    os.mknod(target, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert write(target) == 0
    assert stat.S_ISCHR(target.lstat().st_mode)
    assert list(tmp_path.iterdir()) == [target]


@drawn_options
def test_a_fifo_gets_the_content_if_it_has_a_reader(option: Option, write, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output, "FIFO_PATIENCE_S", 60.0)
    target, read = tmp_path / option.file, []
    os.mkfifo(target)
    reader = threading.Thread(target=lambda: read.append(target.read_bytes()), daemon=True)
    reader.start()
    assert write(target) == 0
    reader.join(60)
    assert read[0].startswith(option.begin)
    assert stat.S_ISFIFO(target.lstat().st_mode)


@drawn_options
def test_a_fifo_without_a_reader_ends_in_one_line(option: Option, write, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(output, "FIFO_PATIENCE_S", 0.1)
    target = tmp_path / option.file
    os.mkfifo(target)
    assert write(target) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == f"wavebed: {target}: nothing has read this FIFO for 0.1 s: name another file with {option.name}"
    assert stat.S_ISFIFO(target.lstat().st_mode)


@drawn_options
def test_a_symbolic_link_is_followed_and_stays(option: Option, write, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(OLD)
    target = tmp_path / option.file
    target.symlink_to("real")
    assert write(target) == 0
    assert target.is_symlink()
    assert (tmp_path / "real").read_bytes().startswith(option.begin)


@drawn_options
def test_standard_output_can_be_named(option: Option, write, tmp_path: Path, capfdbinary) -> None:
    target = tmp_path / option.file
    target.symlink_to("/proc/self/fd/1")  # as /dev/stdout does, which a wrong writer would destroy
    assert write(target) == 0
    assert option.begin in capfdbinary.readouterr().out
    assert target.is_symlink()


@drawn_options
def test_a_folder_is_refused_in_one_line(option: Option, write, tmp_path: Path, capsys) -> None:
    target = tmp_path / option.file
    target.mkdir()
    status = write(target)
    if option.command[0] == "trace" and option.command[1] != "plot":
        assert (status, len(list(target.iterdir()))) == (0, 1), "a folder gets a file"
        return
    assert status == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert str(target) in told
    assert "name" in told
    assert list(target.iterdir()) == []


# ---- the writer itself ----


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_output(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_link_to_nothing_makes_its_target_as_a_shell_does(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    write_output(tmp_path / "link", "text")
    assert (tmp_path / "later").read_text() == "text"
    assert (tmp_path / "link").is_symlink()


def test_what_a_full_device_refuses_is_one_line(tmp_path: Path) -> None:
    os.mknod(tmp_path / "full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    with pytest.raises(UserError, match=r"full: no space left on device: name another file with --csv"):
        write_output(tmp_path / "full", b"x", "--csv")


def test_a_record_never_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(OLD)
    (tmp_path / "file").symlink_to("real")
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "real").read_bytes() == OLD
    assert not (tmp_path / "file").is_symlink()


@pytest.fixture(params=["unnamed", "named"])
def drafts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With ``O_TMPFILE``, and on a file system without it."""
    if request.param == "named":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    return request.param


def test_while_it_is_written_only_its_own_name_is_used(tmp_path: Path, drafts: str) -> None:
    seen: set[str] = set()
    for _ in range(2):
        with replacing(tmp_path / "file") as stream:
            stream.write(b"x")
            names = {path.name for path in tmp_path.iterdir()} - {"file"}
        assert len(names) == (drafts == "named")
        assert not names & seen, "the name can be foretold"
        seen |= names
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("fails", ["fsync", "rename", "fchmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, drafts: str, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(OLD)
    monkeypatch.setattr(os, fails, refuse)
    with pytest.raises(UserError, match="no space left on device"):
        write_output(tmp_path / "file", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [OLD]


def test_a_process_that_is_killed_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)

    def write_half() -> None:
        with replacing(tmp_path / "file") as stream:
            stream.write(b"half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(forked(write_half), 0)[1] == signal.SIGKILL
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": OLD}
