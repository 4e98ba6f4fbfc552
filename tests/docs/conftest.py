"""Options of the tests of the documentation, which by default parse every page and play none.

The options are there where `tests/docs` or a file in it is an argument of pytest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.docs.draw import Draw

    _Key = pytest.StashKey[Draw | None]

_DRAW: _Key = pytest.StashKey()
_LATE = "late"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("documentation")
    group.addoption("--play", metavar="N|all", help="play N blocks of the documentation, drawn by a seed, or all")
    group.addoption("--play-seed", metavar="S", help="seed of the draw (default: the hash of the commit)")
    group.addoption("--site", metavar="DIR", help="compare the site that `make docs` built there with the pages")


def pytest_configure(config: pytest.Config) -> None:
    play = config.getoption("--play", None)
    config.stash[_DRAW] = None
    if play is not None:
        from tests.docs.draw import draw_of

        config.stash[_DRAW] = draw_of(play, config.getoption("--play-seed", None))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests that play where nothing is played, and those of the site where none is given."""
    left_out = {"test_play.py": config.stash[_DRAW] is None, "test_site.py": config.getoption("--site", None) is None}
    return left_out.get(collection_path.name) or None


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the site."""
    return Path(request.config.getoption("--site"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the test of what is played one page or notebook after another."""
    draw = metafunc.config.stash[_DRAW]
    if draw is not None and "played" in metafunc.fixturenames:
        played = [*draw.of_pages(), *draw.notebooks()]
        ids = [each.stem if isinstance(each, Path) else str(each) for each in played]
        metafunc.parametrize("played", played, ids=ids)


def pytest_report_header(config: pytest.Config) -> list[str]:
    draw = config.stash[_DRAW]
    return draw.lines() if draw else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the draw again below the failures, and the trials that a late machine made invalid."""
    draw = config.stash[_DRAW]
    if draw is None:
        return
    terminalreporter.section("documentation played", sep="-")
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.getreports(kind)]
    late = [value for report in reports for name, value in report.user_properties if name == _LATE]
    for line in (*draw.lines(), *(f"late, and no error: {each}" for each in late)):
        terminalreporter.line(line)
