"""The corpora of the fuzz targets: a JSON file for each, because the inputs are many and small, and a diff shows them.

Each character of a string is one byte, U+0000 to U+00FF.
Usage: fuzz_corpus.py unpack|pack|add TARGET PATH
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

CORPORA = Path(__file__).parent.parent / "fuzz" / "corpus"
MOST_INPUTS = 150
MOST_INPUT_BYTES = 4096
MOST_BYTES = 150_000


def read(target: str) -> list[bytes]:
    """Return the inputs of a target; none if it has no corpus yet."""
    file = CORPORA / f"{target}.json"
    texts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return [text.encode("latin-1") for text in texts]


def line(data: bytes) -> str:
    """Return an input as a JSON string."""
    return json.dumps(data.decode("latin-1"), ensure_ascii=False)


def write(target: str, inputs: set[bytes]) -> None:
    """Write the corpus of a target, shortest inputs first."""
    lines = ",\n".join(line(data) for data in sorted(inputs, key=lambda data: (len(data), data)))
    CORPORA.mkdir(exist_ok=True)
    (CORPORA / f"{target}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def unpack(target: str, folder: Path) -> None:
    """Write each input into a file of the folder."""
    for number, data in enumerate(read(target)):
        (folder / f"{number:03d}").write_bytes(data)


def pack(target: str, folder: Path) -> None:
    """Make the smallest files of the folder the corpus, within the limits above."""
    inputs = sorted({file.read_bytes() for file in folder.iterdir()}, key=lambda data: (len(data), data))
    kept = set[bytes]()
    size = 0
    for data in inputs[:MOST_INPUTS]:
        size += len(line(data).encode()) + 2
        if len(data) <= MOST_INPUT_BYTES and size <= MOST_BYTES:
            kept.add(data)
    write(target, kept)
    print(f"{target}: {len(kept)} of {len(inputs)} inputs")


def add(target: str, file: Path) -> None:
    """Add an input that failed."""
    write(target, {*read(target), file.read_bytes()})


if __name__ == "__main__":
    commands = {"unpack": unpack, "pack": pack, "add": add}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
