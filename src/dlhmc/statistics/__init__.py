"""Errors, autocorrelations and convergence of Markov chains; NumPy only, for analysis on the host."""

from dlhmc.statistics.autocorrelation import (
    AutocorrelationFunction,
    AutocorrelationTime,
    GammaAnalysis,
    Series,
    autocorrelation_function,
    gamma_method,
    integrated_autocorrelation_time,
)
from dlhmc.statistics.convergence import effective_sample_size, split_rhat
from dlhmc.statistics.uncertainty import Estimate, format_uncertainty, mean_and_error, ratio_and_error

__all__ = [
    "AutocorrelationFunction",
    "AutocorrelationTime",
    "Estimate",
    "GammaAnalysis",
    "Series",
    "autocorrelation_function",
    "effective_sample_size",
    "format_uncertainty",
    "gamma_method",
    "integrated_autocorrelation_time",
    "mean_and_error",
    "ratio_and_error",
    "split_rhat",
]
