"""Realisations of mode 3gpp: random streams by seed, states, directions, fallback, others' share, patterns."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_does_not_import_the_models():
    code = "import sys, wavebed.channel; print('numpy' in sys.modules, wavebed.channel.realise.__module__)"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert got.stdout.split() == ["False", "wavebed.channel.modes"]
