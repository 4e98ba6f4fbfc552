"""Recordings: patterns of a real access from light and heavy load, their replay, and its judgement."""
