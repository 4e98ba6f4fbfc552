"""Write reference pages from the program: ``python -m wavebed.cli.references docs/reference/NAME.md…``."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct

from wavebed import remedy
from wavebed.cli import COMMANDS, build_parser
from wavebed.cli.help import path_text
from wavebed.cli.outputs import OUTPUTS, output_schema
from wavebed.config.table import fields, markdown_table
from wavebed.formats import FORMATS
from wavebed.output import write_output
from wavebed.path.cell_tables import BackgroundTable, CellDeviceTable, CellTable, PowerTable, ServiceTable
from wavebed.path.laboratory import LEAST_LIMIT_PACKETS
from wavebed.path.tables import DEFAULT_SYSCTLS, AirTable, HopTable, HostTable, LinkTable, PathTable
from wavebed.radio.tables import PARTS, RadioTable, UeLimitTable, WifiTable
from wavebed.run.lab_table import LabTable
from wavebed.run.scenario import RunTable
from wavebed.spec.network import QUEUE_KINDS
from wavebed.workload import KINDS, kind_of
from wavebed.workload.model import Common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.config.data import Json

_COMMAND_HEAD = """# The command line

This page is made from the program: `python -m wavebed.cli.references docs/reference/command-line.md`.

Data goes to standard output, progress and logs to standard error. Rates are written `10gbit 2.5gbit 54mbit` (bits of IP
packets, powers of 1000), times `10ms 125us 2s`, sizes `64kb 1mb` (1000) `64kib` (1024) or packets `1000p`,
fractions and probabilities `0.01%`.

| exit status | meaning |
|---|---|
| 0 | success; `shell` has the status of its command |
| 1 | the experiment failed |
| 2 | the arguments or a file are wrong: one line names the argument or file, the rule and the remedy |
| 3 | the machine cannot do it: `wavebed doctor` explains |
| 130 | interrupted |
"""


def command_line_page() -> str:
    """Return the page: the help of every command, 96 columns wide."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "96"
    try:
        parts = [_COMMAND_HEAD, _help_section("wavebed", build_parser())]
        for name in COMMANDS:
            parser = subparsers(build_parser(name))[name]
            parts.append(_help_section(f"wavebed {name}", parser))
            parts += [_help_section(f"wavebed {name} {verb}", sub) for verb, sub in subparsers(parser).items()]
        parts += [_PATH_HEAD, _section(path_text(subparsers(build_parser("shell"))["shell"]))]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(parts)


_PATH_HEAD = """## The options of a path

`wavebed shell --help-path` prints them. `shell`, `check` and `bridge` have them all; `check` has no `--timeline`.
"""


def _help_section(title: str, parser: argparse.ArgumentParser) -> str:
    return f"## {title}\n\n{_section(parser.format_help())}"


