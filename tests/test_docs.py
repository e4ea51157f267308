"""The code in the documentation runs as it stands there."""

import doctest
import re
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
    *(f"extending/{path.name}" for path in sorted((DOCS / "extending").glob("*.md"))),
]


@pytest.mark.parametrize("page", PAGES)
def test_examples(page):
    result = doctest.testfile(str(DOCS / page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
