"""Propagation: what happens to the signal between two antennas, as pure functions on arrays."""
