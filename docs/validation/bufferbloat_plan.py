"""The scenario of `bufferbloat.md`: its links, buffers and congestion controls as treatments of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from experiments import results_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.store.load import Run

DEEP, SHALLOW = "20mib", "256kib"
FALLING_LINK: Final = "falling"
OTHER_RATE: Final = "100mbit"  # of the direction with the acknowledgements; it is never full
HIGH_MBPS, LOW_MBPS = 300, 60
_BLER: Final = 0.1  # target of outer-loop link adaptation: docs/models/link-adaptation.md
_FALL_STEPS: Final = 8
_PATTERN: Final = "falling.csv"
_SCENARIO: Final = """title = "Bufferbloat behind a radio"

[path]
delay = "10ms"  # each way: a server in the same country

[[workload]]
kind = "latency"
interval = "50ms"
tail = "500ms"

[[workload]]
kind = "bulk"
start = "{start:g}s"
"""


@dataclass(frozen=True, slots=True)
class Course:
    """Times of the transfer and of the falling rate, seconds since time zero."""

    idle_s: float = 1.5
    fall_s: float = 5.0
    low_s: float = 6.5
    back_s: float = 9.0
    end_s: float = 11.5

    def pattern(self) -> str:
        """Return the falling rate in the native format: high, down by equal factors, low, high again."""
        rows = [(0.0, float(HIGH_MBPS), "los")]
        for step in range(1, _FALL_STEPS + 1):
            at_s = self.fall_s + (self.low_s - self.fall_s) * (step - 1) / (_FALL_STEPS - 1)
            rows.append((at_s, HIGH_MBPS * (LOW_MBPS / HIGH_MBPS) ** (step / _FALL_STEPS), "nlos"))
        rows.append((self.back_s, float(HIGH_MBPS), "los"))
        head = f"# wavebed pattern 1\n# kind = steps\n# duration_s = {self.end_s:g}\ntime_s,rate_bps,bler,state\n"
        return head + "".join(f"{at_s:.3f},{mbps * 1e6:.0f},{_BLER},{state}\n" for at_s, mbps, state in rows)


@dataclass(frozen=True, slots=True)
class Cell:
    """A treatment: a link (`falling`, or the name of a scene), a direction, a buffer, a congestion control."""

    link: str
    direction: str
    buffer: str
    control: str
    streams: int = 1

    @property
    def name(self) -> str:
        """Its name in the scenario."""
        link = self.link.removeprefix("bbr-5g-").removesuffix("-mobile")  # a name has 32 letters
        return f"{link}-{self.direction}-{self.buffer}-{self.control}"

    def table(self, course: Course) -> str:
        """Return its table ``[[treatment]]``."""
        length_s = course.end_s - course.idle_s if self.link == FALLING_LINK else SCENE_END_S - course.idle_s
        changes: dict[str, object] = {
            "path.congestion-control": self.control,
            f"path.radio.{self.direction}-buffer": self.buffer,
            "workload.bulk.direction": self.direction,
            "workload.bulk.streams": self.streams,
            "workload.bulk.duration": f"{length_s:g}s",
            "workload.bulk.congestion-control": self.control,
        }
        if self.link == FALLING_LINK:
            other = "up" if self.direction == "down" else "down"
            changes |= {
                "path.radio.preset": "nr-30khz",
                f"path.{self.direction}-trace": _PATTERN,
                f"path.{other}-rate": OTHER_RATE,
            }
        else:
            changes["path.scene"] = self.link
        told = ", ".join(
            f'"{key}" = {value if isinstance(value, int) else repr(value)}' for key, value in changes.items()
        )
        return f'\n[[treatment]]\nname = "{self.name}"\nset = {{ {told} }}\n'


FALLING: Final = [
    Cell(FALLING_LINK, direction, buffer, control)
    for direction in ("down", "up")
    for buffer in (DEEP, SHALLOW)
    for control in ("cubic", "bbr")
]
PHONE: Final = "bbr-5g-phone-mobile"
USB: Final = "bbr-5g-usb-mobile"
SCENE_END_S: Final = 9.5
# Four streams, as the article loaded its devices.
SCENES: Final = [
    Cell(PHONE, "down", DEEP, "cubic", 4),
    Cell(PHONE, "down", DEEP, "bbr", 4),
    Cell(PHONE, "down", SHALLOW, "cubic", 4),
    Cell(PHONE, "up", DEEP, "cubic", 4),
    Cell(PHONE, "up", SHALLOW, "cubic", 4),
    Cell(USB, "down", DEEP, "cubic", 4),
    Cell(USB, "down", DEEP, "bbr", 4),
]


def scenario(folder: Path, cells: Sequence[Cell]) -> str:
    """Write the falling rate into a folder, and return the scenario with these cells."""
    course = Course()
    (folder / _PATTERN).write_text(course.pattern(), encoding="utf-8")
    return _SCENARIO.format(start=course.idle_s) + "".join(cell.table(course) for cell in cells)


def run_cells(folder: Path, cells: Sequence[Cell], seeds: int) -> Run:
    """Run every cell with the seeds 1 to `seeds` into ``folder/bufferbloat``, or read that run."""
    return results_of(folder, "bufferbloat", scenario(folder, cells), seeds)
