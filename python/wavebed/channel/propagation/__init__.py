"""Propagation between two antennas, as pure functions on arrays."""
