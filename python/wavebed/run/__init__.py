"""Runs: a scenario becomes trials, each trial is judged and stored. Called: `wavebed.interface.running.run`."""

from wavebed.called import make_callable

make_callable(__name__)
