"""The Schwinger model: forces, pseudofermions, and samplers that agree with reweighted exact draws."""

import functools
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlhmc
from dlhmc import DLHMC, HMC, Alternating, InstantonHits, Schwinger, reweighted
from dlhmc.actions.contract import Counted
from dlhmc.actions.fermions import Determinant, Precision, Pseudofermions
from dlhmc.fermions.dirac import Dirac
from dlhmc.lattice.links import polyakov_loops
from dlhmc.run.precision import check_precision
from dlhmc.statistics import integrated_autocorrelation_time
from dlhmc.targets.contract import for_chains, known_functions, with_actions
from dlhmc.theories.gauge.fermions import log_weight, quenched, with_determinant
from dlhmc.theories.u1.hits import Hit
from unoptimised import unoptimised


def start(target, chains, seed=0):
    return target.start(jax.random.key(seed), "hot", chains, jnp.dtype(jnp.result_type(float)))


# Operation by operation, a solver takes longer to compile than all tests of it.
drawn_with_terms = unoptimised(lambda target, seed, x: target.refresh(jax.random.key(seed), x))
evaluated = unoptimised(lambda target, name, x: getattr(target, name)(x))


def refreshed(target, seed, x):
    return drawn_with_terms(target, seed, x)[0]


def action_of(target, x):
    return np.asarray(evaluated(target, "action", x))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("flavours", "hasenbusch"),
    [(2, (0.5,)), *(pytest.param(f, h, marks=pytest.mark.slow) for f, h in ((2, ()), (4, (0.2, 0.7))))],
)
def test_the_force_of_pseudofermions(flavours, hasenbusch):
    """Against finite differences of their action, solved to the last digits."""
    precision = Precision(1e-13, 1e-13)
    target = Schwinger((4, 2), 2.0, -0.05, flavours=flavours, hasenbusch=hasenbusch, precision=precision)
    x = start(target, 2)
    drawn = refreshed(target, 1, x)
    force = np.asarray(evaluated(drawn, "force", x))
    for place in ((0, 1, 1), (1, 3, 1), (1, 0, 0)):
        step = np.zeros(x.shape)
        step[place] = 1e-5
        difference = np.subtract(*(action_of(drawn, np.asarray(x) + sign * step) for sign in (1, -1))) / 2e-5
        np.testing.assert_allclose(force[place], difference, rtol=1e-7, atol=1e-7)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("hasenbusch", [(0.1, 0.5), pytest.param((), marks=pytest.mark.slow)])
def test_pseudofermions_stand_for_the_determinant(hasenbusch):
    """φ drawn at x has the action |η|², and its weight at x′ averages to the ratio of determinants."""
    target = Schwinger((2, 2), 1.0, 0.3, hasenbusch=hasenbusch)
    x, step = (np.broadcast_to(start(target, 1, seed), (2, 2, 2, 20_000)) for seed in (1, 2))
    other = x + 0.1 * step
    drawn, told = drawn_with_terms(target, 3, x)
    terms, exact = action_of(drawn, x), with_determinant(target)
    weights = np.exp(terms - action_of(drawn, other))
    expected = np.exp(np.subtract(*(action_of(exact, y[..., :1]) for y in (x, other))))[0]
    # Independent draws: 4 σ is exceeded with probability 6e-5 at a new seed.
    assert abs(weights.mean() - expected) < 4 * weights.std() / np.sqrt(weights.size)
    # Sums of exponential variables, one for each even site, spin and mass.
    number = 4 * (len(hasenbusch) + 1)
    terms = terms - action_of(quenched(target), x)
    assert abs(terms.mean() - number) < 4 * np.sqrt(number / terms.size)
    # Known without a solution.
    known = sum(np.asarray(each).sum(axis=(0, 1)) for each in told.value if each is not None)
    np.testing.assert_allclose(known, terms, rtol=1e-4)


