"""The fuzz targets of Python pass on their committed corpora. `make fuzz` explores further."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.pattern import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

FUZZ = Path(__file__).parents[2] / "fuzz"
TARGETS = sorted(file.stem for file in (FUZZ / "python").glob("fuzz_*.py"))


def corpus(target: str) -> list[bytes]:
    """Return the inputs of a target. Each character of the file is one byte, U+0000 to U+00FF."""
    inputs = json.loads((FUZZ / "corpus" / f"{target}.json").read_text(encoding="utf-8"))
    return [text.encode("latin-1") for text in inputs]


def function(target: str) -> Callable[[bytes], None]:
    file = FUZZ / "python" / f"{target}.py"
    spec = importlib.util.spec_from_file_location(target, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[[bytes], None] = module.test_one_input
    return run


@pytest.mark.parametrize("target", TARGETS)
def test_target_passes_on_its_corpus(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = function(target)
    inputs = corpus(target)
    assert inputs
    for data in inputs:
        try:
            run(data)
        except BaseException:
            print(f"{target} fails on {data!r}")
            raise


def test_corpus_of_traces_has_each_format() -> None:
    named = {data.split(b"\n")[0].decode("latin-1") for data in corpus("fuzz_traces")}
    assert set(FORMATS) <= named
