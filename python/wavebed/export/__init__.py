"""Trials in the formats of other programs: flent, Perfetto, qlog, CSV."""
