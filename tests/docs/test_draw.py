"""A draw is the same for the same seed, and what it draws can be played by itself."""

from __future__ import annotations

import pytest
from tests.docs.blocks import blocks
from tests.docs.draw import draw_of
from tests.docs.units import lines_needed, units


def test_a_seed_draws_the_same_blocks_again_and_another_seed_others() -> None:
    drawn = draw_of("20", "a").units
    assert drawn == draw_of("20", "a").units
    assert len(set(drawn)) == 20
    assert list(drawn) == sorted(drawn)
    assert drawn != draw_of("20", "b").units


def test_a_smaller_draw_is_a_part_of_a_larger_one() -> None:
    assert set(draw_of("5", "a").units) < set(draw_of("20", "a").units)


def test_every_block_and_notebook_is_drawn_but_the_slow_ones() -> None:
    everything = draw_of("all", None).units
    drawn = draw_of("1000", "a").units
    assert set(drawn) == {unit for unit in everything if not unit.slow}
    assert len(everything) > len(drawn) > 30
    assert any(not unit.line for unit in drawn), "a notebook"


def test_all_plays_each_page_and_notebook_once() -> None:
    draw = draw_of("all", None)
    names = [*(each.page for each in draw.of_pages()), *(file.name for file in draw.notebooks())]
    assert len(set(names)) == len(names)
    assert sum(len(each.lines) for each in draw.of_pages()) + len(draw.notebooks()) == len(units())


def test_the_output_names_the_seed_and_what_it_drew_and_how_to_repeat_it() -> None:
    draw = draw_of("2", "a")
    first, second = draw.lines()
    assert first == f"documentation: seed a drew {draw.units[0]}, {draw.units[1]}"
    assert second.endswith(": pytest tests/docs/test_play.py --play 2 --play-seed a")


@pytest.mark.parametrize("play", ["many", "0", "-1"])
def test_a_wrong_number_of_blocks_is_refused(play: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"--play {play}: write a number of blocks from 1, or all"):
        draw_of(play, None)


PAGE = """```sh
wavebed channel street -o street.csv
```

```python
import wavebed
```

```sh
wavebed doctor
```

```python
wavebed.load("results")
```

```sh
wavebed trace info street.csv
```

```sh
wavebed channel kau-e5g-1 -o street.csv
```
"""


@pytest.mark.parametrize(("line", "needed"), [(1, {1}), (5, {5}), (9, {9}), (13, {5, 13}), (17, {1, 17}), (21, {21})])
def test_a_block_needs_what_writes_its_files_and_a_program_the_programs_before_it(
    monkeypatch: pytest.MonkeyPatch, line: int, needed: set[int]
) -> None:
    found = blocks("page.md", PAGE)
    monkeypatch.setattr("tests.docs.units.blocks", lambda _: found)
    assert lines_needed("page.md", [line]) == needed
