"""Explore a target with atheris. Usage: explore.py TARGET [OPTION of libFuzzer | FOLDER of inputs]…"""

from __future__ import annotations

import importlib
import sys

import atheris

INSTRUMENTED = {"fuzz_campaigns": ["wavebed.campaign", "wavebed.run.scenario", "wavebed.config"]}
"""Packages whose branches guide a target; the others have the whole of wavebed."""

if __name__ == "__main__":
    name = sys.argv.pop(1)
    sys.argv[0] = f"{sys.executable} {sys.argv[0]} {name}"  # how libFuzzer starts itself again to merge
    with atheris.instrument_imports(include=INSTRUMENTED.get(name, ["wavebed"])):
        target = importlib.import_module(name)
    atheris.Setup(sys.argv, target.test_one_input)
    atheris.Fuzz()
