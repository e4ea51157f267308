"""What is on disk: trained samplers, and results."""

from pathlib import Path

from dlhmc.api.comparing import Comparison
from dlhmc.comparison.command import open_results
from dlhmc.errors import UserError, in_words_of_python
from dlhmc.kernels import DLHMC
from dlhmc.layers import Trajectory
from dlhmc.models import model as models
from dlhmc.results.export import read
from dlhmc.results.samples import Measurements, Samples, load_samples
from dlhmc.runs.directory import run_kind
from dlhmc.runs.sampling import learned_kernel
from dlhmc.targets import Target


@in_words_of_python()
def load_kernel(model: str | Path, target: Target, like: Trajectory | None = None) -> DLHMC:
    """The trained sampler of a model: a file, a training run, or a name from `dlhmc models`.

    Layers of your own are not described in the file: give a trajectory of the same making as `like`.

    >>> from dlhmc.theories.u1.action import U1
    >>> len(load_kernel("u1-b7", U1((16, 16), beta=7.0)).trajectory)
    2
    """
    if like is None:
        return learned_kernel(str(model), target)
    file = models.find(str(model))
    symmetric = bool(models.read_description(file).get("symmetric", False))
    return DLHMC(target, models.load(file, like), symmetric)


@in_words_of_python()
def load(path: str | Path) -> Measurements | Comparison:
    """A result from disk: a sampling run or a comparison by its directory, or a file that `save` has written."""
    path = Path(path)
    if path.is_file():
        data = read(path)
        return Samples(data) if "accepted" in data else Measurements(data)
    kind = run_kind(path)
    if kind.startswith("compare"):
        return Comparison(open_results(path))
    if kind.startswith("train"):
        raise UserError(f"{path} holds a training run: dlhmc.load_kernel gives its sampler.")
    return load_samples(path)
