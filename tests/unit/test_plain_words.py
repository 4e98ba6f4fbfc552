"""Words of comments, docstrings and documents, and names of public classes: the rules that a pattern can check."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

AVOIDED = re.compile(r"\b(so long(?! as)|so many|of which|that of|those of|by which|whom|is told)\b", re.IGNORECASE)
"""Words that make a reader look back for what they mean: name the thing again instead."""

MOST: dict[str, int] = {
    "benches": 23,
    "crates/wavebed-edge": 1,
    "crates/wavebed-link": 3,
    "docs/guides": 2,
    "docs/reference": 77,
    "docs/validation": 9,
    "plugins": 6,
    "scripts": 2,
    "tests": 85,
}
"""How many of these words each part of the repository may still have. Only lower the numbers."""

SHARED: dict[str, int] = {"Host": 2}
"""Names that several public classes still have, with how many: a host that is described, and the same one running."""


def _python_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers with the comments and docstrings of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str):
                    yield statement.lineno, value


def _rust_texts(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        _, comment, words = line.partition("//")
        if comment:
            yield number, words


def _texts(suffix: str, text: str) -> Iterator[tuple[int, str]]:
    if suffix == ".py":
        return _python_texts(text)
    return _rust_texts(text) if suffix == ".rs" else iter(enumerate(text.splitlines(), 1))


def _files() -> list[Path]:
    folders = ("python/wavebed", "plugins", "crates", "scripts", "benches", "tests", "docs")
    files = [
        file
        for folder in folders
        for ending in ("*.py", "*.rs", "*.md")
        for file in (ROOT / folder).rglob(ending)
        if not {"target", "__pycache__", "node_modules"} & set(file.parts) and "docs/zh" not in str(file)
    ]
    return [*files, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]


def test_comments_and_documents_have_no_more_words_that_must_be_read_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in _files():
        text = file.read_text("utf-8")
        if file == Path(__file__) or not AVOIDED.search(text):
            continue
        name = file.relative_to(ROOT)
        part = "/".join(
            name.parts[: 3 if name.parts[0] == "python" else 2 if name.parts[0] in {"crates", "docs"} else 1]
        )
        for number, words in _texts(file.suffix, text):
            for word in AVOIDED.finditer(words):
                line = number + words.count("\n", 0, word.start())
                found[part].append(f"{name}:{line}: {word[0]}")
    more = {part: lines for part, lines in found.items() if len(lines) > MOST.get(part, 0)}
    assert not more, "\n".join(
        ["some of these words are new; rewrite their sentences:", *(line for lines in more.values() for line in lines)]
    )


def test_each_public_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "python" / "wavebed").rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(file.relative_to(ROOT)))
    shared = {name: len(files) for name, files in homes.items() if len(files) > 1}
    more = {name: homes[name] for name, count in shared.items() if count > SHARED.get(name, 1)}
    assert not more, f"rename these classes: {more}"


@pytest.mark.parametrize(
    ("suffix", "text", "hits"),
    [
        (".py", '"""That of the path."""\nx = "that of"  # so many\n', 2),
        (".rs", "let x = 1; // by which\n", 1),
        (".md", "Nothing.\nTo whom?\n", 1),
        (".md", "it waits so long as it must\n", 0),
    ],
)
def test_the_words_are_found_in_texts_only(suffix: str, text: str, hits: int) -> None:
    assert sum(len(AVOIDED.findall(each)) for _, each in _texts(suffix, text)) == hits
