"""The structure of a page: each object's type and sizes, the object that refers to it, at which byte and how.

A structure has no content and no names, so it can be shared where the page cannot. It lists its objects, or sums them
up in groups, which become objects by rule.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, cast

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import Reader, reader, unread
from wavebed.config.table import Key, array_schema, read_table
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_json
from wavebed.workload.site.content import random_stream, share_out
from wavebed.workload.site.spec import MAX_OBJECTS, MAX_ORIGINS, MAX_SITE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wavebed.config.data import Json

ObjectType = Literal["document", "script", "style", "image", "font", "other"]
TYPES: tuple[ObjectType, ...] = ("document", "script", "style", "image", "font", "other")
FINDERS = ("document", "frame", "style", "script")
"""What a group of a summary can be found in; `document` is the first one."""
SCRIPT_MS_PER_KB = 0.67
"""Web Almanac 2019, chapter JavaScript: the median page has 391 kB of compressed scripts on desktops (figure 2), which
keep the main thread busy for 849 ms (figure 3). Scripts of two pages of kau-e5g without a figure, Bing and eBay, are
3.22 times as large without compression."""
_MOST_BYTES = MAX_SITE_BYTES
_MOST_SIDE_PX = 20_000
_Table = TypeVar("_Table", bound=Struct)


@reader("TAG", {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,20}$"})
def _tag(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,20}", value, re.ASCII):
        raise Problem(f"{described(value)} is not the name of an element: write one such as img")
    return value


def _as_list(kept: tuple[object, ...]) -> Json:
    return cast("Json", list(kept))


def _list_of(read: Callable[[object], object], write: str) -> Reader[tuple[object, ...]]:
    def whole(value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) > MAX_OBJECTS:
            raise Problem(f"{described(value)} is not an array: write [{write}, …]")
        return tuple(at(str(index), read, each) for index, each in enumerate(value))

    return Reader(whole, f"[{write}, …]", {"type": "array"}, _as_list)


@reader("F", {"type": "number", "minimum": 0, "maximum": 1})
def _fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Problem(f"{described(value)} is not a fraction: write a number from 0 to 1")
    return float(value)


@reader("X", {"type": "number", "minimum": 0, "maximum": 1000})
def _small(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1000:
        raise Problem(f"{described(value)} is not a number from 0 to 1000: write one such as 0.1")
    return float(value)


class StructureObject(Struct, frozen=True, kw_only=True):
    """``objects``: one object."""

    object: Annotated[int, Key(values.number(0, MAX_OBJECTS), "its number: 0 is the document, then 1, 2, …")]
    type: Annotated[str, Key(values.word(*TYPES), "what it is; `document`: a page or a frame")]
    bytes: Annotated[int, Key(values.number(0, _MOST_BYTES), "its size", name="bytes")]
    gzip_bytes: Annotated[
        int | None,
        Key(values.number(0, _MOST_BYTES), "its size as gzip sends it", name="gzip_bytes", absent="`bytes`"),
    ] = None
    by: Annotated[
        int | None,
        Key(values.number(0, MAX_OBJECTS), "the object that refers to it first", absent="the end of the document"),
    ] = None
    at_byte: Annotated[
        int | None,
        Key(values.number(0, _MOST_BYTES), "the byte of that object where it does", name="at_byte", absent="its end"),
    ] = None
    tag: Annotated[str | None, Key(_tag, "the element that refers to it", absent="by its type")] = None
    how: Annotated[
        tuple[str, ...],
        Key(_list_of(_tag, "WORD"), "of the reference: `async`, `defer`, `stylesheet`, `preload`, `lazy`"),
    ] = ()
    in_head: Annotated[bool, Key(values.boolean, "whether the reference is in the head", name="in_head")] = False
    host: Annotated[int, Key(values.number(0, MAX_ORIGINS - 1), "number of its host: 0 has the document")] = 0
    width: Annotated[
        int | None, Key(values.number(0, _MOST_SIDE_PX), "of an image or frame, in pixels", absent="by its bytes")
    ] = None
    height: Annotated[
        int | None, Key(values.number(0, _MOST_SIDE_PX), "the same, its height", absent="by its bytes")
    ] = None

    @property
    def wire_bytes(self) -> int:
        """Its size as gzip sends it."""
        return self.bytes if self.gzip_bytes is None else self.gzip_bytes


class StructureGroup(Struct, frozen=True, kw_only=True):
    """``groups``: similar objects, summed up."""

    type: Annotated[str, Key(values.word(*TYPES), "what they are")]
    count: Annotated[int, Key(values.number(1, MAX_OBJECTS), "how many")] = 1
    bytes: Annotated[int, Key(values.number(0, _MOST_BYTES), "size of all together", name="bytes")]
    gzip_bytes: Annotated[
        int | None,
        Key(values.number(0, _MOST_BYTES), "the same as gzip sends it", name="gzip_bytes", absent="`bytes`"),
    ] = None
    spread: Annotated[float, Key(_small, "standard deviation of the natural logarithm of their sizes")] = 0.0
    found_in: Annotated[
        str | None,
        Key(
            values.word(*FINDERS),
            "what refers to them, in turn: a group above; `document` is the first",
            name="in",
            absent="the first group: nothing; else `document`",
        ),
    ] = None
    places: Annotated[
        tuple[float, ...],
        Key(_list_of(_fraction, "F"), "quantiles of where, as fractions of its bytes, the least first", name="at"),
    ] = ()
    tag: Annotated[str | None, Key(_tag, "as in `objects`", absent="by their type")] = None
    how: Annotated[tuple[str, ...], Key(_list_of(_tag, "WORD"), "as in `objects`")] = ()
    in_head: Annotated[bool, Key(values.boolean, "as in `objects`", name="in_head")] = False
    host: Annotated[int, Key(values.number(0, MAX_ORIGINS - 1), "as in `objects`")] = 0


_OBJECTS = unread("objects", functools.partial(array_schema, StructureObject))
_GROUPS = unread("groups", functools.partial(array_schema, StructureGroup))


class StructureTable(Struct, frozen=True, kw_only=True):
    """The file of a structure."""

    page: Annotated[str, Key(values.text, "what people read")]
    source: Annotated[str, Key(values.text, "where it is from, and its licence")] = "not said"
    compressed: Annotated[bool, Key(values.boolean, "whether the server sends text as gzip: `gzip_bytes`")] = False
    viewport: Annotated[
        str,
        Key(
            values.word("desktop", "device"),
            "`desktop`: laid out 980 px wide and shrunk, as phones do with such pages; `device`: as wide as the phone",
        ),
    ] = "desktop"
    script_cost: Annotated[
        float, Key(_small, "ms for which each script computes, per 1000 of its bytes", name="script_ms_per_kb")
    ] = SCRIPT_MS_PER_KB
    objects: Annotated[object, Key(_OBJECTS, "the objects; or else `groups`")] = []
    groups: Annotated[object, Key(_GROUPS, "a summary in place of objects")] = []


class Structure(Struct, frozen=True, kw_only=True):
    """A structure that was read: `objects` is in order of number, and each `by` is another object.

    Parameters
    ----------
    name : str
        Of the site.
    page, source, compressed, viewport, script_cost
        As `StructureTable`.
    objects : tuple of StructureObject
        The document first.
    """

    name: str
    page: str
    source: str
    compressed: bool
    viewport: str
    script_cost: float
    objects: tuple[StructureObject, ...]


def read_structure(file: Path) -> Structure:
    """Return the structure in a JSON file.

    Raises
    ------
    UserError
        If it cannot be read or is wrong: one line with the file, the key, the rule and the remedy.
    """
    return structure_of(read_json(file, "name the structure of a page", most=MAX_TEXT_BYTES), file)


def structure_of(document: object, file: Path) -> Structure:
    """Return the structure that a document of `file` is; see `read_structure`."""
    try:
        return _structure(document, file.stem)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def _structure(document: object, name: str) -> Structure:
    table = read_table(StructureTable, document, "{ … }")
    listed = _tables(table.objects, "objects", StructureObject)
    summed = _tables(table.groups, "groups", StructureGroup)
    if bool(listed) == bool(summed):
        raise Problem("has neither or both: write objects, or groups", "objects")
    objects = tuple(_expanded(summed)) if summed else tuple(listed)
    _check(objects)
    return Structure(
        name=name,
        page=table.page,
        source=table.source,
        compressed=table.compressed,
        viewport=table.viewport,
        script_cost=table.script_cost,
        objects=objects,
    )


def _tables(given: object, key: str, model: type[_Table]) -> list[_Table]:
    if not isinstance(given, list):
        raise Problem(f"{described(given)} is not an array: write [{{ … }}, …]", key)
    if len(given) > MAX_OBJECTS:
        raise Problem(f"has {len(given)}: write at most {MAX_OBJECTS}", key)
    return [
        at(f"{key}.{index}", lambda each: read_table(model, _without_null(each), "{ … }"), each)
        for index, each in enumerate(given)
    ]


def _without_null(given: object) -> object:
    return {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given


def _check(objects: tuple[StructureObject, ...]) -> None:
    for index, each in enumerate(objects):
        if each.object != index:
            raise Problem(
                f"{each.object} stands at place {index}: number objects 0, 1, 2, …", f"objects.{index}.object"
            )
        if each.by is not None and (each.by >= len(objects) or each.by == index):
            raise Problem(f"{each.by} is no other object: write a number below {len(objects)}", f"objects.{index}.by")
    if objects[0].type != "document" or objects[0].by is not None:
        raise Problem("is not a document that nothing refers to: put the page's document first", "objects.0")
    if sum(each.bytes for each in objects) > MAX_SITE_BYTES:
        raise Problem(f"have more than {MAX_SITE_BYTES // 1_000_000} MB together: write less", "objects")
    for index, start in enumerate(objects):
        seen, each = {index}, start
        while each.by is not None:
            if each.by in seen:
                raise Problem("is found by what it finds: write another object", f"objects.{index}.by")
            seen.add(each.by)
            each = objects[each.by]


def _expanded(groups: list[StructureGroup]) -> list[StructureObject]:
    """Return the objects of a summary: sizes of a log-normal distribution, places by interpolated quantiles."""
    found: list[StructureObject] = []
    for index, group in enumerate(groups):
        finders = [0] if found and group.found_in in (None, "document") else _finders(group.found_in, found)
        if found and not finders:
            raise Problem(f"{group.found_in!r} is not above: put its group first", f"groups.{index}.in")
        sizes = share_out(group.bytes, group.count, group.spread, 0, random_stream("structure", index))
        ratio = 1.0 if not group.bytes or group.gzip_bytes is None else group.gzip_bytes / group.bytes
        for place, size in enumerate(sizes):
            by = finders[place % len(finders)] if found else None
            found.append(
                StructureObject(
                    object=len(found),
                    type=group.type,
                    bytes=size,
                    gzip_bytes=round(size * ratio),
                    by=by,
                    at_byte=None if by is None else _place(group.places, place, group.count, found[by].bytes),
                    tag=group.tag,
                    how=group.how,
                    in_head=group.in_head,
                    host=group.host,
                )
            )
            if len(found) > MAX_OBJECTS:
                raise Problem(f"are more than {MAX_OBJECTS}: write fewer", "groups")
    return found


def _finders(kind: str | None, found: list[StructureObject]) -> list[int]:
    wanted = "document" if kind == "frame" else kind
    return [each.object for each in found if each.type == wanted and each.object > 0]


def _place(quantiles: tuple[float, ...], index: int, count: int, size_bytes: int) -> int | None:
    if not quantiles:
        return None
    where = (index + 0.5) / count * (len(quantiles) - 1)
    low = min(int(where), len(quantiles) - 1)
    high = min(low + 1, len(quantiles) - 1)
    return int((quantiles[low] + (quantiles[high] - quantiles[low]) * (where - low)) * size_bytes)


def plain_structure(structure: Structure) -> Mapping[str, object]:
    """Return a structure as its file has it."""
    objects: list[dict[str, object]] = []
    for each in structure.objects:
        row: dict[str, object] = {"object": each.object, "type": each.type, "bytes": each.bytes}
        if each.gzip_bytes is not None:
            row["gzip_bytes"] = each.gzip_bytes
        for key in ("by", "at_byte", "tag", "width", "height"):
            if (value := getattr(each, key)) is not None:
                row[key] = value
        if each.how:
            row["how"] = list(each.how)
        if each.in_head:
            row["in_head"] = True
        if each.host:
            row["host"] = each.host
        objects.append(row)
    return {
        "page": structure.page,
        "source": structure.source,
        "compressed": structure.compressed,
        "viewport": structure.viewport,
        "script_ms_per_kb": structure.script_cost,
        "objects": objects,
    }
