"""The scene that the guide writes step by step."""

from __future__ import annotations

from tests.docs.blocks import blocks

__all__ = ["SCENE_GUIDE", "scene_of_the_guide"]

SCENE_GUIDE = "docs/guides/scenes.md"


def scene_of_the_guide() -> str:
    """Return the pieces of the guide as one file: what stands at the top of the file is there."""
    top, *rest = [block.text for block in blocks(SCENE_GUIDE) if block.language == "toml"]
    cell_load, fallback = rest[3].split("\n\n", 1)
    return "\n".join([top, cell_load, *rest[:3], fallback, rest[4]])
