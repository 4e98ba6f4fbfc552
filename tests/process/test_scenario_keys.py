"""Every key of a scenario is read, has its default, and reaches the laboratory file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.test_scenario_keys import EVERYTHING, NATIVE, OPPORTUNITIES, ROOT, STEPS, laboratory, links  # noqa: F401

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath


def test_the_default_limit_of_a_trace_follows_its_peak(laboratory: Any) -> None:
    down, _ = links(laboratory('[path]\ntrace = "steps.csv"\ndelay = "10ms"\n'))
    assert down[0]["queue"]["limit"] == {"packets": 15_000}


def test_a_trace_is_named_relative_to_the_scenario(laboratory: Any, tmp_path: FilePath) -> None:
    down, up = links(
        laboratory('[path]\ntrace = "steps.csv"\ntrace-end = "hold"\nstart-at = "500ms"\nup-rate = "1mbit"\n')
    )
    expected = {"kind": "pattern", "file": str(tmp_path / "steps.csv"), "end": "hold", "start_ns": 500_000_000}
    assert down[0]["rate"] == expected
    assert up[0]["rate"] == {"kind": "constant", "rate_bps": 1_000_000}


def test_opportunities_are_found_from_the_columns(laboratory: Any) -> None:
    down, _ = links(laboratory('[path]\ntrace = "opportunities.csv"\n'))
    assert down[0]["rate"]["kind"] == "opportunities"


def test_delay_and_loss_of_a_trace_drive_the_link_unless_given(laboratory: Any) -> None:
    down, up = links(laboratory('[path]\ntrace = "everything.csv"\nup-delay = "1ms"\n'))
    assert [stage["stage"] for stage in down] == ["bottleneck", "delay", "loss"]
    assert down[1]["delay"]["kind"] == "pattern"
    assert up[1]["delay"] == {"kind": "constant", "delay_ns": 1_000_000}
    assert up[2]["model"]["kind"] == "pattern"


def test_a_foreign_trace_is_converted_in_memory(laboratory: Any, tmp_path: FilePath) -> None:
    (tmp_path / "trace.down").write_text("1\n2\n2\n5\n")
    down, _ = links(laboratory("[path]\ntrace = 'trace.down'\ntrace-format = 'mahimahi'\n"))
    assert down[0]["rate"]["kind"] == "opportunities"
    assert down[0]["rate"]["file"].startswith("/proc/self/fd/")


def test_every_shipped_scenario_loads() -> None:
    scenarios = sorted((ROOT / "scenarios").glob("*.toml"))
    assert scenarios
    for file in scenarios:
        assert Path.load(file).laboratory()["network"]["legs"], file