@pytest.mark.usefixtures("x64")
def test_the_mean_force_of_pseudofermions_is_that_of_the_determinant():
    """Over 20,000 draws of φ, link by link; that of the determinant is from LU, which test_determinant.py checks."""
    target = Schwinger((2, 4), 1.0, 0.2, hasenbusch=(0.4,))
    x = np.broadcast_to(start(target, 1), (2, 2, 4, 20_000))
    force, exact = (
        np.asarray(evaluated(t, "force", y))
        for t, y in ((refreshed(target, 4, x), x), (with_determinant(target), x[..., :1]))
    )
    pulls = (force.mean(axis=-1) - exact[..., 0]) / force.std(axis=-1) * np.sqrt(20_000)
    # Sixteen links: 4.5 σ is exceeded with probability 1e-4 at a new seed.
    assert np.abs(pulls).max() < 4.5


@pytest.mark.slow
def test_a_solver_that_gives_up_rejects():
    target = Schwinger((4, 4), 2.0, -0.1, precision=Precision(most_iterations=2))
    kernel = HMC(target, 0.1, 2)
    x = start(target, 4)
    state, info = eqx.filter_jit(kernel.step)(jax.random.key(1), kernel.init(x))
    assert info.nonfinite.all()
    np.testing.assert_array_equal(state.x, x)
    # In each of three forces, and at the end.
    np.testing.assert_array_equal(info.effort["solver_failures"], 4)


def test_a_solver_that_gives_up_in_accept_reject_alone_rejects():
    """Once: the action at the start is known from drawing the pseudofermions."""
    target = Schwinger((4, 4), 2.0, -0.1, precision=Precision(force=0.5, most_iterations=4))
    kernel = HMC(target, 0.1, 2)
    x = start(target, 4)
    state, info = unoptimised(kernel.step)(jax.random.key(1), kernel.init(x))
    assert info.nonfinite.all()
    np.testing.assert_array_equal(state.x, x)
    np.testing.assert_array_equal(info.effort["solver_failures"], 1)


SOLVING = {
    "HMC": lambda: HMC(Schwinger((4, 4), 2.0, 0.1), 0.1, 2),
    "a heavier mass, four flavours": lambda: HMC(
        Schwinger((4, 4), 2.0, 0.1, flavours=4, hasenbusch=(0.3,)), 0.1, inner_steps=2
    ),
}


@pytest.mark.parametrize("name", [n if n == "HMC" else pytest.param(n, marks=pytest.mark.slow) for n in SOLVING])
def test_every_application_of_the_dirac_operator_is_counted(name, monkeypatch):
    """In drawing pseudofermions, in forces and in accept/reject: the operator itself keeps count, of one chain."""
    kernel, seen, apply = SOLVING[name](), [], Dirac.apply

    def watched(self, psi):
        jax.debug.callback(lambda _: seen.append(1), psi[0, 0, 0, 0])  # of each pseudofermion by itself
        return apply(self, psi)

    monkeypatch.setattr(Dirac, "apply", watched)
    x = start(kernel.target, 1)
    info = unoptimised(lambda kernel, x: kernel.step(jax.random.key(1), kernel.init(x))[1])(kernel, x)
    jax.effects_barrier()
    assert len(seen) == info.effort["dirac_applications"][0]


@pytest.mark.parametrize("network", ["dense", "local"])
def test_every_decomposition_is_counted(network):
    """One in accept/reject: learned trajectories follow the gauge action."""
    target = Schwinger((4, 4), 2.0, 0.1)
    kernel = DLHMC.of(target, dlhmc.build_trajectory(target, network, layers=3, hidden=(2,), step_size=0.1))
    info = unoptimised(lambda kernel, x: kernel.step(jax.random.key(1), kernel.init(x))[1])(
        kernel, start(kernel.target, 2)
    )
    np.testing.assert_array_equal(info.effort["lu_decompositions"], 1)


def test_learned_proposals_need_a_target_without_pseudofermions():
    target = Schwinger((4, 4), 2.0, 0.1)
    with pytest.raises(TypeError, match="auxiliary fields"):
        DLHMC(target, dlhmc.build_trajectory(target, "local", layers=1, hidden=(2,)))


def test_the_work_of_the_solver_is_counted():
    """Of each chain by itself: the same number, whatever the others need."""
    target = Schwinger((4, 4), 2.0, -0.1)
    x = start(target, 2).at[..., 1].set(0.0)
    drawn = refreshed(target, 1, x)
    count = unoptimised(lambda t, x: t.actions[0].force(t.geometry, x).effort)
    both = count(drawn, x)
    alone = for_chains(drawn, lambda phi: phi[..., 1:])
    first = count(alone, x[..., 1:])
    assert both["dirac_applications"][1] == first["dirac_applications"][0] > 3
    assert both["dirac_applications"][0] > both["dirac_applications"][1]
    assert not both["solver_failures"].any()


