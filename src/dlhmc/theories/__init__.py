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
        "vectors.density": ("LogDensity",),
        "vectors.toys": (
            "Funnel",
            "Gaussian",
            "GaussianMixture",
            "RoughWell",
            "correlated_gaussian",
            "gaussian_from_covariance",
            "ill_conditioned_gaussian",
        ),
    }.items()
    for name in names
}

#: theories of this package by name, and where they are
BUILT_IN = {
    "u1": "dlhmc.theories.u1.theory:U1",
    "u2": "dlhmc.theories.gauge.theory:U2",
    "su2": "dlhmc.theories.gauge.theory:SU2",
    "su3": "dlhmc.theories.gauge.theory:SU3",
    "schwinger": "dlhmc.theories.schwinger.theory:SCHWINGER",
    "cpn": "dlhmc.theories.cpn.theory:CPN",
    "mixture": "dlhmc.theories.vectors.theory:MIXTURE",
    "ill-conditioned-gaussian": "dlhmc.theories.vectors.theory:ILL_CONDITIONED",
    "correlated-gaussian": "dlhmc.theories.vectors.theory:CORRELATED",
    "rough-well": "dlhmc.theories.vectors.theory:ROUGH_WELL",
    "funnel": "dlhmc.theories.vectors.theory:FUNNEL",
}
