"""Theories: each a guest with a package of its own, which nothing outside this folder names."""

#: what theories offer at the top of the package, and where it is; `catalogue` says the same to type checkers
EXPORTS = {
    name: f"dlhmc.theories.{module}"
    for module, names in {
        "cpn.model": ("CPN",),
        "gauge.field": ("U1", "GaugeField", "Mixed", "improved", "wilson"),
        "gauge.heatbath": ("HeatBath",),
        "schwinger.reweighting": ("reweighted",),
        "schwinger.schwinger": ("Schwinger",),
        "u1.hits": ("InstantonHits",),
        "u1.loss": ("charge_loss",),
        "vectors.funnel": ("Funnel",),
        "vectors.gaussian": ("Gaussian", "correlated_gaussian", "gaussian_from_covariance", "ill_conditioned_gaussian"),
        "vectors.log_density": ("LogDensity",),
        "vectors.mixture": ("GaussianMixture",),
        "vectors.rough_well": ("RoughWell",),
    }.items()
    for name in names
}

#: theories of this package by the name that `--target` calls them, and where they are; the first is the default
BUILT_IN = {
    "u1": "dlhmc.theories.u1.theory:U1Theory",
    "u2": "dlhmc.theories.gauge.theory:u2",
    "su2": "dlhmc.theories.gauge.theory:su2",
    "su3": "dlhmc.theories.gauge.theory:su3",
    "schwinger": "dlhmc.theories.schwinger.theory:SchwingerTheory",
    "cpn": "dlhmc.theories.cpn.theory:CpnTheory",
    "mixture": "dlhmc.theories.vectors.theory:mixture",
    "ill-conditioned-gaussian": "dlhmc.theories.vectors.theory:ill_conditioned_gaussian",
    "correlated-gaussian": "dlhmc.theories.vectors.theory:correlated_gaussian",
    "rough-well": "dlhmc.theories.vectors.theory:rough_well",
    "funnel": "dlhmc.theories.vectors.theory:funnel",
}
