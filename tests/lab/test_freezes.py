"""An engine that was stopped for a while is reported and judged. `make stress` has every length in every way."""

from __future__ import annotations

import pytest
from tests.stress.freezes import check_marked


@pytest.mark.parametrize(("way", "length_ms"), [("shell", 5), ("Python", 20), ("run", 60), ("Python", 200)])
def test_a_stopped_engine_is_reported_with_the_length_of_its_gap(way: str, length_ms: float) -> None:
    check_marked(way, length_ms)