@pytest.mark.parametrize(
    ("lattice", "settings", "message"),
    [
        ((4, 3), {"mass": 0.1}, "even sides"),
        ((4, 4), {"mass": 0.1, "flavours": 3}, "an even number"),
        ((4, 4), {"mass": 0.1, "hasenbusch": (0.2, 0.1)}, "ascending"),
        ((4, 4), {}, "give the mass"),
        ((4, 4), {"mass": 0.1, "kappa": 0.25}, "not both"),
    ],
)
def test_what_cannot_be(lattice, settings, message):
    with pytest.raises(ValueError, match=message):
        Schwinger(lattice, 2.0, **settings)


def test_limits_of_the_autocorrelation_time_know_the_charge():
    """A charge that is hardly ever anything but 0 may be back soon after a change."""
    target = Schwinger((4, 4), 7.0, 0.0, expected_charge_squared=0.1)
    variance = target.known.slow_variance(target, "charge")
    frozen = np.zeros((100, 8))
    known, unknown = (integrated_autocorrelation_time(frozen, 0.0, variance=v).lower_bound for v in (variance, None))
    assert known + 0.5 == pytest.approx(0.2 * (unknown + 0.5))
    target = Schwinger((4, 4), 7.0, 0.0)
    assert target.known.slow_variance(target, "charge") is None


TARGET = Schwinger((4, 4), 2.0, kappa=0.276)


def measured(x):
    """What samplers are judged by; the Polyakov loop in time sees whether fermions are antiperiodic."""
    found = known_functions(TARGET, x)
    return {name: found[name] for name in TARGET.known.moments} | {"polyakov": polyakov_loops(x)[1].real}


@functools.cache
def truth():
    """No Markov chain, and nothing of the samplers but the determinant, which test_dirac.py checks."""
    return reweighted(TARGET, 40_000, functions=measured)


@functools.cache
def equilibrium():
    """Exact draws of the gauge theory, picked by the weight of the determinant."""
    draw = unoptimised(quenched(TARGET).exact_draws().draw)
    x = draw(jax.random.key(5), 16_000, jnp.dtype(jnp.float32))
    weights = np.asarray(unoptimised(lambda x: log_weight(TARGET, x))(x), np.float64)
    weights = np.exp(weights - weights.max())
    picked = np.random.default_rng(6).choice(weights.size, 4000, p=weights / weights.sum())
    return x[..., picked]


def pulls(kernel, every=1):
    """How far plaquette and charge are from the truth after a few steps from equilibrium, in standard errors."""

    @eqx.filter_jit
    def run(kernel, x):
        def step(state, key):
            state = kernel.step(key, state)[0]
            return state, measured(state.x)

        found = jax.lax.scan(step, kernel.init(x), jax.random.split(jax.random.key(7), 10))[1]
        return jax.tree.map(lambda values: values[4:].mean(axis=0), found)

    found = run(kernel, equilibrium()[..., ::every])
    pulls = {}
    for name, exact in truth().means.items():
        values = np.asarray(found[name], np.float64)
        # The same draw may have been picked several times: about a quarter of the draws carry the weight.
        error = np.hypot(exact.error, 1.3 * values.std() / np.sqrt(values.size))
        pulls[name] = (values.mean() - exact.value) / error
    return pulls


class Periodic(Pseudofermions):
    """Fermions that are periodic in time."""

    def refresh(self, key, gamma, x):
        drawn, terms = super().refresh(key, gamma, _turned(x))
        return Periodic(self.mass, phi=drawn.phi), terms

    def terms(self, x):
        return super().terms(_turned(x))

    def force(self, geometry, x):
        return super().force(geometry, _turned(x))


def _turned(x):
    """Another sign for the last links in time; the plaquettes do not change."""
    return x.at[1, :, -1].add(np.pi)


class Once(Determinant):
    """One flavour in place of two."""

    factor: ClassVar = 0.5

    def terms(self, x):
        terms, effort = super().terms(x)
        return Counted(self.factor * terms, effort)


