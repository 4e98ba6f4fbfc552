"""Experiments that take minutes: faults provoked on purpose, and what the laboratory made of them."""
