"""The file of a condition: its keys, and how they are read."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Struct

from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import reader, unread
from wavebed.config.table import Key, array_schema, read_table, table, table_schema
from wavebed.config.units import parse_percentage, parse_rate
from wavebed.config.values import percentage, text, word
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.scene.tables import BaseStationTable, SceneTable
from wavebed.shipped import find, names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.channel.low_orbit import LowOrbit
    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.scene.model import SceneModel


TECHNOLOGIES = {"mmwave": "5G mmWave", "mid-band": "5G mid-band", "lte": "LTE", "leo": "low orbit"}
"""The variants that a condition may have, with their names for people."""
LOW_ORBIT = "leo"
"""The variant that is no radio scene, but a low-orbit access."""

RATES = ("down-rate", "up-rate")
USUAL = "keys of every base station that does not have them itself"


@reader("TEXT", {"type": "string", "minLength": 1})
def paragraph(value: object) -> str:
    """Read a text of one or several lines, and return it as one line."""
    if not isinstance(value, str) or not value.strip():
        raise Problem(f"{described(value)} is not text: write it in quotes")
    return " ".join(value.split())


def part_of_scene() -> Schema:
    """Return the JSON Schema of some keys of a scene file, all optional."""
    whole = dict(table_schema(SceneTable))
    properties = cast("dict[str, Json]", whole["properties"])
    usual: Json = dict(table_schema(BaseStationTable)) | {"description": USUAL}
    return cast("Schema", _without_required(whole | {"properties": properties | {"usual-base-station": usual}}))


def _without_required(schema: Json) -> Json:
    if isinstance(schema, dict):
        return {key: _without_required(value) for key, value in schema.items() if key != "required"}
    return [_without_required(each) for each in schema] if isinstance(schema, list) else schema


class PublishedTable(Struct, frozen=True, kw_only=True):
    """A published or measured figure; the last four keys compare it with ours, all of them or none."""

    figure: Annotated[
        Literal["down-rate", "up-rate", "rtt", "loss", "no-service", "success", "handover", "attenuation"],
        Key(
            word("down-rate", "up-rate", "rtt", "loss", "no-service", "success", "handover", "attenuation"),
            "what was measured; `success`: of attempts, such as to load a page",
        ),
    ]
    says: Annotated[str, Key(text, "the figure, with its unit, where and when")]
    source: Annotated[str, Key(text, "authors, title and year")]
    statistic: Annotated[
        Literal["mean", "median", "p5", "p95"] | None,
        Key(word("mean", "median", "p5", "p95"), "which statistic of seconds of 1 s `value` is"),
    ] = None
    value: Annotated[str | None, Key(text, "the figure: a rate, or of `no-service` a fraction of time")] = None
    within: Annotated[
        float | None,
        Key(percentage, "how far ours may be from it: of the rate, or points of the fraction of time"),
    ] = None
    because: Annotated[str | None, Key(text, "why it cannot be nearer, or why that near")] = None

    def number(self) -> float:
        """Return the figure that ours is compared with: bits per second, or a fraction of time."""
        assert self.value is not None, "the caller compares"
        return parse_rate(self.value) if self.figure in RATES else parse_percentage(self.value)


_REFERENCE: Schema = {"$ref": "#/$defs/scene"}
_SCENE = unread("{ … }", _REFERENCE)
_PLACE = unread("[place]", _REFERENCE)
_PUBLISHED = unread("[[published]]", lambda: array_schema(PublishedTable))


class VariantTable(Struct, frozen=True, kw_only=True):
    """A condition on one technology."""

    path: Annotated[
        object,
        Key(
            unread("{ delay = TIME, … }", {"type": "object"}),
            "the rest of the path: keys of a hop beside `scene`, as in a scenario",
        ),
    ] = None
    scene: Annotated[
        object,
        Key(
            _SCENE,
            "the radio scene: keys of a scene file, above those of `place` and of the technology",
        ),
    ] = None
    published: Annotated[
        object,
        Key(
            _PUBLISHED,
            "published or measured figures; without any, the condition is illustrative",
        ),
    ] = ()
    note: Annotated[str | None, Key(paragraph, "what is assumed, and where its values are from")] = None


class LowOrbitVariantTable(VariantTable, frozen=True, kw_only=True):
    """A condition on a low-orbit access."""

    scene: Annotated[
        object,
        Key(
            unread("{ … }", {"$ref": "#/$defs/low-orbit"}),
            "the low-orbit access: keys of its file, above those of `place`",
        ),
    ] = None


def _variant_table(name: str, model: type[VariantTable] = VariantTable) -> Key:
    return Key(table(model, f"[{name}]", f"[{name}]"), f"the condition on {TECHNOLOGIES[name]}")


class ConditionTable(Struct, frozen=True, kw_only=True):
    """The top of a file; one of the variants at least."""

    title: Annotated[str, Key(text, "title for people")]
    line: Annotated[str, Key(text, "one line of text, for the list")]
    happens: Annotated[str, Key(paragraph, "what happens")]
    shows: Annotated[str, Key(paragraph, "what it should show about an application")]
    path: Annotated[
        object, Key(unread("{ delay = TIME, … }", {"type": "object"}), "keys of a hop that all variants share")
    ] = None
    place: Annotated[object, Key(_PLACE, "keys of a scene that all variants share")] = None
    published: Annotated[
        object,
        Key(_PUBLISHED, "figures of all variants"),
    ] = ()
    mmwave: Annotated[VariantTable | None, _variant_table("mmwave")] = None
    mid_band: Annotated[VariantTable | None, _variant_table("mid-band")] = None
    lte: Annotated[VariantTable | None, _variant_table("lte")] = None
    leo: Annotated[LowOrbitVariantTable | None, _variant_table("leo", LowOrbitVariantTable)] = None


def read_condition(document: Mapping[str, object]) -> tuple[ConditionTable, tuple[str, ...]]:
    """Return a condition, and the names of its variants in the order of the file.

    Raises
    ------
    Problem
        If a key or a value is wrong.
    """
    found = read_table(ConditionTable, dict(document), "a condition")
    variants = tuple(name for name in document if name in TECHNOLOGIES)
    if not variants:
        raise Problem(f"there is none: add a table [{'] or ['.join(TECHNOLOGIES)}]", "variant")
    return found, variants


def read_published(given: object) -> tuple[PublishedTable, ...]:
    """Return the published figures of a table.

    Raises
    ------
    Problem
        If one of them is wrong.
    """
    if not isinstance(given, list | tuple):
        raise Problem("is not an array of tables: write [[published]] above each one", "published")
    return tuple(at(f"published[{number}]", _published, each) for number, each in enumerate(given, 1))


def _published(given: object) -> PublishedTable:
    found = read_table(PublishedTable, given, "[[published]]")
    compared = [found.statistic, found.value, found.within, found.because]
    if found.figure == "no-service":
        compared.remove(found.statistic)
    if any(each is None for each in compared) and any(each is not None for each in compared):
        raise Problem("statistic, value, within and because stand together: add what is missing", "value")
    if found.value is not None:
        at("value", lambda _: found.number(), None)
    return found


def condition_schema() -> Schema:
    """Return the JSON Schema of the file of a condition."""
    from wavebed.channel.low_orbit import LowOrbitFile

    access = _without_required(dict(table_schema(LowOrbitFile)))
    return {**table_schema(ConditionTable), "$defs": {"scene": dict(part_of_scene()), "low-orbit": access}}


FOLDER = "conditions"
_TECHNOLOGY_FOLDER = "technologies"


class Variant(Struct, frozen=True):
    """A condition on one technology.

    Parameters
    ----------
    name : str
        ``CONDITION/TECHNOLOGY``.
    technology : str
        One of `wavebed.conditions.condition.TECHNOLOGIES`.
    path : mapping
        Keys of a hop beside ``scene``, as in a scenario.
    scene : mapping
        Its scene as a scene file has it.
    published : tuple of PublishedTable
        Published or measured figures; empty: it is illustrative.
    note : str
        What is assumed.
    """

    name: str
    technology: str
    path: Mapping[str, object]
    scene: Mapping[str, object]
    published: tuple[PublishedTable, ...]
    note: str


class Condition(Struct, frozen=True):
    """A condition as its file describes it; the first variant stands for the name alone."""

    name: str
    title: str
    line: str
    happens: str
    shows: str
    variants: tuple[Variant, ...]
    file: Path


def condition_names() -> tuple[str, ...]:
    """Return the names of the conditions."""
    return names(FOLDER)


def variant_names() -> tuple[str, ...]:
    """Return the names of all variants of all conditions."""
    return tuple(variant.name for name in condition_names() for variant in condition(name).variants)


@cache
def condition(name: str) -> Condition:
    """Return the condition of this name.

    Raises
    ------
    UserError
        If there is none, or its file is wrong.
    """
    file = find(name, "condition", FOLDER)
    document = read_toml(file, "name a condition")
    try:
        table, variants = read_condition(document)
        everywhere = read_published(table.published)
        return Condition(
            name=name,
            title=table.title,
            line=table.line,
            happens=table.happens,
            shows=table.shows,
            variants=tuple(_variant(name, technology, document, everywhere) for technology in variants),
            file=file,
        )
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def _variant(
    name: str, technology: str, document: Mapping[str, object], everywhere: tuple[PublishedTable, ...]
) -> Variant:
    given = cast("dict[str, object]", document[technology])
    own = cast("dict[str, object]", given.get("scene", {}))
    place = cast("dict[str, object]", document.get("place", {}))
    shared_by_all = {} if technology == LOW_ORBIT else _technology(technology)
    scene = _merged(_merged(shared_by_all, place), own)
    shared = cast("dict[str, object]", document.get("path", {}))
    return Variant(
        name=f"{name}/{technology}",
        technology=technology,
        path=shared | cast("dict[str, object]", given.get("path", {})),
        scene=_with_stations(scene, str(document["title"]), technology),
        published=(*read_published(given.get("published", ())), *everywhere),
        note=" ".join(str(given.get("note", "")).split()),
    )


@cache
def _technology(name: str) -> dict[str, object]:
    return read_toml(find(name, "technology", _TECHNOLOGY_FOLDER), "name a technology")


def _merged(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Return tables with the keys of `upper` above the keys of `lower`; an array replaces an array."""
    found = dict(lower)
    for key, value in upper.items():
        below = found.get(key)
        merges = isinstance(value, dict) and isinstance(below, dict) and key not in _WHOLE
        found[key] = _merged(below, value) if merges else value  # type: ignore[arg-type]
    return found


