"""Theories: each a guest with a package of its own, which nothing outside this folder names."""

#: what theories offer at the top of the package, and where it is; `catalogue` says the same to type checkers
EXPORTS = {
    name: f"dlhmc.theories.{module}"
    for module, names in {
        "u1.action": ("U1",),
        "u1.defect": ("Defect",),
        "u1.hits": ("InstantonHits",),
        "u1.loss": ("charge_loss",),
        "vectors.funnel": ("Funnel",),
        "vectors.gaussian": ("Gaussian", "correlated_gaussian", "ill_conditioned_gaussian"),
        "vectors.log_density": ("LogDensity",),
        "vectors.mixture": ("GaussianMixture",),
        "vectors.rough_well": ("RoughWell",),
    }.items()
    for name in names
}
