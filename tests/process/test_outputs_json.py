"""The outputs of ``--json``: each has a published schema, with units, and no command prints another way.

What commands print in the tests is checked by the fixture `published_outputs`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.unit.report_example import write_example

from wavebed.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_report_of_a_run_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_example(tmp_path)
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(folder / "report.html")}
