"""Folders of results: their owner, their journal, their records."""
