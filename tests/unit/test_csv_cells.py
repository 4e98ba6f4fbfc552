"""Cells of exported CSV: a spreadsheet runs none of them, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

import wavebed
from wavebed.export.trial import table_csv
from wavebed.output import csv_cell, csv_rows
from wavebed.page.tables import Table, csv_text

if TYPE_CHECKING:
    from wavebed.export.trial import ExportedTrial

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1",
    "--version",
    "-1 -2",
    "+",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_run_begins_with_an_apostrophe(text: str) -> None:
    cell = f"'{text}".replace("\r", " ")
    assert csv_cell(text) == cell
    assert next(csv.reader(io.StringIO(csv_rows([[text, 1]]), newline=""))) == [cell, "1"]
    assert csv_cell("a\r=1") == "a =1"


@pytest.mark.parametrize("value", [-3, -2.5, "-3", "+2.5", "-1.5e-07", "a=b", "x-y", "", None, True, "1-2"])
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert csv_cell(value) == value


def test_tables_of_a_trial_and_of_a_campaign_have_the_rule() -> None:
    table = pa.table({"text": [*FORMULAS, None, "-4", "plain"], "value": [-1.5] * (len(FORMULAS) + 3)})
    trial = cast("ExportedTrial", SimpleNamespace(table=lambda _: table))
    rows = list(csv.reader(io.StringIO(table_csv(trial, "events").decode(), newline="")))
    cells = [f"'{text}".replace("\r", " ") for text in FORMULAS]
    assert rows == [
        ["text", "value"],
        *([cell, "-1.5"] for cell in cells),
        ["", "-1.5"],
        ["-4", "-1.5"],
        ["plain", "-1.5"],
    ]
    written = csv_text(Table("name", "caption", ["treatment", "value"], [["=A1", "-4.5"]]))
    assert written == "treatment,value\n'=A1,-4.5\n"


def test_one_place_writes_csv_of_texts() -> None:
    package = Path(wavebed.__file__).parent
    writers = ("csv.writer(", "csv.DictWriter(", "write_csv(")
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if any(writer in file.read_text(encoding="utf-8") for writer in writers)
    }
    assert found == {"output.py", "export/trial.py"}, "use wavebed.output.csv_rows: a spreadsheet runs formulas"
