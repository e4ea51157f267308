"""Histories and kernels in the hands of other packages: ArviZ, pyerrors, BlackJAX."""

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr
from jaxtyping import Array, Key

from dlhmc.errors import required
from dlhmc.geometry import Field
from dlhmc.kernels.contract import Kernel
from dlhmc.run.history import diagnostics_of
from dlhmc.run.samples import Measurements
from dlhmc.run.sampling import load_samples
from dlhmc.run.summary import for_each


def to_arviz(samples: Measurements | str | Path) -> Any:
    """Histories as ArviZ wants them: observables as the group posterior, diagnostics as sample_stats.

    Give a result or the directory of a run. From ArviZ 1 on, and where ArviZ is not installed, this is an
    `xarray.DataTree`; before that an `arviz.InferenceData`.
    """
    data = _measurements(samples).data
    data = data[[name for name, array in data.items() if "trajectory" in array.dims]].rename(trajectory="draw")
    statistics = [name for name in data.data_vars if name in diagnostics_of(data.attrs)]
    # A proposal that is not finite is what ArviZ calls divergent.
    stats = data[statistics].rename({name: "diverging" for name in statistics if name == "nonfinite"})
    if "diverging" in stats:
        stats["diverging"] = stats["diverging"].astype(bool)
    groups = {"posterior": data.drop_vars(statistics), "sample_stats": stats}
    with warnings.catch_warnings():
        # The last versions before ArviZ 1 announce it at every import, and it announces what it no longer has.
        warnings.simplefilter("ignore")
        arviz = importlib.import_module("arviz") if importlib.util.find_spec("arviz") else None
        before: Any = getattr(arviz, "InferenceData", xr.DataTree)
    return xr.DataTree.from_dict(groups) if before is xr.DataTree else before(**groups)


def to_pyerrors(samples: Measurements | str | Path, ensemble: str = "dlhmc") -> dict[str, Any]:
    """A pyerrors `Obs` for each observable and each moment, or an array of them; chains are replica of one ensemble.

    pyerrors takes fluctuations about the mean of each replica: chains that are stuck look precise to it. Where chains
    move, its errors and ours agree.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports what SciPy is about to drop
        pyerrors = required("pyerrors", "pyerrors", "to_pyerrors")
    measured = _measurements(samples)
    chains = measured.data.sizes["chain"]
    width = len(str(chains - 1))
    names = [f"{ensemble}|r{chain:0{width}d}" for chain in range(chains)]

    def obs(name: str, power: int = 1) -> Any:
        series = measured.series(name) ** power
        return for_each(series.shape[1:-1], lambda e: pyerrors.Obs([*series[:, *e].T], names))[()]

    moments = {name: obs(*moment) for name, moment in measured.moments.items()}
    return {name: obs(name) for name in measured.observables} | moments


def _measurements(samples: Measurements | str | Path) -> Measurements:
    return samples if isinstance(samples, Measurements) else load_samples(Path(samples))


class SamplingAlgorithm(NamedTuple):
    """A pair of functions as `blackjax.base.SamplingAlgorithm` has them."""

    init: Callable[..., Any]
    step: Callable[[Key[Array, ""], Any], tuple[Any, Any]]


def to_blackjax(kernel: Kernel) -> SamplingAlgorithm:
    """The kernel for a loop that is written for BlackJAX, such as `blackjax.util.run_inference_algorithm`.

    A position is a field of all chains, chain axis last: the kernel advances all of them, so there is no vmap.
    """

    def init(position: Field, rng_key: Key[Array, ""] | None = None) -> Any:
        return kernel.init(position)

    return SamplingAlgorithm(init, kernel.step)
