"""The code in the documentation runs as it stands there."""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"


def code_of(page, **smaller):
    """All Python on a page, with some numbers made smaller."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S))
    for old, new in smaller.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return compile(code, page, "exec")


@pytest.mark.statistical
@pytest.mark.slow
def test_a_network_of_ones_own(capsys):
    smaller = {"STEPS = 1000": "STEPS = 40", "U1((8, 8)": "U1((4, 4)", "number=8": "number=1"}
    names = {}
    exec(code_of("networks.md", **smaller), names)  # noqa: S102 our own page
    shown = capsys.readouterr().out
    assert re.search(r"acceptance: 0\.\d+ → 0\.\d+\n", shown)
    assert "p-value" in shown

    assert np.all(np.isfinite(names["records"]["loss"]))
    assert len(names["records"]["loss"]) == 40
    before, after = (eqx.filter(f, eqx.is_inexact_array) for f in (names["trajectory"], names["state"].trajectory))
    changed = [not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)]
    assert all(changed)

    # An exact kernel fails with these probabilities at a new seed: 1e-3 and 3e-3.
    assert names["result"].p_value > 1e-3
    assert abs(names["result"].weight_pull) < 3


PAGES = [
    "euclidean.md",
    "gauge-groups.md",
    "guides/errors.md",
    "python.md",
    "tutorial.md",
    *(f"extending/{path.name}" for path in sorted((DOCS / "extending").glob("*.md"))),
]


@pytest.mark.parametrize("page", PAGES)
def test_examples(page):
    result = doctest.testfile(str(DOCS / page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.slow
def test_the_worked_changes_apply_and_work(tmp_path):
    """The diffs in docs/contributing.md, on a copy of the package."""
    page = (DOCS / "contributing.md").read_text(encoding="utf-8")
    shutil.copytree(DOCS.parent / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    diffs = re.findall(r"^```diff\n(.*?)^```$", page, re.M | re.S)
    assert len(diffs) == 3
    for diff in diffs:
        git = ["git", "-C", str(tmp_path), "apply", "-C1", "-"]
        subprocess.run(git, input=diff, text=True, check=True, env=os.environ | {"GIT_CEILING_DIRECTORIES": "/"})
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}

    def dlhmc(line):
        command = [sys.executable, "-c", "from dlhmc.cli import main; main()", *line.split(), "--quiet"]
        subprocess.run(command, check=True, cwd=tmp_path, env=environment)

    small = "--lattice 4 4 --chains 4 --leapfrog-steps 2 --start cold"
    dlhmc(f"train --target manton --network steps {small} --steps 5 --out t")
    dlhmc(f"sample --target su2 {small} --warmup 10 --trajectories 20 --out s")
    report = "from dlhmc.cli import main; main()"
    subprocess.run([sys.executable, "-c", report, "report", "t", "s"], check=True, cwd=tmp_path, env=environment)
    assert list((tmp_path / "figures").glob("polyakov-s*"))
