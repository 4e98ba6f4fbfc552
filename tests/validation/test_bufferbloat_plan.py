"""The scenario of the page on bufferbloat, whose trials take minutes, can be resolved."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bufferbloat_plan import FALLING, SCENES, scenario

from wavebed.run.design import ordered
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import read_plan

if TYPE_CHECKING:
    from pathlib import Path


def test_each_cell_has_its_buffer_and_its_congestion_control(tmp_path: Path) -> None:
    cells = [*FALLING, *SCENES]
    file = tmp_path / "bufferbloat.toml"
    file.write_text(scenario(tmp_path, cells))
    plan = read_plan(file)
    found = {}
    with closing(Resolver(plan, None)) as resolver:
        for slot in ordered(plan.treatments, 1, plan.seed):
            with resolver.resolved(slot) as resolved:
                bulk = next(each for each in resolved.spec.workloads if each.name == "bulk")
                found[slot.treatment.name] = (bulk.options["direction"], bulk.options["congestion-control"])
    assert found == {cell.name: (cell.direction, cell.control) for cell in cells}
