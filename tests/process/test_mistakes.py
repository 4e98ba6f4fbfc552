"""Plausible mistakes on the command line: each is answered by one line whose suggestion works.

The messages are stored beside the corpora of bad input. After a deliberate change, run with
``WAVEBED_WRITE_MESSAGES=1`` and read the difference.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.messages import Stored, refusal

from wavebed.cli import build_parser, main

STORED = Path(__file__).parents[1] / "bad_input" / "mistakes.messages"
COMMAND = re.compile(r"did you mean `wavebed ([^`]*)`\?")
WORDS = re.compile(r"did you mean (?:the shipped )?(.*?)\?(?: |$)")

MISTAKES = (
    # commands and actions: what was typed; the suggestion is a whole command
    ("rnu kau-e5g-download", ""),
    ("chekc --rate 10mbit -- true", ""),
    ("scenario", ""),
    ("ps", ""),
    ("list", ""),
    ("help run", ""),
    ("version", ""),
    ("kau-e5g-download", ""),
    ("--rate 10mbit -- true", ""),
    ("--json scenarios", ""),
    ("trace infoo kau-e5g-1", "infoo"),
    ("campaign plann demo", "plann"),
    ("kernel stauts", "stauts"),
    ("scenes show lift/lte", ""),
    ("channel plot kau-e5g-1", ""),
    # a forgotten --
    ("shell --rate 10mbit ping -c 1 server", ""),
    ("check --rate 10mbit curl -o page http://server/", ""),
    ("shell --scene lift/lte --server 'iperf3 -s' iperf3 -c server", ""),
    # options
    ("shell --rat 10mbit -- true", "--rat"),
    ("shell --bandwidth 10mbit -- true", "--bandwidth"),
    ("shell --rate 10mbit --latency 10ms -- true", "--latency"),
    ("shell --rate 10mbit --packet-loss 1% -- true", "--packet-loss"),
    ("shell --down_rate 10mbit -- true", "--down_rate"),
    ("run kau-e5g-download --virtual", "--virtual"),
    ("run kau-e5g-download --repeat 5", "--repeat"),
    ("check --rate 10mbit --trials 5 -- true", "--trials"),
    ("resolve kau-e5g-page --set path.hop.internet.delay 9ms", "--set path.hop.internet.delay 9ms"),
    ("demo --outptu out", "--outptu"),
    ("doctor --jsn", "--jsn"),
    # units
    ("shell --rate 100M -- true", "100M"),
    ("shell --rate 100mbps -- true", "100mbps"),
    ("shell --rate 1Gb -- true", "1Gb"),
    ("shell --rate '100 mbit' -- true", "100 mbit"),
    ("shell --rate 100 -- true", "100"),
    ("shell --rate 10mbit --delay '10 ms' -- true", "10 ms"),
    ("shell --rate 10mbit --delay 20 -- true", "20"),
    ("shell --rate 10mbit --delay 10msec -- true", "10msec"),
    ("shell --rate 10mbit --loss 0.01 -- true", "0.01"),
    ("shell --rate 10mbit --queue droptail:1000 -- true", "1000"),
    ("shell --rate 10mbit --queue fqcodel -- true", "fqcodel"),
    # names of scenes, conditions, traces, scenarios, timelines, campaigns, treatments, workloads, keys, studies
    ("shell --scene street_canyon_bus -- true", "street_canyon_bus"),
    ("shell --scene lift/ltee -- true", "lift/ltee"),
    ("shell --trace kau-e5g-11 -- true", "kau-e5g-11"),
    ("shell --trace kau-e5g-1.csv -- true", "kau-e5g-1.csv"),
    ("shell --scenario kau-e5g-5 -- true", "kau-e5g-5"),
    ("shell --timeline comute -- true", "comute"),
    ("shell --rate 10mbit --radio nr-30hz -- true", "nr-30hz"),
    ("run kau-e5g-downlaod", "kau-e5g-downlaod"),
    ("run bbr-5g-ping.tom", "bbr-5g-ping.tom"),
    ("campaign plan demoo", "demoo"),
    ("scenarios kau-e5g-pag", "kau-e5g-pag"),
    ("resolve demo --treatment cubicc", "cubicc"),
    ("run demo --workload buk", "buk"),
    ("run demo --set run.trial=3", "trial"),
    ("run demo --set path.hop.radio.quee=droptail:100p", "quee"),
    ("shell --scenario cell --device neer -- true", "neer"),
    ("run cell --set device.neer.5qi=7", "neer"),
    ("run cell --set device.near.5q=7", "5q"),
    ("run cell --set cell.schedular=round-robin", "schedular"),
    ("run cell --set cell.scheduler=round-robbin", "round-robbin"),
    ("schema scenaro", "scenaro"),
    ("site info gogle", "gogle"),
    ("trace convert kau-e5g-1 --to mahimai", "mahimai"),
    ("channel lift/lte --mode 3gp", "3gp"),
    # requirements, before the first trial
    ("check --rate 10mbit --require 'wal time p90 < 5 s' -- true", "wal time"),
    ("check --rate 10mbit --require 'wall time p90 < 5 sec' -- true", "5 sec"),
    ("check --rate 10mbit --require 'wall time 90% < 5 s' -- true", "wall time 90% < 5 s"),
    ("check --rate 10mbit --require 'wall time p90 less than 5 s' -- true", "wall time p90 less than 5 s"),
    ("check --scenario kau-e5g-page --require 'web.sped index p90 < 5 s'", "web.sped index"),
)


class ReachedError(Exception):
    """The first trial would begin now."""


@pytest.fixture(autouse=True)
def no_trials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stop(*_: object, **__: object) -> None:
        raise ReachedError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wavebed.check.perform.perform_check", stop)
    monkeypatch.setattr("wavebed.run.runner.run_plan", stop)


def suggested(line: str, wrong: str, message: str) -> list[list[str]]:
    """Return each command that a message suggests instead of a line."""
    whole = COMMAND.search(message)
    if whole is not None:
        rest = shlex.split(line)[2:] if wrong else []  # only command and action are named then
        return [[*shlex.split(whole[1]), *rest]]
    found = WORDS.search(message)
    assert found is not None, message
    words = [each.strip("'") for each in found[1].split(" or ")]
    if wrong.startswith("--set "):
        return [shlex.split(line.replace(wrong, word)) for word in words]
    return [[part.replace(wrong, word) for part in shlex.split(line)] for word in words]


def works(arguments: list[str]) -> bool:
    """Return whether the arguments are taken; what would measure stops before the first trial."""
    command = arguments[0]
    if command in ("shell", "bridge"):
        arguments = [command, "--print-laboratory", *arguments[1:]]
    if command in ("demo", "doctor", "kernel", "channel"):
        build_parser(command).parse_args(arguments)
        return True
    try:
        return main(arguments) == 0
    except ReachedError:
        return True
    except SystemExit as ended:
        return ended.code == 0


def test_there_are_more_than_forty_mistakes() -> None:
    assert len({line for line, _ in MISTAKES}) == len(MISTAKES) > 40


@pytest.mark.parametrize(("line", "wrong"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_answered_by_one_line_whose_suggestion_works(
    line: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(shlex.split(line), capsys)
    assert "site-packages" not in message
    assert "/fd/" not in message
    assert str(Path(__file__).parents[2]) not in message
    Stored(STORED).check(line, message)
    for arguments in suggested(line, wrong, message):
        assert works(arguments), arguments


def test_no_message_names_a_folder_of_the_installation_or_a_descriptor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert refusal(["run", "demo", "--set", "path.hop.radio.raet=1mbit"], capsys).startswith("demo: ")
    with Path(tmp_path, "bad").open("w+") as file:
        file.write("hello\n")
        file.flush()
        message = refusal(["shell", "--trace", f"/dev/fd/{file.fileno()}", "--", "true"], capsys)
    assert message.startswith("--trace: the pipe: ")
    assert "/fd/" not in message


@pytest.mark.parametrize(
    "arguments",
    [
        ["shell", "--print-laboratory", "--trace", "kau-e5g-1"],
        ["shell", "--print-laboratory", "--trace", "scenarios/patterns/kau-e5g-1.csv"],
        ["shell", "--print-laboratory", "--scene", "kau-e5g-1"],
        ["shell", "--print-laboratory", "--scene", "scenarios/scenes/kau-e5g-1.toml"],
        ["shell", "--print-laboratory", "--scene", "lift/lte"],
        ["shell", "--print-laboratory", "--scenario", "kau-e5g-1"],
        ["shell", "--print-laboratory", "--scenario", "scenarios/kau-e5g-1.toml"],
        ["shell", "--print-laboratory", "--timeline", "commute"],
        ["shell", "--print-laboratory", "--timeline", "scenarios/timelines/commute.toml"],
        ["campaign", "plan", "scenarios/campaigns/demo.toml"],
        ["trace", "info", "kau-e5g-1"],
        ["trace", "info", "scenarios/patterns/kau-e5g-1.csv"],
        ["scenes", "kau-e5g-1"],
        ["scenarios", "kau-e5g-1"],
    ],
    ids=shlex.join,
)
def test_shipped_files_have_names_in_any_folder(arguments: list[str]) -> None:
    assert main(arguments) == 0
