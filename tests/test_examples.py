"""The examples run, at small sizes."""

import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlhmc import wilson
from dlhmc.io import Configuration, write

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_phi4(tmp_path, capsys):
    phi4 = load("phi4")
    sizes = ["--side", "4", "--layers", "1", "--width", "4", "--steps", "5", "--chains", "8", "--budget", "0.5"]
    with jax.numpy_dtype_promotion("standard"):
        result = phi4.main([*sizes, "--out", str(tmp_path / "compared")])
    assert result["trained"].leapfrog_steps == 1
    assert result["trained"].tau_int.keys() == {"magnetisation", "absolute_magnetisation"}
    assert "best HMC: leapfrog" in capsys.readouterr().out
    assert (tmp_path / "compared" / "results.json").exists()


def test_phi4_by_hand():
    """The action of a field of two sites that differ from the rest, term by term."""
    phi4 = load("phi4")
    target = phi4.phi4((3, 3), kappa=0.25, lam=0.5)
    x = np.ones((3, 3, 1), np.float32)
    x[1, 1] = 2.0
    # 18 links, of which four join 2 and 1; 8 sites with φ = 1 and one with φ = 2: φ² + λ(φ² − 1)².
    expected = -2 * 0.25 * (14 * 1 + 4 * 2) + 8 * 1 + (4 + 0.5 * 9)
    np.testing.assert_allclose(target.action(jnp.asarray(x)), [expected], rtol=1e-6)
    np.testing.assert_allclose(phi4.magnetisation(jnp.asarray(x)), [10 / 9], rtol=1e-6)


@pytest.mark.slow
def test_flow_configuration(tmp_path, capsys):
    """From a file: the charge of the picture's densities is the one along the flow, and the flow smooths."""
    example = load("flow_configuration")
    sites = (2, 2, 2, 4)
    x = wilson("su2", sites, beta=2.3).start(jax.random.key(1), "hot", chains=1, dtype=jnp.float32)
    file, png = tmp_path / "hot.nersc", tmp_path / "density.png"
    write(file, Configuration(np.moveaxis(np.asarray(x)[..., 0], (0, 1), (-2, -1))), "nersc")
    smoothed = example.main([str(file), "--flow-time", "0.2", "--out", str(png)])
    start, early, end = smoothed.densities.values()
    assert start.shape == early.shape == end.shape == sites
    np.testing.assert_allclose(end.sum(), smoothed.measured.charge[-1, 0], atol=1e-5)
    assert np.abs(end).max() < np.abs(start).max()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert f"picture: {png}" in capsys.readouterr().out.replace("\n", "")
