"""Runs: a scenario becomes trials, each trial is judged and stored."""
