"""Decide requirements on an application over seeds of a path: pass, fail or inconclusive."""
