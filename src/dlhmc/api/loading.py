"""What is on disk: trained samplers, and results."""

from pathlib import Path

from dlhmc.api.comparing import Comparison
from dlhmc.comparison.comparing import open_results
from dlhmc.errors import UserError
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models.model import Model
from dlhmc.run.directory import run_kind
from dlhmc.run.export import read
from dlhmc.run.samples import Measurements, Samples
from dlhmc.run.sampling import load_samples
from dlhmc.targets import Target


def load_kernel(model: str | Path, target: Target, like: Trajectory | None = None) -> DLHMC:
    """The trained sampler of a model: a file, a training run, or a name from `dlhmc models`.

    Layers of your own are not described in the file: give a trajectory of the same making as `like`.
    """
    return Model.open(str(model)).kernel(target, like)


def load(path: str | Path) -> Measurements | Comparison:
    """A result from disk: a sampling run or a comparison by its directory, or a file that `save` has written."""
    path = Path(path)
    if path.is_file():
        data = read(path)
        return Samples(data) if "seconds" in data.attrs else Measurements(data)
    kind = run_kind(path)
    if kind == "compare":
        return Comparison(open_results(path))
    if kind == "train":
        raise UserError(f"{path} holds a training run: dlhmc.load_kernel gives its sampler.")
    return load_samples(path)
