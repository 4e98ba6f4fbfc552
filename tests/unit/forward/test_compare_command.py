"""``wavebed compare`` and ``wavebed report`` on folders of forwarding tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.forward.example import device, record

from wavebed.cli import main
from wavebed.forward.folder import write_forward

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    base = tmp_path_factory.mktemp("runs")
    for name, rate in (("slow", 3e5), ("fast", 9e5)):
        write_forward(base / name, record(device(name, rate)))
    return [str(base / "slow"), str(base / "fast")]


def test_tables_go_to_standard_output(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *folders]) == 0
    told = capsys.readouterr()
    assert "Table 1." in told.out
    assert "Table 2." in told.out
    assert "The small-packet test tells 1 of 1 pairs of devices apart." in told.out
    assert told.err == ""


def test_json_is_one_object(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--json", *folders]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["device"] for each in told["devices"]] == ["slow", "fast"]
    assert told["devices"][1]["overload"]["rank_by_estimate"] == 1


def test_page_and_csv_are_written(folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    assert main(["compare", *folders, "-o", str(page), "--csv", str(table)]) == 0
    assert "2 devices compared" in page.read_text()
    assert table.read_text().startswith("device,kind,measure,pps,")
    assert f"page: {page}" in capsys.readouterr().out


def test_report_writes_the_page_of_a_forwarding_test(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", folders[0], "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "Small packets through slow" in page.read_text()


def test_one_folder_is_no_comparison(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", folders[0]]) == 2
    assert "is one folder: name two or more" in capsys.readouterr().err


def test_a_folder_without_results_is_told(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", folders[0], str(tmp_path)]) == 2
    assert "has no run.json: name a folder that wavebed run or wavebed forward wrote" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *folders, "--csv", str(tmp_path / "none" / "table.csv")]) == 2
    assert "table.csv: no such file or directory: name another file with --csv" in capsys.readouterr().err
