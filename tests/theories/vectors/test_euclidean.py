import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import integrate, stats

from dlhmc.errors import UserError
from dlhmc.geometry import FlatSpace
from dlhmc.kernels import HMC
from dlhmc.targets.contract import known_functions
from dlhmc.testing import check_stationarity
from dlhmc.theories import registry
from dlhmc.theories.gauge.field import U1
from dlhmc.theories.vectors.density import LogDensity
from dlhmc.theories.vectors.toys import (
    Funnel,
    Gaussian,
    GaussianMixture,
    RoughWell,
    correlated_gaussian,
    gaussian_from_covariance,
    ill_conditioned_gaussian,
)
from examples_of_targets import EXAMPLES

COVARIANCE = np.array([[2.0, 0.8], [0.8, 1.0]])

# The targets of the L2HMC paper, smaller where that is faster and with modes that are near enough to be left, each
# with step size and steps of a trajectory: acceptances below one make accept/reject matter. Those that differ
# in leaves only share the compiled functions.
STATIONARY = {
    "ill-conditioned": lambda: (ill_conditioned_gaussian(dim=6), 0.12, 8),
    "correlated": lambda: (correlated_gaussian(), 0.4, 6),
    "correlated, annealed": lambda: (correlated_gaussian(gamma=0.25), 0.7, 6),
    "mixture": lambda: (GaussianMixture(separation=2.0, variance=0.3, weights=(1, 2)), 0.7, 3),
    "mixture, annealed": lambda: (GaussianMixture(weights=(1, 2), gamma=0.2), 0.6, 3),
    "rough well": lambda: (RoughWell(dim=2, eta=1e-2), 0.4, 5),
    "rougher well, annealed": lambda: (RoughWell(dim=2, eta=0.3, gamma=1.3), 0.35, 5),
    "wide funnel": lambda: (Funnel(sigma=0.5), 0.3, 4),
    "wide funnel, annealed": lambda: (Funnel(sigma=0.5, gamma=0.8), 0.3, 4),
    "Neal's funnel": lambda: (Funnel(), 0.3, 5),
}
EUCLIDEAN = sorted(name for name, make in EXAMPLES.items() if isinstance(make().geometry, FlatSpace))
ALL = pytest.mark.parametrize("name", EUCLIDEAN)


@pytest.mark.statistical
@pytest.mark.parametrize("name", STATIONARY)
def test_hmc_leaves_exact_draws_exact(name):
    # At a new seed an exact kernel fails the χ² with probability 1e-3 and the test of the weights with 3e-3.
    target, step_size, steps = STATIONARY[name]()
    result = check_stationarity(HMC(target, step_size, steps), steps=5, chains=8000, seed=2)
    assert result.p_value > 1e-3, result
    assert 0.3 < result.acceptance < 0.98, result
    assert abs(result.weight_pull) < 3, result


# Exact results.


def by_quadrature(log_density, functions, points):
    """Expectation values in one dimension, by SciPy, piece by piece between the points."""

    def integral(f):
        def weighted(x):
            return f(x) * np.exp(log_density(x))

        return sum(integrate.quad(weighted, a, b, epsabs=1e-11)[0] for a, b in itertools.pairwise(points))

    norm = integral(np.ones_like)
    return {name: integral(f) / norm for name, f in functions.items()}


@pytest.mark.parametrize("gamma", [1.0, 0.3, 2.0])
def test_moments_of_the_mixture(gamma):
    target = GaussianMixture(separation=1.5, variance=0.25, weights=(0.2, 0.8), dim=3, gamma=gamma)
    left, right = stats.norm(-0.75, 0.5), stats.norm(0.75, 0.5)
    expected = by_quadrature(
        lambda x: gamma * np.log(0.2 * left.pdf(x) + 0.8 * right.pdf(x)),
        {"mode": np.sign, "x0": lambda x: x, "x0_squared": np.square, "distance": np.abs},
        points=[-8.0, 0.0, 8.0],
    )
    expected["squared_norm"] = expected["x0_squared"] + 2 * 0.25 / gamma
    assert target.exact() == pytest.approx(expected, rel=1e-6)
    assert target.known.slow(target) == {name: target.exact()[name] for name in ("mode", "squared_norm")}
    # The variance of a mode of ±1, in units of its change of 2 squared.
    assert target.known.slow_variance(target, "mode") == pytest.approx((1 - expected["mode"] ** 2) / 4, rel=1e-6)
    assert target.known.slow_variance(target, "squared_norm") is None