_WHOLE = ("cell-load", "indoor", "in-car")
"""Tables that stand together, and are replaced as a whole."""


def _with_stations(scene: dict[str, object], title: str, technology: str) -> dict[str, object]:
    """Return a scene whose base stations have what the technology gives all of them, with a title and an anchor."""
    named = {"title": f"{title}, {TECHNOLOGIES[technology]}", "anchor": "illustrative", **scene}
    if technology == LOW_ORBIT:
        return named
    usual = cast("dict[str, object]", named.pop("usual-base-station", {}))
    stations = cast("list[dict[str, object]]", named.get("base-station", []))
    return {
        **named,
        "base-station": [_merged(usual, station) for station in stations],
    }


@cache
def radio_scene(name: str) -> SceneModel:
    """Return the radio scene of a variant. The scene's name is the variant's name with ``-`` for ``/``.

    Raises
    ------
    UserError
        If the scene is wrong.
    """
    from dataclasses import replace

    from wavebed.scene.read import scene_of

    scene, file, called = _merged_scene(name)
    return replace(scene_of(dict(scene), file), name=called)


@cache
def low_orbit(name: str) -> LowOrbit:
    """Return the low-orbit access of a variant; its name is the variant's name with ``-`` for ``/``.

    Raises
    ------
    UserError
        If the access is wrong.
    """
    from wavebed.channel.low_orbit import low_orbit_of

    return low_orbit_of(*_merged_scene(name))


def _merged_scene(name: str) -> tuple[Mapping[str, object], Path, str]:
    """Return the scene of a variant, the condition's file, and the name of the scene."""
    found = condition(name.partition("/")[0])
    variant = next(each for each in found.variants if each.name == name)
    return variant.scene, found.file, name.replace("/", "-")
