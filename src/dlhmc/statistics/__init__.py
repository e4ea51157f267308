"""Errors, autocorrelations and convergence of Markov chains; NumPy only, for analysis on the host."""

from dlhmc.statistics.autocorrelation import (
    AutocorrelationTime,
    Series,
    Strided,
    autocorrelation_function,
    gamma_method,
    integrated_autocorrelation_time,
)
from dlhmc.statistics.convergence import convergence, effective_sample_size, ess_bulk, split_rhat
from dlhmc.statistics.exactness import check_exactness, check_temperature
from dlhmc.statistics.uncertainty import (
    ChainEstimate,
    Estimate,
    format_uncertainty,
    mean_and_error,
)

__all__ = [
    "AutocorrelationTime",
    "ChainEstimate",
    "Estimate",
    "Series",
    "Strided",
    "autocorrelation_function",
    "check_exactness",
    "check_temperature",
    "convergence",
    "effective_sample_size",
    "ess_bulk",
    "format_uncertainty",
    "gamma_method",
    "integrated_autocorrelation_time",
    "mean_and_error",
    "split_rhat",
]
