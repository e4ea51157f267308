"""Functions of the distance from a place, on lattices of any dimension."""

import jax.numpy as jnp
import numpy as np

from dlhmc.theories.gauge import radial

RADII = (0.0, 1.0, 2.0, 3.0)


def test_distances_on_the_periodic_plane():
    plaquette = np.asarray(radial.plaquette_distances((4, 6), (0, 0)))[0]
    link = np.asarray(radial.link_distances((4, 6), (0, 0)))
    np.testing.assert_allclose(plaquette.max(), np.hypot(2, 3))
    np.testing.assert_allclose([plaquette[3, 5], plaquette[1, 1]], np.sqrt(2))
    moved = radial.link_distances((4, 6), (3, 2))
    np.testing.assert_array_equal(moved, np.roll(link, (3, 2), axis=(1, 2)))
    # The four links of plaquette (0, 0) are at the distance ½.
    assert link[0, 0, 0] == link[1, 0, 0] == link[0, 0, 1] == link[1, 1, 0] == 0.5
    assert np.count_nonzero(link == 0.5) == 4
    hats = np.asarray(radial.basis(RADII, jnp.asarray(plaquette)))
    expected = [np.interp(plaquette, RADII, row) for row in np.eye(len(RADII))]
    np.testing.assert_allclose(hats, expected, atol=1e-6)


def test_distances_in_four_dimensions():
    """A cell has 24 faces at the distance 1/√2 from its middle and 32 edges at √3/2, and none of either is nearer."""
    faces, edges = radial.plaquette_distances((4,) * 4, (1, 0, 2, 3)), radial.link_distances((4,) * 4, (1, 0, 2, 3))
    assert faces.shape == (6, 4, 4, 4, 4)
    assert edges.shape == (4, 4, 4, 4, 4)
    np.testing.assert_allclose([faces.min(), edges.min()], [np.sqrt(1 / 2), np.sqrt(3 / 4)], rtol=1e-6)
    assert np.count_nonzero(faces < 0.71) == 24
    assert np.count_nonzero(edges < 0.87) == 32
