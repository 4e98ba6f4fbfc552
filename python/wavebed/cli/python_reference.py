"""Write the reference page of the Python interface from docstrings: ``python -m wavebed.cli.python_reference FILE``."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAMES", "python_page"]

NAMES: dict[str, tuple[str, ...]] = {
    "wavebed": ("Path", "Pattern", "load", "virtual_time"),
    "wavebed.path": ("Laboratory", "LabHost", "LabProcess"),
    "wavebed.pattern": ("ReadOptions", "read_trace", "write_trace", "to_native"),
    "wavebed.scene": ("load",),
    "wavebed.conditions": ("find", "names", "load_scene"),
    "wavebed.channel": ("realise", "ensemble", "to_pattern"),
    "wavebed.store.load": ("Run",),
    "wavebed.forward.folder": ("ForwardRun",),
    "wavebed.stats.intervals": ("median_interval", "paired_difference", "independent_difference"),
    "wavebed.errors": ("WavebedError", "UserError", "MachineError"),
    "wavebed.lab.protocol": ("LaboratoryGoneError", "LaboratoryHungError"),
}
"""What the page describes: every public name of the package, and the names that the guides use."""

_HEAD = """# The Python interface

This page is made from the docstrings: `python -m wavebed.cli.python_reference docs/reference/python.md`. The guide is
[From Python](../guides/python.md).

`import wavebed` has `Path`, `Pattern`, `load`, `virtual_time` and `__version__`. Everything else is imported from its
module.
"""
_ENTRIES = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
_SECTIONS = (*_ENTRIES, "Notes", "References", "Examples", "Warnings", "See Also")
_WIDTH = 90
_RULE = re.compile(r"-{3,}")
_ROLE = re.compile(r":[a-z]+:`([^`]+)`")


def python_page() -> str:
    """Return the page in Markdown."""
    parts = [_HEAD]
    for module, names in NAMES.items():
        parts.append(f"## {module}\n")
        for name in names:
            parts += _described(getattr(import_module(module), name), name, 3)
    return "\n".join(parts)


def _described(thing: object, name: str, level: int) -> Iterator[str]:
    """Yield the heading, the signature and the docstring of a class or function, then those of its members."""
    yield f"{'#' * level} {name}\n"
    kind = "class " if inspect.isclass(thing) else ""
    yield f"```py\n{kind}{name.rpartition('.')[2]}{_signature(thing)}\n```\n"
    yield _text(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if member.startswith("_"):
                continue
            if isinstance(value, property):
                yield f"{'#' * (level + 1)} {name}.{member}\n"
                yield _text(inspect.getdoc(value) or "")
            elif callable(value) or isinstance(value, classmethod | staticmethod):
                yield from _described(getattr(thing, member), f"{name}.{member}", level + 1)


def _signature(thing: object) -> str:
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return ""
    if not callable(thing):
        return ""
    signature = inspect.signature(thing)
    returned = signature.return_annotation
    after = "" if returned is inspect.Signature.empty or inspect.isclass(thing) else f" -> {returned}"
    shown: list[str] = []
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not any(one.startswith("*") for one in shown):
            shown.append("*")
        shown.append(_parameter(each))
    one_line = f"({', '.join(shown)}){after}"
    if len(one_line) <= _WIDTH:
        return one_line
    return "(\n" + "".join(f"    {each},\n" for each in shown) + f"){after}"


def _parameter(given: inspect.Parameter) -> str:
    stars = "*" if given.kind is given.VAR_POSITIONAL else "**" if given.kind is given.VAR_KEYWORD else ""
    kind = "" if given.annotation is given.empty else f": {given.annotation}"
    default = "" if given.default is given.empty else f"{' = ' if kind else '='}{given.default!r}"
    return f"{stars}{given.name}{kind}{default}"


def _text(docstring: str) -> str:
    """Return a docstring of numpy's style as Markdown."""
    text = _ROLE.sub(r"`\1`", docstring).replace("``", "`")
    lines = text.splitlines()
    out: list[str] = []
    section = ""
    index = 0
    while index < len(lines):
        line = lines[index]
        if line in _SECTIONS and index + 1 < len(lines) and _RULE.fullmatch(lines[index + 1]):
            section = line
            out += [f"**{line}**", ""]
            index += 2
            continue
        if line.startswith(">>> ") and (not out or not out[-1].startswith((">>> ", "... "))):
            example = []
            while index < len(lines) and lines[index].strip():
                example.append(lines[index])
                index += 1
            out += ["```python", *example, "```"]
            continue
        out += _entry(line) if section in _ENTRIES else [line]
        index += 1
    return "\n".join(out).strip() + "\n"


def _entry(line: str) -> list[str]:
    """Return a line of a section of names: a name becomes an item, its description is indented below it."""
    if not line.strip():
        return [line]
    if line.startswith("    "):
        return [f"  {line.strip()}"]
    name, colon, kind = line.partition(" : ")
    return [f"- `{name}`{f' ({kind})' if colon else ''}:"]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], python_page(), "FILE")
    else:
        print(python_page(), end="")