def _section(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines()]
    return "```\n" + "\n".join(lines) + "\n```\n"


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands or verbs, by name."""
    return {
        name: choice
        for action in parser._actions  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        for name, choice in action.choices.items()
        if isinstance(choice, argparse.ArgumentParser)
    }


class Variable(Struct, frozen=True):
    """An environment variable that a program of wavebed reads or sets.

    Parameters
    ----------
    name : str
        Its name.
    place : str
        ``user``: a user may set it; ``inside``: programs in a laboratory have it; ``internal``: between programs.
    meaning : str
        Its meaning, without backticks: the man page has it too.
    """

    name: str
    place: Literal["user", "inside", "internal"]
    meaning: str


VARIABLES = (
    Variable("WAVEBED_CORE", "user", "The program wavebed-core to use, instead of the one beside the interpreter."),
    Variable("WAVEBED_EDGE", "user", "The same for wavebed-edge, the remedies."),
    Variable("WAVEBED_AGENT", "user", "The same for wavebed-agent, for real hosts."),
    Variable(
        "WAVEBED_CACHE",
        "user",
        "Folder for patterns, sites and media that are kept. Default: wavebed in the user's cache.",
    ),
    Variable(
        "WAVEBED_GUEST_READS",
        "user",
        "Files and folders, between colons, that programs in virtual time may read besides the system's and those that"
        " the specification names. In a home nothing else is readable.",
    ),
    Variable(
        "WAVEBED_LOCK",
        "user",
        "File that is locked during a measurement. Containers that share processors should name one file.",
    ),
    Variable(
        "WAVEBED_TIME",
        "user",
        "The time of trials where neither an option nor the scenario says: auto, real or virtual. Default: that of the"
        " command.",
    ),
    Variable("WAVEBED_SSH", "user", "The ssh program for real hosts, with options: ssh -F FILE. Default: ssh."),
    Variable(
        "WAVEBED_TOKEN",
        "user",
        "The token of wavebed forward and wavebed serve forward. Other users cannot read it, unlike an option.",
    ),
    Variable(
        "WAVEBED_SECRET",
        "user",
        "Begins the names of variables such as WAVEBED_SECRET_WORKLOAD_FETCH_RUN_3. They give wavebed rerun and run the"
        " secrets that a folder of results does not have. The message of the command names each.",
    ),
    Variable("NO_COLOR", "user", "If set, nothing is coloured."),
    Variable("SHELL", "user", "The program that wavebed shell runs without CMD. Default: /bin/sh."),
    Variable("XDG_CACHE_HOME", "user", "The user's cache, for WAVEBED_CACHE. Default: .cache in the home."),
    Variable("XDG_RUNTIME_DIR", "user", "Folder of the lock of measurements where /run/lock cannot be written."),
    Variable("WAVEBED_SERVER", "inside", "IPv4 address of the server."),
    Variable("WAVEBED_SERVER6", "inside", "IPv6 address of the server."),
    Variable("WAVEBED_HOST", "inside", "Name of the program's host: server, edge or client."),
    Variable("WAVEBED_LAB", "inside", "Name of the laboratory, as wavebed ctl lists it."),
    Variable("WAVEBED_AUTHORITY", "inside", "With --https: file of the certificate, which programs are to trust."),
    Variable("WAVEBED_CERTIFICATE", "inside", "With --https: file of the certificate and its key, for servers."),
    Variable("WAVEBED_SPKI", "inside", "With --https: hash of its key, for --ignore-certificate-errors-spki-list."),
    Variable("WAVEBED_PIN", "internal", "Descriptor on which a sandbox asks its outside to place kernel threads."),
    Variable("WAVEBED_BROWSER", "internal", "Path of the socket to which the stand-in of a far browser connects."),
)
"""All of them; a test compares them with the sources."""


def environment_page() -> str:
    """Return the page: the text beside this module, with the tables of the variables."""
    page = _template("environment")
    for place in ("user", "inside", "internal"):
        rows = [f"| `{each.name}` | {each.meaning} |" for each in VARIABLES if each.place == place]
        page = page.replace(f"@{place.upper()}@", "\n".join(["| variable | meaning |", "|---|---|", *rows]))
    return page


def formats_page() -> str:
    """Return the page: the text beside this module, with the table of the formats."""
    lines = ["| files | names | version is in | written | read | described in |", "|---|---|---|---|---|---|"]
    for form in FORMATS:
        read = ", ".join(str(version) for version in form.reads)
        cells = (form.name, form.files, form.key, str(form.version), read, f"[{form.page}]({form.page})")
        lines.append(f"| {' | '.join(cells)} |")
    return _template("formats").replace("@FORMATS@", "\n".join(lines))


_OUTPUTS_HEAD = """# What commands print with `--json`

This page is made from the types of the program: `python -m wavebed.cli.references docs/reference/outputs.md`.

`--json` prints one JSON object on standard output; progress and messages go to standard error. `wavebed schema
output/NAME` prints its JSON Schema (draft 2020-12), `wavebed schema list` all names. A number has its unit in its key,
or is in the unit that a key `unit` beside it names; a share is a fraction from 0 to 1. Null: not measured, or not
known. The tests check all that commands print against these schemas. New keys may be added; those that are here keep
their names and meanings.

