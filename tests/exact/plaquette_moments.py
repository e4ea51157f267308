"""Squares of plaquettes, from derivatives of the exact partition function: five points, good to about 1e-8."""

import numpy as np

from dlhmc.exact.characters import log_partition_function, plaquette, representations

SECOND = np.array([-1, 16, -30, 16, -1]) / 12


def mean_plaquette_squared(colors, special, beta, volume):
    """⟨p²⟩ of the plaquette p averaged over the lattice: ∂² ln Z/∂β² = V² (⟨p²⟩ − ⟨p⟩²)."""
    h = 3e-3 * beta
    f = [log_partition_function(colors, special, beta + s * h, volume) for s in (-2, -1, 0, 1, 2)]
    return SECOND @ f / (h * volume) ** 2 + plaquette(colors, special, beta, volume) ** 2


def plaquette_squared(colors, special, beta, volume):
    """⟨(Re tr P/N)²⟩ of one plaquette: the second derivative by a coupling of its own, Σ_r a_r(β)^{V−1} a_r(β′)/Z."""

    def coefficients(b):
        weights, ratios = representations(colors, special, b)
        log_a0 = (log_partition_function(colors, special, b, 4) - np.log(np.sum(ratios**4))) / 4
        return dict(zip(map(tuple, weights.tolist()), np.exp(log_a0 - beta) * ratios, strict=True))

    h = 3e-3 * beta
    here = coefficients(beta)
    largest = max(here.values())
    z = []
    for s in (-2, -1, 0, 1, 2):
        there = coefficients(beta + s * h)
        pairs = [(a / largest, there.get(weights, 0.0)) for weights, a in here.items()]
        z.append(np.exp(-s * h) * sum(a ** (volume - 1) * b for a, b in pairs))
    # those of e^{β′(p − 1)}, so that ⟨(1 − p)²⟩ keeps its precision
    return SECOND @ z / h**2 / z[2] + 2 * plaquette(colors, special, beta, volume) - 1
