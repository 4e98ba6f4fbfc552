"""Read and check the specification of a site."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import reader, unread
from wavebed.config.table import Key, array_schema, read_table
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.workload.site.model import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


DOCUMENT = "document"
"""Default of `needs`: the first document."""
MAX_OBJECTS = 2000
MAX_SITE_BYTES = 500_000_000
MAX_ORIGINS = 250
"""As many as a /24 network of the laboratory has addresses."""
MINIMUM_BYTES = {"html": 600, "css": 120, "js": 400, "image": 200, "font": 9_000, "json": 40}
"""Smallest size of an object that still is one of its kind, as this builder makes it."""
MINIMUM_JPEG_BYTES = 2000
SHAPES = ("hero", "card", "tile", "icon", "pixel")
LAYOUTS = ("feed", "grid", "search")
_LOADS = {"css": ("blocking", "async"), "js": ("blocking", "defer", "async"), "image": ("eager", "lazy")}
_DEFAULT_LOAD = {"css": "blocking", "js": "defer", "image": "eager"}
_FINDS = {
    "html": ("css", "js", "image", "html"),
    "css": ("css", "image", "font"),
    "js": ("css", "js", "image", "html", "json"),
}
"""What an object of each kind can refer to."""


@dataclass(frozen=True, slots=True)
class ObjectGroup:
    """A group of similar objects.

    Parameters
    ----------
    name : str
        Its name for references and for its files.
    kind : str
        ``html`` (frames), ``css``, ``js``, ``image``, ``font`` or ``json``.
    count : int
        How many.
    bytes : int
        Size of all together.
    spread : float
        Standard deviation of the logarithm of their sizes.
    origin : str
        Name of the origin that has them.
    needs : str
        The group that refers to them, or `DOCUMENT`.
    load : str
        ``blocking``, ``defer``, ``async``, ``eager`` or ``lazy``; empty for kinds that know no difference.
    chain : bool
        Whether each is found in the one before it.
    above_fold : bool
        Whether they are seen without scrolling.
    shape : str
        Of images: one of `SHAPES`.
    format : str
        Of images: ``jpeg`` or ``png``.
    cpu_ms : float
        Of scripts: how long each keeps the processor busy.
    """

    name: str
    kind: Kind
    count: int
    bytes: int
    spread: float
    origin: str
    needs: str
    load: str
    chain: bool
    above_fold: bool
    shape: str
    format: str
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Spec:
    """What a site is built from."""

    name: str
    title: str
    source: str
    seed: int
    layout: str
    colour: str
    origins: tuple[str, ...]
    document_bytes: int
    groups: tuple[ObjectGroup, ...]


@reader('"#RRGGBB"', {"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"})
def _colour(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", value, re.ASCII):
        raise Problem(f'{described(value)} is not a colour: write one such as "#1a73e8"')
    return value.lower()


@reader("NAME", {"type": "string"})
def _origin(value: object) -> str:
    label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    if not isinstance(value, str) or len(value) > 200 or not re.fullmatch(rf"{label}(\.{label})+", value, re.ASCII):
        raise Problem(f'{described(value)} is not a host name: write one in small letters such as "www.shop.example"')
    return value


@reader('["NAME", …]', {"type": "array", "items": {"type": "string"}, "minItems": 1})
def _origins(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise Problem(f'{described(value)} is not an array of names: write origins = ["www.shop.example", …]')
    if len(value) > MAX_ORIGINS:
        raise Problem(f"has {len(value)} names: write at most {MAX_ORIGINS}")
    names = tuple(at(str(index), _origin, entry) for index, entry in enumerate(value))
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Problem(f"{name!r} is there twice: leave one out", str(index))
    return names


class GroupTable(Struct, frozen=True, kw_only=True):
    """``[[objects]]``: a group of similar objects."""

    name: Annotated[str, Key(values.name, "what they are called; no two groups have the same name")]
    kind: Annotated[Kind, Key(values.word(*MINIMUM_BYTES), "what they are; `html`: frames of their own")]
    count: Annotated[int, Key(values.number(1, MAX_OBJECTS), "how many")] = 1
    bytes: Annotated[int | None, Key(values.size_bytes, "size of all together; or else `each`")] = None
    each_bytes: Annotated[int | None, Key(values.size_bytes, "size of each, all alike")] = None
    spread: Annotated[
        float, Key(values.percentage, "how much sizes differ: standard deviation of their natural logarithm")
    ] = 0.6
    origin: Annotated[str | None, Key(_origin, "who has them", absent="the first origin")] = None
    needs: Annotated[
        str, Key(values.name, "the group that refers to them, evenly in turn; they are found when it has come")
    ] = DOCUMENT
    load: Annotated[
        str | None,
        Key(
            values.word("blocking", "defer", "async", "eager", "lazy"),
            "css: `blocking` or `async`; js: `blocking`, `defer` or `async`; image: `eager` or `lazy`",
            absent="css `blocking`, js `defer`, image `eager`",
        ),
    ] = None
    chain: Annotated[bool, Key(values.boolean, "js: each one inserts the next")] = False
    above_fold: Annotated[bool, Key(values.boolean, "image: seen without scrolling")] = False
    shape: Annotated[
        str | None, Key(values.word(*SHAPES), "image: how large it is shown; a `pixel` is not seen", absent="`card`")
    ] = None
    format: Annotated[str | None, Key(values.word("jpeg", "png"), "image: how it is coded", absent="`jpeg`")] = None
    cpu_ns: Annotated[int, Key(values.time_ns, "js: how long each keeps the processor busy")] = 0


_GROUPS = unread("[[objects]]", functools.partial(array_schema, GroupTable))


class SiteTable(Struct, frozen=True, kw_only=True):
    """The file of a site."""

    title: Annotated[str, Key(values.text, "what people read")]
    source: Annotated[str, Key(values.text, "where the numbers come from, and which are assumed")]
    origins: Annotated[tuple[str, ...], Key(_origins, "host names; the first has the first document")]
    document_bytes: Annotated[int, Key(values.size_bytes, "size of the first document")]
    layout: Annotated[str, Key(values.word(*LAYOUTS), "how the page is laid out")] = "feed"
    colour: Annotated[str, Key(_colour, "its main colour")] = "#1a5fb4"
    seed: Annotated[int, Key(values.number(0, 2**32 - 1), "of sizes, pictures and text")] = 1
    objects: Annotated[object, Key(_GROUPS, "groups of objects: keys below")] = []


_ONLY_FOR = {
    "chain": ("js",),
    "cpu": ("js",),
    "above-fold": ("image",),
    "shape": ("image",),
    "format": ("image",),
    "load": tuple(_LOADS),
}


def read_spec(file: Path) -> Spec:
    """Return the specification in a file.

    Raises
    ------
    UserError
        If the file cannot be read or is wrong: one line with the file, the key, the rule and the remedy.
    """
    try:
        return _spec(read_toml(file, "name a site's file"), file.stem)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def _spec(document: dict[str, object], name: str) -> Spec:
    table = read_table(SiteTable, document, "a site")
    if table.document_bytes < MINIMUM_BYTES["html"]:
        raise Problem(f"has {table.document_bytes} bytes: write at least {MINIMUM_BYTES['html']}b", "document")
    groups = _groups(table.objects, table.origins)
    if sum(group.count for group in groups) >= MAX_OBJECTS:
        raise Problem(f"are more than {MAX_OBJECTS}: write fewer", "objects")
    if table.document_bytes + sum(group.bytes for group in groups) > MAX_SITE_BYTES:
        raise Problem(f"have more than {MAX_SITE_BYTES // 1_000_000} MB together: write less", "objects")
    return Spec(
        name=name,
        title=table.title,
        source=table.source,
        seed=table.seed,
        layout=table.layout,
        colour=table.colour,
        origins=table.origins,
        document_bytes=table.document_bytes,
        groups=groups,
    )


def _groups(tables: object, origins: tuple[str, ...]) -> tuple[ObjectGroup, ...]:
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write [[objects]] above each one", "objects")
    groups: list[ObjectGroup] = []
    for index, table in enumerate(tables):
        groups.append(at(f"objects.{index}", _reader(groups, origins), table))
    return tuple(groups)


def _reader(above: list[ObjectGroup], origins: tuple[str, ...]) -> Callable[[object], ObjectGroup]:
    def read(given: object) -> ObjectGroup:
        table = read_table(GroupTable, given, "[[objects]] above each one")
        if table.name == DOCUMENT or any(table.name == other.name for other in above):
            raise Problem(f"{table.name!r} is the name of another one: write a name of its own", "name")
        assert isinstance(given, dict), "read_table has checked it"
        for key, kinds in _ONLY_FOR.items():
            if key in given and table.kind not in kinds:
                raise Problem(f"does not belong to {table.kind}: leave it out", key)
        origin = table.origin or origins[0]
        if origin not in origins:
            raise Problem(f"{origin!r} is not in origins: write it there, or one of {', '.join(origins)}", "origin")
        group = ObjectGroup(
            name=table.name,
            kind=table.kind,
            count=table.count,
            bytes=_total_bytes(table),
            spread=0.0 if table.each_bytes is not None else table.spread,
            origin=origin,
            needs=table.needs,
            load=_load(table.load, table.kind),
            chain=table.chain,
            above_fold=table.above_fold,
            shape=table.shape or ("card" if table.kind == "image" else ""),
            format=table.format or ("jpeg" if table.kind == "image" else ""),
            cpu_ms=table.cpu_ns / 1e6,
        )
        _check_place(group, above)
        return group

    return read


def _total_bytes(table: GroupTable) -> int:
    total, each, kind = table.bytes, table.each_bytes, table.kind
    if total is not None and each is not None:
        raise Problem("excludes bytes: leave one of them out", "each")
    image_format = table.format or "jpeg"
    least = MINIMUM_JPEG_BYTES if kind == "image" and image_format == "jpeg" else MINIMUM_BYTES[kind]
    called = _called(kind, image_format)
    if each is not None:
        if each < least:
            raise Problem(f"has {each} bytes: {called} has at least {least}b", "each")
        return each * table.count
    if total is None:
        raise Problem('is missing: write bytes = "SIZE" for all together, or each = "SIZE"', "bytes")
    if total < least * table.count:
        raise Problem(
            f"has {total} bytes for {table.count}: {called} has at least {least}b: write {least * table.count}b",
            "bytes",
        )
    return total


def _called(kind: Kind, image_format: str) -> str:
    return f"{image_format} image" if kind == "image" else kind


def _load(given: object, kind: Kind) -> str:
    if given is None:
        return _DEFAULT_LOAD.get(kind, "")
    if given not in _LOADS[kind]:
        raise Problem(f"{given!r} is not for {kind}: write one of {', '.join(_LOADS[kind])}", "load")
    return str(given)


def _check_place(group: ObjectGroup, above: list[ObjectGroup]) -> None:
    """Refuse a group that nothing of `needs` can refer to."""
    finder_kind: str = "html"
    if group.needs != DOCUMENT:
        finder = next((other for other in above if other.name == group.needs), None)
        if finder is None:
            names = ", ".join([DOCUMENT, *(other.name for other in above)])
            raise Problem(f"{group.needs!r} is not above: write one of {names}", "needs")
        finder_kind = finder.kind
        if group.kind == "image" and group.above_fold and finder_kind == "html":
            raise Problem("is not for images in frames: leave it out", "above-fold")
    if group.kind not in _FINDS.get(finder_kind, ()):
        able = " or ".join(kind for kind, found in _FINDS.items() if group.kind in found)
        raise Problem(f"{group.needs!r} ({finder_kind}) cannot refer to {group.kind}: write a group of {able}", "needs")
    if group.load == "blocking" and group.kind == "js" and finder_kind == "js":
        raise Problem("a script that a script inserts does not block: write async", "load")