`wavebed resolve` prints [a specification](results.md#specjson) (`wavebed schema trial`), `wavebed schema` a schema. The
files of a folder of results are described [on their own page](results.md).
"""


def outputs_page() -> str:
    """Return the page: the keys of each output, by its types."""
    return "\n".join([_OUTPUTS_HEAD, *(_output_section(name) for name in OUTPUTS)])


def _output_section(name: str) -> str:
    output, schema = OUTPUTS[name], output_schema(name)
    definitions = cast("dict[str, dict[str, Json]]", schema.get("$defs", {}))
    parts = [f"## {name}\n\n`wavebed {output.commands}`: {output.meaning}.\n"]
    root = _schema_name(schema)
    for each in [root, *(other for other in definitions if other != root)]:
        part = definitions[each]
        if "properties" not in part:
            continue
        head = "" if each == root else f"**{each}.** "
        parts.append(f"{head}{_schema_first_line(part)}\n\n| key | type |\n|---|---|\n{''.join(_schema_rows(part))}")
    return "\n".join(parts)


def _schema_first_line(part: dict[str, Json]) -> str:
    return str(part.get("description", "")).partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _schema_rows(part: dict[str, Json]) -> Iterator[str]:
    required = cast("list[str]", part.get("required", []))
    for key, value in cast("dict[str, dict[str, Json]]", part["properties"]).items():
        absent = "" if key in required else ", may be absent"
        told = str(value.get("description", ""))
        yield f"| `{key}` | {_schema_type(value)}{absent}{f': {told}' if told else ''} |\n"


def _schema_name(value: dict[str, Json]) -> str:
    return str(value.get("$ref", "")).rpartition("/")[2]


def _schema_type(value: dict[str, Json]) -> str:
    """Return the type of a key in a word or two."""
    if "$ref" in value:
        return _schema_name(value)
    if "anyOf" in value:
        return " or ".join(_schema_type(each) for each in cast("list[dict[str, Json]]", value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in cast("list[Json]", value["enum"]))
    kind = value.get("type")
    if kind == "array":
        items = value.get("items")
        return f"list of {_schema_type(items)}" if isinstance(items, dict) else "list"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"object of {_schema_type(inner)}" if isinstance(inner, dict) else "object"
    return "anything" if kind is None else str(kind)


PYTHON_NAMES: dict[str, tuple[str, ...]] = {
    "wavebed": ("run", "compare", "load", "Path", "Scene", "Pattern", "virtual_time"),
    "wavebed.interface.results": ("RunResults",),
    "wavebed.interface.comparing": ("Comparison",),
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

_PYTHON_HEAD = """# The Python interface

This page is made from the docstrings: `python -m wavebed.cli.references docs/reference/python.md`. The guide is
[From Python](../guides/python.md).

`import wavebed` has `run`, `compare`, `load`, `Path`, `Scene`, `Pattern`, `virtual_time` and `__version__`. Everything
else is imported from its module.
"""
_ENTRIES = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
_SECTIONS = (*_ENTRIES, "Notes", "References", "Examples", "Warnings", "See Also")
_WIDTH = 90
_RULE = re.compile(r"-{3,}")
_ROLE = re.compile(r":[a-z]+:`([^`]+)`")


def python_page() -> str:
    """Return the page in Markdown."""
    parts = [_PYTHON_HEAD]
    for module, names in PYTHON_NAMES.items():
        parts.append(f"## {module}\n")
        for name in names:
            parts += _described(getattr(import_module(module), name), name, 3)
    return "\n".join(parts)


def _described(thing: object, name: str, level: int) -> Iterator[str]:
    """Yield the heading, the signature and the docstring of a class or function, then the same of its members."""
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
            out += ["```py", *example, "```"]
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


def scenario_page() -> str:
    """Return the page: the prose of ``scenario.md.in`` with the tables of the schema in it."""
    text = _template("scenario")
    sysctls = "".join(f"| `{name}` | `{value}` |\n" for name, value in DEFAULT_SYSCTLS.items())
    parts = {
        "link keys": markdown_table(LinkTable),
        "air keys": markdown_table(AirTable),
        "radio keys": markdown_table(RadioTable, defaults=False),
        "radio parts": "\n".join(_keys_of_part(name, models) for name, models in PARTS.items()),
        "kinds of queues": ", ".join(f"`{kind}`" for kind in QUEUE_KINDS),
        "queue keys": "\n".join(_keys_of_queue(name) for name in QUEUE_KINDS if len(fields(QUEUE_KINDS[name])) > 1),
        "wifi keys": markdown_table(WifiTable, defaults=False),
        "ue-limit keys": markdown_table(UeLimitTable),
        "path keys": markdown_table(PathTable),
        "hop keys": markdown_table(HopTable),
        "cell keys": markdown_table(CellTable, PowerTable),
        "device keys": markdown_table(CellDeviceTable, ServiceTable),
        "background keys": markdown_table(BackgroundTable, ServiceTable),
        "host keys": markdown_table(HostTable),
        "kinds of remedies": "\n".join(_keys_of_remedy(name) for name in remedy.KINDS),
        "lab keys": markdown_table(LabTable),
        "run keys": markdown_table(RunTable),
        "common workload keys": markdown_table(Common),
        "kinds of workloads": "\n".join(_keys_of_kind(name) for name in KINDS),
        "limits": ", ".join(f"{kind} {packets} packets" for kind, packets in LEAST_LIMIT_PACKETS.items()),
        "sysctls": f"| setting | value |\n|---|---|\n{sysctls}",
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _keys_of_part(name: str, models: tuple[type[Struct], ...]) -> str:
    return f"`{name}`:\n\n{markdown_table(*models, defaults=False)}"


def _keys_of_queue(name: str) -> str:
    kind = QUEUE_KINDS[name]
    lines = markdown_table(kind).splitlines(keepends=True)
    return f"`{name}`: {kind.__doc__}\n\n{''.join(line for line in lines if not line.startswith('| `limit`'))}"


def _keys_of_kind(name: str) -> str:
    kind = kind_of(name)
    text = f"### {name}\n\n{kind.summary} See [{name}](../workloads/{name}.md).\n\n"
    return text + (markdown_table(kind.options_type) if fields(kind.options_type) else "")


def _keys_of_remedy(name: str) -> str:
    kind = remedy.kind_of(name)
    text = f"`{name}`: {kind.summary}\n\n"
    return text + (markdown_table(kind.options_type) if fields(kind.options_type) else "")


PAGES = {
    "command-line": command_line_page,
    "environment": environment_page,
    "formats": formats_page,
    "outputs": outputs_page,
    "python": python_page,
    "scenario": scenario_page,
}
"""What makes each page, by its name in ``docs/reference``."""


def _template(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md.in").read_text(encoding="utf-8")


if __name__ == "__main__":
    for file in sys.argv[1:]:
        write_output(file, PAGES[Path(file).stem](), "FILE")
