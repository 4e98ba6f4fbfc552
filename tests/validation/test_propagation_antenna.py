"""Elements, codebook beams and clusters: gains and angles, against numbers of their own."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.propagation.correlated import Lattice, place_normals


def test_values_of_places_are_normal_and_change_slowly():
    rng = np.random.default_rng(3)
    place = rng.uniform(-1000, 1000, (2000, 2))
    fields = place_normals(5, "test", Lattice.of(place, 12.0), 20)
    assert fields.mean() == pytest.approx(0, abs=0.05)
    assert fields.std() == pytest.approx(1, abs=0.03)
    near = place_normals(5, "test", Lattice.of(place + np.array((1.0, 0.0)), 12.0), 20)
    far = place_normals(5, "test", Lattice.of(place + np.array((30.0, 0.0)), 12.0), 20)
    assert np.corrcoef(fields.ravel(), near.ravel())[0, 1] > 0.95
    assert abs(np.corrcoef(fields.ravel(), far.ravel())[0, 1]) < 0.05
