"""Optional packages: the extra of each, and the error for a missing one.

``shell``, ``ctl``, ``ui``, ``channel``, ``trace``, ``resolve``, ``schema`` and ``doctor`` need none of them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from wavebed.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Extra(NamedTuple):
    """An extra of the package: the modules that it brings, and the commands that need it."""

    modules: tuple[str, ...]
    commands: tuple[str, ...]


TABLES = ("pandas", "pyarrow")
"""Series of results are Parquet files and checks use pandas, so reading or writing results needs both."""

POLARS = ("polars", "pyarrow")
"""Polars makes frames of tables from Arrow."""

EXTRAS = {
    "report": Extra(
        ("jinja2", "matplotlib", "perfetto", "scipy", *TABLES),
        ("run", "rerun", "report", "compare", "explain", "export", "fit", "league", "channel --plot", "trace plot"),
    ),
    "web": Extra(("PIL", "fontTools", "jinja2", "matplotlib", "playwright", *TABLES), ("demo", "site")),
    "forward": Extra(("MLRsearch", "jinja2", *TABLES), ("forward", "reproduce")),
    "mcp": Extra(("jinja2", "matplotlib", "mcp", "scipy", *TABLES), ("mcp",)),
    "polars": Extra(POLARS, ()),
    "dask": Extra(("distributed",), ("campaign run --executor dask://",)),
}

PACKAGES = {
    "MLRsearch": "MLRsearch",
    "PIL": "Pillow",
    "distributed": "distributed",
    "fontTools": "fonttools",
    "jinja2": "Jinja2",
    "matplotlib": "Matplotlib",
    "mcp": "mcp",
    "pandas": "pandas",
    "perfetto": "Perfetto",
    "playwright": "Playwright",
    "polars": "Polars",
    "pyarrow": "PyArrow",
    "scipy": "SciPy",
}
"""The package of each module, by its name in the package index."""


def absent(modules: Sequence[str]) -> list[str]:
    """Return the packages of those modules that are not installed; nothing is imported."""
    return [PACKAGES[module] for module in modules if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a blocked import
        return False


def require(extra: str, what: str, modules: Sequence[str] | None = None) -> None:
    """Raise an error if a package of an extra is missing.

    Parameters
    ----------
    extra : str
        The extra that brings them.
    what : str
        What needs them: the subject of the line, singular.
    modules : sequence of str, optional
        Those that it needs, where it does not need all of the extra.

    Raises
    ------
    MissingPackageError
        If one is not installed.
    """
    names = absent(EXTRAS[extra].modules if modules is None else modules)
    if names:
        listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        raise MissingPackageError(f"{what} needs {listed}: pip install 'wavebed[{extra}]'")


def spare_pandas() -> None:
    """Let Arrow make its tables without pandas until this process needs a frame.

    Arrow imports pandas with its first array, if it is installed, to know frames among its input: half a second of
    processor time. If that fails once, Arrow tries again only for `to_pandas` (pandas-shim.pxi of PyArrow 15 to 26).
    Call this only in wavebed's own processes: Arrow then makes no table from a frame before the first `to_pandas`.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_WithoutPandas)


class _WithoutPandas:
    """A finder of modules for which there is no pandas."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Find nothing else, which others may find."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
