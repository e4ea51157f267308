"""Condensate and correlators, against their definition with a dense matrix and against the free theory."""

import jax.numpy as jnp
import numpy as np
import pytest
from test_dirac import by_definition, links

from dlhmc import Schwinger
from dlhmc.fermions.mesons import MesonObservables, propagator
from dlhmc.lattice.links import gauge_transform
from dlhmc.theories.gauge.fermions import condensate, fermions_of
from unoptimised import unoptimised

# A number that float32 has, too.
SIDES, MASS = (4, 6), -0.125
TARGET = Schwinger(SIDES, 2.0, MASS, flavours=4)
GAMMA5 = np.diag([1, -1])


@unoptimised
def measured(x, sources=0, target=TARGET):
    light = fermions_of(target)
    return MesonObservables(light.mass, light.flavours, sources, 1e-12)(x)


def defined(x):
    """Traces over spin, pair by pair of sites, as the correlators are defined."""
    s = np.linalg.inv(by_definition(np.asarray(x), MASS)).reshape(*SIDES, 2, *SIDES, 2)
    times, volume = SIDES[1], np.prod(SIDES)
    pion, product = np.zeros(times, complex), np.zeros(times, complex)
    for i, t, j, u in np.ndindex(*SIDES, *SIDES):
        there, back = s[i, t, :, j, u], s[j, u, :, i, t]
        pion[(t - u) % times] += np.trace(GAMMA5 @ there @ GAMMA5 @ back) / volume
        loops = (np.trace(GAMMA5 @ s[k, v, :, k, v]) for k, v in ((i, t), (j, u)))
        product[(t - u) % times] += np.prod(list(loops)) / volume
    trace = sum(np.trace(s[i, t, :, i, t]) for i, t in np.ndindex(*SIDES))
    return {"condensate": trace / volume, "pion": pion, "eta": pion - 4 * product}


@pytest.mark.usefixtures("x64")
def test_definition():
    x = links(SIDES)
    found = measured(x)
    for chain in range(2):
        expected = defined(x[..., chain])
        np.testing.assert_allclose(found["condensate"][chain], expected["condensate"], rtol=1e-12, atol=1e-12)
        for name in ("pion", "eta"):
            # The definition has all separations: a correlator that is not symmetric would not agree with both.
            np.testing.assert_allclose(found[name][:, chain], expected[name][:4], rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(found[name][1:3, chain], expected[name][5:3:-1], rtol=1e-11, atol=1e-12)
    # D⁻¹ is the derivative of log det D by the mass.
    np.testing.assert_allclose(
        found["condensate"], unoptimised(lambda x: condensate(fermions_of(TARGET).mass, x))(x), rtol=1e-12
    )


@pytest.mark.usefixtures("x64")
def test_gauge_invariance_and_hermiticity():
    x = links(SIDES)
    alpha = jnp.asarray(np.random.default_rng(4).uniform(-3, 3, (*SIDES, 2)))
    before = measured(x)
    for name, values in measured(gauge_transform(x, alpha)).items():
        np.testing.assert_allclose(values, before[name], rtol=1e-11, atol=1e-12)
    s = np.asarray(unoptimised(propagator)(x[..., 0], fermions_of(TARGET).mass))
    sign = np.array([1, -1]).reshape(2, 1, 1)
    adjoint = np.conj(np.moveaxis(s, (3, 4, 5), (0, 1, 2)))
    np.testing.assert_allclose(sign[..., None, None, None] * s * sign, adjoint, atol=1e-13)


@pytest.mark.usefixtures("x64")
def test_the_free_theory():
    """D⁻¹ in momentum space: D(p) = m + Σ_μ (1 − cos p_μ) + iγ_μ sin p_μ, p_1 at half-integers."""
    x = jnp.zeros((2, 6, 8, 1))
    target = Schwinger((6, 8), 2.0, 0.2)
    p0, p1 = 2 * np.pi * np.arange(6) / 6, 2 * np.pi * (np.arange(8) + 0.5) / 8
    k0, k1 = np.meshgrid(p0, p1, indexing="ij")
    scalar = 0.2 + 2 - np.cos(k0) - np.cos(k1)
    norm = scalar**2 + np.sin(k0) ** 2 + np.sin(k1) ** 2
    # D⁻¹(n, 0) = 1/V Σ_p e^{ipn} (scalar − iγ·sin p)/norm: three parts, each summed over sites at one time.
    parts = np.stack([scalar, np.sin(k0), np.sin(k1)]) / norm
    waves = [np.exp(1j * np.multiply.outer(p, np.arange(n))) / n for p, n in ((p0, 6), (p1, 8))]
    in_space = np.einsum("akl,kx,lt->axt", parts, *waves)
    pion = 2 * np.sum(np.abs(in_space) ** 2, axis=(0, 1))
    found = measured(x, target=target)
    np.testing.assert_allclose(found["pion"][:, 0], pion[:5], rtol=1e-12)
    np.testing.assert_allclose(found["eta"][:, 0], pion[:5], rtol=1e-12)
    np.testing.assert_allclose(found["condensate"][0], 2 * np.mean(scalar / norm), rtol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.statistical
@pytest.mark.slow
def test_sources():
    """One configuration, with other gauges, and therefore other random sources."""
    x = links((2, 4), 5)[..., :1]
    target = Schwinger((2, 4), 2.0, 0.3, flavours=2)
    alpha = jnp.asarray(np.random.default_rng(4).uniform(-3, 3, (2, 4, 3000)))
    exact = measured(x, 0, target)
    for name, values in measured(gauge_transform(x, alpha), 2, target).items():
        values = np.asarray(values)
        error = values.std(axis=-1) / np.sqrt(values.shape[-1])
        # Seven numbers: 4.5 σ is exceeded with probability 5e-5 at new seeds.
        assert np.all(np.abs(values.mean(axis=-1) - exact[name][..., 0]) < 4.5 * error), name