@pytest.mark.parametrize("eta", [0.05, 1.0, 3.0])
def test_moments_of_the_rough_well(eta):
    expected = by_quadrature(
        lambda x: -1.5 * (x**2 / 2 + eta * np.cos(x / eta)),
        {"x0_squared": np.square, "x0 to the fourth": lambda x: x**4, "roughness": lambda x: np.cos(x / eta)},
        points=np.linspace(-8, 8, 65).tolist(),
    )
    exact = RoughWell(dim=3, eta=eta, gamma=1.5).exact()
    assert exact["squared_norm"] == pytest.approx(3 * expected["x0_squared"], rel=1e-6)
    assert {name: exact[name] for name in expected} == pytest.approx(expected, rel=1e-6)


def test_the_rough_well_is_nearly_normal():
    # To first order in η, 〈cos(x/η)〉 = −η/2 where the waves are short.
    exact = RoughWell(eta=1e-2).exact()
    assert exact["x0_squared"] == pytest.approx(1, abs=1e-12)
    assert exact["roughness"] == pytest.approx(-0.005, rel=1e-4)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("gamma", [1.0, 0.6])
def test_moments_of_the_funnel(gamma):
    # From the action itself, on a grid of v and u = e^{−v/2} x with its Jacobian e^{v/2}.
    target = Funnel(dim=2, sigma=1.2, gamma=gamma)
    v, u = (grid.ravel() for grid in np.meshgrid(np.linspace(-11, 13, 600), np.linspace(-10, 10, 1000), indexing="ij"))
    x = jnp.asarray(np.stack([v, u * np.exp(v / 2)]))
    action, functions = jax.jit(lambda target, x: (target.action(x), known_functions(target, x)))(target, x)
    weight = np.exp(-np.asarray(action) + v / 2)
    measured = {name: (np.asarray(f) * weight).sum() / weight.sum() for name, f in functions.items()}
    exact = target.exact()
    for name, value in measured.items():
        # The grid cannot resolve the edges of |x| < 1.
        assert value == pytest.approx(exact[name], abs=1e-3 if "inside" in name else 1e-9), name


def test_probabilities_of_the_funnel():
    expected = stats.norm(0, 3).expect(lambda v: 2 * stats.norm.cdf(np.exp(-v / 2)) - 1, lb=-30, ub=30)
    assert Funnel().exact()["inside"] == pytest.approx(expected, rel=1e-6)


def test_moments_of_gaussians():
    target = gaussian_from_covariance(COVARIANCE, gamma=0.5)
    exact = target.exact()
    assert [exact["x0 x0"], exact["x0 x1"], exact["x1 x1"]] == pytest.approx([4.0, 1.6, 2.0], rel=1e-5)
    assert exact["squared_norm"] == pytest.approx(6.0)
    assert exact["widest_squared"] == pytest.approx(2 * np.linalg.eigvalsh(COVARIANCE)[1])
    variances = np.asarray(ill_conditioned_gaussian().actions[0].variances)
    assert variances.shape == (50,)
    np.testing.assert_allclose(variances[[0, -1]], [1e-2, 1e2])
    np.testing.assert_allclose(variances[1:] / variances[:-1], 1e4 ** (1 / 49), rtol=1e-5)


@pytest.mark.usefixtures("x64")
def test_action_is_minus_the_log_density():
    x = np.array([[0.3, -1.0], [1.2, 0.4]])
    gaussian = gaussian_from_covariance(COVARIANCE)
    mixture = GaussianMixture(3.0, 0.4, (1, 3))
    funnel = Funnel(dim=2, sigma=2.0)
    normal = stats.multivariate_normal
    expected = [
        (gaussian, normal(cov=COVARIANCE).logpdf(x.T)),
        (mixture, np.log(0.25 * normal([-1.5, 0], 0.4).pdf(x.T) + 0.75 * normal([1.5, 0], 0.4).pdf(x.T))),
        (funnel, stats.norm(0, 2).logpdf(x[0]) + stats.norm(0, np.exp(x[0] / 2)).logpdf(x[1])),
    ]
    for target, log_density in expected:
        # Up to a constant.
        np.testing.assert_allclose(np.diff(target.action(jnp.asarray(x))), -np.diff(log_density), rtol=1e-10)


@jax.jit
def drawn_functions(target):
    return known_functions(target, target.exact_draws().draw(jax.random.key(2), 40_000, jnp.float32))


@pytest.mark.statistical
@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.5])
def test_draws_of_the_annealed_mixture(gamma):
    target = GaussianMixture(separation=1.5, variance=0.25, weights=(0.3, 0.7), gamma=gamma)
    values = drawn_functions(target)
    for name, expected in target.exact().items():
        sample = np.asarray(values[name], np.float64)
        # 4 σ of five functions: a new seed fails with probability 3e-4.
        assert abs(sample.mean() - expected) < 4 * sample.std() / np.sqrt(sample.size), name


