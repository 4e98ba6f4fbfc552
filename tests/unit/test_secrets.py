"""Tokens, communities and passwords stand in no record, no page, no message and no other program's arguments."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.unit.forward_example import device, record

from wavebed.cli import main
from wavebed.forward.command import ForwardOptions, ForwardSpec, parse_options
from wavebed.forward.cpu import open_meter
from wavebed.forward.report.build import write_forward_report
from wavebed.forward.write import write_forward
from wavebed.result.encode import run_json
from wavebed.result.model import RunRecord
from wavebed.secret import Secret, redacted, redacted_line, redacted_table

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2hunter2"
COMMANDS = [
    ["--token", SECRET],
    [f"--token={SECRET}"],
    ["--cpu", f"snmp://{SECRET}@192.0.2.1:161"],
    [f"--cpu=snmp://{SECRET}@192.0.2.1"],
    ["--cpu", f"http://me:{SECRET}@192.0.2.1:9100/metrics"],
    ["--cpu", f"http://me:{SECRET}/or@so@192.0.2.1:9100/metrics"],
    ["--cpu", f"ssh://root:{SECRET}@192.0.2.1"],
    ["--cpu", f"http://192.0.2.1:9100/metrics?x=1&token={SECRET}&y=2"],
    ["--set", f"workload.fetch.api-token={SECRET}"],
    ["--set", f'workload.fetch.run=["curl", "-H", "Authorization: Bearer {SECRET}"]'],
    ["--password", SECRET],
]


def parsed() -> ForwardSpec:
    return parse_options(ForwardOptions(tx="eth0", peer="peer/eth1", token=SECRET, cpu=f"snmp://{SECRET}@192.0.2.1"))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:24])
def test_a_command_line_is_told_without_its_secrets(words: list[str]) -> None:
    told = redacted_line(["wavebed", *words, "-o", "folder"])
    assert SECRET not in " ".join(told)
    assert (told[0], told[-2:]) == ("wavebed", ["-o", "folder"])


def test_what_is_no_secret_stays() -> None:
    words = ["wavebed", "run", "a@b.toml", "--cpu", "ssh://root@192.0.2.1", "--set", "path.rate.token-bucket=1mbit"]
    words += ["--listen", "[::1]:5544", "--set", "path.rate={token-bucket='1mbit'}", "https://one.example/?q=1"]
    assert redacted_line(words) == words
    table = {"path.rate": {"token-bucket": "1mbit"}, "trials": 3}
    assert redacted_table(table) == table


def test_a_secret_does_not_print_itself() -> None:
    secret = Secret(SECRET)
    assert SECRET not in f"{secret} {secret!r} {[secret]} {parsed()!r}"
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.is_same(SECRET)
    assert not secret.is_same("\ud800")


def test_no_byte_of_a_forwarding_tests_folder_tells_a_secret(tmp_path: Path) -> None:
    order = parsed()
    assert order.cpu is not None
    meter = open_meter(order.cpu)
    meter.close()
    words = [word for command in COMMANDS for word in command]
    result = replace(device("a", 600_000.0), doubts=(f"the processor is read by {meter!r}",))
    told = replace(record(result), command_line=("wavebed", "forward", *words))
    write_forward(tmp_path / "run", told, {"said.txt": b"nothing"})
    write_forward_report(tmp_path / "run")
    assert "--token" in (tmp_path / "run" / "report.html").read_text()
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(files) > 5
    for file in files:
        data = file.read_bytes()
        assert SECRET.encode() not in (gzip.decompress(data) if file.suffix == ".gz" else data), file


def test_the_record_of_a_run_tells_no_secret() -> None:
    told = RunRecord(
        title="",
        source="",
        scenario="x.toml",
        overrides={"workload.x.token": SECRET, "workload.x.run": ["curl", f"http://me:{SECRET}@one.example"]},
        command_line=["wavebed", "run", *(word for command in COMMANDS for word in command)],
        started="",
        seed=1,
        blocks=1,
        versions={},
        machine={},
        workloads=[],
        treatments=[],
    )
    assert SECRET not in run_json(told)


@pytest.mark.parametrize(
    "where",
    [
        f"snmp://{SECRET}@192.0.2.1:99999",
        f"snmp://{SECRET}@",
        f"snmp://{SECRET}@192.0.2.1/path",
        f"http://me:{SECRET}@192.0.2.1:9100/metrics",
        f"ssh://root:{SECRET}@192.0.2.1",
        f"ftp://me:{SECRET}@192.0.2.1",
    ],
)
def test_no_message_about_an_option_tells_its_secret(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forward", "--tx", "eth0", "--rx", "eth1", "--cpu", where]) == 2
    told = capsys.readouterr()
    assert "--cpu" in told.err
    assert SECRET not in told.out + told.err + redacted(where)
