"""The package as others install it: a wheel, in an environment that has nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_wheel_installs_and_runs_the_demo_in_an_empty_environment(tmp_path):
    # Neither this checkout nor the options of the tests; the versions that the package is tested with.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    environment["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")

    def run(*words):
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--outdir", "dist", str(ROOT))
    (wheel,) = tmp_path.glob("dist/*.whl")
    run(sys.executable, "-m", "venv", "empty")
    run("empty/bin/pip", "install", "--quiet", str(wheel))
    assert str(tmp_path) in run("empty/bin/python", "-c", "import dlhmc; print(dlhmc.__file__)")
    shown = run("empty/bin/dlhmc", "demo", "--trajectories", "50", "--steps", "20")
    assert "τ_int(charge)" in shown
    assert list(tmp_path.glob("demo/*/topology.png"))
    assert "u1-b7" in run("empty/bin/dlhmc", "models")
