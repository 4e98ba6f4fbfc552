"""Records that were tampered with: reading each ends in a page or in one line, never in a traceback."""

from __future__ import annotations

import copy
import json
import random
import resource
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress.figure import Figure
from tests.stress.pages import make_run, records
from tests.stress.sandbox import run_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from tests.stress.figure import State

__all__ = ["measure"]

READ_WITHIN_S = 20
MEMORY_BYTES = 6 << 30
SIDE_BY_SIDE = 2
VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 10**30),
    *(0.5, -0.0, 1e308, -1e-308, float("nan"), float("inf")),
    *("", " ", "x", "../../etc/passwd", "/", "\x00", "\ud800", "nan", "1e999", "<b>", "A" * 100_000),
    *([], {}, [[]], [None], {"": None}, {"name": 1}, [{}], ["x"] * 1000),
)


def measure(count: int = 2575, seed: int = 1) -> list[Figure]:
    """Read `count` tampered records."""
    parts = [count // SIDE_BY_SIDE + (place < count % SIDE_BY_SIDE) for place in range(SIDE_BY_SIDE)]
    hands = [{"count": part, "seed": seed * 10 + place} for place, part in enumerate(parts)]
    told = run_all("tests.stress.records:read_each", hands, timeout_s=180 + 5 * count)
    faults = [(kind, case) for one in told for kind, case in one["faults"]]
    first = dict(reversed(faults))
    named = [f"{sum(kind == each for each, _ in faults)} × {kind} ({case})" for kind, case in first.items()]
    found = f"{count - len(faults)} of {count} reads, {sum(one['refused'] for one in told)} refused"
    state: State = "missed" if faults else "met"
    return [Figure("tampered records: a page or one line", "all reads", found, state, "; ".join(named))]


def read_each(count: int, seed: int) -> dict[str, Any]:
    """Tamper with the records of a run and read them, in a sandbox."""
    from wavebed.errors import UserError

    run = make_run()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _too_long)
    faults = []
    refused = 0
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        file = chance.choice(records(run))
        whole = file.read_bytes()
        file.write_bytes(spoiled(chance, whole))
        signal.alarm(READ_WITHIN_S)
        try:
            _read(run)
        except UserError:
            refused += 1
        except Exception as error:  # noqa: BLE001 - whatever else comes is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
            faults.append((kind, f"seed {seed}, number {number}, {file.name}"))
        finally:
            signal.alarm(0)
            file.write_bytes(whole)
    return {"faults": faults, "refused": refused}


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"took more than {READ_WITHIN_S} s")


def _read(folder: Path) -> None:
    """Read all of a run, as the commands and the Python interface do."""
    import wavebed
    from wavebed.report.build import write_report
    from wavebed.report.metrics import summary_text

    run = wavebed.load(folder)
    assert len(run.metrics) >= 0, "they can be read"
    write_report(folder, Path("page.html"))
    summary_text(folder)


def spoiled(chance: random.Random, whole: bytes) -> bytes:
    """Return a record that was tampered with: cut, garbled, or with other values."""
    if chance.random() < 0.1:
        place = chance.randrange(len(whole))
        garbled = whole[:place] + chance.randbytes(8) + whole[place + 8 :]
        return chance.choice([whole[:place], garbled, whole.replace(b"1", b"[" * 50_000, 1), b""])
    data = json.loads(whole)
    for _ in range(chance.randint(1, 3)):
        parents = list(_parents(data))
        parent = chance.choice(parents)
        key = chance.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        change = chance.random()
        if change < 0.2:
            del parent[key]
        elif change < 0.3:
            parent[key] = copy.deepcopy(chance.choice(parents))
        elif change < 0.4 and isinstance(parent, list):
            parent.extend(copy.deepcopy(parent[key]) for _ in range(chance.choice([1, 50])))
        else:
            parent[key] = copy.deepcopy(chance.choice(VALUES))
    return json.dumps(data).encode()


def _parents(data: Any) -> Iterator[Any]:
    """Give every list and object that holds something."""
    if isinstance(data, dict | list) and data:
        yield data
        for value in data.values() if isinstance(data, dict) else data:
            yield from _parents(value)
