"""The types of data that JSON can say."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Json"]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
