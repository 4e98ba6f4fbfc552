"""The table of modules in the page of the architecture: from the import contract, the manifests and the first lines.

Usage: python scripts/modules.py [docs/development/architecture.md]
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

__all__ = ["PAGE", "with_tables"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "development" / "architecture.md"
_REGION = re.compile(r"(<!-- modules: [^>]*-->\n).*?(<!-- end of modules -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return the page with its table of modules as the sources have it now."""
    return _REGION.sub(lambda found: found[1] + _tables() + found[2], page)


def _tables() -> str:
    lines = ["| crate | what it is | uses |", "|---|---|---|"]
    lines += [f"| `{name}` | {first} | {', '.join(uses) or 'none of ours'} |" for name, first, uses in _crates()]
    lines += ["", "| Python package | what it is |", "|---|---|"]
    lines += [f"| {', '.join(names)} | {first} |" for names, first in _packages()]
    return "\n".join(lines) + "\n"


def _crates() -> list[tuple[str, str, list[str]]]:
    """Return name, first sentence and used crates of each crate, those that use none of ours first."""
    found = {}
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        uses = [name for name in tomllib.loads(manifest.read_text())["dependencies"] if name.startswith("wavebed-")]
        found[manifest.parent.name] = sorted(uses)
    ordered: list[str] = []
    while len(ordered) < len(found):
        ordered += [name for name, uses in found.items() if name not in ordered and set(uses) <= set(ordered)]
    return [(name, _crate_line(name), [use.removeprefix("wavebed-") for use in found[name]]) for name in ordered]


def _crate_line(name: str) -> str:
    source = ROOT / "crates" / name / "src"
    file = source / "lib.rs" if (source / "lib.rs").exists() else source / "main.rs"
    comment = [line.removeprefix("//!").strip() for line in file.read_text().splitlines() if line.startswith("//!")]
    return _sentence(re.sub(r"\[(`\w+`)\]", r"\1", " ".join(comment[: (*comment, "").index("")])))


def _packages() -> list[tuple[list[str], str]]:
    """Return the names and the first sentence of each package, from the top layer of the import contract down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = []
    for layer in contracts[0]["layers"]:
        for name in re.split(r" [:|] ", layer):
            place = ROOT / "python" / Path(*name.split("."))
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            first = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n\n")[0]
            found.append(([f"`{name.removeprefix('wavebed.')}`"], _sentence(first.replace("\n", " "))))
    return found


def _sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0].rstrip(".")


if __name__ == "__main__":
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    page.write_text(with_tables(page.read_text()))
