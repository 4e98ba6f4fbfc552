"""Folders of results beside each other: verdicts and regressions. Called: `wavebed.interface.comparing.compare`."""

from wavebed.called import make_callable

make_callable(__name__)
