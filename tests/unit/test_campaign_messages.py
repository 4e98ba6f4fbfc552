"""Every malformed campaign file gives one line with the place, the rule and the remedy, and exit status 2.

The messages are stored beside the corpus. After a deliberate change, run with ``WAVEBED_WRITE_MESSAGES=1`` and read
the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.messages import Stored, refusal

HERE = Path(__file__).parents[1] / "bad_input"
CAMPAIGNS = sorted((HERE / "campaigns").glob("*.toml"))


@pytest.fixture(autouse=True)
def in_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "campaigns")
    monkeypatch.setenv("WAVEBED_CORE", "/bin/false")


def test_the_corpus_is_large_enough() -> None:
    assert len(CAMPAIGNS) >= 100


@pytest.mark.parametrize("file", CAMPAIGNS, ids=lambda file: file.stem)
def test_campaign(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(["campaign", "plan", file.name], capsys)
    Stored(HERE / "campaigns.messages").check(file.stem, message)
