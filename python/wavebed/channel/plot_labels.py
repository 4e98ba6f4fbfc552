"""Labels on a map that do not lie on each other, on the walk or on the base stations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase

__all__ = ["Labels", "Patch"]

#: The four sides, then the corners, then between them; right and above read best.
_DIRECTIONS = (
    (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1),
    (1, 0.5), (-1, 0.5), (1, -0.5), (-1, -0.5), (0.5, 1), (-0.5, 1), (0.5, -1), (-0.5, -1),
)  # fmt: skip
_GAP = 5.0
_RINGS = 12
#: A label this many of its heights away from its thing gets a line to it.
_LEADER = 1.2


class Patch(NamedTuple):
    """A rectangle on the canvas, in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Patch) -> bool:
        """Whether the two have a common point."""
        return (
            self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top
        )

    def holds(self, other: Patch) -> bool:
        """Whether the other lies within."""
        return (
            self.left <= other.left
            and self.bottom <= other.bottom
            and self.right >= other.right
            and self.top >= other.top
        )


@dataclass
class _Style:
    colour: str
    size: float
    weight: str


class Labels:
    """Finds a free place for one label after the other.

    Parameters
    ----------
    axes : Axes
        The map; its limits and its place must be final.
    """

    def __init__(self, axes: Axes, renderer: RendererBase) -> None:
        self._axes = axes
        self._renderer = renderer
        box = axes.get_window_extent()
        self._room = Patch(box.x0 + 2, box.y0 + 2, box.x1 - 2, box.y1 - 2)
        self._hard: list[Patch] = []
        self._soft: list[Patch] = []

    def pixels(self, left_m: float, bottom_m: float, right_m: float, top_m: float) -> Patch:
        """Return where a rectangle in metres lies on the canvas."""
        (left, bottom), (right, top) = self._axes.transData.transform([(left_m, bottom_m), (right_m, top_m)])
        return Patch(float(left), float(bottom), float(right), float(top))

    def around(self, x_m: float, y_m: float, radius: float) -> Patch:
        """Return the square of so many pixels around a place in metres."""
        x, y, _, _ = self.pixels(x_m, y_m, x_m, y_m)
        return Patch(x - radius, y - radius, x + radius, y + radius)

    def keep_free(self, patch: Patch, *, rather: bool = False) -> None:
        """Keep labels off a rectangle, or rather off it where there is another place."""
        (self._soft if rather else self._hard).append(patch)

    def inside(self, text: str, patch: Patch, colour: str, size: float = 8.5) -> bool:
        """Write within a rectangle, upright if need be; tell whether there was room."""
        for rotation in (0, 90):
            width, height = self._measure(text, _Style(colour, size, "normal"), rotation)
            x, y = (patch.left + patch.right) / 2, (patch.bottom + patch.top) / 2
            place = Patch(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            roomy = Patch(place.left - 4, place.bottom - 3, place.right + 4, place.top + 3)
            if patch.holds(roomy) and self._room.holds(place) and not any(place.meets(other) for other in self._hard):
                self._write(text, place, _Style(colour, size, "normal"), rotation, halo=False)
                return True
        return False

    def beside(self, text: str, patch: Patch, colour: str, *, size: float = 8.5, weight: str = "normal") -> bool:
        """Write next to a rectangle, with a line to it if the place is not near; tell whether there was room."""
        style = _Style(colour, size, weight)
        width, height = self._measure(text, style, 0)
        for busy in ([*self._hard, *self._soft], self._hard):
            for place, far in _places(patch, width, height):
                if self._room.holds(place) and not any(place.meets(other) for other in busy):
                    if far > _LEADER * height:
                        self._lead(place, patch, colour)
                    self._write(text, place, style, 0, halo=True)
                    return True
        return False

    def _measure(self, text: str, style: _Style, rotation: int) -> tuple[float, float]:
        probe = self._axes.text(0, 0, text, fontsize=style.size, fontweight=style.weight, rotation=rotation)
        box = probe.get_window_extent(self._renderer)
        probe.remove()
        return float(box.width), float(box.height)

    def _metres(self, x: float, y: float) -> tuple[float, float]:
        x_m, y_m = self._axes.transData.inverted().transform((x, y))
        return float(x_m), float(y_m)

    def _write(self, text: str, place: Patch, style: _Style, rotation: int, *, halo: bool) -> None:
        from matplotlib.patheffects import withStroke

        self._hard.append(place)
        x_m, y_m = self._metres((place.left + place.right) / 2, (place.bottom + place.top) / 2)
        self._axes.text(
            x_m,
            y_m,
            text,
            color=style.colour,
            fontsize=style.size,
            fontweight=style.weight,
            rotation=rotation,
            ha="center",
            va="center",
            zorder=9,
            path_effects=[withStroke(linewidth=2.4, foreground="white")] if halo else [],
        )

    def _lead(self, place: Patch, patch: Patch, colour: str) -> None:
        def nearest(of: Patch, to: Patch) -> tuple[float, float]:
            x, y = (to.left + to.right) / 2, (to.bottom + to.top) / 2
            return min(max(x, of.left), of.right), min(max(y, of.bottom), of.top)

        ends = [self._metres(*nearest(place, patch)), self._metres(*nearest(patch, place))]
        self._axes.plot(*zip(*ends, strict=True), color=colour, lw=0.6, alpha=0.7, zorder=8)


def _places(patch: Patch, width: float, height: float) -> Iterator[tuple[Patch, float]]:
    """Yield places around a rectangle, nearer ones first, and how far away they are."""
    middle_x, middle_y = (patch.left + patch.right) / 2, (patch.bottom + patch.top) / 2
    for ring in range(_RINGS):
        far = _GAP + ring * height * 0.8
        for right, up in _DIRECTIONS:
            x = middle_x + right * ((patch.right - patch.left) / 2 + far + width / 2)
            y = middle_y + up * ((patch.top - patch.bottom) / 2 + far + height / 2)
            yield Patch(x - width / 2, y - height / 2, x + width / 2, y + height / 2), far
