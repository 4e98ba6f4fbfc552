"""Read the specification of a site: every key is checked here, and what comes out is a `Spec` that can be built."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from wavebed.config import values
from wavebed.config.problems import Problem, at, described
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.workload.keys import WorkloadKey, read_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wavebed.workload.site.model import Kind

__all__ = ["DOCUMENT", "GROUP_KEYS", "MINIMUM_BYTES", "SITE_KEYS", "Group", "Spec", "read_spec"]

DOCUMENT = "document"
"""What objects are found in if nothing else is said: the first document."""
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
class Group:
    """Objects that are alike.

    Parameters
    ----------
    name : str
        By which others refer to them; their files are called after it.
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
        The group whose objects refer to them, or `DOCUMENT`.
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
    groups: tuple[Group, ...]


def _colour(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", value, re.ASCII):
        raise Problem(f'{described(value)} is not a colour: write one such as "#1a73e8"')
    return value.lower()


def _origin(value: object) -> str:
    label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    if not isinstance(value, str) or len(value) > 200 or not re.fullmatch(rf"{label}(\.{label})+", value, re.ASCII):
        raise Problem(f'{described(value)} is not a host name: write one in small letters such as "www.shop.example"')
    return value


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


def _raw(value: object) -> object:
    return value


def _seed(value: object) -> int:
    return values.number(0, 2**32 - 1)(value)


SITE_KEYS: tuple[WorkloadKey, ...] = (
    WorkloadKey("title", values.text, "TEXT", None, "what people read"),
    WorkloadKey("source", values.text, "TEXT", None, "where the numbers come from, and which are assumed"),
    WorkloadKey("origins", _origins, '["NAME", …]', None, "host names; the first has the first document"),
    WorkloadKey("document", values.size_bytes, "SIZE", None, "size of the first document"),
    WorkloadKey("layout", values.word(*LAYOUTS), "|".join(LAYOUTS), "feed", "how the page is laid out"),
    WorkloadKey("colour", _colour, '"#RRGGBB"', "#1a5fb4", "its main colour"),
    WorkloadKey("seed", _seed, "N", 1, "of sizes, pictures and text"),
    WorkloadKey("objects", _raw, "[[objects]]", [], "groups of objects: keys below"),
)
"""Keys of the top of the file; those without a default are required."""

GROUP_KEYS: tuple[WorkloadKey, ...] = (
    WorkloadKey("name", values.name, "NAME", None, "what they are called; no two groups have the same name"),
    WorkloadKey(
        "kind", values.word(*MINIMUM_BYTES), "|".join(MINIMUM_BYTES), None, "what they are; `html`: frames of their own"
    ),
    WorkloadKey("count", values.number(1, MAX_OBJECTS), "N", 1, "how many"),
    WorkloadKey("bytes", values.size_bytes, "SIZE", None, "size of all together; or else `each`"),
    WorkloadKey("each", values.size_bytes, "SIZE", None, "size of each, all alike"),
    WorkloadKey(
        "spread", values.share, "SHARE", "60%", "how much sizes differ: standard deviation of their natural logarithm"
    ),
    WorkloadKey("origin", _origin, "NAME", None, "who has them; the first origin by default"),
    WorkloadKey(
        "needs",
        values.name,
        "NAME",
        DOCUMENT,
        "the group that refers to them (evenly in turn): they are found when it has come; `document`: the first one",
    ),
    WorkloadKey(
        "load",
        values.word("blocking", "defer", "async", "eager", "lazy"),
        "blocking|defer|async|eager|lazy",
        None,
        "css: `blocking` (default) or `async`; js: `blocking`, `defer` (default) or `async`; image: `eager` (default)"
        " or `lazy`",
    ),
    WorkloadKey("chain", values.boolean, "true|false", False, "js: each one inserts the next"),
    WorkloadKey("above-fold", values.boolean, "true|false", False, "image: seen without scrolling"),
    WorkloadKey(
        "shape",
        values.word(*SHAPES),
        "|".join(SHAPES),
        None,
        "image: how large it is shown (`card` by default); a `pixel` is not seen",
    ),
    WorkloadKey("format", values.word("jpeg", "png"), "jpeg|png", None, "image: `jpeg` by default"),
    WorkloadKey("cpu", values.time_ns, "TIME", None, "js: how long each keeps the processor busy; nothing by default"),
)
"""Keys of ``[[objects]]``."""

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


def _require(found: Mapping[str, object], keys: tuple[WorkloadKey, ...], *names: str) -> None:
    for key in keys:
        if key.name in names and found[key.name] is None:
            raise Problem(f"is missing: write {key.name} = {key.write}", key.name)


def _spec(document: dict[str, object], name: str) -> Spec:
    found = read_values(document, SITE_KEYS)
    _require(found, SITE_KEYS, "title", "source", "origins", "document")
    document_bytes = cast("int", found["document"])
    if document_bytes < MINIMUM_BYTES["html"]:
        raise Problem(f"has {document_bytes} bytes: write at least {MINIMUM_BYTES['html']}b", "document")
    origins = cast("tuple[str, ...]", found["origins"])
    groups = _groups(found["objects"], origins)
    if sum(group.count for group in groups) >= MAX_OBJECTS:
        raise Problem(f"are more than {MAX_OBJECTS}: write fewer", "objects")
    if document_bytes + sum(group.bytes for group in groups) > MAX_SITE_BYTES:
        raise Problem(f"have more than {MAX_SITE_BYTES // 1_000_000} MB together: write less", "objects")
    return Spec(
        name=name,
        title=cast("str", found["title"]),
        source=cast("str", found["source"]),
        seed=cast("int", found["seed"]),
        layout=cast("str", found["layout"]),
        colour=cast("str", found["colour"]),
        origins=origins,
        document_bytes=document_bytes,
        groups=groups,
    )


def _groups(tables: object, origins: tuple[str, ...]) -> tuple[Group, ...]:
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write [[objects]] above each one", "objects")
    groups: list[Group] = []
    for index, table in enumerate(tables):
        groups.append(at(f"objects.{index}", _reader(groups, origins), table))
    return tuple(groups)


def _reader(above: list[Group], origins: tuple[str, ...]) -> Callable[[object], Group]:
    def read(table: object) -> Group:
        if not isinstance(table, dict):
            raise Problem(f"{described(table)} is not a table: write [[objects]] above each one")
        found = read_values(table, GROUP_KEYS)
        _require(found, GROUP_KEYS, "name", "kind")
        name, kind = cast("str", found["name"]), cast("Kind", found["kind"])
        if name == DOCUMENT or any(name == other.name for other in above):
            raise Problem(f"{name!r} is the name of another one: write a name of its own", "name")
        for key, kinds in _ONLY_FOR.items():
            if key in table and kind not in kinds:
                raise Problem(f"does not belong to {kind}: leave it out", key)
        origin = cast("str | None", found["origin"]) or origins[0]
        if origin not in origins:
            raise Problem(f"{origin!r} is not in origins: write it there, or one of {', '.join(origins)}", "origin")
        group = Group(
            name=name,
            kind=kind,
            count=cast("int", found["count"]),
            bytes=_total_bytes(found, kind, str(found["format"] or "jpeg")),
            spread=0.0 if found["each"] is not None else cast("float", found["spread"]),
            origin=origin,
            needs=cast("str", found["needs"]),
            load=_load(found["load"], kind),
            chain=cast("bool", found["chain"]),
            above_fold=cast("bool", found["above-fold"]),
            shape=cast("str | None", found["shape"]) or ("card" if kind == "image" else ""),
            format=cast("str | None", found["format"]) or ("jpeg" if kind == "image" else ""),
            cpu_ms=(cast("int | None", found["cpu"]) or 0) / 1e6,
        )
        _check_place(group, above)
        return group

    return read


def _total_bytes(found: Mapping[str, object], kind: Kind, image_format: str) -> int:
    total, each, count = cast("tuple[int | None, int | None, int]", (found["bytes"], found["each"], found["count"]))
    if total is None and each is None:
        raise Problem('is missing: write bytes = "SIZE" for all together, or each = "SIZE"', "bytes")
    if total is not None and each is not None:
        raise Problem("excludes bytes: leave one of them out", "each")
    least = MINIMUM_JPEG_BYTES if kind == "image" and image_format == "jpeg" else MINIMUM_BYTES[kind]
    if each is not None and each < least:
        raise Problem(f"has {each} bytes: {_called(kind, image_format)} has at least {least}b", "each")
    size = total if total is not None else cast("int", each) * count
    if size < least * count:
        called = _called(kind, image_format)
        raise Problem(f"has {size} bytes for {count}: {called} has at least {least}b: write {least * count}b", "bytes")
    return size


def _called(kind: Kind, image_format: str) -> str:
    return f"{image_format} image" if kind == "image" else kind


def _load(given: object, kind: Kind) -> str:
    if given is None:
        return _DEFAULT_LOAD.get(kind, "")
    if given not in _LOADS[kind]:
        raise Problem(f"{given!r} is not for {kind}: write one of {', '.join(_LOADS[kind])}", "load")
    return str(given)


def _check_place(group: Group, above: list[Group]) -> None:
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
