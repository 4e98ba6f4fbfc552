"""Patterns: the time series that drive a link, and the trace formats they come from."""
