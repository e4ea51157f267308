"""Every registered target is held to the contract: a new one is tested by being listed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import rng
from dlhmc.targets import registry, sum_sites

CHAINS = 3
pytestmark = pytest.mark.usefixtures("x64")
ALL = pytest.mark.parametrize("name", sorted(registry))


def example(name):
    target = registry[name]()
    x = target.start(jax.random.key(1), "hot", CHAINS, jnp.float64)
    return target, x


@ALL
def test_force_is_the_gradient_of_the_action(name):
    target, x = example(name)
    by_autodiff = jax.grad(lambda y: jnp.sum(target.action(y)))(x)
    scale = np.abs(by_autodiff).max()
    np.testing.assert_allclose(target.force(x), by_autodiff, rtol=0, atol=1e-12 * scale)


@ALL
def test_force_agrees_with_finite_differences(name):
    target, x = example(name)
    direction = target.momentum(jax.random.key(2), x)

    def along(h):
        return np.asarray(target.action(target.drift(x, h * direction)))

    h = 2e-3  # eighth-order central differences: truncation and rounding are both below 1e-9
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    slope = sum(w * (along(k * h) - along(-k * h)) for k, w in weights.items()) / h
    expected = np.asarray(sum_sites(target.force(x) * direction))
    assert np.abs(slope - expected).max() <= 1e-8 * np.abs(expected).max()


@ALL
def test_action_and_observables_under_symmetries(name):
    target, x = example(name)
    before = target.observables(x)
    for label, symmetry in target.symmetries().items():
        y = symmetry.apply(jax.random.key(3), x)
        assert y.shape == x.shape
        np.testing.assert_allclose(target.action(y), target.action(x), rtol=1e-12, err_msg=label)
        for observable, value in target.observables(y).items():
            sign = -1 if observable in symmetry.odd else 1
            np.testing.assert_allclose(value, sign * before[observable], atol=1e-10, err_msg=f"{label} {observable}")


@ALL
def test_symmetries_are_not_trivial(name):
    target, x = example(name)
    for label, symmetry in target.symmetries().items():
        assert not np.allclose(symmetry.apply(jax.random.key(3), x), x), label


@ALL
def test_shapes_and_names(name):
    target, x = example(name)
    assert x.shape == (*target.shape, CHAINS)
    observables = target.observables(x)
    assert all(value.shape == (CHAINS,) for value in observables.values())
    assert {moment.observable for moment in target.moments.values()} <= observables.keys()
    assert target.slow.keys() <= observables.keys()
    assert target.sector is None or target.sector in observables
    assert target.exact().keys() <= target.test_functions(x).keys()
    assert target.action(x).shape == (CHAINS,)


@ALL
def test_chains_do_not_touch(name):
    target, x = example(name)
    alone = x[..., 1:2]
    np.testing.assert_allclose(target.force(x)[..., 1:2], target.force(alone), rtol=1e-13)
    np.testing.assert_allclose(target.action(x)[1:2], target.action(alone), rtol=1e-13)


@ALL
def test_wrapping_changes_nothing_physical(name):
    target, x = example(name)
    far = target.drift(x, 30 * rng.normal(jax.random.key(4), x.shape, x.dtype))
    np.testing.assert_allclose(target.action(target.wrap(far)), target.action(far), rtol=1e-10)


@ALL
def test_exact_draws_have_the_exact_moments(name):
    target = registry[name]()
    draws = target.exact_draws()
    exact = target.exact()
    if draws is None or not exact:
        pytest.skip("this target has no exact draws or no exact moments")
    measured = jax.jit(lambda sampler, key: target.test_functions(sampler.draw(key, 40_000, jnp.float64)))(
        draws, jax.random.key(5)
    )
    for function, value in exact.items():
        values = np.asarray(measured[function])
        # 4 σ: with about fifteen functions for each target a new seed would fail with probability 0.1 % a target.
        assert abs(values.mean() - value) < 4 * values.std() / np.sqrt(values.size), function


@ALL
def test_couplings_do_not_recompile(name):
    target, x = example(name)
    compiled = jax.jit(lambda t, y: t.force(y))
    leaves, structure = jax.tree.flatten(target)
    for scale in (1.0, 1.5, 2.0):
        compiled(jax.tree.unflatten(structure, [leaf * scale for leaf in leaves]), x)
    assert compiled._cache_size() == 1
