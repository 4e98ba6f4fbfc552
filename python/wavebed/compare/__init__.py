"""Folders of results beside each other: verdicts on each metric, and regressions beyond a margin."""