@pytest.mark.parametrize("name", ["correlated-gaussian", "mixture", "rough-well"])
def test_draws_do_not_depend_on_the_number_of_chains(name):
    draw = jax.jit(lambda draws, chains: draws.draw(jax.random.key(0), chains, jnp.float32), static_argnums=1)
    few, many = (draw(EXAMPLES[name]().exact_draws(), chains) for chains in (3, 8))
    np.testing.assert_allclose(few, many[:, :3], rtol=1e-6)


@ALL
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_everything_has_the_dtype_of_the_points(name, dtype):
    target = EXAMPLES[name]()

    def everything(key):
        draws = target.exact_draws()
        x = target.start(key, "hot", 3, dtype)
        cold = target.start(key, "cold", 3, dtype)
        drawn = x if draws is None else draws.draw(key, 3, dtype)
        return (
            x,
            cold,
            drawn,
            target.terms(x).value,
            target.force(x),
            target.observables(x),
            known_functions(target, x),
        )

    shapes = jax.tree.leaves(jax.eval_shape(everything, jax.random.key(0)))
    assert {leaf.dtype for leaf in shapes} == {jnp.dtype(dtype)}
    assert {leaf.shape[-1] for leaf in shapes} == {3}


# Particulars.


def test_the_variance_of_a_slow_observable_is_about_its_mean():
    u1, funnel = U1((4, 4), 2.0), Funnel(gamma=0.5)
    assert u1.known.slow_variance(u1, "charge") == u1.exact()["charge_squared"]
    assert funnel.known.slow_variance(funnel, "v") is None


def test_every_named_target_is_standard_and_those_of_vectors_have_exact_draws():
    targets = [theory.settings().build() for theory in registry.all_theories()]
    assert all(target.gamma == 1 for target in targets)
    vectors = [target for target in targets if isinstance(target.geometry, FlatSpace)]
    assert len(vectors) == 5
    assert all(target.exact_draws() is not None for target in vectors)


def test_modes_are_integers_and_cold_chains_sit_in_one():
    target = GaussianMixture()
    cold = target.start(jax.random.key(3), "cold", 5, jnp.float32)
    assert target.observables(cold)["mode"].tolist() == 5 * [-1.0]
    assert np.abs(target.force(cold)).max() < 1e-3
    assert target.observables(-cold)["mode"].tolist() == 5 * [1.0]


@pytest.mark.usefixtures("x64")
def test_the_mixture_far_from_both_modes():
    x = jnp.asarray([[-40.0, 40.0], [0.0, 1.0]])
    np.testing.assert_allclose(GaussianMixture().force(x), [[-380.0, 380.0], [0.0, 10.0]], rtol=1e-12)
    assert np.isfinite(GaussianMixture().action(x)).all()


@pytest.mark.usefixtures("x64")
def test_force_of_the_rough_well_at_its_scale():
    x = jnp.linspace(-3, 3, 1001)[None]
    np.testing.assert_allclose(RoughWell(dim=1).force(x)[0], x[0] - jnp.sin(100 * x[0]), atol=1e-12)


def test_parameters_may_be_traced():
    x = jnp.asarray([[1.0], [2.0]])
    assert jax.grad(lambda gamma: jnp.sum(Gaussian([1.0, 4.0], gamma=gamma).action(x)))(0.5) == pytest.approx(1.0)


# A user's own density.


def normal_log_density(precision, x):
    return -0.5 * x @ precision @ x


def own_gaussian(gamma=1.0):
    precision = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)
    return LogDensity(Partial(normal_log_density, precision), dim=2, gamma=gamma)


def test_own_density_and_built_in_one_make_the_same_trajectories():
    own, built_in = own_gaussian(0.5), gaussian_from_covariance(COVARIANCE, gamma=0.5)
    x = built_in.exact_draws().draw(jax.random.key(4), 100, jnp.float32)
    step = eqx.filter_jit(lambda kernel: kernel.step(jax.random.key(5), kernel.init(x)))
    (first, first_info), (second, second_info) = (step(HMC(target, 0.5, 4)) for target in (own, built_in))
    np.testing.assert_allclose(first.x, second.x, atol=1e-4)
    np.testing.assert_allclose(first_info.energy_change, second_info.energy_change, atol=1e-4)


