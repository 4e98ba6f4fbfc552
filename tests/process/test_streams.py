"""Standard streams, terminals and signals: status, files, tables, and the line of progress."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from wavebed.terminal import StatusLine, table_text

if TYPE_CHECKING:
    from pathlib import Path


LOST = "wavebed: standard output: no space left on device: the rest was not printed\n"


def run(folder: Path, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a shell, which can close streams before it starts."""
    (folder / "a.txt").write_text("0.5\t20\n1.0\t0\n1.5\t30\n2.0\t5\n")
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m wavebed {words} {redirection}"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "<&- 2>&-", "<&- >&- 2>&-", ">&-"])
def test_a_command_that_writes_a_file_does_so_whoever_listens(tmp_path: Path, redirection: str) -> None:
    # Mahimahi has no outages: a note is said on standard error.
    done = run(tmp_path, "trace convert a.txt --to mahimahi -o out.up", redirection)
    assert done.returncode == 0
    assert (tmp_path / "out.up").stat().st_size > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out.up"]
    assert "Traceback" not in done.stderr + done.stdout + (tmp_path / "out.up").read_text()


@pytest.mark.parametrize(
    ("words", "redirection", "status", "told"),
    [
        ("trace info a.txt", ">/dev/full", 1, LOST),
        ("--help", ">/dev/full", 1, LOST),
        ("trace info a.txt", ">/dev/full 2>/dev/full", 1, ""),
        ("trace info a.txt", ">&-", 0, ""),
        ("trace info a.txt", "| true; exit ${PIPESTATUS[0]}", 141, ""),
        ("trace info none", "2>/dev/full", 2, ""),
        ("trace info none", "2>&-", 2, ""),
        ("trace info none", "2>&1 | true; exit ${PIPESTATUS[0]}", 2, ""),
    ],
)
def test_the_status_is_right_and_nothing_is_traced_back(
    tmp_path: Path, words: str, redirection: str, status: int, told: str
) -> None:
    done = run(tmp_path, words, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", told)


ROWS = [("metric", "cubic", "bbr"), ("rtt [bold]idle[/], ms", "22.2", "22.2"), ("goodput", "381 [380, 382]", "")]
TALK = """
import sys
from wavebed.terminal import StatusLine
status = StatusLine("wavebed run", sys.stderr)
status.say("trial 1 of 2: [bold]download[/] " + "ab " * 40, 30.0)
status.note("trial 1 is \\x1b[2J invalid")
status.say("trial 2 of 2", 1.0)
status.clear()
print("the end", file=sys.stderr)
"""


def on_a_terminal(program: str, **environment: str) -> str:
    """Return what a program writes to a terminal of 60 columns."""
    primary, secondary = pty.openpty()
    told = {**os.environ, "TERM": "xterm", "COLUMNS": "60", **environment}
    done = subprocess.Popen([sys.executable, "-c", program], env=told, stdout=secondary, stderr=secondary)
    os.close(secondary)
    said = b""
    while True:
        try:
            said += os.read(primary, 4096)
        except OSError:  # nobody holds the other end any more
            break
    os.close(primary)
    assert done.wait(60) == 0
    return said.decode()


def test_off_a_terminal_columns_stand_below_each_other() -> None:
    assert table_text(ROWS).splitlines() == [
        "metric                          cubic   bbr",
        "rtt [bold]idle[/], ms            22.2  22.2",
        "goodput                381 [380, 382]",
    ]
    assert table_text([("a", "b"), ("long", "c")], left=True) == "a     b\nlong  c"


def test_on_a_terminal_a_table_fits_its_width() -> None:
    rows = [*ROWS, ("x " * 40, "1", "2")]
    lines = on_a_terminal(f"from wavebed.terminal import table_text\nprint(table_text({rows!r}))").splitlines()
    assert max(map(len, lines)) <= 60
    assert sum("x x" in line for line in lines) > 1
    assert any(set(line) == {"─"} for line in lines)


def test_on_a_terminal_a_line_fits_and_is_replaced_and_what_is_noted_stays() -> None:
    said = on_a_terminal(TALK)
    assert "wavebed run: trial 1 of 2: [bold]download[/]" in said
    assert "━" in said
    assert "trial 1 is \\x1b[2J invalid\r\n" in said
    assert said.endswith("the end\r\n")
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).splitlines()) <= 60
    assert said.rfind("\x1b[?25h") > said.rfind("\x1b[?25l")


def test_colours_are_left_out_where_the_user_wants_none() -> None:
    assert re.search(r"\x1b\[[0-9;]*[39][0-9]m", on_a_terminal(TALK)), "the bar has a colour"
    assert not re.search(r"\x1b\[[0-9;]*[39][0-9]m", on_a_terminal(TALK, NO_COLOR="1"))


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    said = on_a_terminal(TALK, TERM="dumb")
    assert "\x1b" not in said
    assert "wavebed run: trial 2 of 2\r\n" in said


def test_plain_lines_need_no_library(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import sys\nfrom wavebed.terminal import StatusLine\nStatusLine('a').say('b', 1.0)\n"
        "assert 'rich' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "a: b\n"
    StatusLine("a").note("c")
    assert capsys.readouterr().err == "a: c\n"


HANGS = """
import time
from wavebed.cli import process
process.AGAIN_S = 0.1
process.end_on_signals()
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    said = False
    while True:
        try:
            if not said:
                said = True
                print("clearing", flush=True)
            time.sleep(60)
        except BaseException:
            pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_clearing_that_hangs_ends_with_the_second_signal(number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True) as command:
        try:
            assert command.stdout is not None
            assert command.stdout.readline() == "ready\n"
            command.send_signal(number)
            assert command.stdout.readline() == "clearing\n"
            assert command.poll() is None
            command.send_signal(number)
            assert command.wait(60) == 128 + number
        finally:
            command.kill()


def test_foreign_text_in_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from wavebed.cli import main

    assert main(["ctl", "no\x1b[2Jlab"]) == 2
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "is no running laboratory" in told
