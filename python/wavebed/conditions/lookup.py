"""The names that ``--scene`` takes, and what each of them puts on a hop.

Looked for in this order: a file, a radio scene that is shipped, a condition, a 5QI profile, a scenario of the QUIC
network simulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from wavebed.conditions import fiveqi, quic
from wavebed.conditions.condition import condition, condition_names, radio_scene, variant_names
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import is_there
from wavebed.scene.files import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.conditions.condition import Variant
    from wavebed.scene.model import Scene

__all__ = ["Found", "Kind", "find", "find_variant", "load_scene", "names", "with_condition"]

Kind: TypeAlias = Literal["condition", "5qi", "quic", "scene"]


class Found(Struct, frozen=True):
    """What a name stands for.

    Parameters
    ----------
    name : str
        The whole name: that of a condition with its variant, as ``motorway-handover/lte``.
    kind : str
        ``condition``, ``5qi``, ``quic`` (a scenario of the QUIC network simulator) or ``scene`` (a radio scene).
    title : str
        For people.
    hop : mapping
        The keys of a hop, as a scenario has them below ``[path]``; ``scene`` among them where there is a radio.
    """

    name: str
    kind: Kind
    title: str
    hop: Mapping[str, object]

    @property
    def options(self) -> dict[str, object]:
        """The keys as `wavebed.Path.of` takes them."""
        return {key.replace("-", "_"): value for key, value in self.hop.items()}


def names(kind: Kind | None = None) -> tuple[str, ...]:
    """Return the names that `find` takes: conditions with each of their variants, 5QI profiles, QUIC scenarios, scenes.

    Parameters
    ----------
    kind : str, optional
        Only those of this kind.
    """
    every: dict[Kind, tuple[str, ...]] = {
        "condition": variant_names(),
        "5qi": tuple(fiveqi.PROFILES),
        "quic": quic.NAMES,
        "scene": shipped(),
    }
    return every[kind] if kind is not None else tuple(name for some in every.values() for name in some)


def find(name: str) -> Found:
    """Return what a name stands for.

    Parameters
    ----------
    name : str
        ``CONDITION`` or ``CONDITION/VARIANT``, ``5qi-N``, a scenario of the QUIC network simulator with its options, or
        a radio scene: a file, a shipped one, or a map of ``wavebed fit``.

    Raises
    ------
    UserError
        If there is nothing of this name: one line with the nearest names; or if its options are wrong.
    """
    if _is_scene(name):
        return Found(name, "scene", _title(name), {"scene": name})
    variant = find_variant(name)
    if variant is not None:
        title = condition(variant.name.partition("/")[0]).title
        return Found(variant.name, "condition", title, {**variant.path, "scene": variant.name})
    profile = fiveqi.PROFILES.get(name)
    if profile is not None:
        return Found(name, "5qi", profile.service, profile.hop())
    if quic.is_scenario(name):
        hop = quic.hop(name)
        return Found(name, "quic", quic.title(name), hop)
    raise unknown(name)


def _title(name: str) -> str:
    from wavebed.channel.placemap import is_map, load_map

    return load_map(name).title if is_map(name) else load_scene(name).title


def _is_scene(name: str) -> bool:
    """Whether it is a radio scene: a file that is there, a name of a file, or a scene that is shipped."""
    from wavebed.scene.files import find as find_scene

    if is_there(name):
        return True
    if name.endswith((".toml", ".json")):
        return True
    try:
        return is_there(find_scene(name))
    except UserError:
        return False


def find_variant(name: str) -> Variant | None:
    """Return the variant of this name, or the first one of a condition; ``None``: there is no such condition.

    Raises
    ------
    UserError
        If the condition has no such variant.
    """
    of, _, technology = name.partition("/")
    if of not in condition_names():
        return None
    variants = condition(of).variants
    if not technology:
        return variants[0]
    for variant in variants:
        if variant.technology == technology:
            return variant
    known = " or ".join(variant.name for variant in variants)
    raise UserError(f"{name}: the condition {of!r} has no such variant: write {known}")


def unknown(name: str) -> UserError:
    """Say that there is nothing of this name, with those that are near it."""
    import difflib  # 2 ms of the start-up of `shell`

    known = [*condition_names(), *names()]
    near = list(dict.fromkeys(difflib.get_close_matches(name.partition(" ")[0], known, 3, 0.6)))
    hint = f"did you mean {' or '.join(near)}?" if near else "wavebed scenes lists the names"
    return UserError(f"{name}: no such file, scene or condition: {hint}")


def load_scene(name: str) -> Scene:
    """Return the radio scene of a name: that of a condition, or a scene as `wavebed.scene.load` finds it.

    Raises
    ------
    UserError
        If there is none, or it is wrong.
    """
    from wavebed.scene.files import load

    if _is_scene(name):
        return load(name)
    variant = find_variant(name)
    if variant is not None:
        return radio_scene(variant.name)
    if name in fiveqi.PROFILES or quic.is_scenario(name):
        raise Problem(f"{name.partition(' ')[0]!r} has no radio: write the name of a condition or a radio scene")
    raise unknown(name)


def with_condition(given: Mapping[str, object], base: Path | None) -> tuple[Mapping[str, object], bool]:
    """Return the keys of a hop with those of the condition that its ``scene`` names, and whether it replaces all below.

    A key that stands beside ``scene`` is above the same one of the condition. A condition without a radio gives no
    scene: it is the whole hop.

    Parameters
    ----------
    given : mapping
        The keys of a hop, as typed.
    base : pathlib.Path or None
        The folder that names of files are relative to.

    Raises
    ------
    UserError
        If the condition has no such variant, or an option of a QUIC scenario is wrong.
    """
    name = given.get("scene")
    if not isinstance(name, str) or (base is not None and is_there(base / name)) or _is_scene(name):
        return given, False
    if find_variant(name) is None and name not in fiveqi.PROFILES and not quic.is_scenario(name):
        return given, False  # the reader of scenes says what is wrong
    found = find(name)
    beside = {key: value for key, value in given.items() if key != "scene"}
    return {**found.hop, **beside}, "scene" not in found.hop