class Inverted(Once):
    """The ratio of determinants upside down."""

    factor: ClassVar = -1


class Stale(Pseudofermions):
    """They never change."""

    def refresh(self, key, gamma, x):
        drawn, terms = super().refresh(jax.random.key(0), gamma, x)
        return Stale(self.mass, phi=drawn.phi), terms


MASS = 0.5 / 0.276 - 2


def of(fermions):
    """The same with other fermions."""
    return with_actions(TARGET, [fermions, TARGET.actions[-1]])


def hmc(target=TARGET):
    return HMC(target, 0.15, 5, inner_steps=2)


KERNELS = {
    "HMC": hmc,
    "HMC with a heavier mass": lambda: hmc(Schwinger((4, 4), 2.0, kappa=0.276, hasenbusch=(0.3,))),
    "HMC and hits": lambda: InstantonHits(hmc(), 1),
    "HMC and windows": lambda: Alternating(hmc(), dlhmc.load_kernel("u1-b2", TARGET), 1),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [n if n == "HMC and windows" else pytest.param(n, marks=pytest.mark.slow) for n in KERNELS],
)
def test_samplers_agree_with_reweighting(name):
    """Four means that depend on each other: 4 σ is exceeded with probability below 3e-4 at a new seed."""
    found = pulls(KERNELS[name]())
    assert max(map(abs, found.values())) < 4, found


BROKEN = {
    "periodic fermions": lambda: hmc(of(Periodic(MASS))),
    "one flavour": lambda: Alternating(hmc(), Hit(of(Once(MASS))), 3),
    "ratio inverted": lambda: Alternating(hmc(), Hit(of(Inverted(MASS))), 1),
    # Of long steps, which accept/reject has to mend.
    "a loose residual": lambda: HMC(of(Pseudofermions(MASS, precision=Precision(action=0.8))), 0.4, 3, inner_steps=2),
    "stale pseudofermions": lambda: hmc(of(Stale(MASS))),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", [n if n == "ratio inverted" else pytest.param(n, marks=pytest.mark.slow) for n in BROKEN]
)
def test_broken_samplers_do_not(name):
    found = pulls(BROKEN[name](), every=4 if name == "ratio inverted" else 1)
    assert max(map(abs, found.values())) > 6, found


def test_reweighting():
    """Means of all that is asked for, with the weight that the determinant has."""
    light, heavy = (Schwinger((2, 2), 1.0, mass, flavours=4) for mass in (-0.2, 50.0))

    def weights(x):
        weight = jnp.exp(log_weight(light, x))
        return {"weight": weight, "inverse": 1 / weight}

    # ⟨w⟩ = Σw²/Σw and ⟨1/w⟩ = N/Σw, if the weights are those of four flavours.
    found = reweighted(light, 3000, functions=weights)
    product = found.means["weight"].value * found.means["inverse"].value
    assert product == pytest.approx(1 / found.effective_fraction, rel=1e-4)
    assert found.effective_fraction < 0.9
    gauge = reweighted(heavy, 3000)
    assert gauge.effective_fraction > 0.999
    # Fermions that are heavy leave the gauge theory alone.
    gauge_alone = dlhmc.U1((2, 2), 1.0).exact()
    gauge_alone["susceptibility"] = gauge_alone["charge_squared"] / 4
    for name in heavy.known.moments:
        assert abs(gauge.means[name].value - gauge_alone[name]) < 4 * gauge.means[name].error, name


@pytest.mark.slow
@pytest.mark.parametrize("double", [False, True])
def test_trajectories_are_reversible(double):
    """To 1e-4 in single precision and 1e-11 in double, far below the residuals: solutions are functions of x alone."""
    with jax.enable_x64(double):
        target = Schwinger((4, 4), 2.0, kappa=0.276)
        x = quenched(target).exact_draws().draw(jax.random.key(1), 8, jnp.dtype(jnp.result_type(float)))
        found = check_precision(HMC(target, 0.1, 5), np.asarray(x), seed=1, step=0)
    limit = 1e-11 if double else 1e-4
    assert found.distance < limit
    assert found.irreversibility < 100 * limit
    # The same pseudofermions in double precision give the same probability of acceptance.
    assert double or found.acceptance_error < 1e-3
