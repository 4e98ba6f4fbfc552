"""Files of one crate or package import each other in one direction; each cycle that is allowed has its reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "crates/wavebed-core/src/init": "process 1 is one object: its requests, its programs and its hosts are a file each",
    "crates/wavebed-edge/src/splitter": "the splitter is one loop: flows, windows and counters are a file each",
    "python/wavebed/path": "a table of a scenario reads itself as a path, when it is asked",
    "python/wavebed/workload/site": "a site is built from a saved page, and a saved page is named as a site",
}
"""Files of a cycle have this beginning in common."""

Graph = dict[Path, set[Path]]
Name = tuple[str, ...]

_USE = re.compile(r"^ *(pub(?:\([a-z]+\))? )?use ([^;]+);", re.MULTILINE)
_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:pub )?mod tests", re.MULTILINE)
_MODULE = re.compile(r"^(?:pub(?:\([a-z]+\))? )?mod (\w+);", re.MULTILINE)
_ANCHORED = re.compile(r"(?<![\w:$])(?:crate|super|self)(?:::\w+)+")
_FROM = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|[^\n]*)$", re.MULTILINE)
_QUALIFIED = re.compile(r"(?<![\w:.])([a-z_0-9]+)::(\w+)")


class Crate:
    """The modules of one crate, and what the text of each names; its tests do not count."""

    def __init__(self, source: Path) -> None:
        self.files: dict[Name, Path] = {}
        self.texts: dict[Name, str] = {}
        self.given_on: dict[Name, Name] = {}
        library = source / "lib.rs"
        self._add((), library if library.exists() else source / "main.rs")

    def _add(self, module: Name, file: Path) -> None:
        text = _TESTS.split(re.sub(r"//[^\n]*", "", file.read_text()))[0]
        self.files[module], self.texts[module] = file, text
        folder = file.parent if file.stem in {"mod", "lib", "main"} else file.with_suffix("")
        for name in _MODULE.findall(text):
            for place in (folder / f"{name}.rs", folder / name / "mod.rs"):
                if place.exists():
                    self._add((*module, name), place)

    def _absolute(self, module: Name, path: Name) -> Name | None:
        """Return `path` from the root of the crate, or None if it leads out of it."""
        ups = next((index for index, name in enumerate(path) if name != "super"), len(path))
        if ups:
            return module[: len(module) - ups] + path[ups:]
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        return module + path if (*module, path[0]) in self.files else None

    def _named(self, module: Name) -> list[Name]:
        """Return what a module names of its crate; what it gives on is kept apart."""
        text, named = self.texts[module], []
        modules = {path[-1]: path for path in self.files if path[:-1] == module and path}
        for public, tree in _USE.findall(text):
            for leaf in _leaves(tree):
                path = self._absolute(module, leaf)
                if path is None:
                    continue
                if public:
                    self.given_on[(*module, path[-1])] = path
                else:
                    named.append(path)
                if path in self.files:
                    modules[path[-1]] = path
        rest = _USE.sub("", text)
        anchored = (self._absolute(module, tuple(path.split("::"))) for path in _ANCHORED.findall(rest))
        named += [path for path in anchored if path]
        named += [(*modules[name], item) for name, item in _QUALIFIED.findall(rest) if name in modules]
        return named

    def graph(self) -> Graph:
        """Return the files that each file takes something from."""
        named = {module: self._named(module) for module in self.files}
        return {
            self.files[module]: {file for path in paths if (file := self._file(path)) and file != self.files[module]}
            for module, paths in named.items()
        }

    def _file(self, path: Name) -> Path | None:
        """Return the file that defines `path`; None for a module, whose items count."""
        for _ in self.given_on:
            begin = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in self.given_on), None)
            if begin is None or begin in self.files:
                break
            path = self.given_on[begin] + path[len(begin) :]
        if path in self.files:
            return None
        module = next(path[:end] for end in range(len(path), -1, -1) if path[:end] in self.files)
        return self.files[module]


def _leaves(tree: str) -> list[Name]:
    """Return the paths of a `use` tree."""
    head, brace, rest = tree.partition("{")
    if not brace:
        path = tuple(tree.split(" as ", maxsplit=1)[0].strip().split("::"))
        return [path[:-1] if path[-1] == "self" else path]
    depth, parts = 0, [""]
    for character in rest[: rest.rindex("}")]:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    begin = tuple(name for name in head.strip().split("::") if name)
    return [begin + leaf for part in parts if part.strip() for leaf in _leaves(part.strip())]


def package_graph(package: Path) -> Graph:
    """Return the files that each file of a Python package imports, inside functions too.

    A name that is imported `as` itself is given on and counts as no import, as `pub use` in Rust.
    """
    files = {
        ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in package.rglob("*.py")
    }
    graph: Graph = {}
    for file in files.values():
        names = set()
        for module, listed in _FROM.findall(file.read_text()):
            taken = [each.split() for each in re.split(r"[,()]", listed) if each.strip()]
            inside = {f"{module}.{each[0]}" for each in taken if each[0] != each[-1] or len(each) == 1}
            names |= {name if name in files else module for name in inside}
        graph[file] = {files[name] for name in names if name in files} - {file}
    return graph


def cycles(graph: Graph) -> list[set[Path]]:
    """Return the sets of files that reach each other."""
    reached: dict[Path, set[Path]] = {}
    for start in graph:
        todo, reached[start] = [start], set()
        while todo:
            fresh = graph.get(todo.pop(), set()) - reached[start]
            reached[start] |= fresh
            todo += fresh
    found: list[set[Path]] = []
    for file in graph:
        together = {other for other in reached[file] if file in reached.get(other, set())}
        if together and together not in found:
            found.append(together)
    return found


def _graphs() -> list[Graph]:
    crates = [Crate(folder / "src").graph() for folder in sorted((ROOT / "crates").iterdir())]
    return [*crates, package_graph(ROOT / "python" / "wavebed")]


def test_only_the_listed_files_import_each_other() -> None:
    found = [sorted(str(file.relative_to(ROOT)) for file in cycle) for graph in _graphs() for cycle in cycles(graph)]
    assert len(ALLOWED) <= 4
    assert [files for files in found if not any(_begin_with(files, begin) for begin in ALLOWED)] == []


def _begin_with(files: list[str], begin: str) -> bool:
    return all(file.startswith(begin) for file in files)


def test_a_cycle_through_a_function_or_a_name_given_on_is_found(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("def f():\n    from p import b\n")
    (package / "b.py").write_text("from p.a import f\n")
    (package / "c.py").write_text("from p.b import f\n")
    source = tmp_path / "src"
    source.mkdir()
    (source / "lib.rs").write_text("mod a;\nmod b;\npub use b::Thing;\n")
    (source / "a.rs").write_text("use crate::Thing;\npub struct Other;\n")
    (source / "b.rs").write_text("pub struct Thing(crate::a::Other);\n")
    assert cycles(package_graph(package)) == [{package / "a.py", package / "b.py"}]
    assert cycles(Crate(source).graph()) == [{source / "a.rs", source / "b.rs"}]


@pytest.mark.parametrize(
    ("tree", "paths"), [("a::{self, b::{c, d as e}}", ["a", "a::b::c", "a::b::d"]), ("super::x", ["super::x"])]
)
def test_a_tree_of_names_has_these_leaves(tree: str, paths: list[str]) -> None:
    assert ["::".join(path) for path in _leaves(tree)] == paths
