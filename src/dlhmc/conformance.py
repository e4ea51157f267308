"""The package's own tests of targets, networks, rules, kernels and the like, for objects that others have made.

Each check yields a sentence for everything that is wrong. `check_target` and its relatives run all checks that apply in
double precision, and raise `ConformanceError` with all sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from dlhmc import rng
from dlhmc.kernels.contract import Info, Kernel, State
from dlhmc.kernels.dlhmc import DLHMC
from dlhmc.layers import LayerStack, LeapfrogLayer, Phase, PositionRule, Trajectory
from dlhmc.layers.masks import random_mask
from dlhmc.layers.position import Affine, Circle
from dlhmc.networks.contract import SQT, Network, NetworkFactory, Zeta
from dlhmc.targets.contract import Field, Target, sum_sites
from dlhmc.targets.watched import Observable
from dlhmc.training.loss import Loss, Transition
from dlhmc.training.schedule import Schedule

T = TypeVar("T")
Problems = Iterator[str]
CHAINS = 3
# Chance of a false alarm for each known expectation value of a target: 6e-5.
_SIGMAS = 4.0
_DRAWS = 40_000


class ConformanceError(AssertionError):
    """What is wrong with an object, a sentence for each problem."""


class Checked(NamedTuple):
    """What was tested, and what could not be."""

    passed: tuple[str, ...]
    skipped: tuple[str, ...]


def _run(what: object, checks: Mapping[str, Callable[[], Iterable[str]]], skipped: Iterable[str] = ()) -> Checked:
    """All checks; those that raise have found something, too."""
    problems: list[str] = []
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        for name, check in checks.items():
            try:
                for problem in check():
                    problems.append(f"{name}: {problem}")
            except Exception as error:  # a user's code may raise anything
                problems.append(f"{name}: it raises {type(error).__name__}: {error}")
    if problems:
        title = what if isinstance(what, str) else type(what).__name__
        raise ConformanceError("\n".join([f"{title} breaks its contract.", *(f"- {line}" for line in problems)]))
    return Checked(tuple(checks), tuple(skipped))


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)


def _far(found: Any, wanted: Any, tolerance: float) -> float | None:
    """The largest difference, where it is larger than the tolerance times the size of what is wanted; NaN is."""
    difference = float(np.max(np.abs(_numbers(found) - _numbers(wanted)), initial=0.0))
    size = float(np.max(np.abs(_numbers(wanted)), initial=0.0))
    return None if difference <= tolerance * max(size, 1e-300) else difference


# Targets.


def example(target: Target, chains: int = CHAINS) -> Field:
    """Hot configurations, in double precision."""
    return target.start(jax.random.key(1), "hot", chains, jnp.dtype(jnp.float64))


def shapes_and_names(target: Target, x: Field) -> Problems:
    """Everything has a number for each chain, and every name is one of an observable."""
    if x.shape != (*target.shape, CHAINS):
        yield f"start gives the shape {x.shape} for {CHAINS} chains, but shape is {target.shape}"
        return
    if target.action(x).shape != (CHAINS,):
        yield f"the action has the shape {target.action(x).shape}, not one number for each of {CHAINS} chains"
    if target.force(x).shape != x.shape:
        yield f"the force has the shape {target.force(x).shape}, but the field {x.shape}"
    observables = target.observables(x)
    for name, values in observables.items():
        if values.shape != (CHAINS,):
            yield f"the observable {name} has the shape {values.shape}, not one number for each of {CHAINS} chains"
    named = {moment.observable for moment in target.moments.values()} | set(target.slow) | {target.sector} - {None}
    for name in sorted(str(label) for label in named - observables.keys()):
        yield f"moments, slow or sector name '{name}', which is not among the observables {sorted(observables)}"
    for name in sorted(target.exact().keys() - target.test_functions(x).keys()):
        yield f"exact gives a value for '{name}', which is not among the test functions"
    if target.wrap(x).shape != x.shape:
        yield "wrap changes the shape"
    cold = target.start(jax.random.key(1), "cold", CHAINS, jnp.dtype(jnp.float64))
    if cold.shape != x.shape or not np.all(np.isfinite(_numbers(target.action(cold)))):
        yield "a cold start has another shape than a hot one, or an action that is not finite"


def force_is_the_gradient(target: Target, x: Field) -> Problems:
    """By autodiff."""
    wanted = jax.grad(lambda y: jnp.sum(target.action(y)))(x)
    if (error := _far(target.force(x), wanted, 1e-12)) is not None:
        yield f"the force differs from the gradient of the action by {error:.2g}"


def force_agrees_with_finite_differences(target: Target, x: Field) -> Problems:
    """Which know nothing of autodiff, so that a gradient that was stopped or made up is seen."""
    direction = target.momentum(jax.random.key(2), x)

    def along(h: float) -> NDArray[np.float64]:
        return _numbers(target.action(target.drift(x, h * direction)))

    h = 2e-3  # eighth-order central differences: truncation and rounding are both below 1e-9
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    slope = np.sum([w * (along(k * h) - along(-k * h)) for k, w in weights.items()], axis=0) / h
    if (error := _far(slope, sum_sites(target.force(x) * direction), 1e-8)) is not None:
        yield f"along a random direction the action changes by another amount than the force says: {error:.2g} off"


def symmetries_hold(target: Target, x: Field) -> Problems:
    """Action and observables under each symmetry that the target names, and that it does something."""
    before = target.observables(x)
    for label, symmetry in target.symmetries().items():
        y = symmetry.apply(jax.random.key(3), x)
        if y.shape != x.shape:
            yield f"the {label} changes the shape"
            continue
        if np.allclose(y, x):
            yield f"the {label} changes nothing"
        if (error := _far(target.action(y), target.action(x), 1e-12)) is not None:
            yield f"the {label} changes the action by {error:.2g}"
        for observable, value in target.observables(y).items():
            sign = -1 if observable in symmetry.odd else 1
            if np.max(np.abs(_numbers(value) - sign * _numbers(before[observable]))) > 1e-10:
                yield f"the {label} does not make the observable {observable} {'odd' if sign < 0 else 'even'}"


def chains_do_not_touch(target: Target, x: Field) -> Problems:
    """A chain has the action and the force that it has alone."""
    alone = x[..., 1:2]
    if _far(target.force(x)[..., 1:2], target.force(alone), 1e-13) is not None:
        yield "the force of a chain depends on other chains"
    if _far(target.action(x)[1:2], target.action(alone), 1e-13) is not None:
        yield "the action of a chain depends on other chains"
    together, apart = target.observables(x), target.observables(alone)
    for name in together:
        if _far(together[name][1:2], apart[name], 1e-10) is not None:
            yield f"the observable {name} of a chain depends on other chains"


def wrapping_is_not_physical(target: Target, x: Field) -> Problems:
    """The canonical representative has the same action."""
    far = target.drift(x, 30 * rng.normal(jax.random.key(4), x.shape, x.dtype))
    if (error := _far(target.action(target.wrap(far)), target.action(far), 1e-10)) is not None:
        yield f"wrap changes the action by {error:.2g}"


def gamma_multiplies_the_action(target: Target, x: Field) -> Problems:
    """Where there is a factor to anneal."""
    if not hasattr(target, "gamma"):
        return
    half = eqx.tree_at(lambda t: t.gamma, target, 0.5 * jnp.asarray(target.gamma))
    if _far(half.action(x), 0.5 * _numbers(target.action(x)), 1e-6) is not None:
        yield "half the gamma does not give half the action"


def draws_have_the_exact_moments(target: Target, x: Field) -> Problems:
    """Exact draws and exact values must agree, where there are both."""
    draws, exact = target.exact_draws(), target.exact()
    if draws is None or not exact:
        return
    measured = eqx.filter_jit(lambda sampler, key: target.test_functions(sampler.draw(key, _DRAWS, x.dtype)))(
        draws, jax.random.key(5)
    )
    for name, value in exact.items():
        values = _numbers(measured[name])
        error = values.std() / np.sqrt(values.size)
        if not abs(values.mean() - value) < _SIGMAS * error + 1e-9:
            yield f"the exact value of {name} is {value:.6g}, but exact draws have {values.mean():.6g}({error:.2g})"


def couplings_do_not_recompile(target: Target, x: Field) -> Problems:
    """Parameters are arrays: other values are the same program."""
    compiled = jax.jit(lambda t, y: t.force(y))
    leaves, structure = jax.tree.flatten(target)
    for scale in (1.0, 1.5, 2.0):
        compiled(jax.tree.unflatten(structure, [leaf * scale for leaf in leaves]), x)
    if compiled._cache_size() != 1:  # type: ignore[attr-defined]
        yield "another coupling compiles again: make parameters array fields, not static ones"


TARGET_CHECKS: dict[str, Callable[[Target, Field], Problems]] = {
    "shapes and names": shapes_and_names,
    "force": force_is_the_gradient,
    "finite differences": force_agrees_with_finite_differences,
    "symmetries": symmetries_hold,
    "chains": chains_do_not_touch,
    "wrapping": wrapping_is_not_physical,
    "annealing": gamma_multiplies_the_action,
    "exact results": draws_have_the_exact_moments,
    "compilation": couplings_do_not_recompile,
}


def check_target(target: Target) -> Checked:
    """Run the package's conformance tests on a target, with all problems in one `ConformanceError`.

    >>> from dlhmc.targets import U1
    >>> check_target(U1((4, 4), beta=2.0)).skipped
    ()
    """
    skipped = []
    if target.exact_draws() is None or not target.exact():
        skipped.append("exact results: the target has no exact draws or no exact values")
    checks = {name: _deferred(check, target) for name, check in TARGET_CHECKS.items()}
    return _run(target, checks, skipped)


def _deferred(check: Callable[[Target, Field], Problems], target: Target) -> Callable[[], Problems]:
    return lambda: check(target, example(target))


def check_observable(observable: Observable, target: Target, name: str = "the observable") -> Checked:
    """A function of x[…, chain] must give one finite number for each chain, whatever the other chains are."""

    def problems() -> Problems:
        x = example(target)
        values = observable(x)
        if np.shape(values) != (CHAINS,):
            yield f"it gives the shape {np.shape(values)} for {CHAINS} chains, not ({CHAINS},): sum over other axes"
        elif not np.all(np.isfinite(_numbers(values))):
            yield "it gives numbers that are not finite"
        elif _far(values[1:2], observable(x[..., 1:2]), 1e-8) is not None:
            yield "the number of a chain depends on other chains"

    return _run(name, {"observable": problems})


# Layers.


def with_random_weights(tree: T, scale: float, seed: int = 3) -> T:
    """All trainable numbers moved by normal ones: what training could make of them."""
    leaves, structure = jax.tree.flatten(eqx.filter(tree, eqx.is_inexact_array))
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    noise = [leaf + scale * jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    moved: T = eqx.combine(jax.tree.unflatten(structure, noise), eqx.filter(tree, eqx.is_inexact_array, inverse=True))
    return moved


@eqx.filter_jit
def _forward(trajectory: Trajectory, target: Target, x: Field, v: Field) -> Phase:
    return trajectory.forward(target, x, v)


@eqx.filter_jit
def _inverse(trajectory: Trajectory, target: Target, x: Field, v: Field) -> Phase:
    return trajectory.inverse(target, x, v)


def round_trip(trajectory: Trajectory, target: Target, x: Field, v: Field, tolerance: float = 1e-12) -> Problems:
    """There and back, in both directions, with opposite log|J|."""
    for there, back, way in (
        (_forward, _inverse, "forward then inverse"),
        (_inverse, _forward, "inverse then forward"),
    ):
        middle = there(trajectory, target, x, v)
        end = back(trajectory, target, middle.x, middle.v)
        size = max(1.0, float(jnp.abs(middle.v).max()), float(jnp.abs(middle.x).max()))
        errors = {
            "x": float(jnp.abs(target.wrap(end.x - x)).max()),
            "v": float(jnp.abs(end.v - v).max()),
            "log|J|": 0.1 * float(jnp.abs(end.log_jacobian + middle.log_jacobian).max()),
        }
        for name, error in errors.items():
            if not error <= tolerance * size:
                yield f"{way} misses {name} by {error:.2g}"
        if float(jnp.abs(target.wrap(middle.x - x)).max()) <= 1e-3:
            yield f"{way} does not move x"


def log_jacobians(trajectory: Trajectory, target: Target, x: Field, v: Field, direction: str) -> tuple[float, float]:
    """The log|J| that the trajectory gives for one chain, and the one that autodiff finds."""
    z = jnp.concatenate([x.ravel(), v.ravel()])
    jacobian, found = _differentiate(trajectory, target, z, direction, x.shape)
    return float(found), float(np.linalg.slogdet(_numbers(jacobian))[1])


@eqx.filter_jit
def _differentiate(
    trajectory: Trajectory, target: Target, z: Array, direction: str, shape: tuple[int, ...]
) -> tuple[Array, Array]:
    half = z.size // 2

    def flat(z: Array) -> tuple[Array, Array]:
        phase = getattr(trajectory, direction)(target, z[:half].reshape(shape), z[half:].reshape(shape))
        return jnp.concatenate([phase.x.ravel(), phase.v.ravel()]), phase.log_jacobian[0]

    return jax.jacfwd(flat, has_aux=True)(z)


def check_trajectory(trajectory: Trajectory, target: Target) -> Checked:
    """A trajectory must be undone by its inverse and know its log|J|, with the parameters it has and with others."""
    checks = {}
    for label, scale in (("as it is", 0.0), ("with other parameters", 0.3)):
        checks[f"inverse, {label}"] = _deferred_layers(_round_trips, trajectory, target, scale)
        checks[f"Jacobian, {label}"] = _deferred_layers(_jacobians, trajectory, target, scale)
    return _run(trajectory, checks)


def _deferred_layers(
    check: Callable[[Trajectory, Target], Problems], trajectory: Trajectory, target: Target, scale: float
) -> Callable[[], Problems]:
    return lambda: check(with_random_weights(_double(trajectory), scale), target)


def _double(tree: T) -> T:
    doubled: T = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64) if eqx.is_inexact_array(a) else a, tree)
    return doubled


def _round_trips(trajectory: Trajectory, target: Target) -> Problems:
    x = example(target)
    return round_trip(trajectory, target, x, target.momentum(jax.random.key(1), x), 1e-10)


def _jacobians(trajectory: Trajectory, target: Target) -> Problems:
    x = example(target, 1)
    v = target.momentum(jax.random.key(1), x)
    for direction in ("forward", "inverse"):
        found, expected = log_jacobians(trajectory, target, x, v, direction)
        if not abs(found - expected) <= 1e-8 * max(1.0, abs(expected)):
            yield f"log|J| of {direction} is {found:.8g}, but autodiff finds {expected:.8g}"


def check_network(make_network: NetworkFactory, target: Target) -> Checked:
    """A network, made from (key, shape, features), must fit the field, keep chains apart, and make exact layers.

    >>> from dlhmc.networks import Dense
    >>> from dlhmc.targets import U1
    >>> check_network(lambda key, shape, features: Dense(key, shape, features, (4,)), U1((2, 2), 1.0)).passed[0]
    'outputs'
    """
    with jax.enable_x64(True):
        features = jax.eval_shape(target.features, jax.ShapeDtypeStruct((*target.shape, 1), jnp.float64)).shape[0]

    def make() -> Network:
        network = with_random_weights(make_network(jax.random.key(0), target.shape, features), 0.3)
        return _double(network)

    def zeta(chains: slice = slice(None)) -> Zeta:
        x = example(target)[..., chains]
        return Zeta(target.features(x), target.force(example(target))[..., chains])

    def outputs() -> Problems:
        found: Any = make()(zeta())
        if not isinstance(found, SQT):
            yield f"it returns a {type(found).__name__}, not SQT(s, q, t)"
            return
        for name, value in found._asdict().items():
            if value.shape != (*target.shape, CHAINS):
                yield f"{name} has the shape {value.shape}, but the field {(*target.shape, CHAINS)}"
            elif not np.all(np.isfinite(_numbers(value))):
                yield f"{name} is not finite"

    def chains() -> Problems:
        network = make()
        together, alone = network(zeta()), network(zeta(slice(1, 2)))
        for name, value in together._asdict().items():
            if _far(value[..., 1:2], getattr(alone, name), 1e-10) is not None:
                yield f"{name} of a chain depends on other chains, so the sampler would not be exact"

    def trainable() -> Problems:
        network = make_network(jax.random.key(0), target.shape, features)
        if not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
            yield "there is nothing to train: it has no floating-point arrays"

    # Layers take long to compile, and need networks that are right.
    first = _run("the network", {"outputs": outputs, "chains": chains, "parameters": trainable})
    trajectory = _layers(make_network, target, features, Circle() if target.compact else Affine())
    layers = _run(
        "the network",
        {
            "inverse": lambda: _round_trips(with_random_weights(trajectory(), 0.3), target),
            "Jacobian": lambda: _jacobians(with_random_weights(trajectory(), 0.3), target),
        },
    )
    return Checked(first.passed + layers.passed, ())


def _layers(
    make_network: NetworkFactory, target: Target, features: int, rule: PositionRule
) -> Callable[[], LayerStack]:
    def layer(key: Array) -> LeapfrogLayer:
        v_key, x_key, mask_key = jax.random.split(key, 3)
        v_network, x_network = (_double(make_network(k, target.shape, features)) for k in (v_key, x_key))
        log_step = jnp.log(jnp.asarray(0.1, jnp.float64))
        return LeapfrogLayer(v_network, x_network, random_mask(mask_key, target.shape), log_step, log_step, rule)

    return lambda: LayerStack.build(layer, jax.random.key(7), 2)


def check_rule(rule: PositionRule, *, compact: bool) -> Checked:
    """A position rule must be undone by its inverse, with the derivative that autodiff finds; on the circle, too."""

    def points() -> tuple[Array, Array, Array]:
        x = jnp.linspace(-3.1, 3.1, 41)
        return x, 2.5 * jnp.cos(7 * x), 0.5 * jnp.sin(5 * x)

    def inverse() -> Problems:
        x, shift, log_scale = points()
        there, forward = rule.forward(x, shift, log_scale)
        if compact:
            there = jnp.mod(there + jnp.pi, 2 * jnp.pi) - jnp.pi
        back, backward = rule.inverse(there, shift, log_scale)
        miss = back - x
        if compact:
            miss = jnp.mod(miss + jnp.pi, 2 * jnp.pi) - jnp.pi
        if not float(jnp.abs(miss).max()) <= 1e-10:
            where = " after wrapping around the circle" if compact else ""
            yield f"inverse does not undo forward{where}: {float(jnp.abs(miss).max()):.2g} off"
        if not float(jnp.abs(forward + backward).max()) <= 1e-10:
            yield "the log-derivatives of forward and inverse do not cancel"

    def derivative() -> Problems:
        x, shift, log_scale = points()
        found = rule.forward(x, shift, log_scale)[1]
        slope = jax.vmap(jax.grad(lambda *point: rule.forward(*point)[0]))(x, shift, log_scale)
        error = float(jnp.abs(found - jnp.log(jnp.abs(slope))).max())
        if not error <= 1e-10:
            yield f"the log-derivative is not that of autodiff: {error:.2g} off"

    return _run(rule, {"inverse": inverse, "derivative": derivative})


# Kernels.


def check_kernel(kernel: Kernel, *, steps: int = 10, chains: int = 10_000, seed: int = 0) -> Checked:
    """A kernel must keep its word about acceptance, and leave its target as it is.

    Whether it does is tested with chains that start from exact draws, where the target has them: an exact kernel is
    refused once in ten thousand times, a biased one for sure if there are enough chains.
    """

    def step() -> Problems:
        x = example(kernel.target, 4)
        state, info = eqx.filter_jit(lambda kernel, x: kernel.step(jax.random.key(1), kernel.init(x)))(kernel, x)
        if not isinstance(state, State) or not isinstance(info, Info):
            yield "step must return (State, Info)"
            return
        if state.x.shape != x.shape or state.x.dtype != x.dtype:
            yield f"step turns x of {x.dtype}{x.shape} into {state.x.dtype}{state.x.shape}"
        for name in ("acceptance", "accepted", "energy_change", "nonfinite"):
            if getattr(info, name).shape != (4,):
                yield f"info.{name} has the shape {getattr(info, name).shape}, not a number for each of 4 chains"
        probability = _numbers(info.acceptance)
        if not np.all((probability >= 0) & (probability <= 1)):
            yield "info.acceptance is not between 0 and 1"
        if not np.all(np.isfinite(_numbers(state.x))):
            yield "x is not finite after a step"

    def stationary() -> Problems:
        from dlhmc.testing import check_stationarity

        result = check_stationarity(kernel, steps=steps, chains=chains, seed=seed)
        if result.p_value < 1e-4:
            worst = max(result.pulls, key=lambda name: abs(result.pulls[name]))
            yield (
                f"it changes the distribution: p-value {result.p_value:.1g}, "
                f"{worst} is {result.pulls[worst]:+.1f} σ from its exact value"
            )
        if abs(result.weight_pull) > 5:
            yield f"⟨e^{{−ΔH}}⟩ is {result.weight_pull:+.1f} σ from 1, but energy_change is what acceptance comes from"

    checks: dict[str, Callable[[], Iterable[str]]] = {"step": step}
    skipped = []
    if kernel.target.exact_draws() is None or not kernel.target.exact():
        skipped.append("stationarity: the target has no exact draws or no exact values")
    else:
        checks["stationarity"] = stationary
    if isinstance(kernel, DLHMC) and not kernel.symmetric:
        checks["inverse"] = lambda: _round_trips(_double(kernel.trajectory), kernel.target)
    return _run(kernel, checks, skipped)


# Training.


def check_loss(loss: Loss, target: Target) -> Checked:
    """A loss must give a finite number for each chain, with a finite gradient, and keep chains apart."""

    def transition(chains: slice = slice(None)) -> Transition:
        x = example(target)[..., chains]
        y = target.drift(example(target), 0.1 * target.momentum(jax.random.key(2), example(target)))[..., chains]
        return Transition(x, 0 * x, y, 0 * y, jnp.asarray([0.2, 0.5, 0.9], x.dtype)[chains])

    def numbers() -> Problems:
        values = loss(target, transition())
        if np.shape(values) != (CHAINS,):
            yield f"it gives the shape {np.shape(values)}, not one number for each of {CHAINS} chains"
        elif not np.all(np.isfinite(_numbers(values))):
            yield "it gives numbers that are not finite"
        elif _far(values[1:2], loss(target, transition(slice(1, 2))), 1e-10) is not None:
            yield "the number of a chain depends on other chains"

    def gradient() -> Problems:
        start = transition()

        def mean(x_new: Field, acceptance: Array) -> Array:
            return jnp.mean(loss(target, start._replace(x_new=x_new, acceptance=acceptance)))

        of_x, of_acceptance = jax.grad(mean, argnums=(0, 1))(start.x_new, start.acceptance)
        if not np.all(np.isfinite(_numbers(of_x))) or not np.all(np.isfinite(_numbers(of_acceptance))):
            yield "its gradient is not finite"
        elif not np.any(_numbers(of_x)) and not np.any(_numbers(of_acceptance)):
            yield "its gradient is zero: it does not depend on where the trajectory ends"
        elif np.any(_numbers(of_acceptance) > 0):
            yield "it grows with the acceptance: training minimises it, and would learn to be rejected"

    return _run("the loss", {"numbers": numbers, "gradient": gradient})


def check_schedule(schedule: Schedule, steps: int, *, annealing: bool = True) -> Checked:
    """A schedule must give finite positive numbers, end within the run, and stay; γ must end at 1."""

    def values() -> Problems:
        at = [schedule(jnp.asarray(step, jnp.int32)) for step in (0, steps // 2, steps, 2 * steps)]
        numbers = [float(value) for value in at]
        if any(np.shape(value) != () for value in at):
            yield "it gives more than one number"
        elif not all(np.isfinite(number) and number > 0 for number in numbers):
            yield f"it gives {numbers}, which must be finite and positive"
        elif numbers[2] != numbers[3]:
            yield f"it has not come to rest at the last step: {numbers[2]:g} becomes {numbers[3]:g}"
        elif annealing and abs(numbers[2] - 1) > 1e-6:
            yield f"it ends at γ = {numbers[2]:g}, but the target is the one with γ = 1"

    def finished() -> Problems:
        if bool(schedule.finished(jnp.asarray(steps, jnp.int32))) is not True:
            yield "it does not say that it has finished at the last step"

    def traced() -> Problems:
        jax.jit(lambda schedule, step: (schedule(step), schedule.finished(step)))(schedule, jnp.asarray(1, jnp.int32))
        yield from ()

    return _run(schedule, {"values": values, "end": finished, "compilation": traced})