@pytest.mark.statistical
def test_hmc_finds_the_covariance_of_an_own_density():
    chains = 8000
    kernel = HMC(own_gaussian(), 0.5, 4)

    @eqx.filter_jit
    def run(kernel, x):
        def step(index, state):
            return kernel.step(jax.random.fold_in(jax.random.key(6), index), state)[0]

        return jax.lax.fori_loop(0, 40, step, kernel.init(x)).x

    x = np.asarray(run(kernel, kernel.target.start(jax.random.key(7), "cold", chains, jnp.float32)), np.float64)
    deviation = (x @ x.T / chains - COVARIANCE) / np.sqrt(
        (COVARIANCE**2 + np.outer(*2 * [COVARIANCE.diagonal()])) / chains
    )
    # 4 σ of three numbers: a new seed fails with probability 2e-4.
    assert np.abs(deviation).max() < 4
    assert np.abs(x.mean(axis=1) / np.sqrt(COVARIANCE.diagonal() / chains)).max() < 4


def test_own_observables_and_parameters():
    target = LogDensity(lambda x: -jnp.sum(x**4), 3, {"largest": jnp.max, "first": lambda x: x[0]}, spread=2.0)
    x = jnp.asarray([[1.0, 4.0], [3.0, 5.0], [2.0, 9.0]])
    assert {name: value.tolist() for name, value in target.observables(x).items()} == {
        "largest": [3.0, 9.0],
        "first": [1.0, 4.0],
    }
    assert set(target.known.moments) == {"largest", "first"}
    assert target.terms(x).value[0].shape == (1, 2)
    assert target.exact() == {}
    assert target.exact_draws() is None
    assert list(LogDensity(lambda x: -jnp.sum(x**2), 2).observables(x[:2])) == ["x0", "x1", "squared_norm"]
    with pytest.raises(ValueError, match="exact draws only"):
        check_stationarity(HMC(target, 0.1, 1))


def test_parameters_of_an_own_density_do_not_recompile():
    traces = []

    def log_density(scale, x):
        traces.append(None)
        return -scale * jnp.sum(x * x)

    force = eqx.filter_jit(lambda target, x: target.force(x))
    x = jnp.ones((2, 3))
    values = [float(force(LogDensity(Partial(log_density, jnp.float32(s)), 2), x)[0, 0]) for s in (1.0, 2.0, 3.0)]
    assert values == [2.0, 4.0, 6.0]
    # Once for each construction, which looks at the shape, and once to compile.
    assert len(traces) == 4


BAD = {
    "variances is 1.0 -1.0, but must be a list of numbers above 0": lambda: Gaussian([1.0, -1.0]),
    "variances is 2.0, but must be a list of numbers above 0": lambda: Gaussian(2.0),
    "axes must be the orthonormal columns of a 2 × 2 matrix": lambda: Gaussian([1.0, 1.0], np.eye(3)),
    "axes must be the orthonormal columns": lambda: Gaussian([1.0, 1.0], np.array([[1.0, 1.0], [0.0, 1.0]])),
    "axes must be the orthonormal columns of a 3 × 3": lambda: correlated_gaussian((1.0, 2.0, 3.0)),
    "covariance must be a symmetric matrix": lambda: gaussian_from_covariance([[1.0, 0.5], [0.0, 1.0]]),
    "covariance must be a symmetric matrix, got": lambda: gaussian_from_covariance([[1.0, 0.5]]),
    "variances is -1.0 3.0": lambda: gaussian_from_covariance([[1.0, 2.0], [2.0, 1.0]]),
    "smallest is 0.0, but must be a number above 0": lambda: ill_conditioned_gaussian(5, 0.0, 1.0),
    "weights is 1 1 1, but must be 2 numbers above 0": lambda: GaussianMixture(weights=(1, 1, 1)),
    "weights is 0 1, but must be 2 numbers above 0": lambda: GaussianMixture(weights=(0, 1)),
    "variance is nan, but must be a number above 0": lambda: GaussianMixture(variance=float("nan")),
    "eta is 1e-06, but must be a number at least 0.0001": lambda: RoughWell(eta=1e-6),
    "dim is 0, but must be a whole number": lambda: RoughWell(dim=0),
    "dim is 1, but must be a whole number at least 2": lambda: Funnel(dim=1),
    "the log-density must return one number": lambda: LogDensity(lambda x: x, 2),
    "the log-density must be a function": lambda: LogDensity(3.0, 2),
    "radius must return one number": lambda: LogDensity(lambda x: x[0], 2, {"radius": lambda x: x}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_refused_with_a_sentence(message):
    with pytest.raises(UserError, match=f"^{message}") as error:
        BAD[message]()
    assert "\n" not in str(error.value)
